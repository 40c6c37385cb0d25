//! The two rings of a port, and which of them gives the next frame.

use super::group::Group;
use super::options::{self, PacketOptions};
use super::ring::{Ring, Slot};
use crate::classes::{Class, SHARE, socket_filter};
use crate::error::PortError;
use crate::interface::{self, Interface};
use crate::short_cut::Port;
use std::os::fd::OwnedFd;

/// A ring and its socket.
pub(super) struct Queue {
    // Declared before the socket: dropped first.
    ring: Ring,
    pub(super) socket: OwnedFd,
    /// Frames that the kernel dropped because the ring was full.
    pub(super) dropped: u64,
}

impl Queue {
    /// One that takes nothing yet.
    fn new(
        interface: &Interface,
        options: &PacketOptions,
        group: Option<&mut Group>,
    ) -> Result<Queue, PortError> {
        let name = &interface.name;
        let frame_len = interface::mtu(name)? + 18;
        let socket = options::receive_socket(name, options)?;
        let ring = Ring::new(name, &socket, (options.ring_len, frame_len))?;
        socket_filter::refuse_all(&socket, name)?;
        options::attach(&socket, interface)?;
        if let Some(group) = group {
            group.join(&socket, name)?;
        }
        Ok(Queue { ring, socket, dropped: 0 })
    }
}

/// See the module.
pub(super) struct Queues {
    preferred: Queue,
    other: Queue,
    /// More comes than is read: arrival no longer decides.
    is_flooded: bool,
    /// Frames of the preferred ring since the last of the others, while it is so.
    in_a_row: usize,
}

impl Queues {
    /// Rings that take nothing until [`Queues::open_up`].
    pub(super) fn new(
        interface: &Interface,
        options: &PacketOptions,
        groups: Option<&mut [Group; 2]>,
    ) -> Result<Queues, PortError> {
        let [preferred, other] = groups.map_or([None, None], |groups| groups.each_mut().map(Some));
        let preferred = Queue::new(interface, options, preferred)?;
        let other = Queue::new(interface, options, other)?;
        if options.promiscuous {
            // The mode is the interface's: one socket asks for both.
            options::promiscuous(&preferred.socket, interface)?;
        }
        Ok(Queues { preferred, other, is_flooded: false, in_a_row: 0 })
    }

    /// Lets frames in: with a port of short cuts those that take none.
    pub(super) fn open_up(
        &self,
        interface: &Interface,
        port: Option<&Port>,
    ) -> Result<(), PortError> {
        let (name, is_ethernet) = (&interface.name, interface.is_ethernet);
        for (queue, class) in self.both().into_iter().zip(Class::ALL) {
            match port {
                Some(port) => port.accept(&queue.socket, name, class)?,
                None => socket_filter::accept(&queue.socket, name, class, is_ethernet)?,
            }
        }
        Ok(())
    }

    /// The preferred one first.
    pub(super) fn both(&self) -> [&Queue; 2] {
        [&self.preferred, &self.other]
    }

    /// Whether no ring has a frame.
    pub(super) fn is_empty(&self) -> bool {
        self.both().iter().all(|queue| !queue.ring.has_frame())
    }

    /// Asks the kernel what it dropped since the last time; sums since opening, of the preferred
    /// ring and of the other.
    pub(super) fn drops(&mut self) -> [u64; 2] {
        [&mut self.preferred, &mut self.other].map(|queue| {
            queue.dropped += options::take_drops(&queue.socket);
            queue.dropped
        })
    }

    /// To be called before some frames are taken: looks which rule holds for them.
    #[inline]
    pub(super) fn look(&mut self) {
        self.is_flooded = self.other.ring.is_half_full();
    }

    /// The next frame and its socket, if the kernel has handed one over: the one that came first,
    /// or in a flood by weight.
    #[inline]
    pub(super) fn next(&mut self) -> Option<(Slot<'_>, &OwnedFd)> {
        let takes_preferred = match (self.preferred.ring.has_frame(), self.other.ring.has_frame()) {
            (true, true) => self.prefers(),
            (has_preferred, _) => has_preferred,
        };
        let queue = if takes_preferred { &mut self.preferred } else { &mut self.other };
        Some((queue.ring.next_slot()?, &queue.socket))
    }

    /// Which one it is where both have frames.
    fn prefers(&mut self) -> bool {
        if !self.is_flooded {
            return self.preferred.ring.arrival() <= self.other.ring.arrival();
        }
        let prefers = self.in_a_row < SHARE - 1;
        self.in_a_row = if prefers { self.in_a_row + 1 } else { 0 };
        prefers
    }
}
