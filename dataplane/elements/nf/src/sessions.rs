//! Sessions of an isolated function: which entry of its arena each has, and what the function knows
//! of it.
//!
//! An entry is free, has a session, or had one whose end the function is still to be told (or is
//! being told: the news are in the ring). Only when the news are back, behind all of the session's
//! packets, is it free again: the function never sees two sessions in one entry.

use std::sync::Arc;

use thruway_element::{Cx, Direction, Opening, PerSession, Reason, Session, Verdict};
use thruway_exchange::{Arena, SlotTag};
use thruway_flow::Fcb;
use thruway_nf_abi::SlotHead;
use thruway_packet::{Batch, MAX_BATCH, Packet};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

use changes::Changes;

use super::lost::Lost;
use super::streams::Streams;

mod changes;
mod imported;

/// The flow manager's state of a session: where the function's is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable)]
#[repr(C)]
pub(super) struct SessionEntry {
    /// Entry of this thread's.
    entry: u32,
    /// Whose entry: sessions may come from a configuration that had others.
    epoch: u32,
}

/// Entries in a row, linked by [`Entries::next`]; 0 is none, so an entry's number is one more.
#[derive(Debug, Clone, Copy, Default)]
struct Queue {
    first: u32,
    last: u32,
}

/// One thread's entries.
pub(super) struct Entries {
    /// The first in the arena.
    first: u32,
    epoch: u32,
    /// From here on none was ever used.
    fresh: u32,
    next: Box<[u32]>,
    /// A bit for each: the function was told that the session begins.
    announced: Box<[u64]>,
    /// A bit for each: the scratch is another host's, and no packet of the session has come here
    /// since it was imported. None while nothing was imported.
    imported: Box<[u64]>,
    /// Which sessions had packets, where their scratch is sent to another host.
    changes: Option<Box<Changes>>,
    free: Queue,
    /// Sessions that have ended, of which the function is to be told.
    ended: Queue,
    arena: Option<Arc<Arena>>,
    /// Those of the batch in hand, and the input that it came by.
    marks: Vec<SlotTag>,
    input: u8,
    one: Batch,
    /// Of a function of streams.
    pub streams: Option<Box<Streams>>,
}

impl Entries {
    /// `count` free entries from `first` on. `epoch` is not that of the element's predecessor.
    pub fn new(first: u32, count: u32, epoch: u32) -> Entries {
        Entries {
            first,
            epoch,
            fresh: 0,
            next: vec![0; count as usize].into_boxed_slice(),
            announced: vec![0; count.div_ceil(64) as usize].into_boxed_slice(),
            imported: Box::default(),
            changes: None,
            free: Queue::default(),
            ended: Queue::default(),
            arena: None,
            marks: Vec::with_capacity(MAX_BATCH),
            input: 0,
            one: Batch::with_room(),
            streams: None,
        }
    }

    /// See [`Entries::new`].
    pub fn first(&self) -> u32 {
        self.first
    }

    /// See [`Entries::new`].
    pub fn epoch(&self) -> u32 {
        self.epoch
    }

    /// The memory of the function that runs now. Another one than before: it knows no session.
    pub fn set_arena(&mut self, arena: Option<Arc<Arena>>) {
        let same = match (&self.arena, &arena) {
            (Some(before), Some(now)) => Arc::ptr_eq(before, now),
            (before, now) => before.is_none() && now.is_none(),
        };
        if !same {
            self.announced.fill(0);
            self.imported.fill(0);
        }
        self.arena = arena;
    }

    /// Finds the mark of each packet of a batch; those whose sessions have no room are dropped.
    #[inline]
    pub fn mark(&mut self, cx: &mut Cx<'_>, input: u8, batch: &mut Batch) {
        self.marks.clear();
        self.input = input;
        cx.per_session(self, batch);
    }

