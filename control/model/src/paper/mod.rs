//! The paper, exactly: its elementary operations (Table 1), what they cost on a host (section 2.2),
//! and how they compose (sections 3 and 4).
//!
//! A [`Model`] lists what a function does with the usual packet; a [`Mapping`] has a host's
//! constants for the formulas; together they give cycles and accesses to memory ([`Model::cost`]),
//! and from these [`rates()`] that cores, memory and links allow.
//!
//! *Absent here:* traffic, caches that hold a part of a table, batches. The estimate of a
//! configuration of Thruway is another room.

mod checked;
mod mapping;
mod model;
mod operation;
mod printed;
mod rates;
mod rows;
mod run;

pub use checked::Checked;
pub use mapping::{CONSTANTS, Cost, Mapping};
pub use model::{Flow, MODELS, Model, Step};
pub use operation::{HashTable, MemoryLevel, OPERATIONS, Operation, Size, Syntax};
pub use printed::{Difference, Printed, PrintedRate, Resource};
pub use rates::{Limit, Rates, WIRE_BYTES, rates};
pub use rows::ModelError;
pub use run::Run;

/// The description of the paper's host.
pub const HARDWARE: &str = include_str!("../../hardware/xeon-e5-2690v2.toml");

/// Reads the description of the paper's host.
///
/// # Panics
/// Never: a test reads the same text.
pub fn hardware() -> crate::Hardware {
    crate::Hardware::parse("xeon-e5-2690v2.toml", HARDWARE).expect("tested")
}

#[cfg(test)]
mod tests;
