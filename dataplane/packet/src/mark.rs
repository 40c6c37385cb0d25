//! Marks: packets that someone follows on their way.
//!
//! A marked packet carries the number of its mark in the byte of its metadata line that says which
//! pool it is of, where no element reaches it. Whatever looks at that byte already (freeing,
//! lending frames) takes its slow way for a marked packet; an unmarked one pays nothing.
//!
//! What is known of a marked packet stands in a table of the process, by the mark's number, until
//! the packet is freed. A copy of a marked packet is marked too, with a mark of its own.

use core::cell::RefCell;
use core::num::NonZeroU8;
use core::ptr::NonNull;
use std::sync::LazyLock;

use thruway_sync::atomic::{AtomicU64, Ordering};

use crate::cache;
use crate::meta::Meta;
use crate::packet::Packet;
use crate::pool::{self, SMALL, SMALL_FRAME};

/// Packets that can be marked at once: what seven bits number, but for "none".
pub const MARKS_MAX: usize = 127;
/// Bits of the byte that say the pool; the mark's number stands above them.
const POOL_BITS: u32 = 1;
/// Ends of marked packets that a thread keeps until it is asked for them.
const ENDS_MAX: usize = 256;

/// What is known of a marked packet.
struct Entry {
    /// Number of the packet, 0 while the mark is free.
    packet: AtomicU64,
    /// The packet that it is a copy of, 0 for none.
    parent: AtomicU64,
    /// Who follows it, a bit each.
    watchers: AtomicU64,
}

/// All marks of the process.
struct Table {
    entries: [Entry; MARKS_MAX],
    /// Marked packets so far: each has a number of its own.
    numbers: AtomicU64,
    /// Copies of marked packets that got no mark because all were in use.
    unmarked_copies: AtomicU64,
}

/// Made at the first mark (and so never under loom, whose atomics are no constants).
static TABLE: LazyLock<Table> = LazyLock::new(|| Table {
    entries: core::array::from_fn(|_| Entry {
        packet: AtomicU64::new(0),
        parent: AtomicU64::new(0),
        watchers: AtomicU64::new(0),
    }),
    numbers: AtomicU64::new(0),
    unmarked_copies: AtomicU64::new(0),
});

/// The end of a marked packet: its frame was freed, or lent to the kernel to be sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct End {
    /// Number of the packet.
    pub packet: u64,
    /// The packet that it was a copy of, 0 for none.
    pub parent: u64,
    /// Who followed it, a bit each.
    pub watchers: u64,
}

thread_local! {
    static ENDS: RefCell<Vec<End>> = const { RefCell::new(Vec::new()) };
}

/// The mark of a packet, as long as the packet is there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Mark(NonZeroU8);

impl Mark {
    /// The mark whose number stands in the byte.
    #[inline]
    fn of(pool: u8) -> Option<Mark> {
        NonZeroU8::new(pool >> POOL_BITS).map(Mark)
    }

