//! A machine that knows nothing of Thruway, supervised as a function is: started, ready when its
//! drivers use all network cards, ended when it lies or hangs, started again when it ends.
//!
//! Its [`Life`](crate::life::Life) is a function's. What a function says over its control socket,
//! the machine's network cards show: their owner reports it ([`VmReporter`]). One machine, or two
//! that are alike, are a [`VmPool`], of which one serves and another stands still.

mod pool;
mod shared;
mod single;
mod supervisor;
mod turns;

pub use self::pool::VmPool;
pub use self::shared::{VmReporter, VmSpec, Wire};
