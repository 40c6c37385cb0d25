//! The agent in a virtual machine that an isolated function runs in: between the host, at the
//! machine's serial port, and the function's program, at its control socket.
//!
//! The program is the one that runs as a process elsewhere, built with the same library. It finds
//! its control socket where it expects it, and for each region a descriptor, which leads to the
//! memory of a PCI device here (ivshmem): the host's region itself. What the machine's processor
//! writes there, the host's reads; no packet passes through the agent.
//!
//! | part | what it is |
//! |---|---|
//! | `port` | the serial port: frames of `nf/abi` (`machine`) |
//! | `pci` | finds a device in its slot, and where its memory is |
//! | `agent` | starts the function; passes messages and wake-ups on |
//!
//! *Absent here:* packets, and whatever a function must not do: the machine is its sandbox.
#![forbid(unsafe_code)]

mod agent;
mod pci;
mod port;

pub use agent::{AgentError, serve};
