//! Why a host cannot be measured.

/// Why a host cannot be measured.
#[derive(Debug, thiserror::Error)]
pub enum CalibrateError {
    /// The thread stays where the system puts it.
    #[error(
        "this thread cannot be bound to core {core}, and what moves about cannot be measured: \
         choose another with --core (this process may use: {choice}), or allow it to the process"
    )]
    NotBound {
        /// The core that was asked for.
        core: usize,
        /// Those that may be used.
        choice: String,
    },
    /// No cycles to count.
    #[error("no time stamp counter counts here, and there is nothing to measure cycles by")]
    NoClock,
    /// A configuration of ours does not do what it should.
    #[error("the carrier of {name}: {why}")]
    Carrier {
        /// Of which operation.
        name: String,
        /// The detecting function's text.
        why: String,
    },
    /// No memory.
    #[error("no memory to measure: {0}")]
    Memory(#[from] thruway_region::RegionError),
}
