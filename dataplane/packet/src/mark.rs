//! Marks: packets that watchers follow.
//!
//! A marked packet carries the number of its mark in the byte of its metadata line that selects its
//! pool; elements cannot access that byte. Code that reads it anyway (freeing, lending frames)
//! takes the slow path for a marked packet; an unmarked one costs nothing more.
//!
//! A table of the process holds what is known of a marked packet, by the mark's number, until the
//! packet is freed. A copy of a marked packet is marked too, with its own mark.

use core::cell::RefCell;
use core::num::NonZeroU8;
use std::sync::LazyLock;

use thruway_sync::atomic::{AtomicU64, Ordering};

use crate::meta::Meta;

/// Maximum number of marked packets: the values of seven bits, except the one for "none".
pub const MARKS_MAX: usize = 127;
/// Bits of the byte that say the pool; the mark's number stands above them.
pub(crate) const POOL_BITS: u32 = 1;
/// Ends of marked packets that a thread keeps until it is asked for them.
const ENDS_MAX: usize = 256;

/// What is known of a marked packet.
struct Entry {
    /// Number of the packet, 0 while the mark is free.
    packet: AtomicU64,
    /// The packet that it is a copy of, 0 for none.
    parent: AtomicU64,
    /// The watchers that follow it, one bit each.
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

/// Created at the first mark, so never under loom: loom's atomics cannot be constants.
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
    /// The watchers that followed it, one bit each.
    pub watchers: u64,
}

thread_local! {
    static ENDS: RefCell<Vec<End>> = const { RefCell::new(Vec::new()) };
}

/// The mark of a packet, as long as the packet exists.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Mark(NonZeroU8);

impl Mark {
    /// The mark with the number in the byte.
    #[inline]
    pub(crate) fn of(pool: u8) -> Option<Mark> {
        NonZeroU8::new(pool >> POOL_BITS).map(Mark)
    }

    fn entry(self) -> &'static Entry {
        &TABLE.entries[usize::from(self.0.get()) - 1]
    }

    /// Takes a free mark for a copy of `parent` (0: of none). `None` when all are in use.
    pub(crate) fn claim(parent: u64, watchers: u64) -> Option<Mark> {
        let number = TABLE.numbers.fetch_add(1, Ordering::Relaxed) + 1;
        let claimed = |entry: &Entry| {
            // Acquire: the former packet's owner wrote before the writes here.
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

    /// Its number, where it stands in the byte.
    #[inline]
    pub(crate) fn bits(self) -> u8 {
        self.0.get() << POOL_BITS
    }

    /// Number of the packet: no two marked packets of a process have the same.
    pub fn packet(self) -> u64 {
        self.entry().packet.load(Ordering::Relaxed)
    }

    /// The packet that it is a copy of, 0 for none.
    pub fn parent(self) -> u64 {
        self.entry().parent.load(Ordering::Relaxed)
    }

    /// The watchers that follow it, one bit each.
    pub fn watchers(self) -> u64 {
        self.entry().watchers.load(Ordering::Relaxed)
    }

    /// Lets these follow it, too.
    pub fn add_watchers(self, watchers: u64) {
        self.entry().watchers.fetch_or(watchers, Ordering::Relaxed);
    }

    /// Makes the packet continue under the number (and the parent) of one that it now represents.
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

/// Removes these watchers from all marks.
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

/// Counts a copy that gets no mark.
pub(crate) fn count_unmarked_copy() {
    TABLE.unmarked_copies.fetch_add(1, Ordering::Relaxed);
}

/// Removes the mark of a line when its frame is freed or lent.
#[cold]
pub(crate) fn unmark(meta: &mut Meta) {
    if let Some(mark) = Mark::of(meta.pool) {
        meta.pool &= (1 << POOL_BITS) - 1;
        mark.end();
    }
}
