//! TCP's sequence numbers in a passing segment: whether its receiver would take it, and so whether
//! its acknowledgement, FIN or RST may change the state of a connection.
//!
//! For each side, the state holds the end of the data that it has sent, its latest acknowledgement
//! and its largest window: these bound the segments that the other side takes. A segment that does
//! not fit changes nothing, so that a forger that sees neither direction has to guess a number of
//! 32 bits to end a connection (RFC 5961), as at its ends.
//!
//! - **RST** counts with the very next number that its receiver expects: the one that it has
//!   acknowledged, or the end of the data sent to it (both RFC 5961 section 3.2). A RST that is
//!   only inside the window is left to the ends: the receiver sends a challenge ACK, and an honest
//!   sender's answer has the right number.
//! - **SYN** inside a connection changes nothing (section 4.2).
//! - **FIN and data** count inside the window and with an acknowledgement in the range of section
//!   5.2.
//! - A side is *steady* once a segment of it agreed with the other side's numbers. Until then (the
//!   connection was not seen to open, or its other direction takes another path) its numbers are
//!   taken as they come.
//!
//! Each thread writes only the side that sends the packets it gets, so two threads need no lock.

use thruway_wire::checksum::Sum;
use thruway_wire::tcp_option::{MAX_WINDOW_SCALE, TcpOption, TcpOptions};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

use crate::tcp_flags::{TCP_ACK, TCP_FIN, TCP_RST, TCP_SYN, UNSOUND};

/// Flags by which a segment changes the state of a connection.
const LIFECYCLE: u8 = TCP_FIN | TCP_SYN | TCP_RST;

/// Of [`Segment::scale`]: its SYN offers no scaling.
const NO_SCALE: u8 = u8::MAX;
/// Scale that is assumed where the SYN was not seen: windows up to 8 MB.
const SCALE_UNKNOWN: u32 = 7;
/// Least window that is assumed, as the largest may not have been seen.
const WINDOW_MIN: u32 = 0xffff;
/// How far numbers may jump if the other side's window is unknown.
const JUMP_MAX: u32 = 1 << 20;

/// The parsed fields of a segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Segment {
    /// Its sequence number.
    pub seq: u32,
    /// Its acknowledgement number, where it has one.
    pub ack: u32,
    /// Its window, unscaled.
    pub window: u16,
    /// Bytes of payload.
    pub len: u16,
    /// FIN, SYN, RST, ACK, or [`UNSOUND`].
    pub flags: u8,
    /// Of a SYN: the scale that it offers.
    scale: u8,
}

impl Segment {
    /// Nothing.
    pub const NONE: Segment =
        Segment { seq: 0, ack: 0, window: 0, len: 0, flags: 0, scale: NO_SCALE };

    /// Of a whole segment, from its TCP header on; `None` if that is not right. `pseudo` sums up
    /// the pseudo header; it is asked for only where the checksum matters: by FIN, SYN and RST.
    ///
    /// A checksum that a local sender left to the network card (the sum of the pseudo header alone)
    /// is not wrong: such packets come from this host's own stack.
    #[inline]
    pub fn read(segment: &[u8], pseudo: impl FnOnce() -> Sum) -> Option<Segment> {
        Segment::read_cut(segment, segment.len(), pseudo)
    }

    /// The same of a segment of `len` bytes, of which a capture may have only the first ones: the
    /// checksum of such a one cannot be wrong.
    #[inline]
    pub fn read_cut(bytes: &[u8], len: usize, pseudo: impl FnOnce() -> Sum) -> Option<Segment> {
        let segment = bytes.get(..len).unwrap_or(bytes);
        let head = segment.first_chunk::<20>()?;
        let payload = len.checked_sub(usize::from(head[12] >> 4) * 4)?;
        let mut read = Segment::of_head(head, payload as u16);
        if read.flags & LIFECYCLE != 0 {
            read.read_rare(segment, (segment.len() == len).then(pseudo));
        }
        Some(read)
    }

