//! What an element with STREAM does for a function of streams: it shows it the content of packets,
//! and believes nothing of what comes back but content of a length that may be.
//!
//! A packet stays here while the function has its slot; what comes back is put in the place of its
//! content. What the function holds back is kept here, too ([`Stage`]): it is in front of the
//! packet's content when that comes back, as it is in the function, and goes on without the
//! function when that fails.

use thruway_element::{Needs, Next, StreamCursor};
use thruway_exchange::{Mapped, SlotTag, Span, Token};
use thruway_nf_abi::{StreamHead, stream_flag};
use thruway_packet::Packet;
use thruway_stream::content::{HasContent, flag};
use thruway_stream::pieces::{head, headers};
use thruway_stream::stage::{Hold, Memory, Stage};

/// What is known of a session.
#[derive(Debug, Clone, Copy, Default)]
struct Known {
    memory: Memory,
    /// By direction: the generation of the function that has a copy of what is held back.
    given: [u32; 2],
}

/// One thread's streams.
pub(super) struct Streams {
    stage: Stage,
    /// By entry of the session, as far as there were any.
    known: Vec<Known>,
    /// Entries that there can be.
    limit: u32,
    needs: Needs,
    bytes: Vec<u8>,
    /// Whether the packet that was packed last is shown.
    is_shown: bool,
    /// Of the function that runs now: another one for each process, also of another program that
    /// takes these streams over.
    generation: u32,
    /// Answers that cannot be.
    lies: u64,
}

/// What the function answered.
struct Answer {
    is_changed: bool,
    is_closed: bool,
    kept: usize,
    /// Where the content begins in [`Streams::bytes`], if it is changed.
    start: usize,
}

/// An answer that cannot be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Breach;

impl Streams {
    /// Of so many sessions; bytes are held back so long.
    pub fn new(needs: Needs, entries: u32, hold_ns: i64) -> Streams {
        // As much as a slot can hold: what the function keeps is kept here.
        let hold = Hold { max: usize::from(u16::MAX), time: hold_ns, ..Hold::default() };
        Streams {
            stage: Stage::new(hold),
            known: Vec::new(),
            limit: entries,
            needs,
            bytes: Vec::new(),
            is_shown: false,
            generation: 0,
            lies: 0,
        }
    }

    /// Another process has the other end: it has no copies.
    pub fn begin(&mut self) {
        self.generation = self.generation.wrapping_add(1);
    }

    /// What is known of a session. (Entries are given out in their order: this grows with the most
    /// that there were at once, by doubling.)
    fn known(&mut self, entry: Option<u32>) -> Option<&mut Known> {
        let entry = entry.filter(|entry| *entry < self.limit)? as usize;
        if entry >= self.known.len() {
            self.known.resize(entry + 1, Known::default());
        }
        self.known.get_mut(entry)
    }

    fn is_shown(packet: &Packet) -> bool {
        let mark = packet.content_mark();
        mark.is_shown() && !mark.has(flag::CLOSE) && packet.network_offset().is_some()
    }

    /// What goes into the packet's slot.
    pub fn pack(&mut self, mark: SlotTag, entry: Option<u32>, packet: &Packet, now: i64) -> &[u8] {
        self.bytes.clear();
        let mut front = StreamHead { now, ..StreamHead::default() };
        let known = self.known(entry).copied();
        let known = known.filter(|known| Self::is_shown(packet) && !known.memory.is_closed());
        self.is_shown = known.is_some();
        let Some(known) = known else {
            self.bytes.extend(front.to_bytes());
            return &self.bytes;
        };
        let direction = usize::from(mark.direction & 1);
        let headers = headers(packet);
        front.headers = headers.len() as u16; // a start is a u16
        front.message_head = head(packet).map_or(0, <[u8]>::len) as u16;
        front.flags = flags_of(packet);
        let kept = self.stage.kept(&known.memory, direction);
        let is_resent = !kept.is_empty() && known.given[direction] != self.generation;
        if is_resent {
            front.flags |= stream_flag::RESENT;
        }
        self.bytes.extend(front.to_bytes());
        self.bytes.extend_from_slice(headers);
        if is_resent {
            self.bytes.extend_from_slice(kept);
        }
        self.bytes.extend_from_slice(packet.content());
        &self.bytes
    }

    /// The packet that was packed last went into its slot.
    pub fn put(&mut self, mark: SlotTag, entry: Option<u32>) {
        let generation = self.generation;
        if self.is_shown
            && let Some(known) = self.known(entry)
        {
            known.given[usize::from(mark.direction & 1)] = generation;
        }
    }

