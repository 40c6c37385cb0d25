//! A segment that waits.

use core::ops::Range;

use thruway_packet::Packet;
use thruway_wire::ip_protocol;
use thruway_wire::tcp::flags;

use crate::segment::{Parts, cut_back, cut_front, finish, tcp_mut};
use crate::tcp::Seq;

/// A segment, perhaps with only a part that still counts. Its packet is unchanged until it leaves:
/// cutting only narrows the view.
#[derive(Debug)]
pub struct Node {
    pub packet: Packet,
    /// Sequence number of the first byte that counts.
    pub seq: Seq,
    /// Where that byte is in the packet's `data()`.
    at: u32,
    /// Bytes that count.
    len: u32,
    /// The stream ends behind them.
    fin: bool,
    /// The packet must be cut to the view.
    touched: bool,
}

impl Node {
    pub fn new(packet: Packet, parts: &Parts, seq: Seq, fin: bool) -> Node {
        let (at, len) = (parts.payload as u32, parts.payload_len() as u32);
        Node { packet, seq, at, len, fin, touched: false }
    }

    /// Its range in the sequence space: FIN has a place behind the bytes (RFC 9293 section 3.4).
    /// 3.4).
    pub fn span(&self) -> Range<Seq> {
        self.seq..self.seq + (self.len + u32::from(self.fin))
    }

    /// The same without FIN.
    pub fn bytes_span(&self) -> Range<Seq> {
        self.seq..self.bytes_end()
    }

    /// Behind its bytes.
    pub fn bytes_end(&self) -> Seq {
        self.seq + self.len
    }

    pub fn is_empty(&self) -> bool {
        self.len == 0 && !self.fin
    }

    /// Bytes of memory: a whole frame, and this.
    pub fn cost(&self) -> u32 {
        (self.packet.memory_bytes() + size_of::<Node>()) as u32
    }

    /// Bytes before `seq` do not count any more.
    pub fn cut_front(&mut self, seq: Seq) {
        let cut = self.seq.until(seq);
        if cut == 0 {
            return;
        }
        self.fin &= cut <= self.len;
        let bytes = cut.min(self.len);
        self.seq = self.seq + cut;
        (self.at, self.len, self.touched) = (self.at + bytes, self.len - bytes, true);
    }

    /// Bytes from `seq` on do not count any more.
    pub fn cut_back(&mut self, seq: Seq) {
        let keep = self.seq.until(seq);
        if seq.before(self.span().end) {
            (self.len, self.fin, self.touched) = (keep.min(self.len), false, true);
        }
    }

    /// Where in `data()` the bytes of `span` are, as far as there are any.
    fn range_of(&self, span: &Range<Seq>) -> Range<usize> {
        let at = |seq| (self.at + self.seq.until(seq).min(self.len)) as usize;
        at(span.start)..at(span.end)
    }

    /// Takes over the bytes of `inner`, which is within this and does not reach its end.
    pub fn absorb(&mut self, inner: &Node) {
        let span = inner.span();
        let (from, to) = (inner.range_of(&span), self.range_of(&span));
        let len = from.len().min(to.len());
        let bytes = &inner.packet.data()[from];
        self.packet.data_mut()[to][..len].copy_from_slice(&bytes[..len]);
        self.touched = true;
        if inner.fin {
            self.cut_back(span.end - 1);
            self.fin = true;
        }
    }

    /// Whether both have the same where both have something.
    pub fn agrees(&self, other: &Node) -> bool {
        let (one, two) = (self.span(), other.span());
        let both = one.start.max(two.start)..one.end.min(two.end);
        let (here, there) = (self.range_of(&both), other.range_of(&both));
        self.packet.data()[here] == other.packet.data()[there]
    }

    /// The packet, cut to the part that counts, lengths and checksums included; or as it came,
    /// should it be no segment any more.
    pub fn into_segment(mut self) -> Result<Taken, Packet> {
        let Some(parts) = self.finish() else { return Err(self.packet) };
        Ok(Taken { packet: self.packet, parts, seq: self.seq, fin: self.fin })
    }

    fn finish(&mut self) -> Option<Parts> {
        let packet = &mut self.packet;
        let mut parts = Parts::of_tcp(packet).ok()?;
        if !self.touched {
            return Some(parts);
        }
        let front = (self.at as usize).checked_sub(parts.payload)?;
        let back = parts.payload_len().checked_sub(front + self.len as usize)?;
        cut_back(packet, &mut parts, back);
        cut_front(packet, &mut parts, front);
        let header = tcp_mut(packet, &parts)?;
        header.set_seq(self.seq.get());
        header.set_flags(header.flags() & !flags::FIN | if self.fin { flags::FIN } else { 0 });
        finish(packet, &parts, ip_protocol::TCP).then_some(parts)
    }
}

/// A segment that has waited long enough.
#[derive(Debug)]
pub struct Taken {
    /// Lengths and checksums are right.
    pub packet: Packet,
    /// Where its payload is.
    pub parts: Parts,
    /// Sequence number of the first byte.
    pub seq: Seq,
    /// The stream ends behind it.
    pub fin: bool,
}
