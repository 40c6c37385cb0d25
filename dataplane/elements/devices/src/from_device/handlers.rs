//! FromDevice's handlers.

use thruway_element::{Cx, HandlerError, Handlers, handler_value};

use super::{FromDevice, Source, encap};

impl Handlers for FromDevice {
    fn read_handler(
        &mut self,
        _cx: &mut Cx<'_>,
        name: &str,
        _param: &str,
    ) -> Result<String, HandlerError> {
        match name {
            "count" => Ok(self.count.to_string()),
            "byte_count" => Ok(self.bytes.to_string()),
            "active" => Ok(self.active.to_string()),
            "encap" => Ok(encap::name(self.link())),
            "filesize" | "filepos" => Ok(match &self.source {
                Source::Capture(capture) if name == "filesize" => capture.size(),
                Source::Capture(capture) => capture.position().to_string(),
                _ => "-".to_owned(),
            }),
            "kernel_drops" => Ok(match &mut self.source {
                Source::Live(live) => {
                    let drops = live.drops();
                    (drops.ring_full + drops.too_long).to_string()
                }
                _ => "0".to_owned(),
            }),
            "preferred_drops" => Ok(match &mut self.source {
                Source::Live(live) => live.drops().preferred.to_string(),
                _ => "0".to_owned(),
            }),
            "short_cuts" => Ok(self.describe_short_cuts()),
            "method" => Ok(match &self.source {
                Source::Live(live) => live.mode().to_owned(),
                _ => "-".to_owned(),
            }),
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
            "active" => self.active = handler_value(name, value)?,
            "reset_counts" => (self.count, self.bytes) = (0, 0),
            _ => return Err(HandlerError::no_write(name)),
        }
        Ok(())
    }
}