    /// The same for one packet; `None` when it was dropped.
    #[inline]
    pub fn mark_one(
        &mut self,
        cx: &mut Cx<'_>,
        input: u8,
        packet: Packet,
    ) -> Option<(SlotTag, Packet)> {
        let mut one = std::mem::take(&mut self.one);
        one.push(packet);
        self.mark(cx, input, &mut one);
        let packet = one.pop();
        self.one = one;
        Some((self.mark_of(0)?, packet?))
    }

    /// Forgets the batch before.
    pub fn unmark(&mut self) {
        self.marks.clear();
    }

    /// The mark of the `nth` packet of the batch that was marked.
    #[inline]
    pub fn mark_of(&self, nth: usize) -> Option<SlotTag> {
        self.marks.get(nth).copied()
    }

    fn take(&mut self) -> Option<SessionEntry> {
        let entry = match self.free.pop(&mut self.next) {
            Some(entry) => entry,
            None if (self.fresh as usize) < self.next.len() => {
                self.fresh += 1;
                self.fresh - 1
            }
            None => return None,
        };
        Some(SessionEntry { entry, epoch: self.epoch })
    }

    /// The entry of a mark.
    #[inline]
    pub fn entry_of(&self, mark: SlotTag) -> Option<u32> {
        let entry = mark.fcb.checked_sub(self.first)?;
        (entry < self.fresh).then_some(entry)
    }

    #[inline]
    fn is_announced(&self, entry: u32) -> bool {
        self.announced[entry as usize / 64] & 1 << (entry % 64) != 0
    }

    /// The mark as it goes to the function now: a session that it does not know yet has scratch of
    /// zeros.
    #[inline]
    pub fn ready(&self, mark: SlotTag) -> SlotTag {
        let Some(entry) = self.entry_of(mark) else { return mark };
        let Some(arena) = &self.arena else { return SlotTag { fcb: SlotHead::NO_SESSION, ..mark } };
        if self.is_announced(entry) || self.is_imported(entry) {
            return mark;
        }
        arena.clear(mark.fcb);
        mark.new_session()
    }

    /// A packet with this mark was handed over.
    #[inline]
    pub fn put(&mut self, mark: SlotTag) {
        if (mark.is_new() || !self.imported.is_empty())
            && let Some(entry) = self.entry_of(mark)
        {
            self.announced[entry as usize / 64] |= 1 << (entry % 64);
            self.clear_imported(entry);
        }
    }

    /// The packet by which the function was to hear of the session was lost with its process.
    pub fn forget(&mut self, fcb: u32) {
        if let Some(entry) = self.entry_of(SlotTag::of(0, 0, fcb)) {
            self.announced[entry as usize / 64] &= !(1 << (entry % 64));
        }
    }

    /// A session has ended.
    pub fn end(&mut self, entry: &SessionEntry) {
        // One of other entries has none here.
        if entry.epoch == self.epoch && entry.entry < self.fresh {
            self.ended.push(&mut self.next, entry.entry);
        }
    }

    /// The news of an end did not reach the function: they are to be told again.
    pub fn end_again(&mut self, fcb: u32) {
        if let Some(entry) = self.entry_of(SlotTag::of(0, 0, fcb)) {
            self.ended.push(&mut self.next, entry);
        }
    }

    /// Takes out the ended session of which the function is to be told next: its index in the
    /// arena.
    pub fn next_ended(&mut self) -> Option<u32> {
        Some(self.first + self.ended.pop(&mut self.next)?)
    }

    /// Puts that one back: the function cannot be told now.
    pub fn end_first(&mut self, fcb: u32) {
        if let Some(entry) = self.entry_of(SlotTag::of(0, 0, fcb)) {
            self.ended.push_front(&mut self.next, entry);
        }
    }

    /// Whether the function was told that this session begins.
    pub fn knows(&self, fcb: u32) -> bool {
        self.entry_of(SlotTag::of(0, 0, fcb)).is_some_and(|entry| self.is_announced(entry))
    }

