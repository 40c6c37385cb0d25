//! Handlers of ReplayUnqueue.

use thruway_element::{Cx, HandlerError, Handlers, handler_value};

use super::ReplayUnqueue;

impl Handlers for ReplayUnqueue {
    fn read_handler(
        &mut self,
        _cx: &mut Cx<'_>,
        name: &str,
        _param: &str,
    ) -> Result<String, HandlerError> {
        match name {
            "count" => Ok(self.count.to_string()),
            "loaded" => Ok(self.store.heads.len().to_string()),
            "active" => Ok(self.active.to_string()),
            "stop" => Ok(self.rounds.to_string()),
            "timing" => Ok(self.timing.to_string()),
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
            "active" => {
                self.active = handler_value(name, value)?;
                self.began = None;
            }
            "timing" => {
                self.timing = handler_value(name, value)?;
                self.began = None;
            }
            "stop" => self.rounds = handler_value(name, value)?,
            "reset" => self.loaded = false,
            _ => return Err(HandlerError::no_write(name)),
        }
        Ok(())
    }
}
