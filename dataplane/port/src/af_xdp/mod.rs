//! Frames from and to a network interface by AF_XDP: the kernel reads and writes the frames of the
//! packet pool, so packets are not copied on our side.
//!
//! A [`Device`] is an interface with a socket for every receive queue. Its memory is the pool of
//! small frames, registered as it is; the holder of a frame is its only owner, also where that is
//! the kernel: a frame in the fill ring belongs to the kernel until it is received, one in the
//! transmit ring until its completion. Both are kept in a [`Lending`](thruway_packet::Lending) and
//! freed when the socket is closed. A [`Receiver`] and a [`Sender`] are the ends of a device that a
//! thread has to itself; a queue's two ends share its socket.
//!
//! What is received here does not reach the host's stack. Nothing that is set outlives the process,
//! however it ends: the steering program hangs on a link that goes with its descriptor.

mod device;
mod ends;
mod features;
mod receiver;
mod repair;
mod ring;
mod sender;
mod socket;
mod steering;

pub use device::Device;
pub use features::{Features, features};
pub use receiver::{Receiver, ReceiverStatistics};
pub use sender::{SendResult, Sender};
pub(crate) use steering::{Attached, Steering};

use std::fmt;

/// Where the steering program runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    /// In the driver, before the kernel makes a packet of its own of the frame.
    Native,
    /// In the kernel's stack: any interface, but the kernel makes a packet of its own. What was
    /// merged before (GRO, or 64 kB from a local stack) fits no frame and is lost.
    Generic,
}

impl fmt::Display for Mode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Mode::Native => "native",
            Mode::Generic => "generic",
        })
    }
}

/// How to use an interface by AF_XDP.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct XdpOptions {
    /// The modes to try, in order.
    pub modes: &'static [Mode],
    /// Whether frames will be received: then the steering program is attached at once, which a
    /// driver's zero-copy mode needs.
    pub receives: bool,
    /// Receive frames for other hosts as well (a virtual interface does anyway).
    pub promiscuous: bool,
    /// Let receiving drive the driver for so many microseconds instead of waiting for interrupts;
    /// 0: do not.
    pub busy_poll_us: u32,
    /// Slots of each ring; rounded up to a power of two.
    pub ring_slots: u32,
}

impl Default for XdpOptions {
    fn default() -> XdpOptions {
        XdpOptions {
            modes: &[Mode::Native, Mode::Generic],
            receives: true,
            promiscuous: false,
            busy_poll_us: 0,
            // A millisecond at two million frames a second.
            ring_slots: 2048,
        }
    }
}
