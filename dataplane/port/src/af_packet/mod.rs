//! Frames from and to a network interface by packet sockets: any interface of a stock kernel.
//!
//! A local stack hands down work that it expects hardware to finish: checksums left open, TCP and
//! UDP frames of up to 64 kB to be cut, VLAN tags beside the frame. The kernel says so in a virtio
//! header (PACKET_VNET_HDR), and receiving finishes that work in software, so every frame given out
//! is one that could have been on a wire. No offload is switched off, so nothing of an interface's
//! settings has to be put back, also after a crash; the socket's own (promiscuous mode) go with it.
//!
//! A ring for each direction, shared with the kernel: see ADR 24.

mod finish;
mod frame;
mod group;
mod messages;
mod options;
mod ring;
mod segment;
mod sender;
mod slots;
mod transmit_ring;
mod vnet;
mod whole;

pub use frame::{Bytes, Frame, PacketStatistics, PacketType};
pub use messages::SEND_BATCH;
pub use options::PacketOptions;
pub(crate) use options::promiscuous_guard;
pub use sender::PacketSender;

use crate::bpf;
use crate::error::PortError;
use crate::interface::{self, Interface};
use finish::Finisher;
use ring::Ring;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};

/// A frame to be sent.
#[derive(Debug, Clone, Copy)]
pub struct OutFrame<'a> {
    /// Its bytes.
    pub bytes: &'a [u8],
    /// Frames that it stands for: of a TCP frame with more than 1, the kernel or the interface
    /// makes as many of about equal length.
    pub segments: u8,
}

impl OutFrame<'_> {
    /// No bytes.
    pub const NONE: OutFrame<'static> = OutFrame { bytes: &[], segments: 1 };
}

impl<'a> From<&'a [u8]> for OutFrame<'a> {
    fn from(bytes: &'a [u8]) -> OutFrame<'a> {
        OutFrame { bytes, segments: 1 }
    }
}

/// A packet socket that only receives.
pub struct PacketSocket {
    // Declared before the socket: dropped first.
    ring: Ring,
    receive: OwnedFd,
    interface: Interface,
    finisher: Finisher,
    /// Keeps the stack from what it receives.
    _hidden: Option<OwnedFd>,
}

impl PacketSocket {
    /// Opens `name` for receiving.
    ///
    /// # Errors
    /// There is no such interface, it is down, the process may not open packet sockets, or the
    /// kernel refused a step.
    pub fn open(name: &str, options: &PacketOptions) -> Result<PacketSocket, PortError> {
        PacketSocket::make(name, options, options::attach)
    }

    /// Opens `name` for `count` threads: each frame goes to one of the sockets, those of a flow to
    /// the same, and by their addresses and ports those of the other direction, too. Fragments go
    /// by their addresses alone. No socket receives before all are there.
    ///
    /// # Errors
    /// As [`PacketSocket::open`].
    pub fn open_group(
        name: &str,
        options: &PacketOptions,
        count: usize,
    ) -> Result<Vec<PacketSocket>, PortError> {
        if count < 2 {
            return Ok(vec![PacketSocket::open(name, options)?]);
        }
        let mut group = group::Group::new();
        let mut sockets = Vec::new();
        for _ in 0..count {
            let attach = |socket: &OwnedFd, interface: &Interface, options: &PacketOptions| {
                group.join(socket, interface, options)
            };
            sockets.push(PacketSocket::make(name, options, attach)?);
        }
        for socket in &sockets {
            group::open_up(&socket.receive, name)?;
        }
        Ok(sockets)
    }

    fn make(
        name: &str,
        options: &PacketOptions,
        attach: impl FnOnce(&OwnedFd, &Interface, &PacketOptions) -> Result<(), PortError>,
    ) -> Result<PacketSocket, PortError> {
        let interface = interface::find(name)?;
        if !interface.is_up {
            return Err(PortError::Down { name: name.to_owned() });
        }
        let frame_len = interface::mtu(name)? + 18;
        let receive = options::receive_socket(name, options)?;
        let ring = Ring::new(name, &receive, (options.ring_len, frame_len))?;
        attach(&receive, &interface, options)?;
        let finisher = Finisher::new(interface.is_ethernet, options);
        let hidden = options.exclusive.then(|| bpf::hide(name, interface.index)).transpose()?;
        Ok(PacketSocket { ring, receive, interface, finisher, _hidden: hidden })
    }

    /// Gives up to `count_max` frames to `take`, without waiting; returns how many.
    #[inline]
    pub fn receive(&mut self, count_max: usize, mut take: impl FnMut(Frame<'_>)) -> usize {
        let mut left = count_max;
        // Frames that are passed over count as well, so that a call always ends.
        let mut slots_left = count_max;
        while left > 0 {
            if self.finisher.has_segments() {
                left -= self.finisher.give_segments(left, &mut take);
                continue;
            }
            if slots_left == 0 {
                break;
            }
            slots_left -= 1;
            let Some(mut slot) = self.ring.next_slot() else { break };
            let header = slot.header();
            let is_whole = header.captured_len >= header.wire_len;
            let given = if is_whole {
                self.finisher.finish_slot(slot.bytes(), &header, &mut take)
            } else {
                self.finisher.finish_queued(&self.receive, &header, &mut take)
            };
            left -= usize::from(given);
        }
        let count = count_max - left;
        self.finisher.statistics.received += count as u64;
        count
    }

    /// What went wrong with the socket since the last call: an interface that went down. To be
    /// asked when `poll` reports an error.
    ///
    /// # Errors
    /// The error that was pending, [`PortError::Down`] mostly.
    pub fn take_error(&self) -> Result<(), PortError> {
        let name = &self.interface.name;
        match rustix::net::sockopt::socket_error(&self.receive) {
            Ok(Ok(())) => Ok(()),
            Ok(Err(e)) | Err(e) => Err(PortError::system(name, "receiving", e.into())),
        }
    }

    /// Counts since opening. Asks the kernel for its drops.
    pub fn statistics(&mut self) -> PacketStatistics {
        // The kernel's count starts anew with every call.
        let drops = options::take_drops(&self.receive);
        self.finisher.statistics.dropped_ring_full += drops;
        self.finisher.statistics
    }

    /// The interface, as it was when the socket was opened.
    pub fn interface(&self) -> &Interface {
        &self.interface
    }
}

impl AsFd for PacketSocket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.receive.as_fd()
    }
}

impl AsRawFd for PacketSocket {
    /// For `poll`: readable when a frame is there.
    fn as_raw_fd(&self) -> RawFd {
        self.receive.as_raw_fd()
    }
}
