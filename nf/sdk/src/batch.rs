//! A batch and its packets.

use std::ops::Range;

use thruway_exchange::{Aside, Current, Mapped, MasterBell, NoRoom, Outgoing, Worker};
use thruway_nf_abi::control::Figure;
use thruway_nf_abi::{SlotHead, flag};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

use crate::cx::FunctionState;
use crate::not_sent::NotSent;
use crate::room::Wait;
use crate::timers::Timer;

/// What becomes of a packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use = "a packet needs its verdict: give it back from the closure"]
pub enum Verdict {
    /// It leaves by this output. (If the element has no such output it is dropped, and counted as
    /// `no-such-output`.)
    Next(u8),
    /// It ends here.
    Drop,
}

/// Packets that wait, in their order.
pub struct Batch<'a> {
    pub(crate) worker: &'a mut Worker<Mapped>,
    pub(crate) state: &'a mut FunctionState,
    pub(crate) left: u32,
    prefetch: u32,
    bell: MasterBell<'a>,
}

impl<'a> Batch<'a> {
    #[inline]
    pub(crate) fn new(
        (worker, bell): (&'a mut Worker<Mapped>, MasterBell<'a>),
        state: &'a mut FunctionState,
        len: u32,
        prefetch: u32,
    ) -> Batch<'a> {
        for nth in 0..prefetch.min(len) {
            worker.prefetch(nth);
        }
        Batch { worker, state, left: len, prefetch, bell }
    }

    /// Packets that are left.
    #[inline]
    pub fn len(&self) -> usize {
        self.left as usize
    }

    /// Whether none is left.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.left == 0
    }

    /// Takes each packet and carries out the verdict on it.
    #[inline]
    pub fn each(&mut self, mut treat: impl FnMut(&mut Packet<'_>) -> Verdict) {
        while let Some(mut packet) = self.open() {
            let verdict = treat(&mut packet);
            packet.judge(verdict);
            self.close();
        }
    }

    /// The first packet that is left, without a verdict. A way for bindings to other languages:
    /// [`Packet::judge`] and [`close`](Self::close) follow.
    #[inline]
    pub fn open(&mut self) -> Option<Packet<'_>> {
        if self.left == 0 {
            return None;
        }
        let current = self.worker.current()?;
        Some(Packet { current, state: self.state, bell: self.bell })
    }

    /// Is done with the first packet: as it was judged, or unchanged by output 0.
    #[inline]
    pub fn close(&mut self) {
        if self.left == 0 {
            return;
        }
        self.left -= 1;
        self.worker.advance(1);
        if self.left >= self.prefetch && self.prefetch > 0 {
            self.worker.prefetch(self.prefetch - 1);
        }
    }

    /// The `nth` packet that is left, to be looked at. A way for bindings to other languages.
    pub fn peek(&mut self, nth: usize) -> Option<Peek<'_>> {
        let nth = u32::try_from(nth).ok().filter(|nth| *nth < self.left)?;
        let head = self.worker.head(nth);
        let start = usize::from(head.start);
        let frame = self.worker.frame(nth, &head);
        Some(Peek {
            bytes: frame.get(start..start + usize::from(head.len)).unwrap_or_default(),
            input: usize::from(head.input),
            direction: head.direction,
            session: (head.fcb != SlotHead::NO_SESSION).then_some(head.fcb),
            headroom: start,
        })
    }

    /// Sends another packet in consequence of the first one that is left, its bytes in two parts.
    /// A way for bindings to other languages; see [`Packet::emit`].
    ///
    /// # Errors
    /// [`NotSent`]; also when no packet is left.
    pub fn emit(&mut self, output: u8, parts: [&[u8]; 2]) -> Result<(), NotSent> {
        let mut packet = self.open().ok_or(NotSent::Output)?;
        let sent = packet.send(output, parts);
        packet.current.close();
        sent
    }

    /// Sends a packet that has nothing to do with this batch: it leaves when it can.
    ///
    /// # Errors
    /// [`NotSent`].
    pub fn inject(&mut self, output: u8, bytes: &[u8]) -> Result<(), NotSent> {
        if !self.state.has_output(output) {
            return Err(NotSent::Output);
        }
        let to = Outgoing { output, fcb: SlotHead::NO_SESSION };
        self.worker
            .inject(to, [bytes, &[]])
            .map_err(|no_room| self.state.refused(no_room, Figure::InjectionFull))
    }

    /// A session's scratch as bytes.
    pub fn scratch_bytes(&mut self, session: u32) -> Option<&mut [u8]> {
        self.state.arena.as_mut()?.session(session)
    }

    /// Nanoseconds of the system's monotonic clock, the same for all of the batch.
    #[inline]
    pub fn now_ns(&mut self) -> u64 {
        self.state.clock.now_ns()
    }

    /// Sets a timer that goes off every so often.
    pub fn every(&mut self, period: std::time::Duration) -> Timer {
        self.state.every(period)
    }

    /// Sets a timer that goes off once.
    pub fn after(&mut self, duration: std::time::Duration) -> Timer {
        self.state.after(duration)
    }

    /// Unsets a timer. False when it was not set any more.
    pub fn cancel(&mut self, timer: Timer) -> bool {
        self.state.timers.cancel(timer)
    }

    /// Is done with all that is left, unchanged.
    #[inline]
    pub(crate) fn finish(self) {
        self.worker.advance(self.left);
    }
}

