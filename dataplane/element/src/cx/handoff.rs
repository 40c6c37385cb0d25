//! How an element hands packets to its replicas in other threads.
//!
//! The element chooses the thread. The engine owns the rings, drops, wake-ups, and the packets in
//! flight at a stop or a hot swap.

use thruway_packet::{Batch, Packet};

use super::Cx;
use crate::reason::Reason;

impl Cx<'_> {
    /// Hands all packets of a batch to this element's replica in another thread, which gets them by
    /// [`Entry::handed`](crate::Entry::handed), in order. Those for which the ring has no room
    /// are dropped ([`Reason::CONGESTION`]). Returns how many went. To be called once for a batch:
    /// the other thread is woken if it sleeps.
    #[inline]
    pub fn handoff(&mut self, thread: usize, batch: &mut Batch) -> usize {
        let handed = self.try_handoff(thread, batch);
        if !batch.is_empty() {
            self.drop_all(Reason::CONGESTION, batch);
        }
        handed
    }

    /// The same; packets that do not fit stay in the batch.
    #[inline]
    pub fn try_handoff(&mut self, thread: usize, batch: &mut Batch) -> usize {
        self.host.handoff(self.node, thread, batch)
    }

    /// Puts a packet of the present batch aside that is for another thread;
    /// [`Cx::handoff_staged`] is to follow.
    #[inline]
    pub fn stage(&mut self, thread: usize, packet: Packet) {
        if let Err(packet) = self.out.staged.push(thread, packet) {
            self.drop(Reason::CONGESTION, packet);
        }
    }

    /// Hands off the packets that were put aside, as [`Cx::handoff`] does. Returns the number
    /// handed off.
    #[inline]
    pub fn handoff_staged(&mut self) -> usize {
        self.hand_staged(|_, _| ())
    }

    /// The same; calls `lost` with each thread that had a full ring and the number of packets
    /// dropped for that reason.
    #[inline]
    pub(crate) fn hand_staged(&mut self, mut lost: impl FnMut(usize, usize)) -> usize {
        match std::mem::take(&mut self.out.staged.is_any) {
            true => self.hand_all(&mut lost),
            false => 0,
        }
    }

    // Once for a batch: not in the loop of the element that calls it.
    #[inline(never)]
    fn hand_all(&mut self, lost: &mut dyn FnMut(usize, usize)) -> usize {
        let mut batches = std::mem::take(&mut self.out.staged.batches);
        let mut handed = 0;
        for (thread, batch) in batches.iter_mut().enumerate().filter(|(_, b)| !b.is_empty()) {
            handed += self.try_handoff(thread, batch);
            if !batch.is_empty() {
                lost(thread, batch.len());
                self.drop_all(Reason::CONGESTION, batch);
            }
        }
        self.out.staged.batches = batches;
        handed
    }
}
