//! What a configuration costs on a host.

pub mod price;
pub mod residency;
pub mod visits;
