//! Handlers of TCPIn.

use thruway_element::{Cx, HandlerError, Handlers};

use super::enter::TcpIn;

impl Handlers for TcpIn {
    fn read_handler(
        &mut self,
        _cx: &mut Cx<'_>,
        name: &str,
        _param: &str,
    ) -> Result<String, HandlerError> {
        let counts = &self.tcp.counts;
        let number = match name {
            "connections" => self.tcp.len() as u64 + self.follow.open,
            "opened" => counts.opened + self.follow.opened,
            "picked_up" => counts.picked_up + self.follow.picked_up,
            "closed" => counts.closed,
            "passed" => counts.passed,
            "reordered" => counts.reordered,
            "resent" => counts.resent,
            "acks" => counts.acks,
            "split" => counts.split,
            "queued" => counts.queued,
            "kept" => self.tcp.holding() as u64,
            "delayed" => self.tcp.delayed() as u64,
            "memory" => self.tcp.memory_bytes(),
            "pruned" => counts.pruned,
            "pruned_waiting" => counts.pruned_waiting,
            "stalled" => counts.stalled,
            "mode" => return Ok(format!("{:?}", self.settings.mode).to_lowercase()),
            _ => return Err(HandlerError::no_read(name)),
        };
        Ok(number.to_string())
    }
}
