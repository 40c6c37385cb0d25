//! One function's place in a chain: shows it the payload of sessions, and keeps the bytes that it
//! holds back.
//!
//! Held-back bytes leave their packet, which goes on without them, and are prepended to the next
//! packet's content. If they may wait for a limited time only, a packet holds them, so that it can
//! go on alone when nothing more comes: then the function sees them for the last time, and a match
//! with the following bytes is missed. So by default there is no time limit, but one of memory: a
//! session that holds back more, or longest when others need the memory, is closed.

mod store;

use std::collections::VecDeque;

use thruway_packet::Packet;
use thruway_payload::{About, Next, Pieces, StreamCursor};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

use crate::content::{HasContent, flag};
use crate::pieces::Run;
use crate::splice::splice;
use store::{FEW, Few, Kept, Store};

/// The state of a session in a stage: the front of the function's scratch.
#[derive(Debug, Clone, Copy, Default, FromBytes, IntoBytes, KnownLayout, Immutable)]
#[repr(C)]
pub struct Memory {
    /// By direction: slot + 1 of the held-back bytes, 0 for none.
    kept: [u32; 2],
    closed: u32,
    reserved: u32,
}

impl Memory {
    /// Whether the function has closed the session.
    pub fn is_closed(&self) -> bool {
        self.closed != 0
    }
}

/// How much may be held back, and how long.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Hold {
    /// Bytes for each session and direction. A session that holds back more is closed; with a time
    /// limit, its held-back bytes are forwarded instead.
    pub max: usize,
    /// Bytes of memory of all sessions: beyond, the one that has held back longest is closed.
    pub total: u64,
    /// Nanoseconds after which they are forwarded, so that a match with the next bytes is missed;
    /// 0: no limit.
    pub time: i64,
}

impl Hold {
    /// Bytes of memory of all sessions by default, in all threads. A quarter of the large frames
    /// that there are by default (512 of 72 kB).
    pub const TOTAL: u64 = 8 << 20;
}

impl Default for Hold {
    /// 32 kB, without limit of time.
    fn default() -> Hold {
        Hold { max: 32 << 10, total: Hold::TOTAL, time: 0 }
    }
}

/// Counters of a stage.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Counts {
    /// Sessions that the function closed.
    pub closed: u64,
    /// Sessions closed because there was no memory for a change or for bytes to hold back.
    pub no_memory: u64,
    /// Times that bytes were held back.
    pub held: u64,
    /// Times that they were let go because nothing came in time.
    pub late: u64,
    /// Times that more was to be held back than may be: the session was closed, or with a limit of
    /// time, the bytes went on.
    pub overheld: u64,
    /// Sessions with held-back bytes that were given up for others: they are closed when more
    /// comes.
    pub evicted: u64,
}

/// See the module.
#[derive(Default)]
pub struct Stage {
    store: Store,
    /// Time, slot and serial, earliest first: all are kept equally long.
    due: VecDeque<(i64, u32, u32)>,
    hold: Hold,
    /// Whether a timer is set for [`Stage::due`]; for the owner of the stage.
    pub is_armed: bool,
    /// Counters.
    pub counts: Counts,
}

/// The call that shows bytes to a function.
pub type Show<'a> = dyn FnMut(&mut StreamCursor<'_>) -> Next + 'a;

impl Stage {
    /// That holds this much.
    pub fn new(hold: Hold) -> Stage {
        Stage { hold, ..Stage::default() }
    }

    /// As one of so many threads: it has its part of the memory.
    pub fn share(&mut self, threads: usize) {
        self.hold.total /= threads.max(1) as u64;
    }

    /// Takes over the bytes that another one held back, with their time limits.
    pub fn take_over(&mut self, before: Stage) {
        *self = Stage { hold: self.hold, is_armed: false, ..before };
    }

    /// Sessions' directions of which bytes are held back.
    pub fn holding(&self) -> usize {
        self.store.len()
    }

    /// Bytes of memory that these hold.
    pub fn memory_bytes(&self) -> u64 {
        self.store.cost()
    }

    /// Whether a packet may follow another in a run that is shown at once.
    pub fn continues(before: &Packet, packet: &Packet) -> bool {
        let (first, second) = (before.content_mark(), packet.content_mark());
        before.fcb() == packet.fcb()
            && first.layer() == second.layer()
            && !first.has(flag::LAST | flag::LATE | flag::CLOSE)
            && !second.has(flag::FIRST | flag::HEAD | flag::LATE | flag::CLOSE)
    }

