//! Handlers of the elements that make packets of many flows.

use thruway_element::{Cx, HandlerError, Handlers, handler_value};

use super::{Flows, bucket};

impl Handlers for Flows {
    fn read_handler(
        &mut self,
        _cx: &mut Cx<'_>,
        name: &str,
        _param: &str,
    ) -> Result<String, HandlerError> {
        match name {
            "count" => Ok(self.count.to_string()),
            "rate" => Ok(self.rate().to_string()),
            "length" => Ok(self.plan.len.to_string()),
            _ => Err(HandlerError::no_read(name)),
        }
    }

    fn write_handler(
        &mut self,
        _cx: &mut Cx<'_>,
        name: &str,
        value: &str,
    ) -> Result<(), HandlerError> {
        match name {
            "rate" => self.bucket = bucket(handler_value(name, value)?),
            "limit" => self.limit = handler_value(name, value)?,
            "active" => {
                self.active = handler_value(name, value)?;
                if self.active {
                    self.reset();
                }
            }
            "length" => {
                let wanted = handler_value(name, value)?;
                self.change_plan(|plan| plan.len = wanted);
            }
            "srceth" => {
                let address = handler_value(name, value)?;
                self.change_plan(|plan| plan.src_ether = address);
            }
            "dsteth" => {
                let address = handler_value(name, value)?;
                self.change_plan(|plan| plan.dst_ether = address);
            }
            "reset" => self.reset(),
            _ => return Err(HandlerError::no_write(name)),
        }
        Ok(())
    }
}
