//! What an element declares of the rings by which it hands packets to its replicas in other
//! threads, and the packets that wait for such a ring while it looks at a batch.

use thruway_packet::{Batch, MAX_BATCH, Packet};

use crate::Element;
use crate::cx::Cx;
use crate::entry::Entry;

/// The rings of an element, one from each thread to each other one that has a replica.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Handoff {
    /// Packets in a ring at most.
    pub capacity: usize,
    /// Whether a thread has a ring to itself, too: what it hands to itself comes a round later.
    pub to_itself: bool,
}

impl Handoff {
    /// Packets of a ring where no user says how many: some milliseconds of them, for a thread that
    /// others keep from its core.
    pub const CAPACITY: usize = 4096;
}

impl Default for Handoff {
    fn default() -> Handoff {
        Handoff { capacity: Handoff::CAPACITY, to_itself: false }
    }
}

/// Packets put aside for other threads, by thread. Empty between two calls of an element.
#[derive(Default)]
pub struct Staged {
    pub(crate) batches: Vec<Batch>,
    pub(crate) is_any: bool,
}

impl Staged {
    /// For so many threads; no packet is for `own`.
    pub fn of(threads: usize, own: usize) -> Staged {
        let batch = |thread| if thread == own { Batch::new() } else { Batch::with_room() };
        Staged { batches: (0..threads).map(batch).collect(), is_any: false }
    }

    /// Puts a packet aside.
    ///
    /// # Errors
    /// The packet, for a thread that there is not.
    #[inline]
    pub(crate) fn push(&mut self, thread: usize, packet: Packet) -> Result<(), Packet> {
        match self.batches.get_mut(thread) {
            Some(batch) => {
                batch.push(packet);
                self.is_any = true;
                Ok(())
            }
            None => Err(packet),
        }
    }
}

/// An element that decides how its rings are filled and emptied. Of others, which hand packets over
/// all the same ([`crate::Threading::hands_off`]), rings are [`Handoff::default`] and emptied by
/// [`Element::process`].
pub trait HandoffQueue: Element {
    /// Its rings. Asked once, before [`Element::initialize`].
    fn rings(&self) -> Handoff;

    /// Packets of each other thread that it takes in this round, at most; the rest waits in the
    /// ring. With 0 it takes none, and a stop does not wait for them.
    fn room(&self) -> usize;

    /// Handles packets that its replica in another thread handed over; they were counted there.
    /// What is left in the batch goes on as behind [`Element::process`].
    fn handed(&mut self, cx: &mut Cx<'_>, batch: &mut Batch);
}

impl Entry {
    /// The rings of an element that hands packets to its replicas.
    pub fn rings(&self, element: &dyn Element) -> Handoff {
        self.handoff_queue(element).map_or_else(Handoff::default, HandoffQueue::rings)
    }

    /// Packets of a ring that an element takes in this round, at most.
    #[inline]
    pub fn handoff_room(&self, element: &dyn Element) -> usize {
        self.handoff_queue(element).map_or(MAX_BATCH, HandoffQueue::room)
    }

    /// Has an element handle packets that its replica in another thread handed over.
    #[inline]
    pub fn handed(&self, element: &mut dyn Element, cx: &mut Cx<'_>, batch: &mut Batch) {
        match self.handoff_queue_mut(element) {
            Some(queue) => queue.handed(cx, batch),
            None => element.process(cx, 0, batch),
        }
    }
}
