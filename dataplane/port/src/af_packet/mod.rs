//! Frames from and to a network interface by packet sockets: any interface of a stock kernel.
//!
//! A local stack hands down work that it expects hardware to finish: checksums left open, TCP and
//! UDP frames of up to 64 kB to be cut, VLAN tags beside the frame. The kernel says so in a virtio
//! header (PACKET_VNET_HDR), and receiving finishes that work in software, so every frame given out
//! is one that could have been on a wire. No offload is switched off, so nothing of an interface's
//! settings has to be put back, also after a crash; the socket's own (promiscuous mode) go with it.
//!
//! A ring to send and two to receive, shared with the kernel: see ADR 24, and ADR 47 for why there
//! are two.

mod finish;
mod frame;
mod group;
mod messages;
mod options;
mod queues;
mod ring;
mod segment;
mod sender;
mod slots;
mod stamps;
mod transmit_ring;
mod vnet;
mod whole;

pub use frame::{Bytes, Frame, PacketStatistics, PacketType};
pub use messages::SEND_BATCH;
pub use options::PacketOptions;
pub(crate) use options::promiscuous_guard;
pub use sender::PacketSender;
pub use stamps::Stamps;

use crate::bpf;
use crate::classes::socket_filter;
use crate::error::PortError;
use crate::interface::{self, Interface};
use crate::short_cut::{Port, ShortCuts};
use finish::Finisher;
use group::Group;
use queues::Queues;
use std::os::fd::OwnedFd;
use std::sync::Arc;

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

/// Packet sockets that only receive, one for each class of frames (ADR 47).
pub struct PacketSocket {
    queues: Queues,
    interface: Interface,
    finisher: Finisher,
    /// Keeps the stack from what it receives.
    _hidden: Option<OwnedFd>,
    /// What lets sessions take short cuts; why there is none, where it was asked for.
    short_cut: Option<Result<Arc<Port>, Arc<PortError>>>,
}

impl PacketSocket {
    /// Opens `name` for receiving.
    ///
    /// # Errors
    /// There is no such interface, it is down, the process may not open packet sockets, or the
    /// kernel refused a step.
    pub fn open(name: &str, options: &PacketOptions) -> Result<PacketSocket, PortError> {
        let mut socket = [PacketSocket::make(name, options, None)?];
        PacketSocket::open_up(&mut socket, options, None)?;
        let [socket] = socket;
        Ok(socket)
    }

    /// Opens `name` for `count` threads: each frame goes to one of the sockets, those of a flow to
    /// the same, and by their addresses and ports those of the other direction, too. Fragments go
    /// by their addresses alone. No socket receives before all are there. What lets sessions take
    /// short cuts is that of `former`, if there is one, whose place they take.
    ///
    /// # Errors
    /// As [`PacketSocket::open`].
    pub fn open_group(
        name: &str,
        options: &PacketOptions,
        (count, former): (usize, Option<&PacketSocket>),
    ) -> Result<Vec<PacketSocket>, PortError> {
        // One of each class: members join both in the same order, so a flow has one thread.
        let mut groups = (count > 1).then(|| [(); 2].map(|()| Group::new(options.ignore_outgoing)));
        let mut sockets = Vec::new();
        for _ in 0..count.max(1) {
            sockets.push(PacketSocket::make(name, options, groups.as_mut())?);
        }
        PacketSocket::open_up(&mut sockets, options, former)?;
        Ok(sockets)
    }

    /// Lets frames in, once all sockets of an interface are there.
    fn open_up(
        sockets: &mut [PacketSocket],
        options: &PacketOptions,
        former: Option<&PacketSocket>,
    ) -> Result<(), PortError> {
        let Some(first) = sockets.first() else { return Ok(()) };
        let wanted = options.short_cut && first.interface.is_ethernet;
        let open = || Port::open(&first.interface).map(Arc::new).map_err(Arc::new);
        let known = former.and_then(|former| former.short_cut.clone());
        let port = wanted.then(|| known.unwrap_or_else(open));
        for socket in sockets {
            let own = port.as_ref().and_then(|port| port.as_deref().ok());
            socket.queues.open_up(&socket.interface, own)?;
            socket.short_cut.clone_from(&port);
        }
        Ok(())
    }

