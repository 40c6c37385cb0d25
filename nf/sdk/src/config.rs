//! The settings of a function.

use thruway_nf_abi::message::{Hello, Wake};

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
}

impl Config {
    /// One output, no scratch.
    pub const DEFAULT: Config =
        Config { name: "function", outputs: 1, scratch_len: 0, batch_len_max: 256, prefetch: 6 };

    pub(crate) fn hello(&self) -> Hello {
        Hello {
            wake: Wake::Futex,
            outputs: self.outputs,
            scratch_len: self.scratch_len,
            name: Hello::name_from(self.name),
        }
    }
}

impl Default for Config {
    fn default() -> Config {
        Config::DEFAULT
    }
}
