//! Functions of streams: the payload of sessions in order, as a cursor sees it.

use std::collections::HashMap;
use std::process::ExitCode;

use thruway_nf_abi::{StreamHead, stream_flag as flag};
use thruway_payload::{About, Next, Pieces, StreamCursor, StreamFunction};
use zerocopy::{FromBytes, FromZeros};

use crate::batch::{Batch, Packet, Verdict};
use crate::config::Config;
use crate::counters::Counter;
use crate::function::{Function, Start};
use crate::rounds::run;
use crate::session::Session;

/// Bytes that are held back of all sessions together, at most; then what is more goes on.
const KEPT_MAX: usize = 32 << 20;

/// Runs a function of streams until its host ends it: the `main` of its program, for an element
/// with STREAM. `make` makes the function; what it gives as an error is what the host shows its
/// user.
pub fn run_stream<F: StreamFunction>(
    name: &'static str,
    make: impl FnOnce(&mut Start<'_>) -> Result<F, String>,
) -> ExitCode {
    run(&Config::stream::<F>(name), |start| {
        let overheld = start.counter("overheld");
        Ok(Streams { overheld, ..Streams::new(make(start)?) })
    })
}

/// A function of streams as a [`Function`], for an element with STREAM: its settings begin with
/// [`Config::stream`]. [`run_stream`] is the short way.
///
/// What it holds back ([`Next::NeedMore`]) is kept in this process, and by the host, too: a process
/// that ends takes nothing with it. A change for which the slot has no room (SLOT_SIZE of the
/// element), like one that was not declared, ends the connection.
pub struct Streams<F: StreamFunction> {
    function: F,
    kept: HashMap<(u32, u8), Vec<u8>>,
    kept_bytes: usize,
    /// Buffers that are not in use.
    spare: Vec<Vec<u8>>,
    /// Times that more was to be held back than may be.
    overheld: Counter,
}

impl<F: StreamFunction> Streams<F> {
    /// With nothing held back.
    pub fn new(function: F) -> Streams<F> {
        let (kept, spare) = (HashMap::new(), Vec::new());
        Streams { function, kept, kept_bytes: 0, spare, overheld: Counter::default() }
    }

    /// Shows the function what a slot holds, and answers in its place.
    fn treat(&mut self, packet: &mut Packet<'_>) {
        let Some(mut head) = head_of(packet.bytes()).filter(|head| head.flags & flag::SHOWN != 0)
        else {
            return;
        };
        let Some(session) = packet.session() else { return };
        let start = StreamHead::LEN + usize::from(head.headers);
        if start > packet.len() {
            return;
        }
        let key = (session, packet.direction() & 1);
        let before = self.take(key);
        let mut slot = Slot { packet, start, message_head: usize::from(head.message_head) };
        let is_resent = head.flags & flag::RESENT != 0;
        let before = before.filter(|_| !is_resent);
        let mut has_failed = false;
        if let Some(bytes) = &before {
            has_failed = !slot.splice(0, 0, 0, bytes);
            head.flags |= flag::CHANGED;
        }
        if has_failed {
            head.flags |= flag::CLOSE;
        } else {
            self.show(&mut head, &mut slot, key);
        }
        self.spare.extend(before);
        if let Some(front) = packet.bytes_mut().first_chunk_mut() {
            *front = head.to_bytes();
        }
    }

    fn show(&mut self, head: &mut StreamHead, slot: &mut Slot<'_, '_>, key: (u32, u8)) {
        let mut state = slot.packet.scratch_bytes().map_or_else(F::State::new_zeroed, |scratch| {
            F::State::read_from_prefix(scratch).map_or_else(|_| F::State::new_zeroed(), |s| s.0)
        });
        let about = About {
            direction: usize::from(key.1),
            is_last: head.flags & flag::LAST != 0,
            is_late: head.flags & flag::LATE != 0,
            now: head.now,
        };
        let mut cursor = StreamCursor::new(slot, about);
        let next = self.function.process(&mut state, &mut cursor);
        let (_, at) = cursor.position();
        if cursor.has_changed() {
            head.flags |= flag::CHANGED;
        }
        if cursor.has_failed() || next == Next::Close {
            head.flags |= flag::CLOSE;
        } else if next == Next::NeedMore && !about.is_last && !about.is_late {
            let rest = slot.content(0).get(at..).unwrap_or_default();
            head.kept = self.keep(key, rest);
        }
        if let Some(scratch) = slot.packet.scratch::<F::State>() {
            *scratch = state;
        }
    }

    fn take(&mut self, key: (u32, u8)) -> Option<Vec<u8>> {
        // PERF: most functions hold nothing back most of the time.
        if self.kept.is_empty() {
            return None;
        }
        let bytes = self.kept.remove(&key)?;
        self.kept_bytes -= bytes.len();
        Some(bytes)
    }

    /// Keeps a copy; how many bytes that are.
    fn keep(&mut self, key: (u32, u8), rest: &[u8]) -> u16 {
        let Ok(len) = u16::try_from(rest.len()) else { return 0 };
        if len == 0 {
            return 0;
        }
        if self.kept_bytes + rest.len() > KEPT_MAX {
            self.overheld.add(1);
            return 0;
        }
        let mut bytes = self.spare.pop().unwrap_or_default();
        bytes.clear();
        bytes.extend_from_slice(rest);
        self.kept_bytes += rest.len();
        self.kept.insert(key, bytes);
        len
    }

    /// The function itself.
    pub fn function(&mut self) -> &mut F {
        &mut self.function
    }
}

fn head_of(bytes: &[u8]) -> Option<StreamHead> {
    bytes.first_chunk().map(|bytes| StreamHead::from_bytes(*bytes))
}

impl<F: StreamFunction> Function for Streams<F> {
    fn batch(&mut self, batch: &mut Batch<'_>) {
        batch.each(|packet| {
            self.treat(packet);
            Verdict::Next(0)
        });
    }

    fn released_session(&mut self, session: &mut Session<'_>) {
        for direction in 0..2 {
            let kept = self.take((session.number(), direction));
            self.spare.extend(kept);
        }
        if let Some(state) = session.scratch::<F::State>() {
            self.function.ended(state);
        }
    }
}

/// The content of one slot.
struct Slot<'a, 'b> {
    packet: &'a mut Packet<'b>,
    /// Where it begins in the packet's bytes.
    start: usize,
    message_head: usize,
}

impl Pieces for Slot<'_, '_> {
    fn count(&self) -> usize {
        1
    }

    #[inline]
    fn content(&self, piece: usize) -> &[u8] {
        let bytes = self.packet.bytes();
        bytes.get(self.start..).filter(|_| piece == 0).unwrap_or_default()
    }

    #[inline]
    fn content_mut(&mut self, piece: usize) -> &mut [u8] {
        let start = self.start;
        let bytes = self.packet.bytes_mut();
        bytes.get_mut(start..).filter(|_| piece == 0).unwrap_or_default()
    }

    fn splice(&mut self, piece: usize, at: usize, len: usize, with: &[u8]) -> bool {
        let total = self.content(piece).len();
        let Some(end) = at.checked_add(len).filter(|end| *end <= total && piece == 0) else {
            return false;
        };
        if with.len() > len && self.packet.extend(with.len() - len).is_none() {
            return false;
        }
        let content = self.content_mut(0);
        content.copy_within(end..total, at + with.len());
        content[at..at + with.len()].copy_from_slice(with);
        if with.len() < len {
            // The head stays in front: it is not empty.
            let _ = self.packet.truncate(self.start + total - (len - with.len()));
        }
        true
    }

    fn headers(&self, piece: usize) -> &[u8] {
        let headers = self.packet.bytes().get(StreamHead::LEN..self.start);
        headers.filter(|_| piece == 0).unwrap_or_default()
    }

    fn head(&self, piece: usize) -> Option<&[u8]> {
        let from = self.start.checked_sub(self.message_head).filter(|at| *at < self.start)?;
        self.packet.bytes().get(from..self.start).filter(|_| piece == 0)
    }
}
