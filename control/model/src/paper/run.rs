//! The share of a host that a function runs on.

use serde::Deserialize;

use crate::hardware::Hardware;

/// What of a host a function runs on.
#[derive(Debug, Clone, Copy, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Run {
    /// Cores that handle packets, each packet on one.
    pub cores: u32,
    /// Memories, each beside its processor, that accesses spread over.
    pub memories: u32,
    /// Ports that frames come by.
    pub links: u32,
    /// Share of the packets that come by the other processor's ports (section 4.2), 0 to 1.
    pub other_socket: f64,
}

impl Default for Run {
    fn default() -> Run {
        Run { cores: 1, memories: 1, links: 1, other_socket: 0.0 }
    }
}

impl Run {
    /// As much of it as the host has: a function for six cores runs on four where there are four.
    pub fn on(&self, hardware: &Hardware) -> Run {
        let is_single = hardware.sockets < 2;
        Run {
            cores: self.cores.min(hardware.cores),
            memories: self.memories.min(hardware.sockets),
            links: self.links.min(hardware.links.len() as u32),
            other_socket: if is_single { 0.0 } else { self.other_socket },
        }
    }
}