    /// Shows a function the payload of consecutive packets of one session and direction (at least
    /// one, each with content, see [`Stage::continues`]), and executes its decision.
    pub fn run(
        &mut self,
        memory: &mut Memory,
        packets: &mut [Packet],
        (port, direction, now): (usize, usize, i64),
        show: &mut Show<'_>,
    ) {
        let Some(last) = packets.last().map(HasContent::content_mark) else { return };
        if memory.is_closed() {
            return close(packets);
        }
        if last.has(flag::CLOSE) {
            return;
        }
        let direction = direction & 1;
        let (is_last, is_late) = (last.has(flag::LAST), last.has(flag::LATE));
        let mut run = Run(packets);
        match self.store.take(&mut memory.kept[direction]) {
            Some(Kept::Gone) => return self.end(memory, packets),
            Some(kept) if !run.splice(0, 0, 0, kept.bytes()) => {
                self.counts.no_memory += 1;
                return self.end(memory, packets);
            }
            _ => {}
        }
        let mut cursor = StreamCursor::new(&mut run, About { direction, is_last, is_late, now });
        let next = show(&mut cursor);
        let place = cursor.position();
        if cursor.has_failed() {
            self.counts.no_memory += 1;
            return self.end(memory, packets);
        }
        match next {
            Next::Continue => {}
            Next::Close => {
                self.counts.closed += 1;
                self.end(memory, packets);
            }
            Next::NeedMore if is_last || is_late => {}
            Next::NeedMore => match self.keep(packets, place, port, now) {
                Ok(kept) => memory.kept[direction] = kept,
                Err(Refused::NoMemory) => {
                    self.counts.no_memory += 1;
                    self.end(memory, packets);
                }
                Err(Refused::TooMuch) => self.end(memory, packets),
            },
        }
    }

    /// Has the session end.
    fn end(&mut self, memory: &mut Memory, packets: &mut [Packet]) {
        memory.closed = 1;
        self.forget(memory);
        close(packets);
    }

    /// Frees the held-back bytes of a session that is over.
    pub fn forget(&mut self, memory: &mut Memory) {
        for kept in &mut memory.kept {
            drop(self.store.take(kept));
        }
    }

    /// When the next bytes have to be let go.
    pub fn due(&self) -> Option<i64> {
        self.due.front().map(|(time, ..)| *time)
    }

    /// Expired bytes, as a packet, and the input that it would have come by: pass it to the
    /// function by [`Stage::run`] before it goes on.
    pub fn late(&mut self, now: i64) -> Option<(usize, Packet)> {
        while self.due().is_some_and(|time| time <= now) {
            let (_, at, serial) = self.due.pop_front()?;
            if let Some((port, mut packet)) = self.store.take_late(at, serial) {
                self.counts.late += 1;
                let mut mark = packet.content_mark();
                mark.flags |= flag::LATE;
                packet.set_content_mark(mark);
                return Some((port, packet));
            }
        }
        None
    }

    /// The held-back bytes of a direction.
    pub fn kept(&self, memory: &Memory, direction: usize) -> &[u8] {
        self.store.bytes(memory.kept[direction & 1])
    }

    /// The held-back bytes of a direction, for another host; `None` if it cannot go on with them:
    /// they are many, or leave after a time, or the session is to end.
    pub fn replicable(&self, memory: &Memory, direction: usize) -> Option<&[u8]> {
        let is_lasting = self.hold.time == 0 && !memory.is_closed();
        self.store.few(memory.kept[direction & 1]).filter(|_| is_lasting)
    }

