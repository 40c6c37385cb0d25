//! Keeps the chains that a host is to run, and makes what runs equal to what is asked for. Keeps
//! functions and groups, too, and reports what is observed of them and of the host.
//!
//! What is asked for ([`ChainSpec`]) and what is observed ([`ChainStatus`]) are never mixed: an
//! operator writes the first, the manager writes the second. A chain is one data-plane process,
//! which outlives the manager.
#![forbid(unsafe_code)]

pub mod access;
pub mod api;
pub mod audit;
pub mod capture;
mod change;
pub mod client;
pub mod events;
pub mod examples;
mod executable;
pub mod expansion;
pub mod function;
mod function_use;
pub mod grant;
pub mod graph;
pub mod group;
mod hashes;
pub mod host;
mod kept;
pub mod kind;
pub mod manager;
pub mod name;
mod observer;
pub mod on_demand;
pub mod otlp;
pub mod planes;
mod private;
pub mod prospect;
pub mod replicas;
pub mod reports;
pub mod resource;
pub mod store;
pub mod timestamp;
pub mod tls;
pub mod unsupported;

pub use function::{FunctionSpec, Limits};
pub use function_use::{FunctionUse, UseError};
pub use group::GroupSpec;
pub use kind::CheckError;
pub use manager::{Checker, MANAGED_BY_HEADER, Manager};
pub use name::{ChainName, FunctionName, GroupName, NameError};
pub use observer::ResourceStatus;
pub use resource::{
    Asked, ChainSpec, ChainStatus, Condition, ConditionKind, DataPlanes, Event, LogPart,
    PlaneError, Run,
};
