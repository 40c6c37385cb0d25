//! The settings of a function.

use thruway_nf_abi::features::Offer;
use thruway_nf_abi::message::{Hello, Wake};
use thruway_nf_abi::stream_need;
use thruway_payload::{Needs, StreamFunction};

/// What a function says of itself before it begins.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Config {
    /// Its name for people: at most 32 bytes are kept.
    pub name: &'static str,
    /// Outputs that it uses, 1 to 256: an element that has fewer is refused.
    pub outputs: u32,
    /// Bytes of scratch per session, at most 1 MB; 0 for none.
    pub scratch_len: u32,
    /// Most packets of a batch: at least 1.
    pub batch_len_max: u32,
    /// Packets ahead of the one in hand whose first line is asked for; 0 for a function that does
    /// not look at bytes.
    ///
    /// PERF: lines come from the host's core; `cargo run --release -p thruway-nf --example pace`
    /// measures.
    pub prefetch: u32,
    /// What a function of streams does to them: see [`Config::stream`]; `None` for one of packets.
    pub stream: Option<Needs>,
}

impl Config {
    /// One output, no scratch.
    pub const DEFAULT: Config = Config {
        name: "function",
        outputs: 1,
        scratch_len: 0,
        batch_len_max: 256,
        prefetch: 6,
        stream: None,
    };

    /// Of a function of streams; see [`Streams`](crate::Streams).
    pub const fn stream<F: StreamFunction>(name: &'static str) -> Config {
        // Sessions have numbers where there is scratch: a function that remembers nothing has some.
        let state_len = size_of::<F::State>() as u32;
        let scratch_len = if state_len == 0 { 1 } else { state_len };
        Config { name, scratch_len, stream: Some(F::NEEDS), ..Config::DEFAULT }
    }

    pub(crate) fn hello(&self, offer: Offer) -> Hello {
        Hello {
            wake: Wake::Futex,
            outputs: self.outputs,
            scratch_len: self.scratch_len,
            stream: self.stream.map_or(0, |needs| stream_need::STREAM | needs.bits()),
            offer,
            name: Hello::name_from(self.name),
        }
    }
}

impl Default for Config {
    fn default() -> Config {
        Config::DEFAULT
    }
}
