//! Frames from and to devices by DPDK, with drivers that are part of this process.
//!
//! DPDK knows the packet pool's memory, and has an mbuf for each of its frames for ever; the pool
//! that drivers take mbufs from is the packet pool. So a received mbuf becomes a packet, and a
//! packet its frame's mbuf, without a copy. A frame is DPDK's from the time that it was taken until
//! it is received, and from the time that it is sent until a driver frees it, in whatever thread.
//!
//! A [`Device`] is a port that runs, with a number of queues; a [`Receiver`] and a [`Sender`] are
//! ends of it that a thread has to itself. The port is closed with the last of them.
//!
//! Without the feature `dpdk` the same is here, and [`start`] says how to get it.

#[cfg(feature = "dpdk")]
mod arguments;
#[cfg(feature = "dpdk")]
mod device;
#[cfg(feature = "dpdk")]
mod eal;
#[cfg(feature = "dpdk")]
mod ends;
#[cfg(feature = "dpdk")]
mod flow;
#[cfg(feature = "dpdk")]
mod mbufs;
#[cfg(feature = "dpdk")]
mod messages;
#[cfg(feature = "dpdk")]
mod pci;
#[cfg(feature = "dpdk")]
mod receiver;
#[cfg(feature = "dpdk")]
mod sender;
#[cfg(feature = "dpdk")]
mod sys;

#[cfg(not(feature = "dpdk"))]
mod absent;
mod config;
mod flow_rule;

#[cfg(not(feature = "dpdk"))]
pub use absent::{Device, Flow, Received, Receiver, Sender, Sent, node, start};
pub use config::{About, Counters, Link, PortConfig};
#[cfg(feature = "dpdk")]
pub use device::Device;
#[cfg(feature = "dpdk")]
pub use flow::Flow;
pub use flow_rule::{FlowAction, FlowItem, FlowRule, HEADER_LEN_MAX, ITEMS_MAX};
#[cfg(feature = "dpdk")]
pub use pci::node;
#[cfg(feature = "dpdk")]
pub use receiver::{Received, Receiver};
#[cfg(feature = "dpdk")]
pub use sender::{Sender, Sent};

/// Whether this program was built with DPDK.
pub const IS_BUILT_IN: bool = cfg!(feature = "dpdk");

/// Starts DPDK with these arguments of its environment abstraction layer (EAL), to which are added
/// those that say what the user left open; says how it runs. It can be started once in a process:
/// again with the same arguments, or with none, is no error.
///
/// # Errors
/// DPDK runs with other arguments, or refuses these; there is no memory for it.
#[cfg(feature = "dpdk")]
pub fn start(arguments: &[String]) -> Result<String, crate::PortError> {
    eal::start(arguments).map(|eal| eal.about.clone())
}
