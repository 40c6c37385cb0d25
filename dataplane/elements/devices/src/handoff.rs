//! Fewer transmit queues than threads: a thread that gets none hands its packets, by a ring, to one
//! that has one, which sends them. So each flow leaves by one queue, in order.
//!
//! A ring is as long as what may wait for a full interface. It is full if the thread at its end has
//! no room: then packets wait in front of it, as in front of an interface.

use std::sync::Arc;

use parking_lot::Mutex;
use thruway_element::Args;
use thruway_packet::{Batch, PacketConsumer, PacketProducer, packet_ring};
use thruway_sync::atomic::{AtomicBool, Ordering};

/// Packets in a ring.
const RING_LEN: usize = 1024;

/// What the replicas of an output share: those of them that have a queue.
#[derive(Default)]
struct Senders(Mutex<Vec<Sender>>);

/// A replica that has a queue.
struct Sender {
    inbox: Arc<Inbox>,
    /// Rings that lead to it.
    rings: usize,
}

/// Where a replica finds the rings that lead to it.
struct Inbox {
    /// Its thread.
    thread: usize,
    /// Rings that it has not seen yet, and whether there are any.
    new: Mutex<Vec<PacketConsumer>>,
    has_new: AtomicBool,
    /// It takes nothing any more.
    is_closed: AtomicBool,
}

/// A replica's part.
pub(super) struct Handoff {
    senders: Arc<Senders>,
    inbox: Arc<Inbox>,
    /// What others hand over comes out here.
    rings: Vec<PacketConsumer>,
}

/// By what a replica sends.
pub(super) enum Claimed<T> {
    /// A queue of its own.
    Queue(T),
    /// None was left, but another replica has one.
    Ring(Box<Ring>),
}

impl Handoff {
    /// The part of the replica that is being built.
    pub(super) fn of(args: &Args<'_>) -> Handoff {
        Handoff::new(args.shared("senders", Senders::default), args.env().thread)
    }

    fn new(senders: Arc<Senders>, thread: usize) -> Handoff {
        let inbox = Inbox {
            thread,
            new: Mutex::default(),
            has_new: AtomicBool::new(false),
            is_closed: AtomicBool::new(false),
        };
        Handoff { senders, inbox: Arc::new(inbox), rings: Vec::new() }
    }

    /// Takes a queue, or where none is left a ring to the replica with the fewest.
    ///
    /// # Errors
    /// Why no queue is left, where no replica has one.
    pub(super) fn claim<T, E>(&self, take: impl FnOnce() -> Result<T, E>) -> Result<Claimed<T>, E> {
        // One after another, so that a replica without a queue finds one with a queue.
        let mut senders = self.senders.0.lock();
        // While it claims nobody hands to it: no two ever hand to each other.
        senders.retain(|sender| !Arc::ptr_eq(&sender.inbox, &self.inbox));
        match take() {
            Ok(queue) => {
                senders.push(Sender { inbox: Arc::clone(&self.inbox), rings: 0 });
                Ok(Claimed::Queue(queue))
            }
            Err(error) => {
                let sender = senders.iter_mut().min_by_key(|sender| sender.rings);
                sender.map(|sender| Claimed::Ring(Box::new(sender.ring()))).ok_or(error)
            }
        }
    }

    /// The replica's own thread.
    pub(super) fn thread(&self) -> usize {
        self.inbox.thread
    }

    /// Takes up to `max` packets that others handed over. Says how many.
    #[inline]
    pub(super) fn take(&mut self, max: usize, batch: &mut Batch) -> usize {
        // Relaxed: the lock orders what is behind it. It is seen at the latest in the round that
        // comes before a sleep, as a packet in a ring would be.
        if self.inbox.has_new.load(Ordering::Relaxed) {
            self.look();
        }
        let mut taken = 0;
        for ring in &mut self.rings {
            taken += ring.take(max - taken, batch);
        }
        taken
    }

    #[cold]
    fn look(&mut self) {
        let mut new = self.inbox.new.lock();
        self.inbox.has_new.store(false, Ordering::Relaxed);
        self.rings.append(&mut new);
    }

    /// Takes all that others handed over, the last that they can.
    pub(super) fn close(&mut self, batch: &mut Batch) {
        self.inbox.is_closed.store(true, Ordering::Release);
        self.take(usize::MAX, batch);
    }
}

impl Drop for Handoff {
    fn drop(&mut self) {
        // Where its thread died nobody takes what is left in the rings.
        self.inbox.is_closed.store(true, Ordering::Release);
        self.senders.0.lock().retain(|sender| !Arc::ptr_eq(&sender.inbox, &self.inbox));
    }
}

impl Sender {
    fn ring(&mut self) -> Ring {
        let (into, out) = packet_ring(RING_LEN);
        self.rings += 1;
        self.inbox.new.lock().push(out);
        self.inbox.has_new.store(true, Ordering::Relaxed);
        Ring { into, inbox: Arc::clone(&self.inbox) }
    }
}