    /// From a header and the length of the payload, without the fields that [`Segment::read`] adds
    /// for a segment with more than an acknowledgement.
    #[inline(always)]
    fn of_head(head: &[u8; 20], payload: u16) -> Segment {
        let [_, _, _, _, a, b, c, d, e, f, g, h, _, flags, i, j, ..] = *head;
        Segment {
            seq: u32::from_be_bytes([a, b, c, d]),
            ack: u32::from_be_bytes([e, f, g, h]),
            window: u16::from_be_bytes([i, j]),
            len: payload,
            flags: flags & (LIFECYCLE | TCP_ACK),
            scale: NO_SCALE,
        }
    }

    /// A whole segment with a valid header; reads nothing more of the usual one.
    #[inline(always)]
    pub(crate) fn whole(
        head: &[u8; 20],
        segment: &[u8],
        payload: u16,
        pseudo: impl FnOnce() -> Sum,
    ) -> Segment {
        let mut read = Segment::of_head(head, payload);
        if read.flags & LIFECYCLE != 0 {
            read.read_rare(segment, Some(pseudo()));
        }
        read
    }

    #[cold]
    fn read_rare(&mut self, segment: &[u8], pseudo: Option<Sum>) {
        let stored = segment.get(16..18).map_or(0, |sum| u16::from_be_bytes([sum[0], sum[1]]));
        let is_wrong = |sum: Sum| {
            let is_made_up = stored == 0 && self.is_numberless();
            !is_made_up && stored != !sum.checksum() && sum.with(segment).checksum() != 0
        };
        if pseudo.is_some_and(is_wrong) {
            self.flags |= UNSOUND;
        }
        if self.flags & TCP_SYN != 0 {
            let end = usize::from(segment.get(12).map_or(0, |offset| offset >> 4)) * 4;
            let options = TcpOptions::new(segment.get(20..end).unwrap_or(&[]));
            for option in options.flatten() {
                if let TcpOption::WindowScale(scale) = option {
                    self.scale = scale.min(MAX_WINDOW_SCALE);
                }
            }
        }
    }

    /// Whether it has no numbers, as where it is made of a summary of a trace that has none.
    fn is_numberless(&self) -> bool {
        self.seq == 0 && self.ack == 0
    }

    fn has(&self, flags: u8) -> bool {
        self.flags & flags != 0
    }

    /// Whether it begins a connection, if there is none: a SYN alone.
    pub fn begins(&self) -> bool {
        self.flags == TCP_SYN
    }

    /// The number behind its last one.
    fn end(&self) -> u32 {
        let marks = u32::from(self.has(TCP_SYN)) + u32::from(self.has(TCP_FIN));
        self.seq.wrapping_add(u32::from(self.len)).wrapping_add(marks)
    }
}

/// The state of one side of a connection. All zeros: nothing.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable,
)]
#[repr(C)]
pub struct Side {
    /// The number behind the last one that it has sent.
    pub end: u32,
    /// Its latest acknowledgement.
    pub ack: u32,
    /// Largest window, unscaled, in the lowest 16 bits; scale and flags above.
    pub meta: u32,
}

/// A side's numbers in a table outside of the software, see [`crate::manager::ShortCuts`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Numbers {
    /// The number behind the last one that it has sent.
    pub end: u32,
    /// Its latest acknowledgement.
    pub ack: u32,
    /// Most bytes that it may have had room for.
    pub room: u32,
    /// By how much the windows of its segments are shifted.
    pub shift: u32,
    /// The last window as segments have it.
    pub window: u16,
}

/// 32-bit words of a [`Side`].
pub const SIDE_WORDS: usize = size_of::<Side>() / 4;

/// Of [`Side::meta`], where the scale begins.
const SCALE_SHIFT: u32 = 16;
/// The scale was offered.
const HAS_SCALE: u32 = 1 << 20;
/// It has sent something.
const KNOWN: u32 = 1 << 21;
/// It has acknowledged something.
const ACKED: u32 = 1 << 22;
/// It agrees with the other side.
const STEADY: u32 = 1 << 23;
/// Its SYN was seen, so its scale is known.
const BY_SYN: u32 = 1 << 24;

/// Whether `at` is in `first..=last`, which may wrap.
fn within(at: u32, first: u32, last: u32) -> bool {
    at.wrapping_sub(first) <= last.wrapping_sub(first)
}

/// Whether `a` is after `b`.
fn after(a: u32, b: u32) -> bool {
    a.wrapping_sub(b) as i32 > 0
}