    /// Bytes of a session's scratch, once the function has told them.
    pub fn record_len(&self) -> Option<usize> {
        self.arena.as_ref().map(|arena| arena.scratch_len() as usize)
    }

    /// Copies the scratch of a session; whether the function was told that it begins.
    pub fn copy_record(&self, entry: &SessionEntry, record: &mut [u8]) -> Option<bool> {
        let is_own = entry.epoch == self.epoch && entry.entry < self.fresh;
        let arena = self.arena.as_ref().filter(|_| is_own)?;
        let is_copied = arena.copy_out(self.first + entry.entry, record);
        is_copied.then(|| self.is_announced(entry.entry) || self.is_imported(entry.entry))
    }

    /// Takes a session in that another function had, with its scratch. Of a function that keeps
    /// more the rest is zeros.
    pub fn take_record(&mut self, record: &[u8], is_known: bool) -> Option<SessionEntry> {
        let arena =
            self.arena.clone().filter(|arena| arena.scratch_len() as usize >= record.len())?;
        let entry = self.take()?;
        if !arena.copy_in(self.first + entry.entry, record) {
            self.free.push(&mut self.next, entry.entry);
            return None;
        }
        if is_known {
            self.announced[entry.entry as usize / 64] |= 1 << (entry.entry % 64);
        }
        Some(entry)
    }

    /// Another function has the session now, and this one has no packet of it.
    pub fn leave(&mut self, entry: &SessionEntry) {
        if entry.epoch == self.epoch && entry.entry < self.fresh {
            self.release(self.first + entry.entry);
        }
    }

    /// The function has nothing of this session any more.
    pub fn release(&mut self, fcb: u32) {
        self.forget(fcb);
        if let Some(entry) = self.entry_of(SlotTag::of(0, 0, fcb)) {
            self.clear_imported(entry);
            self.streams.iter_mut().for_each(|streams| streams.release(entry));
            self.free.push(&mut self.next, entry);
        }
    }
}

impl Queue {
    fn push(&mut self, next: &mut [u32], entry: u32) {
        next[entry as usize] = 0;
        match self.last.checked_sub(1) {
            Some(last) => next[last as usize] = entry + 1,
            None => self.first = entry + 1,
        }
        self.last = entry + 1;
    }

    fn push_front(&mut self, next: &mut [u32], entry: u32) {
        next[entry as usize] = self.first;
        self.first = entry + 1;
        if self.last == 0 {
            self.last = entry + 1;
        }
    }

    fn pop(&mut self, next: &mut [u32]) -> Option<u32> {
        let entry = self.first.checked_sub(1)?;
        self.first = next[entry as usize];
        if self.first == 0 {
            self.last = 0;
        }
        Some(entry)
    }
}

impl PerSession for Entries {
    type State = SessionEntry;

    fn open(
        &mut self,
        _opening: &mut Opening<'_>,
        _packet: &mut Packet,
        state: &mut SessionEntry,
    ) -> Result<(), Reason> {
        *state = self.take().ok_or(Lost::NoEntry)?;
        Ok(())
    }

    #[inline]
    fn each(&mut self, packet: &mut Packet, session: &mut Session<'_, SessionEntry>) -> Verdict {
        if session.state.epoch != self.epoch {
            let Some(entry) = self.take() else { return Verdict::drop(Lost::NoEntry) };
            *session.state = entry;
        }
        if let Some(changes) = &mut self.changes {
            changes.note(session.state.entry, Fcb(packet.fcb()));
        }
        let direction = u8::from(session.direction == Direction::Reply);
        self.marks.push(SlotTag::of(self.input, direction, self.first + session.state.entry));
        Verdict::Pass
    }

    #[inline]
    fn without(&mut self, _packet: &mut Packet) -> Verdict {
        self.marks.push(SlotTag { input: self.input, ..SlotTag::NONE });
        Verdict::Pass
    }
}

#[cfg(test)]
mod tests;