/// A ring to a replica that has a queue.
pub(super) struct Ring {
    into: PacketProducer,
    inbox: Arc<Inbox>,
}

impl Ring {
    /// Hands over packets from the front of a batch, as many as there is room for. The thread is to
    /// be woken then.
    #[inline]
    pub(super) fn put(&mut self, batch: &mut Batch) {
        if !self.inbox.is_closed.load(Ordering::Relaxed) {
            self.into.put(batch);
        }
    }

    /// The thread that sends.
    pub(super) fn thread(&self) -> usize {
        self.inbox.thread
    }

    /// Packets that wait for it.
    pub(super) fn len(&self) -> usize {
        self.into.len()
    }

    /// Packets that it will not take any more, once nothing runs.
    pub(super) fn lost(&self) -> usize {
        match self.inbox.is_closed.load(Ordering::Acquire) {
            true => self.len(),
            false => 0,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use thruway_packet::Packet;

    fn batch(numbers: std::ops::Range<u8>) -> Batch {
        let mut batch = Batch::new();
        batch.extend(numbers.map(|number| Packet::new(&[number]).expect("a frame")));
        batch
    }

    fn numbers(batch: &Batch) -> Vec<u8> {
        batch.iter().map(|packet| packet.data()[0]).collect()
    }

    /// Replicas of one output, in threads of these numbers.
    fn replicas<const N: usize>() -> [Handoff; N] {
        let senders = Arc::new(Senders::default());
        std::array::from_fn(|thread| Handoff::new(Arc::clone(&senders), thread))
    }

    fn ring(replica: &Handoff) -> Ring {
        match replica.claim(|| Err::<(), _>("none left")).expect("a replica with a queue") {
            Claimed::Ring(ring) => *ring,
            Claimed::Queue(()) => unreachable!("none is left"),
        }
    }

    fn has_a_queue(replica: &Handoff) {
        assert!(matches!(replica.claim(|| Ok::<_, ()>(7)), Ok(Claimed::Queue(7))));
    }

    #[test]
    fn who_has_no_queue_hands_over_in_order() {
        let [mut zero, one] = replicas();
        assert_eq!(one.claim(|| Err::<(), _>("none left")).err(), Some("none left"));
        has_a_queue(&zero);
        let mut ring = ring(&one);
        assert_eq!(ring.thread(), 0);
        let (mut three, mut all) = (batch(0..3), Batch::new());
        ring.put(&mut three);
        assert_eq!((three.len(), ring.len(), ring.lost()), (0, 3, 0));
        assert_eq!((zero.take(2, &mut all), ring.len()), (2, 1));
        ring.put(&mut batch(3..5));
        assert_eq!((zero.take(9, &mut all), numbers(&all)), (3, vec![0, 1, 2, 3, 4]));
        assert_eq!(zero.take(9, &mut all), 0);
    }

    #[test]
    fn rings_are_spread_over_those_that_have_queues() {
        let [zero, one, two, three] = replicas();
        has_a_queue(&two);
        has_a_queue(&zero);
        let mut threads = [ring(&one).thread(), ring(&three).thread()];
        threads.sort_unstable();
        assert_eq!(threads, [0, 2]);
        // A replica that lost its queue hands to the other one, and none hands to it.
        assert_eq!((ring(&two).thread(), ring(&one).thread()), (0, 0));
    }

    #[test]
    fn a_full_ring_leaves_packets_to_wait() {
        let [mut zero, one] = replicas();
        has_a_queue(&zero);
        let mut ring = ring(&one);
        let mut waiting = Batch::new();
        (0..5).for_each(|_| waiting.append(&mut batch(0..250)));
        ring.put(&mut waiting);
        assert_eq!((ring.len(), waiting.len()), (RING_LEN, 1250 - RING_LEN));
        let mut all = Batch::new();
        assert_eq!(zero.take(usize::MAX, &mut all), RING_LEN);
        ring.put(&mut waiting);
        assert!(waiting.is_empty());
    }

    #[test]
    fn nothing_is_left_uncounted_at_the_end() {
        let [mut zero, one] = replicas();
        has_a_queue(&zero);
        let mut ring = ring(&one);
        ring.put(&mut batch(0..4));
        let (mut late, mut all) = (batch(4..6), Batch::new());
        zero.close(&mut all);
        ring.put(&mut late);
        assert_eq!((all.len(), late.len(), ring.lost()), (4, 2, 0));
    }

    #[test]
    fn what_a_thread_that_died_was_handed_is_lost() {
        let [zero, one, two] = replicas();
        has_a_queue(&zero);
        let mut ring = ring(&one);
        ring.put(&mut batch(0..4));
        drop(zero);
        let mut late = batch(4..6);
        ring.put(&mut late);
        assert_eq!((late.len(), ring.lost()), (2, 4));
        assert!(two.claim(|| Err::<(), _>(())).is_err());
    }
}