impl Side {
    fn is(&self, bits: u32) -> bool {
        self.meta & bits == bits
    }

    /// A segment that continues at the end of the last one of a steady side, with no other effect:
    /// the usual one. False if it is another, which [`Side::follow`] is for.
    ///
    /// PERF: it needs nothing of the other side, which another thread may write.
    #[inline(always)]
    pub fn goes_on(&mut self, segment: &Segment) -> bool {
        let is_usual = segment.flags == TCP_ACK
            && segment.seq == self.end
            && self.meta & STEADY != 0
            && u32::from(segment.window) <= self.meta & 0xffff;
        if is_usual {
            self.end = self.end.wrapping_add(u32::from(segment.len));
            if after(segment.ack, self.ack) {
                self.ack = segment.ack;
            }
        }
        is_usual
    }

    /// Any segment of this side. Gives the flags that count: none where its receiver would not take
    /// it, or not for certain.
    #[cold]
    pub fn follow(&mut self, other: &Side, segment: &Segment) -> u8 {
        if segment.flags == 0 || segment.has(UNSOUND) {
            return 0;
        }
        // For a connection without any numbered segment: there is nothing to guess.
        if segment.is_numberless() && !self.is(KNOWN) && !other.is(KNOWN) {
            return segment.flags;
        }
        let counts = if segment.has(TCP_RST) {
            self.is_reset(other, segment)
        } else if segment.has(TCP_SYN) {
            self.opens(other, segment)
        } else {
            self.takes(other, segment)
        };
        if counts { segment.flags } else { 0 }
    }

    /// Whether a RST has the number that the receiver expects, as far as that is known.
    fn is_reset(&self, other: &Side, segment: &Segment) -> bool {
        if !self.is(KNOWN) && !other.is(KNOWN) {
            return true;
        }
        let is_acked = other.is(ACKED) && segment.seq == other.ack;
        let trusted = self.is(STEADY) || !other.is(KNOWN);
        let is_next = self.is(KNOWN) && trusted && segment.seq == self.end;
        // An end that refuses a SYN has no number of its own (RFC 9293 section 3.10.7.1).
        let refuses = !self.is(STEADY) && other.is(KNOWN) && !other.is(ACKED);
        let is_refusal = refuses && segment.has(TCP_ACK) && segment.ack == other.end;
        is_acked || is_next || is_refusal
    }

    /// A SYN, with or without an acknowledgement.
    fn opens(&mut self, other: &Side, segment: &Segment) -> bool {
        let has_ack = segment.has(TCP_ACK);
        if self.is(STEADY) {
            return false;
        }
        if has_ack && other.is(KNOWN) && segment.ack == other.end {
            self.learn(segment, STEADY);
            return true;
        }
        // A later SYN of a side that has sent since is not of this connection.
        if other.is(STEADY) || self.is(ACKED) && !other.is(KNOWN) {
            return false;
        }
        self.learn(segment, 0);
        !other.is(KNOWN) || !has_ack && !other.is(ACKED)
    }

    /// Data, FIN, or an acknowledgement.
    fn takes(&mut self, other: &Side, segment: &Segment) -> bool {
        if self.is(STEADY) {
            let fits = segment.seq == self.end || self.fits(other, segment);
            if fits {
                self.advance(segment);
            }
            return fits;
        }
        if !other.is(KNOWN) {
            return self.takes_alone(segment);
        }
        let agrees = self.agrees(other, segment);
        if agrees {
            self.learn(segment, STEADY);
        } else if !other.is(STEADY) {
            self.learn(segment, 0);
        }
        agrees
    }

    /// The same where the other side was never seen.
    fn takes_alone(&mut self, segment: &Segment) -> bool {
        let end = self.end;
        let near = within(segment.seq, end.wrapping_sub(JUMP_MAX), end.wrapping_add(JUMP_MAX));
        let fits = !self.is(KNOWN) || near;
        if self.is(KNOWN | ACKED) && near {
            self.advance(segment);
        } else if fits || !self.is(ACKED) {
            // Segments after a forged SYN, too.
            self.learn(segment, 0);
        }
        fits
    }

