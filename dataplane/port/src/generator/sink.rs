//! Counts what arrives of a generator's frames.

use super::latency::{HISTOGRAM_WORDS, Histogram};
use super::program::{self, BYTES_AT, DISORDERED_AT, OTHERS_AT, PACKETS_AT};
use crate::bpf::{self, Array, Hook};
use crate::error::PortError;
use crate::{interface, interface_driver};
use std::os::fd::{AsFd, OwnedFd};

/// `XDP_FLAGS_DRV_MODE` of <linux/if_link.h>.
const NATIVE: u32 = 1 << 2;
/// Words of the counts.
const COUNTS_WORDS: usize = 4;

/// What arrived.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct SinkCounts {
    /// Frames of a generator; they end here.
    pub packets: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Those of them that came after a later one of their flow, or twice.
    pub disordered: u64,
    /// Other frames; they go on to the host's stack.
    pub others: u64,
}

/// Takes a generator's frames out of an interface, counts them and looks at their order, in the
/// interface's driver.
pub struct Sink {
    counts: Array<COUNTS_WORDS>,
    latencies: Array<HISTOGRAM_WORDS>,
    // Kept open: the program counts in the one and is attached by the other.
    _flows: Array<1>,
    _link: OwnedFd,
    name: String,
}

impl Sink {
    /// Attaches to the interface `name`; flows from number `flows` on are counted only.
    ///
    /// # Errors
    /// There is no such interface, it has several receive queues, another XDP program or a driver
    /// without XDP, or the process may not load programs.
    pub fn attach(name: &str, flows: u32) -> Result<Sink, PortError> {
        let interface = interface::find(name)?;
        let queues = interface_driver::rx_queues(name)?;
        if queues != 1 {
            let what = format!(
                "a sink counts on one receive queue, and it has {queues}; ethtool -L {name} rx 1"
            );
            return Err(PortError::unfit(name, what));
        }
        let failed = |step| move |error| PortError::xdp(name, step, error);
        let counts = Array::new(1).map_err(failed("bpf(BPF_MAP_CREATE) of a sink's counts"))?;
        let numbers =
            Array::new(flows.max(1)).map_err(failed("bpf(BPF_MAP_CREATE) of a sink's flows"))?;
        let latencies =
            Array::new(1).map_err(failed("bpf(BPF_MAP_CREATE) of a sink's latencies"))?;
        let program = program::counting(counts.as_fd(), numbers.as_fd(), latencies.as_fd());
        let program =
            bpf::load(Hook::Xdp, &program).map_err(failed("bpf(BPF_PROG_LOAD) of a sink"))?;
        let link = bpf::link(Hook::Xdp, program.as_fd(), interface.index, NATIVE)
            .map_err(failed("bpf(BPF_LINK_CREATE) of a sink"))?;
        Ok(Sink { counts, latencies, _flows: numbers, _link: link, name: name.to_owned() })
    }

    /// What arrived since it was attached.
    ///
    /// # Errors
    /// The kernel does not report.
    pub fn counts(&self) -> Result<SinkCounts, PortError> {
        let words = self.counts.get(0).map_err(|error| {
            PortError::xdp(&self.name, "bpf(BPF_MAP_LOOKUP_ELEM) of a sink's counts", error)
        })?;
        let at = |at: i16| words[at as usize / 8];
        Ok(SinkCounts {
            packets: at(PACKETS_AT),
            bytes: at(BYTES_AT),
            disordered: at(DISORDERED_AT),
            others: at(OTHERS_AT),
        })
    }

    /// Latencies of the paced frames that arrived in the meantime: from when the
    /// generator made each until the sink saw it, both by this kernel's clock. It begins anew.
    ///
    /// Nobody may send meanwhile: what arrives while it is read may be lost to it.
    ///
    /// # Errors
    /// The kernel does not report.
    pub fn take_latencies(&self) -> Result<Histogram, PortError> {
        let failed = |error| {
            PortError::xdp(&self.name, "bpf(BPF_MAP_LOOKUP_ELEM) of a sink's latencies", error)
        };
        let words = self.latencies.get(0).map_err(failed)?;
        self.latencies.set(0, &[0; HISTOGRAM_WORDS]).map_err(failed)?;
        Ok(Histogram::from_words(&words))
    }
}
