//! A hostile Worker beside an honest one: real processes in their sandboxes, real rings, and a
//! Master that runs traffic through both.
//!
//! The hostile process behaves for a while, then writes random and adversarial values into
//! everything it can write: indices, heads, lengths, outputs, frames, headers, the control region,
//! the control socket. It hangs, aborts, floods. What must hold, whatever it does:
//!
//! - the Master does not panic, and every packet that it believes lies within its frame;
//! - every packet put into the hostile link is accounted for once: returned, dropped or reclaimed;
//! - the neighbour's packets come back complete, in order and changed by the neighbour alone;
//! - no byte of the neighbour's packets is seen in what the hostile process gives;
//! - every fault is counted, and the process is killed and started again.
//!
//! `modes` are the same attacks, and slower ones, one at a time: system tests play them behind real
//! `Nf` elements; their threads must not notice.
//!
//! `unsafe` is there once: a Worker's own library does not let it lie.
//!
//! `thruway-hostile storm STEPS` runs it as long as wanted; `tests/storm.rs` runs it briefly.

mod beat;
mod dice;
pub mod modes;
pub mod storm;
pub mod watch;
pub mod worker;

pub use beat::Beat;
pub use dice::Dice;
