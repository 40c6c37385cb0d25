//! Virtual machines with standard drivers: the device side of virtio-net, by vhost-user.
//!
//! A virtual machine monitor (QEMU, cloud-hypervisor and others: the *front-end*) connects to a
//! [`Port`] and hands over the memory of its guest and where in it the two rings of a network
//! device are (virtio 1.2, split virtqueues). From then on packets are copied between the guest's
//! buffers and frames. The guest needs nothing of ours.
//!
//! | part | what it is |
//! |---|---|
//! | `message` | vhost-user's messages: heads, bodies, what may be in them |
//! | `memory` | the guest's memory, mapped: every address that a guest writes is looked up here |
//! | `ring` | a split ring: indices, descriptors, chains; what is a lie is a [`RingFault`] |
//! | `queue` | packets out of and into a ring |
//! | `session` | one connection's state: features, memory, rings; answers messages; does no I/O |
//! | `connection` | a connection's socket: messages with descriptors |
//! | `private` | sockets for machines that this process starts itself |
//! | `driver` | the other side, for tests: a guest that lies, and its front-end |
//! | `service` | the thread of a port: connections, messages, and all that leads to the guest |
//! | `shared` | what a port's threads share: its rings, bells, status |
//! | `port` | [`Port`], and what packet threads hold of it: [`Receiver`], [`Sender`] |
//!
//! What must stay true:
//!
//! - **Everything that a front-end or guest writes is hostile.** It is read once, checked, and only
//!   the copy is used. A lie ends the connection; the rest of the process does not notice.
//! - **Packet threads never touch a descriptor of the front-end.** It may be one that blocks. The
//!   service thread reads kicks and writes calls; it blocks nobody but its own guest.
//! - **No length of a guest decides how long a packet thread is busy**: descriptors, bytes and
//!   packets of one call are bounded.
//! - **Memory that goes away does not end the process**: regions are guarded (`base/region`).
#![forbid(unsafe_code)]

mod bell;
mod connection;
pub mod driver;
mod memory;
mod message;
mod port;
mod private;
mod queue;
mod ring;
mod service;
mod session;
mod shared;

pub use memory::{GuestMemory, MemoryError, MemoryPart};
pub use message::{Features, HEAD_LEN, Head, ProtocolFault, Request, RingEvent};
pub use port::{Port, Receiver, Sender};
pub use private::private_listener;
pub use queue::{Queue, Received, Sent};
pub use ring::{Direction, Piece, Ring, RingFault, RingSpec, SIZE_MAX};
pub use session::{RINGS, Reply, Rings, Session};
pub use shared::{Address, PortEvent, PortStatus};
