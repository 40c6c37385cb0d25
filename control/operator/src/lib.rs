//! Chains on a cluster of hosts: resources of Kubernetes, the operator that assigns chains to
//! hosts, and the agent that declares them at the manager of its host.
//!
//! What to do is decided by pure functions of what is asked for and what is observed
//! ([`operator::decide()`], [`agent::decide()`]); the rest only watches and carries out.
#![forbid(unsafe_code)]

pub mod agent;
mod calls;
pub mod manifests;
pub mod names;
pub mod operator;
pub mod resource;
mod watching;

pub use calls::Version;
pub use watching::Log;