/// A packet that waits behind others.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Peek<'a> {
    /// Its bytes, from the link header on.
    pub bytes: &'a [u8],
    /// As [`Packet::input`].
    pub input: usize,
    /// As [`Packet::direction`].
    pub direction: u8,
    /// As [`Packet::session`].
    pub session: Option<u32>,
    /// As [`Packet::headroom`].
    pub headroom: usize,
}

/// A packet in its slot.
pub struct Packet<'a> {
    current: Current<'a, Mapped>,
    state: &'a mut FunctionState,
    bell: MasterBell<'a>,
}

impl Packet<'_> {
    #[inline]
    fn range(&self) -> Range<usize> {
        let start = usize::from(self.current.head.start);
        start..start + usize::from(self.current.head.len)
    }

    /// Its bytes, from the link header on.
    #[inline]
    pub fn bytes(&self) -> &[u8] {
        self.current.frame().get(self.range()).unwrap_or_default()
    }

    /// Its bytes, to be changed in place. (A packet that is only looked at is best looked at by
    /// [`bytes`](Self::bytes): the host then need not take its bytes back.)
    #[inline]
    pub fn bytes_mut(&mut self) -> &mut [u8] {
        let range = self.range();
        self.current.frame_mut().get_mut(range).unwrap_or_default()
    }

    /// Length in bytes.
    #[inline]
    #[allow(clippy::len_without_is_empty, reason = "no packet is empty")]
    pub fn len(&self) -> usize {
        usize::from(self.current.head.len)
    }

    /// Bytes by which it can grow at its beginning.
    #[inline]
    pub fn headroom(&self) -> usize {
        usize::from(self.current.head.start)
    }

    /// Bytes by which it can grow at its end.
    #[inline]
    pub fn tailroom(&self) -> usize {
        self.current.frame().len().saturating_sub(self.range().end)
    }

    /// Grows it at its beginning and gives the new bytes, whatever they hold. `None`, and nothing
    /// done, when there is no head room.
    #[inline]
    pub fn push(&mut self, count: usize) -> Option<&mut [u8]> {
        let head = &mut self.current.head;
        let added = u16::try_from(count).ok()?;
        let start = head.start.checked_sub(added)?;
        head.len = head.len.checked_add(added)?;
        head.start = start;
        self.bytes_mut().get_mut(..count)
    }

    /// Takes bytes from its beginning. False, and nothing done, when none would be left.
    #[inline]
    #[must_use = "false says that nothing was done"]
    pub fn pull(&mut self, count: usize) -> bool {
        if count >= self.len() {
            return false;
        }
        self.current.change();
        // Less than the length, which is a u16; the end does not move.
        self.current.head.start += count as u16;
        self.current.head.len -= count as u16;
        true
    }

    /// Cuts its end off. False, and nothing done, when `len` is 0 or more than it has.
    #[inline]
    #[must_use = "false says that nothing was done"]
    pub fn truncate(&mut self, len: usize) -> bool {
        if len == 0 || len > self.len() {
            return false;
        }
        self.current.change();
        self.current.head.len = len as u16;
        true
    }

    /// Grows it at its end and gives the new bytes, whatever they hold. `None`, and nothing done,
    /// when there is no room.
    #[inline]
    pub fn extend(&mut self, count: usize) -> Option<&mut [u8]> {
        if count > self.tailroom() {
            return None;
        }
        let before = self.len();
        self.current.head.len = u16::try_from(before + count).ok()?;
        self.bytes_mut().get_mut(before..)
    }

    /// Input of the element that it came in by.
    #[inline]
    pub fn input(&self) -> usize {
        usize::from(self.current.head.input)
    }

    /// 0 or 1: which way of its connection, where the host knows connections.
    #[inline]
    pub fn direction(&self) -> u8 {
        self.current.head.direction
    }

    /// Number of its session, where the host knows sessions.
    #[inline]
    pub fn session(&self) -> Option<u32> {
        let session = self.current.head.fcb;
        (session != SlotHead::NO_SESSION).then_some(session)
    }

    /// Scratch of its session as a `T`, zero at first, of which
    /// [`Config::scratch_len`](crate::Config::scratch_len) is the size. `None` when the packet has
    /// no session, or a `T` is larger or needs an alignment of more than 8.
    #[inline]
    pub fn scratch<T>(&mut self) -> Option<&mut T>
    where
        T: FromBytes + IntoBytes + KnownLayout + Immutable,
    {
        self.state.scratch(self.current.head.fcb)
    }

    /// Its bytes and its session's scratch at once.
    #[inline]
    pub fn bytes_and_scratch<T>(&mut self) -> (&mut [u8], Option<&mut T>)
    where
        T: FromBytes + IntoBytes + KnownLayout + Immutable,
    {
        let (range, session) = (self.range(), self.current.head.fcb);
        let bytes = self.current.frame_mut().get_mut(range).unwrap_or_default();
        (bytes, self.state.scratch(session))
    }

    /// Scratch of its session as bytes.
    #[inline]
    pub fn scratch_bytes(&mut self) -> Option<&mut [u8]> {
        self.state.arena.as_mut()?.session(self.current.head.fcb)
    }

    /// Sends another packet in consequence of this one: it leaves after this one and before the
    /// next, also when this one is dropped.
    ///
    /// # Errors
    /// [`NotSent`].
    #[inline]
    pub fn emit(&mut self, output: u8, bytes: &[u8]) -> Result<(), NotSent> {
        self.emit_part(output, bytes, 0..0)
    }

    /// Sends a copy of this packet as it is now, in consequence of it.
    ///
    /// # Errors
    /// [`NotSent`].
    #[inline]
    pub fn emit_copy(&mut self, output: u8) -> Result<(), NotSent> {
        self.emit_part(output, &[], 0..self.len())
    }

    /// Sends a packet made of `front` and a part of this one's bytes, in consequence of it.
    ///
    /// # Errors
    /// [`NotSent`]; also when the packet does not have the part.
    pub fn emit_part(
        &mut self,
        output: u8,
        front: &[u8],
        part: Range<usize>,
    ) -> Result<(), NotSent> {
        if !self.state.has_output(output) {
            return Err(NotSent::Output);
        }
        let range = self.range();
        let to = Outgoing { output, fcb: self.current.head.fcb };
        let (frame, aside) = self.current.split();
        let bytes = frame.get(range).unwrap_or_default();
        let part = bytes.get(part).ok_or(NotSent::Length)?;
        emit(aside, (self.state, self.bell), to, [front, part])
    }

    /// Sends a packet in consequence of this one, its bytes in two parts.
    fn send(&mut self, output: u8, parts: [&[u8]; 2]) -> Result<(), NotSent> {
        if !self.state.has_output(output) {
            return Err(NotSent::Output);
        }
        let to = Outgoing { output, fcb: self.current.head.fcb };
        emit(&mut self.current.aside, (self.state, self.bell), to, parts)
    }

    /// Sends a packet that has nothing to do with this one: it leaves when it can.
    ///
    /// # Errors
    /// [`NotSent`].
    pub fn inject(&mut self, output: u8, bytes: &[u8]) -> Result<(), NotSent> {
        if !self.state.has_output(output) {
            return Err(NotSent::Output);
        }
        let to = Outgoing { output, fcb: SlotHead::NO_SESSION };
        self.current
            .aside
            .inject(to, [bytes, &[]])
            .map_err(|no_room| self.state.refused(no_room, Figure::InjectionFull))
    }

    /// Nanoseconds of the system's monotonic clock, the same for all of the batch.
    #[inline]
    pub fn now_ns(&mut self) -> u64 {
        self.state.clock.now_ns()
    }

    /// Writes the verdict down. [`Batch::each`] does it; a way for bindings to other languages.
    #[inline]
    pub fn judge(mut self, verdict: Verdict) {
        match verdict {
            Verdict::Next(output) if self.state.has_output(output) => {
                self.current.head.output = output;
            }
            Verdict::Next(_) => {
                self.state.miss_output();
                self.current.head.flags |= flag::DROPPED;
            }
            Verdict::Drop => self.current.head.flags |= flag::DROPPED,
        }
        self.current.close();
    }

    /// Where the packet begins in its frame; see [`frame_mut`](Self::frame_mut).
    #[inline]
    pub fn start(&self) -> usize {
        usize::from(self.current.head.start)
    }

    /// The whole frame: head room, packet, tail room. A way for bindings to other languages, with
    /// [`set_span`](Self::set_span).
    #[inline]
    pub fn frame_mut(&mut self) -> &mut [u8] {
        self.current.frame_mut()
    }

    /// Makes the packet begin and end elsewhere in its frame. False, and nothing done, when that
    /// does not lie within it or has no bytes.
    #[inline]
    pub fn set_span(&mut self, start: usize, len: usize) -> bool {
        let fits = start.checked_add(len).is_some_and(|end| end <= self.current.frame().len());
        match (u16::try_from(start), u16::try_from(len)) {
            (Ok(start), Ok(len)) if fits && len > 0 => {
                self.current.change();
                self.current.head.start = start;
                self.current.head.len = len;
                true
            }
            _ => false,
        }
    }
}

/// Emits a packet beside an open one; waits for room where there will be some.
fn emit(
    aside: &mut Aside<'_, Mapped>,
    (state, bell): (&FunctionState, MasterBell<'_>),
    to: Outgoing,
    parts: [&[u8]; 2],
) -> Result<(), NotSent> {
    let mut wait = Wait::default();
    loop {
        let no_room = match aside.emit(to, parts) {
            Ok(()) => return Ok(()),
            Err(no_room) => no_room,
        };
        if no_room == NoRoom::Full && aside.can_wait() {
            if aside.flush() {
                bell.ring();
            }
            if wait.goes_on(&state.control) {
                continue;
            }
        }
        if no_room == NoRoom::Full {
            aside.lose();
        }
        return Err(state.refused(no_room, Figure::AuxFull));
    }
}
