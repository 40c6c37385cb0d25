//! What an element declares of the rings by which it hands packets to its replicas in other
//! threads, and the packets that wait for such a ring while it looks at a batch.

use thruway_packet::{Batch, Packet};

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
