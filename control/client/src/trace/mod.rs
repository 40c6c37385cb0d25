//! What the handler `trace` reports of packets: its answers, read, and packets in words.

mod change;
mod record;

pub use change::{changes, describe};
pub use record::{ANNOTATIONS, Answer, Counts, Record, Shot, What};