    fn make(
        name: &str,
        options: &PacketOptions,
        groups: Option<&mut [Group; 2]>,
    ) -> Result<PacketSocket, PortError> {
        let interface = interface::find(name)?;
        if !interface.is_up {
            return Err(PortError::Down { name: name.to_owned() });
        }
        let queues = Queues::new(&interface, options, groups)?;
        let finisher = Finisher::new(interface.is_ethernet, options);
        let hidden = options.exclusive.then(|| bpf::hide(name, interface.index)).transpose()?;
        Ok(PacketSocket { queues, interface, finisher, _hidden: hidden, short_cut: None })
    }

    /// Gives up to `count_max` frames to `take`, without waiting; returns how many.
    #[inline]
    pub fn receive(&mut self, count_max: usize, mut take: impl FnMut(Frame<'_>)) -> usize {
        let mut left = count_max;
        // Frames that are passed over count as well, so that a call always ends.
        let mut slots_left = count_max;
        self.queues.look();
        while left > 0 {
            if self.finisher.has_segments() {
                left -= self.finisher.give_segments(left, &mut take);
                continue;
            }
            if slots_left == 0 {
                break;
            }
            slots_left -= 1;
            let Some((mut slot, socket)) = self.queues.next() else { break };
            let header = slot.header();
            let is_whole = header.captured_len >= header.wire_len;
            let given = if is_whole {
                self.finisher.finish_slot(slot.bytes(), &header, &mut take)
            } else {
                self.finisher.finish_queued(socket, &header, &mut take)
            };
            left -= usize::from(given);
        }
        let count = count_max - left;
        self.finisher.statistics.received += count as u64;
        count
    }

    /// Whether there is nothing to receive now.
    pub fn is_empty(&self) -> bool {
        !self.finisher.has_segments() && self.queues.is_empty()
    }

    /// Takes no further frames: those that are there can still be received.
    ///
    /// # Errors
    /// The kernel refused it.
    pub fn refuse(&self) -> Result<(), PortError> {
        let name = &self.interface.name;
        self.sockets().into_iter().try_for_each(|socket| socket_filter::refuse_all(socket, name))
    }

    /// What went wrong with the socket since the last call: an interface that went down. To be
    /// asked when `poll` reports an error.
    ///
    /// # Errors
    /// The error that was pending, [`PortError::Down`] mostly.
    pub fn take_error(&self) -> Result<(), PortError> {
        let name = &self.interface.name;
        // Each is asked, so that neither keeps an error that was reported.
        let results =
            self.sockets().map(|socket| match rustix::net::sockopt::socket_error(socket) {
                Ok(Ok(())) => Ok(()),
                Ok(Err(e)) | Err(e) => Err(PortError::system(name, "receiving", e.into())),
            });
        results.into_iter().collect()
    }

    /// Counts since opening. Asks the kernel for its drops.
    pub fn statistics(&mut self) -> PacketStatistics {
        let [preferred, other] = self.queues.drops();
        self.finisher.statistics.dropped_ring_full = preferred + other;
        self.finisher.statistics.dropped_preferred = preferred;
        self.finisher.statistics
    }

    /// The interface, as it was when the socket was opened.
    pub fn interface(&self) -> &Interface {
        &self.interface
    }

    /// The table of short cuts, and the interface's number in it; why there is none, where it was
    /// asked for.
    pub fn short_cut(&self) -> Option<Result<(&Arc<ShortCuts>, u32), &PortError>> {
        let port = self.short_cut.as_ref()?;
        Some(port.as_ref().map(|port| port.table()).map_err(|error| &**error))
    }

    /// For `poll`: one of them is readable when a frame is there.
    pub fn sockets(&self) -> [&OwnedFd; 2] {
        self.queues.both().map(|queue| &queue.socket)
    }
}