    /// Holds back such bytes of another host, in place of what is held back of a direction.
    ///
    /// # Errors
    /// They are more than can be held back so, or would leave after a time here.
    pub fn restore(
        &mut self,
        memory: &mut Memory,
        direction: usize,
        bytes: &[u8],
    ) -> Result<(), &'static str> {
        drop(self.store.take(&mut memory.kept[direction & 1]));
        if bytes.len() > FEW || self.hold.time > 0 {
            return Err("more bytes are held back than can be here");
        }
        if !bytes.is_empty() {
            let mut few = Few::default();
            few.push(bytes);
            memory.kept[direction & 1] = self.store(Kept::Few(few), 0, 0);
        }
        Ok(())
    }

    /// As [`Stage::late`], for a function that keeps a copy of the bytes that it holds back: a
    /// packet without content, marked as late, and the input. The held-back bytes stay until that
    /// packet comes to [`Stage::run`].
    pub fn remind(&mut self, now: i64) -> Option<(usize, Packet)> {
        while self.due().is_some_and(|time| time <= now) {
            let (_, at, serial) = self.due.pop_front()?;
            let Some((port, packet)) = self.store.late(at, serial) else { continue };
            // Without memory for it, held-back bytes wait for the next packet.
            let Some(mut packet) = packet.duplicate() else { continue };
            let place = packet.content_range();
            let mut mark = packet.content_mark();
            mark.flags = flag::LATE;
            packet.set_content_mark(mark);
            if splice(&mut packet, place.start, place.len(), &[]) {
                self.counts.late += 1;
                return Some((port, packet));
            }
        }
        None
    }

    /// Records that the held-back bytes of a direction came out of [`Stage::late`].
    pub fn let_go(memory: &mut Memory, direction: usize) {
        memory.kept[direction & 1] = 0;
    }

    /// Moves the bytes behind a place out of the packets; returns the slot + 1, 0 if nothing is
    /// kept.
    fn keep(
        &mut self,
        packets: &mut [Packet],
        (piece, at): (usize, usize),
        port: usize,
        now: i64,
    ) -> Result<u32, Refused> {
        let from = |index: usize| if index == piece { at } else { 0 };
        let behind = packets.iter().enumerate().skip(piece);
        let len: usize = behind.map(|(i, packet)| packet.content().len() - from(i)).sum();
        if len == 0 {
            return Ok(0);
        }
        if len > self.hold.max {
            self.counts.overheld += 1;
            return if self.hold.time > 0 { Ok(0) } else { Err(Refused::TooMuch) };
        }
        let kept = match self.hold.time {
            // They are never forwarded alone: no packet is needed for them.
            0 if len <= FEW => Kept::Few(few(packets, piece, at)),
            _ => Kept::Packet(carrier(packets, piece, at).ok_or(Refused::NoMemory)?),
        };
        let count = packets.len();
        let mut run = Run(packets);
        for index in piece..count {
            let len = run.content(index).len() - from(index);
            run.splice(index, from(index), len, &[]);
        }
        self.counts.held += 1;
        Ok(self.store(kept, port, now))
    }

    /// Stores held-back bytes, and gives up the oldest ones if there are too many; returns the slot
    /// + 1.
    fn store(&mut self, kept: Kept, port: usize, now: i64) -> u32 {
        let (at, serial) = self.store.put(kept, port);
        if self.hold.time > 0 {
            self.due.push_back((now.saturating_add(self.hold.time), at, serial));
        }
        while self.store.cost() > self.hold.total && self.store.evict_oldest() {
            self.counts.evicted += 1;
        }
        at + 1
    }
}

/// Why bytes are not held back.
enum Refused {
    NoMemory,
    TooMuch,
}

/// Marks packets so that the context ends the connection instead of passing them on.
fn close(packets: &mut [Packet]) {
    for packet in packets {
        let mut mark = packet.content_mark();
        mark.flags |= flag::CLOSE;
        packet.set_content_mark(mark);
    }
}

/// A packet with the headers of the last one, and the bytes behind a place as its content.
fn carrier(packets: &[Packet], piece: usize, at: usize) -> Option<Packet> {
    let (last, before) = packets.split_last()?;
    let mut kept = last.duplicate()?;
    let mut mark = kept.content_mark();
    if mark.has(flag::HEAD) && !Run(core::slice::from_mut(&mut kept)).set_head(0, &[]) {
        return None;
    }
    mark = kept.content_mark();
    mark.took = 0;
    mark.flags = flag::CHANGED;
    kept.set_content_mark(mark);
    let start = kept.content_range().start;
    if piece == before.len() {
        return splice(&mut kept, start, at, &[]).then_some(kept);
    }
    for (index, packet) in before.iter().enumerate().skip(piece).rev() {
        let from = if index == piece { at } else { 0 };
        if !splice(&mut kept, start, 0, &packet.content()[from..]) {
            return None;
        }
    }
    Some(kept)
}

/// The few bytes behind a place.
fn few(packets: &[Packet], piece: usize, at: usize) -> Few {
    let mut few = Few::default();
    for (index, packet) in packets.iter().enumerate().skip(piece) {
        few.push(&packet.content()[if index == piece { at } else { 0 }..]);
    }
    few
}

#[cfg(test)]
mod tests;
