//! The other threads, as one thread's flow manager knows them: the packets that each can take, and
//! whether some that were handed off are still in flight.

use std::sync::Arc;

use thruway_sync::CachePadded;
use thruway_sync::atomic::{AtomicU64, Ordering};

/// Most threads that can hand packets over to each other: as many as a field of a record's first
/// word can name.
pub const THREADS_MAX: usize = (1 << 12) - 2;

/// How many packets that one thread handed to another one that one is done with. Share it by `Arc`.
pub struct HandoffCounts {
    done: Box<[CachePadded<AtomicU64>]>,
    threads: usize,
}

impl HandoffCounts {
    /// Of so many threads.
    pub fn new(threads: usize) -> HandoffCounts {
        let done = (0..threads * threads).map(|_| CachePadded(AtomicU64::new(0))).collect();
        HandoffCounts { done, threads }
    }

    fn of(&self, from: usize, to: usize) -> &AtomicU64 {
        &self.done[from * self.threads + to].0
    }

    /// Thread `to` is done with `count` more packets that `from` handed it: they were served, there
    /// or where it handed them on.
    pub fn add(&self, (from, to): (usize, usize), count: u64) {
        let done = self.of(from, to);
        // Relaxed: only thread `to` writes it. Release: to the Acquire in `HandoffCounts::count`,
        // so a thread that sees the number sees the changes of the sessions.
        done.store(done.load(Ordering::Relaxed) + count, Ordering::Release);
    }

    /// How many that is.
    pub fn count(&self, (from, to): (usize, usize)) -> u64 {
        self.of(from, to).load(Ordering::Acquire)
    }
}

/// See the module.
pub struct ThreadSet {
    me: u16,
    /// By place among the plan's entries, and thread: whether the thread can take a packet that
    /// came to that entry, and send it on behind it.
    reach: Vec<Vec<bool>>,
    handoffs: Arc<HandoffCounts>,
    /// By thread: packets handed to it.
    sent: Box<[u64]>,
    /// By thread: the packets received from it.
    received: Box<[Received]>,
    /// Packets that were handed over to any.
    pub(super) handed: u64,
}

/// Packets from one thread that it has not been informed of.
#[derive(Clone)]
struct Received {
    count: u64,
    /// By thread: some of them went on to it, and all have arrived when so many have.
    onward: Box<[u64]>,
}

impl ThreadSet {
    /// The view of thread `me`. `reach` is by place among the plan's entries, and thread.
    ///
    /// # Panics
    /// There are more than [`THREADS_MAX`] threads.
    pub fn new(me: usize, reach: Vec<Vec<bool>>, handoffs: Arc<HandoffCounts>) -> ThreadSet {
        assert!(
            me < handoffs.threads && handoffs.threads <= THREADS_MAX,
            "threads that have a number"
        );
        let none = vec![0; handoffs.threads].into_boxed_slice();
        let received = Received { count: 0, onward: none.clone() };
        let received = vec![received; handoffs.threads].into_boxed_slice();
        ThreadSet { me: me as u16, reach, handoffs, sent: none, received, handed: 0 }
    }

    /// The number of the thread itself.
    pub(super) fn me(&self) -> u16 {
        self.me
    }

    /// Whether another thread can take a packet that came to this entry.
    pub(super) fn reaches(&self, entry: u32, to: u16) -> bool {
        let row = self.reach.get(entry as usize);
        row.and_then(|row| row.get(usize::from(to))).copied().unwrap_or(false)
    }

    /// Whether a packet that was handed to this thread is still to be served.
    pub(super) fn has_in_flight(&self, to: u16) -> bool {
        let (from, to) = (usize::from(self.me), usize::from(to));
        self.sent.get(to).is_some_and(|sent| *sent != self.handoffs.count((from, to)))
    }

    /// Records that `count` packets from a thread have been classified; some may have been handed
    /// off to others in the course.
    pub(super) fn took(&mut self, from: usize, count: u64, went_on: bool) {
        let received = &mut self.received[from];
        received.count += count;
        if went_on {
            received.onward.copy_from_slice(&self.sent);
        }
        self.report_served(from);
    }

    /// Reports to a thread that its packets are served, unless some of them are still in flight.
    pub(super) fn report_served(&mut self, from: usize) {
        let (me, received) = (usize::from(self.me), &mut self.received[from]);
        if received.count == 0 {
            return;
        }
        let arrived = |(to, count): (usize, &u64)| self.handoffs.count((me, to)) >= *count;
        if received.onward.iter().enumerate().all(arrived) {
            self.handoffs.add((from, me), std::mem::take(&mut received.count));
        }
    }

    /// A packet goes to this thread.
    pub(super) fn hand(&mut self, to: u16) {
        self.sent[usize::from(to)] += 1;
        self.handed += 1;
    }

    /// So many of them did not.
    pub(super) fn take_back(&mut self, to: u16, count: u64) {
        self.sent[usize::from(to)] -= count;
        self.handed -= count;
    }
}