    /// Whether the first segments of a side fit what the other one has sent and acknowledged.
    fn agrees(&self, other: &Side, segment: &Segment) -> bool {
        if !segment.has(TCP_ACK) {
            return false;
        }
        if !other.is(ACKED) {
            // It has sent a SYN alone.
            return segment.ack == other.end;
        }
        let (first, last) = (other.ack, other.ack.wrapping_add(other.window(self)));
        let least = other.end.wrapping_sub(self.window(other));
        within(segment.seq, first, last) && within(segment.ack, least, other.end)
    }

    /// Whether a segment of a steady side is in the window of its receiver, and acknowledges what
    /// that one may have sent (RFC 5961 section 5.2).
    fn fits(&self, other: &Side, segment: &Segment) -> bool {
        let window = other.window(self);
        let right = other.ack.wrapping_add(window);
        let (first, last) = if after(self.end, right) {
            // The other side has taken more than it was seen to acknowledge: its packets take
            // another path.
            let jump = window.max(JUMP_MAX);
            (self.end.wrapping_sub(jump), self.end.wrapping_add(jump))
        } else {
            (other.ack.wrapping_sub(window), right)
        };
        let least = self.ack.wrapping_sub(self.window(other));
        let is_answer = !segment.has(TCP_ACK) || within(segment.ack, least, other.end);
        within(segment.seq, first, last) && is_answer
    }

    /// Whether it agrees with the other side, and so is judged by its numbers.
    pub(crate) fn is_steady(&self) -> bool {
        self.is(KNOWN | ACKED | STEADY)
    }

    /// Its numbers for a table.
    pub(crate) fn numbers(&self, other: &Side) -> Numbers {
        let (room, shift) = (self.window(other), self.scale(other));
        Numbers { end: self.end, ack: self.ack, room, shift, window: self.meta as u16 }
    }

    /// Takes the numbers that a table has seen, if they are later.
    pub(crate) fn take_in(&mut self, seen: &Numbers) {
        if after(seen.end, self.end) {
            self.end = seen.end;
        }
        if after(seen.ack, self.ack) {
            self.ack = seen.ack;
        }
        if seen.room > WINDOW_MIN {
            let window = (seen.room >> seen.shift).min(0xffff).max(self.meta & 0xffff);
            self.meta = self.meta & !0xffff | window;
        }
    }

    /// By how much the windows of its segments are shifted.
    fn scale(&self, other: &Side) -> u32 {
        if !self.is(BY_SYN) || !other.is(BY_SYN) {
            SCALE_UNKNOWN
        } else if self.is(HAS_SCALE) && other.is(HAS_SCALE) {
            self.meta >> SCALE_SHIFT & 0xf
        } else {
            0
        }
    }

    /// Most bytes that this side may have had room for.
    fn window(&self, other: &Side) -> u32 {
        ((self.meta & 0xffff) << self.scale(other)).max(WINDOW_MIN)
    }

    /// Takes a segment's numbers as this side's, whatever they were.
    fn learn(&mut self, segment: &Segment, bits: u32) {
        let has_ack = segment.has(TCP_ACK);
        let mut meta = bits | KNOWN | if has_ack { ACKED } else { 0 };
        if segment.has(TCP_SYN) {
            // Its window is not scaled, and no smaller than those that follow.
            meta |= BY_SYN;
            if segment.scale != NO_SCALE {
                meta |= HAS_SCALE | u32::from(segment.scale) << SCALE_SHIFT;
            }
        } else {
            let kept = BY_SYN | HAS_SCALE | 0xf << SCALE_SHIFT | ACKED;
            let window = u32::from(segment.window).max(self.meta & 0xffff);
            meta |= self.meta & kept | window;
        }
        let ack = if has_ack { segment.ack } else { self.ack };
        *self = Side { end: segment.end(), ack, meta };
    }

    /// Takes the new numbers of a segment that fits.
    fn advance(&mut self, segment: &Segment) {
        if after(segment.end(), self.end) {
            self.end = segment.end();
        }
        if segment.has(TCP_ACK) && (!self.is(ACKED) || after(segment.ack, self.ack)) {
            self.ack = segment.ack;
            self.meta |= ACKED;
        }
        let window = u32::from(segment.window).max(self.meta & 0xffff);
        self.meta = self.meta & !0xffff | window;
    }
}
