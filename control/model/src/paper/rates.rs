//! Packets a second: what cores, memory and links allow, and which of them allows least.

use super::mapping::{Cost, Mapping};
use super::run::Run;
use crate::hardware::Hardware;

/// Bytes that a frame takes on the wire beside its own, check sequence included as the paper counts
/// frames: preamble 8, gap 12 (IEEE 802.3). All rates in bits of the paper include them: 17.31 Mpps
/// of 64 bytes are 11.36 Gbps.
pub const WIRE_BYTES: f64 = 20.0;

/// What allows least.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Limit {
    /// Cores.
    Cores,
    /// Latency of the memory.
    Memory,
    /// Links.
    Links,
}

impl Limit {
    /// In words.
    pub fn name(self) -> &'static str {
        match self {
            Limit::Cores => "CPU cores",
            Limit::Memory => "memory latency",
            Limit::Links => "links",
        }
    }
}

/// Packets a second of one length of frame.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Rates {
    /// Bytes of a frame, check sequence included.
    pub frame: u32,
    /// What the cores allow.
    pub cores: f64,
    /// What the memory allows; infinite where nothing accesses it.
    pub memory: f64,
    /// What the links allow; infinite where the host has none.
    pub links: f64,
}

impl Rates {
    /// What allows least.
    pub fn limit(&self) -> Limit {
        if self.links <= self.cores && self.links <= self.memory {
            Limit::Links
        } else if self.memory < self.cores {
            Limit::Memory
        } else {
            Limit::Cores
        }
    }

    /// Packets a second that cores and memory allow, as the paper's estimates do.
    pub fn computed(&self) -> f64 {
        self.cores.min(self.memory)
    }

    /// Packets a second that pass.
    pub fn packets(&self) -> f64 {
        self.computed().min(self.links)
    }

    /// Bits a second on the wire at so many packets a second.
    pub fn bits(&self, packets: f64) -> f64 {
        packets * (f64::from(self.frame) + WIRE_BYTES) * 8.0
    }
}

/// The rates at a cost per packet.
pub fn rates(hardware: &Hardware, mapping: &Mapping, run: &Run, cost: Cost, frame: u32) -> Rates {
    let cores = f64::from(run.cores) * hardware.clock_hz.value / cost.cycles;
    let memory = f64::from(run.memories) / (cost.accesses * mapping.memory_seconds());
    let bits: f64 = hardware.links.values().take(run.links as usize).map(|link| link.bits).sum();
    let wire = (f64::from(frame) + WIRE_BYTES) * 8.0;
    let links = if hardware.links.is_empty() { f64::INFINITY } else { bits / wire };
    Rates { frame, cores, memory, links }
}
