//! Tables that the replicas of an element share: read and written for every packet by any thread,
//! with no lock that anyone waits for and no allocation.
//!
//! - [`AgingTable`]: bindings learnt from packets (address to port), removed by age. -
//!   [`DenseTable`]: entries by a number of few bits (a label, a pair of VLANs), which handlers
//!   change while packets are looked up.
//!
//! Both have all their memory from the beginning.
#![forbid(unsafe_code)]

mod aging;
mod dense;

pub use aging::{AgingTable, Found, Learnt, NO_ROOM_MESSAGE, TICK_NS, VALUE_BITS};
pub use dense::{DenseError, DenseTable, ENTRY_BITS};