    fn entry(self) -> &'static Entry {
        &TABLE.entries[usize::from(self.0.get()) - 1]
    }

    /// Takes a free mark for a copy of `parent` (0: of none). `None` when all are in use.
    fn claim(parent: u64, watchers: u64) -> Option<Mark> {
        let number = TABLE.numbers.fetch_add(1, Ordering::Relaxed) + 1;
        let claimed = |entry: &Entry| {
            // Acquire: what the former packet's owner wrote comes before what is written here.
            let taken =
                entry.packet.compare_exchange(0, number, Ordering::Acquire, Ordering::Relaxed);
            taken.is_ok()
        };
        let at = TABLE.entries.iter().position(claimed)?;
        // Relaxed: the packet's owner is the only one to read them before it hands the packet over.
        TABLE.entries[at].parent.store(parent, Ordering::Relaxed);
        TABLE.entries[at].watchers.store(watchers, Ordering::Relaxed);
        NonZeroU8::new(at as u8 + 1).map(Mark)
    }

    /// Number of the packet: no two marked packets of a process have the same.
    pub fn packet(self) -> u64 {
        self.entry().packet.load(Ordering::Relaxed)
    }

    /// The packet that it is a copy of, 0 for none.
    pub fn parent(self) -> u64 {
        self.entry().parent.load(Ordering::Relaxed)
    }

    /// Who follows it, a bit each.
    pub fn watchers(self) -> u64 {
        self.entry().watchers.load(Ordering::Relaxed)
    }

    /// Lets these follow it, too.
    pub fn add_watchers(self, watchers: u64) {
        self.entry().watchers.fetch_or(watchers, Ordering::Relaxed);
    }

    /// Lets the packet go on under the number (and the parent) of one that it stands for from now
    /// on.
    pub fn stand_for(self, packet: u64, parent: u64) {
        self.entry().parent.store(parent, Ordering::Relaxed);
        self.entry().packet.store(packet, Ordering::Relaxed);
    }

    /// Frees the mark, and remembers the packet's end for this thread.
    fn end(self) {
        let entry = self.entry();
        let end = End { packet: self.packet(), parent: self.parent(), watchers: self.watchers() };
        // Release: see `claim`.
        entry.packet.store(0, Ordering::Release);
        // A thread that is ending reports no more.
        let _ = ENDS.try_with(|ends| {
            let mut ends = ends.borrow_mut();
            if ends.len() < ENDS_MAX {
                ends.push(end);
            }
        });
    }
}

/// Nobody of these follows any packet any more.
pub fn forget_watchers(watchers: u64) {
    for entry in &TABLE.entries {
        entry.watchers.fetch_and(!watchers, Ordering::Relaxed);
    }
}

/// Hands the ends of marked packets in this thread since the last call to `report`, oldest first.
pub fn take_ends(mut report: impl FnMut(End)) {
    let _ = ENDS.try_with(|ends| ends.borrow_mut().drain(..).for_each(&mut report));
}

/// Copies of marked packets so far that got no mark because all were in use.
pub fn unmarked_copies() -> u64 {
    TABLE.unmarked_copies.load(Ordering::Relaxed)
}

/// Takes the mark off a line whose frame is freed or lent.
#[cold]
pub(crate) fn unmark(meta: &mut Meta) {
    if let Some(mark) = Mark::of(meta.pool) {
        meta.pool &= (1 << POOL_BITS) - 1;
        mark.end();
    }
}

/// Gives back a large frame, or that of a marked packet.
#[cold]
pub(crate) fn release(mut meta: NonNull<Meta>) {
    // JUSTIFICATION: the line is reached by pointer.
    // SAFETY: the caller owned the frame and gave it up to be freed here, so this is its only user;
    // its line is initialised.
    let line = unsafe { meta.as_mut() };
    unmark(line);
    cache::release_to(line.pool, meta);
}

impl Packet {
    /// Whether its frame, which is going to leave the packet, is a small one; if so a mark ends.
    #[inline]
    pub(crate) fn leaves_small(&mut self) -> bool {
        self.meta().pool == SMALL || self.leaves_small_marked()
    }

    #[cold]
    fn leaves_small_marked(&mut self) -> bool {
        let is_small = pool::frame_size(self.meta().pool) == SMALL_FRAME;
        if is_small {
            unmark(self.meta_mut());
        }
        is_small
    }

    /// Whether someone follows it.
    #[inline]
    pub fn is_marked(&self) -> bool {
        self.meta().pool >> POOL_BITS != 0
    }

    /// Its mark, if someone follows it.
    #[inline]
    pub fn mark(&self) -> Option<Mark> {
        Mark::of(self.meta().pool)
    }

    /// Lets these follow it from now on; `None` when so many packets are marked that there is no
    /// mark left.
    pub fn follow(&mut self, watchers: u64) -> Option<Mark> {
        if let Some(mark) = self.mark() {
            mark.add_watchers(watchers);
            return Some(mark);
        }
        let mark = Mark::claim(0, watchers)?;
        self.meta_mut().pool |= mark.0.get() << POOL_BITS;
        Some(mark)
    }

    /// Marks this packet, a copy of a marked one.
    #[cold]
    pub(crate) fn mark_copy(&mut self, of: Mark) {
        if self.is_marked() {
            return;
        }
        match Mark::claim(of.packet(), of.watchers()) {
            Some(mark) => self.meta_mut().pool |= mark.0.get() << POOL_BITS,
            None => _ = TABLE.unmarked_copies.fetch_add(1, Ordering::Relaxed),
        }
    }

