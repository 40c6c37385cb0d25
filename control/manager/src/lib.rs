//! Keeps the chains that a host is to run, and makes what runs equal to what is asked for.
//!
//! What is asked for ([`ChainSpec`]) and what is observed ([`ChainStatus`]) are never mixed: an
//! operator writes the first, the manager writes the second. A chain is one data-plane process,
//! which outlives the manager.
#![forbid(unsafe_code)]

pub mod api;
pub mod client;
pub mod events;
pub mod manager;
pub mod name;
pub mod planes;
mod private;
pub mod resource;
pub mod store;
pub mod timestamp;
pub mod unsupported;

pub use manager::{CheckError, Checker, Manager};
pub use name::{ChainName, NameError};
pub use resource::{
    Asked, ChainSpec, ChainStatus, Condition, ConditionKind, DataPlanes, Event, PlaneError,
};