    /// Makes of a packet what the function left in its slot, which lay at `entered` in its frame.
    /// Whether it goes on: not if it was only a reminder.
    #[must_use]
    pub fn take_back(
        &mut self,
        (mark, entry): (SlotTag, Option<u32>),
        packet: &mut Packet,
        (token, entered): (&Token<'_, Mapped>, u32),
        now: i64,
    ) -> bool {
        let start = StreamHead::LEN + headers(packet).len();
        let len = packet.content().len();
        let fill = |bytes: &mut [u8]| token.copy_to(bytes);
        let answer = self.read(token.span(), (entered, start, len), fill);
        self.follow((mark, entry), packet, answer, now)
    }

    /// Reads an answer to content of `len` bytes that began at `start`.
    fn read(
        &mut self,
        span: Span,
        (entered, start, len): (u32, usize, usize),
        fill: impl FnOnce(&mut [u8]) + Copy,
    ) -> Result<Answer, Breach> {
        let mut front = [0; StreamHead::LEN];
        fill(&mut front);
        let head = StreamHead::from_bytes(front);
        let is_changed = head.flags & stream_flag::CHANGED != 0;
        let is_closed = head.flags & stream_flag::CLOSE != 0;
        let kept = usize::from(head.kept);
        let content = (span.len as usize).checked_sub(start).ok_or(Breach)?;
        let may_be = match (self.needs.resize, is_changed) {
            (true, _) => kept <= content,
            (false, true) => self.needs.change && content == len && kept == 0,
            (false, false) => content == len && kept == 0,
        };
        if span.start != entered || !may_be && !is_closed {
            return Err(Breach);
        }
        if is_changed {
            self.bytes.clear();
            self.bytes.resize(span.len as usize, 0);
            fill(&mut self.bytes);
        }
        Ok(Answer { is_changed, is_closed, kept, start })
    }

    /// Does what the function answered.
    fn follow(
        &mut self,
        (mark, entry): (SlotTag, Option<u32>),
        packet: &mut Packet,
        answer: Result<Answer, Breach>,
        now: i64,
    ) -> bool {
        let _ = self.known(entry); // there is one from now on
        let known = entry.and_then(|entry| self.known.get_mut(entry as usize));
        let Some(known) = known.filter(|_| Self::is_shown(packet)) else { return true };
        if !known.memory.is_closed() && answer.is_err() {
            self.lies += 1;
        }
        let bytes = &self.bytes;
        let mut replay = |cursor: &mut StreamCursor<'_>| match &answer {
            Ok(answer) => answer.replay(bytes, cursor),
            Err(Breach) => Next::Close,
        };
        let direction = usize::from(mark.direction & 1);
        let place = (usize::from(mark.input), direction, now);
        self.stage.run(&mut known.memory, core::slice::from_mut(packet), place, &mut replay);
        known.given[direction] = self.generation;
        !is_empty_reminder(packet)
    }

    /// A packet goes on that the function has not treated. Whether it does: not if it was only a
    /// reminder.
    #[must_use]
    pub fn pass(
        &mut self,
        mark: SlotTag,
        entry: Option<u32>,
        packet: &mut Packet,
        now: i64,
    ) -> bool {
        let unchanged = Answer { is_changed: false, is_closed: false, kept: 0, start: 0 };
        self.follow((mark, entry), packet, Ok(unchanged), now)
    }

    /// A packet is lost, so its connection ends: it goes on to say so. False for one without
    /// content, which may be lost.
    #[must_use]
    pub fn close(
        &mut self,
        mark: SlotTag,
        entry: Option<u32>,
        packet: &mut Packet,
        now: i64,
    ) -> bool {
        let end = Answer { is_changed: false, is_closed: true, kept: 0, start: 0 };
        let is_known = entry.is_some() && Self::is_shown(packet);
        is_known && self.follow((mark, entry), packet, Ok(end), now)
    }

    /// A reminder for what was held back too long, and its input.
    pub fn remind(&mut self, now: i64) -> Option<(usize, Packet)> {
        self.stage.remind(now)
    }

    /// Packets of bytes that are held back.
    pub fn held(&self) -> usize {
        self.stage.holding()
    }

    /// When the next reminder is due, if it has not been asked before.
    pub fn ask_due(&mut self) -> Option<i64> {
        let due = self.stage.due().filter(|_| !self.stage.is_armed)?;
        self.stage.is_armed = true;
        Some(due)
    }

    /// The time has come that [`ask_due`](Self::ask_due) gave.
    pub fn disarm(&mut self) {
        self.stage.is_armed = false;
    }

    /// The session is over, and another one may have its entry.
    pub fn release(&mut self, entry: u32) {
        if let Some(known) = self.known.get_mut(entry as usize) {
            self.stage.forget(&mut known.memory);
            *known = Known::default();
        }
    }

    /// What happened.
    pub fn figure(&self, name: &str) -> Option<u64> {
        let counts = self.stage.counts;
        match name {
            "streams_closed" => {
                Some(counts.closed + counts.no_memory + counts.evicted + counts.overheld)
            }
            "streams_held" => Some(counts.held),
            "streams_late" => Some(counts.late),
            "streams_lies" => Some(self.lies),
            _ => None,
        }
    }
}

impl Answer {
    /// Makes of the content what the function left.
    fn replay(&self, bytes: &[u8], cursor: &mut StreamCursor<'_>) -> Next {
        if self.is_closed {
            return Next::Close;
        }
        if self.is_changed {
            let content = bytes.get(self.start..).unwrap_or_default();
            let all = cursor.remaining();
            let (over, more) = content.split_at(all.min(content.len()));
            cursor.overwrite(over);
            cursor.insert(more);
            cursor.remove(all - over.len());
        }
        if self.kept == 0 {
            return Next::Continue;
        }
        cursor.skip_all();
        cursor.back(self.kept);
        Next::NeedMore
    }
}

fn flags_of(packet: &Packet) -> u8 {
    let mark = packet.content_mark();
    let mut flags = stream_flag::SHOWN;
    for (from, to) in [(flag::LAST, stream_flag::LAST), (flag::LATE, stream_flag::LATE)] {
        flags |= if mark.has(from) { to } else { 0 };
    }
    flags
}

/// Whether a packet was made to carry what was held back, and that had gone on already.
fn is_empty_reminder(packet: &Packet) -> bool {
    let mark = packet.content_mark();
    mark.has(flag::LATE) && mark.took == 0 && packet.content().is_empty()
}

#[cfg(test)]
mod tests;