    /// Takes over the mark of a packet whose bytes moved here.
    pub(crate) fn take_mark(&mut self, from: &mut Packet) {
        let pool = &mut from.meta_mut().pool;
        let mark = *pool & !((1 << POOL_BITS) - 1);
        *pool &= (1 << POOL_BITS) - 1;
        self.meta_mut().pool |= mark;
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use super::*;
    use crate::batch::Batch;
    use crate::lend::Lending;

    /// The table is the process's: one test at a time.
    static TURN: Mutex<()> = Mutex::new(());

    fn packet() -> Packet {
        Packet::new(&[7; 60]).expect("memory")
    }

    fn ends() -> Vec<u64> {
        let mut ends = Vec::new();
        take_ends(|end| ends.push(end.packet));
        ends
    }

    #[test]
    fn a_mark_lasts_as_long_as_its_packet() {
        let _turn = TURN.lock();
        let mut one = packet();
        assert!(!one.is_marked());
        let mark = one.follow(1).expect("a mark");
        let number = mark.packet();
        one.follow(4).expect("the same mark");
        assert_eq!((one.mark(), mark.watchers(), mark.parent()), (Some(mark), 5, 0));
        assert_eq!(one.data(), [7; 60]);
        let _ = ends();
        drop(one);
        assert_eq!(ends(), [number]);
        // The frame that was freed last is taken first, without a mark.
        let two = packet();
        assert!(!two.is_marked());
        assert_eq!(two.tailroom(), crate::SMALL_FRAME - 128 - 60);
    }

    #[test]
    fn copies_have_marks_of_their_own_and_moves_take_theirs_along() {
        let _turn = TURN.lock();
        let mut one = packet();
        let number = one.follow(2).expect("a mark").packet();
        let copy = one.duplicate().expect("memory");
        let mark = copy.mark().expect("a mark");
        assert_eq!((mark.parent(), mark.watchers()), (number, 2));
        assert_ne!(mark.packet(), number);
        let mut piece = packet();
        piece.copy_annotations(&one);
        assert_eq!(piece.mark().map(Mark::parent), Some(number));
        let _ = ends();
        // To another, larger frame.
        assert!(one.push(3000) && one.put(3000));
        assert_eq!(one.mark().map(Mark::packet), Some(number));
        assert!(one.tailroom() < crate::LARGE_FRAME && ends().is_empty());
        drop((one, copy, piece));
        assert_eq!(ends().len(), 3);
    }

    #[test]
    fn batches_and_lent_frames_end_marks() {
        let _turn = TURN.lock();
        let mut batch: Batch = (0..10).map(|_| packet()).collect();
        let numbers: Vec<u64> = batch
            .iter_mut()
            .filter_map(|packet| packet.follow(1).map(Mark::packet))
            .step_by(1)
            .collect();
        let _ = ends();
        batch.clear();
        assert_eq!(ends(), numbers);
        let mut one = packet();
        let number = one.follow(1).expect("a mark").packet();
        let mut lending = Lending::new();
        let offset = lending.lend(one).expect("a small frame");
        assert_eq!(ends(), [number]);
        assert!(!lending.take_back(offset, 60).expect("it was lent").is_marked());
    }

    #[test]
    fn when_all_marks_are_in_use_packets_stay_unmarked() {
        let _turn = TURN.lock();
        let mut packets: Vec<Packet> = (0..MARKS_MAX).map(|_| packet()).collect();
        assert!(packets.iter_mut().all(|packet| packet.follow(1).is_some()));
        let before = unmarked_copies();
        let mut more = packet();
        assert!(more.follow(1).is_none() && !more.is_marked());
        assert!(!packets[0].duplicate().expect("memory").is_marked());
        assert_eq!(unmarked_copies(), before + 1);
        forget_watchers(1);
        assert!(packets.iter().all(|packet| packet.mark().is_some_and(|m| m.watchers() == 0)));
        packets.pop();
        assert!(more.follow(2).is_some());
    }
}
