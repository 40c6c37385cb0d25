//! Processing of an arriving packet.

use thruway_packet::Packet;
use thruway_wire::ip_protocol;
use thruway_wire::tcp::flags;

use super::endpoint::Phase;
use super::part::set_part;
use super::reorder::{Expected, Outcome, Taken};
use super::seg::Seg;
use super::template::Template;
use super::{AtBound, DropReason, Mode, Seq, Urgent, Work};
use crate::content::{Content, HasContent, Layer, flag};
use crate::segment::{Malformed, Parts, cut_back, finish, split, tcp_mut};

/// How far data may come ahead of an unknown receiver's window.
pub(super) const WINDOW_UNKNOWN: u32 = 1 << 20;
/// Most SACK blocks sent to a sender (RFC 2018 section 3).
const BLOCKS_MAX: usize = 3;

impl Work<'_> {
    pub(super) fn arrive(&mut self, dir: usize, port: u16, mut packet: Packet) {
        let endpoint = &mut self.conn.endpoints[dir];
        (endpoint.in_port, endpoint.fcb) = (port, packet.fcb());
        if !endpoint.is_known {
            // Until one has left: contexts keep ports apart.
            endpoint.out_port = port;
        }
        if self.conn.phase == Phase::Passed {
            return self.bypass(dir, packet);
        }
        if self.conn.mode == Mode::Follow {
            return match mark_payload(&mut packet) {
                Ok(()) => self.out.pass(port, packet),
                Err(drop_reason) => self.out.drop(drop_reason, packet),
            };
        }
        let seg = match self.read(&mut packet) {
            Ok(seg) => seg,
            Err(drop_reason) => return self.out.drop(drop_reason, packet),
        };
        if self.conn.phase == Phase::Standby {
            self.take_over();
        }
        if seg.has(flags::SYN) {
            return self.syn(dir, seg, packet);
        }
        if self.conn.phase == Phase::Dead {
            return self.answer_dead(dir, &seg, packet);
        }
        if seg.has(flags::RST) {
            return self.reset(dir, seg, packet);
        }
        // The other end may not have believed the reset, if something before it got lost.
        if self.conn.phase == Phase::Reset && self.conn.mode >= Mode::Guard {
            return self.answer_dead(dir, &seg, packet);
        }
        if self.stands_still(dir, &seg) {
            let drop_reason = self.give_up_unknown();
            return self.out.drop(drop_reason, packet);
        }
        if let Err(drop_reason) = self.is_open(dir, &seg).and_then(|()| self.ack(dir, &seg)) {
            return self.refuse_unopened(dir, &seg, packet, drop_reason);
        }
        if !self.templates[dir].is_known() {
            self.templates[dir] = Template::of(&packet, &seg.parts);
        }
        self.data(dir, seg, packet);
    }

    /// Drops a segment without a place in the connection, and ends connections that cannot
    /// continue.
    fn refuse_unopened(&mut self, dir: usize, seg: &Seg, packet: Packet, drop_reason: DropReason) {
        // Its numbers may have been changed once, by us: it cannot continue.
        let is_forgotten = drop_reason == DropReason::NotOpened && self.conn.mode == Mode::Map;
        if is_forgotten || drop_reason == DropReason::Unready {
            self.templates[dir] = Template::of(&packet, &seg.parts);
        }
        if is_forgotten || drop_reason == DropReason::Unready && self.is_of_former(dir, seg) {
            self.disown(dir, seg);
        }
        self.out.drop(drop_reason, packet);
    }

    /// Reads and checks a segment.
    fn read(&mut self, packet: &mut Packet) -> Result<Seg, DropReason> {
        let mut seg = Seg::read(packet)?;
        if self.conn.mode < Mode::Guard {
            return Ok(seg);
        }
        if self.settings.verify {
            verify(packet, &seg.parts).map_err(|_| DropReason::BadChecksum)?;
        }
        if seg.is_absurd() {
            return Err(DropReason::BadFlags);
        }
        if seg.has(flags::URG) {
            match self.settings.urgent {
                Urgent::Pass => {}
                Urgent::Drop => return Err(DropReason::Urgent),
                Urgent::Clear => {
                    seg.flags &= !flags::URG;
                    if let Some(header) = tcp_mut(packet, &seg.parts) {
                        header.update_flags(seg.flags);
                        header.update_urgent(0);
                    }
                }
            }
        }
        Ok(seg)
    }

    /// Lets a packet pass the functions and the exit as it is.
    pub(super) fn bypass(&mut self, dir: usize, mut packet: Packet) {
        packet.set_content_mark(Content::NONE);
        self.out.pass(self.conn.endpoints[dir].in_port, packet);
    }

    /// A segment without SYN and RST.
    fn data(&mut self, dir: usize, seg: Seg, packet: Packet) {
        let endpoint = &self.conn.endpoints[dir];
        if seg.len + seg.fin() == 0 {
            return self.pure_ack(dir, &seg, packet);
        }
        if endpoint.is_behind && seg.seq.before(endpoint.isn) && seg.end().after(endpoint.isn) {
            return self.straddling(dir, seg, packet);
        }
        let next_seq = endpoint.next;
        if !seg.end().after(endpoint.next) {
            return self.repeated(dir, &seg, packet);
        }
        if endpoint.fin.is_some_and(|fin| seg.end().after(fin + 1)) {
            return self.out.drop(DropReason::OutOfWindow, packet);
        }
        if seg.seq.before(endpoint.next) && self.conn.mode >= Mode::Guard {
            let (from, to) = (seg.seq, endpoint.next);
            self.resend_for_sender(dir, from, to);
        }
        // A retransmission comes first: copies are kept until they have arrived.
        let is_next = !seg.seq.after(next_seq);
        if is_next && self.is_full(dir, &packet, true) {
            // The segments that wait for it come again, too.
            self.forget_waiting(dir, DropReason::Full);
        }
        if self.is_full(dir, &packet, is_next) {
            self.note_clocks(dir, &seg);
            return self.full(dir, packet);
        }
        let endpoint = &self.conn.endpoints[dir];
        let receive_window = self.receive_window(dir);
        if endpoint.waiting.is_empty() && seg.seq == endpoint.next && seg.len <= receive_window {
            self.note_clocks(dir, &seg);
            let (packet, parts) = (packet, seg.parts);
            let fin = seg.fin() == 1;
            return self.show(dir, Taken { packet, parts, seq: seg.seq, fin }, false);
        }
        self.disorder(dir, &seg, packet, receive_window);
    }

    /// A segment that begins before the first byte that was seen: the front of it passes.
    fn straddling(&mut self, dir: usize, seg: Seg, mut packet: Packet) {
        let isn = self.conn.endpoints[dir].isn;
        let (mut parts, keep) = (seg.parts, isn.distance(seg.seq));
        let Some((mut second, mut behind)) = split(&mut packet, &mut parts, keep as usize) else {
            return self.out.drop(DropReason::NoMemory, packet);
        };
        self.out.made += 1;
        set_part(&mut packet, &mut parts, seg.seq, false);
        set_part(&mut second, &mut behind, isn, seg.fin() == 1);
        self.bypass(dir, packet);
        let rest = Seg { seq: isn, len: seg.len - keep, parts: behind, ..seg };
        self.data(dir, rest, second);
    }

    /// How many bytes from the next one on the receiver has room for, as announced to its sender.
    fn receive_window(&self, dir: usize) -> u32 {
        let endpoint = &self.conn.endpoints[dir];
        let right = match self.conn.mode {
            Mode::Follow | Mode::Order => None,
            Mode::Map => endpoint.right.map(|_| endpoint.advertised_right),
            _ => endpoint.right,
        };
        match right {
            None => WINDOW_UNKNOWN,
            Some(right) if right.after(endpoint.next) => right.distance(endpoint.next),
            Some(_) => 0,
        }
    }

    /// A segment that came too early, or reaches beyond what is expected.
    fn disorder(&mut self, dir: usize, seg: &Seg, packet: Packet, receive_window: u32) {
        if !self.conn.is_whole() && seg.seq.after(self.conn.endpoints[dir].next) {
            self.inquire(dir, seg, &packet);
        }
        let endpoint = &mut self.conn.endpoints[dir];
        let next = endpoint.next;
        let expected = Expected { next, window: receive_window, overlap: self.settings.overlap };
        if endpoint.waiting.is_empty() {
            endpoint.waits_since = self.now;
        }
        let place = (seg.seq, seg.fin() == 1);
        let reorder = &mut self.stores.reorder;
        match reorder.insert(&mut endpoint.waiting, (packet, &seg.parts), place, &expected) {
            Outcome::Stored => {}
            Outcome::Duplicate(packet) => return self.out.drop(DropReason::Repeated, packet),
            Outcome::Full(packet) => return self.full(dir, packet),
            Outcome::OutOfWindow(packet) => {
                // A probe of a window that is closed: the receiver answers it (RFC 9293 section
                // 3.8.6.1).
                return self.probe(dir, &seg.parts, packet, DropReason::OutOfWindow);
            }
        }
        self.note_clocks(dir, seg);
        self.note_kept(dir);
        let endpoint = &self.conn.endpoints[dir];
        if seg.seq.after(next) && self.stores.reorder.first(&endpoint.waiting).is_some() {
            self.counts.reordered += 1;
            self.pass_ack_on(dir);
            self.ack_hole(dir);
        }
        self.drain(dir);
    }

    /// A hole in front of a segment may have passed before the connection was picked up: asks its
    /// receiver, by the sender's own packet if we cannot speak for it.
    fn inquire(&mut self, dir: usize, seg: &Seg, packet: &Packet) {
        if self.can_speak_in(dir) {
            self.ask(dir);
        } else if let Some(copy) = packet.duplicate() {
            drop(self.make_probe(dir, &seg.parts, copy));
        }
    }

    /// Shows all that is in order now.
    pub(super) fn drain(&mut self, dir: usize) {
        loop {
            let endpoint = &mut self.conn.endpoints[dir];
            let Some(taken) = self.stores.reorder.take(&mut endpoint.waiting, endpoint.next) else {
                return;
            };
            endpoint.waits_since = self.now;
            self.show(dir, taken, true);
        }
    }

    /// The acknowledgement of a segment that waits must not wait: the other side needs it.
    fn pass_ack_on(&mut self, dir: usize) {
        if self.is_news {
            self.ack_to_sender(1 - dir, &[]);
        }
    }

    /// Reports a hole and the data behind it to the sender (RFC 5681 section 4.2, RFC 2018).
    fn ack_hole(&mut self, dir: usize) {
        let mut blocks = [(Seq::default(), Seq::default()); BLOCKS_MAX];
        let mut n = 0;
        // A FIN alone is a range of no bytes.
        let ranges = self.stores.reorder.ranges(&self.conn.endpoints[dir].waiting);
        for range in ranges.filter(|range| range.start != range.end).take(BLOCKS_MAX) {
            blocks[n] = (range.start, range.end);
            n += 1;
        }
        self.ack_to_sender(dir, &blocks[..n]);
    }

    /// Hands a segment that begins with the next byte to the functions.
    fn show(&mut self, dir: usize, taken: Taken, has_waited: bool) {
        let Taken { mut packet, parts, seq, fin } = taken;
        let endpoint = &mut self.conn.endpoints[dir];
        let len = parts.payload_len();
        endpoint.next = seq + len as u32 + u32::from(fin);
        endpoint.longest = endpoint.longest.max(len.div_ceil(packet.segments()) as u16);
        if fin {
            endpoint.fin = Some(seq + len as u32);
        }
        let mut content = content_of(&parts, fin);
        content.conn = self.id + 1;
        packet.set_content_mark(content);
        let port = endpoint.in_port;
        if has_waited {
            self.refresh_clocks(dir, &mut packet, &parts);
        }
        if self.conn.mode >= Mode::Guard {
            self.reserve(dir, &packet);
        }
        self.out.pass(port, packet);
    }

    /// Forwards a segment without data, with the numbers valid when it leaves.
    fn pure_ack(&mut self, dir: usize, seg: &Seg, mut packet: Packet) {
        let endpoint = &self.conn.endpoints[dir];
        if seg.seq == endpoint.next || !seg.seq.before(endpoint.next) {
            self.note_clocks(dir, seg);
        } else if seg.seq + 1 == endpoint.next && self.conn.mode == Mode::Map {
            // A keep-alive (RFC 9293 section 3.8.4).
            return self.probe(dir, &seg.parts, packet, DropReason::Repeated);
        }
        let mut content = Content::NONE;
        content.conn = self.id + 1;
        packet.set_content_mark(content);
        self.out.pass(self.conn.endpoints[dir].in_port, packet);
    }

    /// Drops a packet, and sends the receiver a probe instead.
    pub(super) fn probe(
        &mut self,
        dir: usize,
        parts: &Parts,
        packet: Packet,
        drop_reason: DropReason,
    ) {
        match self.make_probe(dir, parts, packet) {
            Some(packet) => self.out.drop(drop_reason, packet),
            None => self.out.drops[drop_reason as usize] += 1,
        }
    }

    /// Turns a packet into one that the receiver answers with its state: no payload, and a number
    /// before the expected one. Returns it if that cannot be done.
    fn make_probe(&mut self, dir: usize, parts: &Parts, mut packet: Packet) -> Option<Packet> {
        let mut parts = *parts;
        let len = parts.payload_len();
        cut_back(&mut packet, &mut parts, len);
        let seq = self.conn.endpoints[dir].seq_map.acked_out() - 1;
        let Some(header) = tcp_mut(&mut packet, &parts) else { return Some(packet) };
        header.set_seq(seq.get());
        header.set_flags(header.flags() & !(flags::FIN | flags::PSH));
        if !finish(&mut packet, &parts, ip_protocol::TCP) {
            return Some(packet);
        }
        self.counts.acks += 1;
        self.out.made += 1;
        self.refresh(dir, &mut packet, &parts);
        self.bypass(dir, packet);
        None
    }

    /// Applies the user's choice at the bound.
    fn full(&mut self, dir: usize, packet: Packet) {
        match self.settings.at_bound {
            AtBound::Drop => self.refuse(dir, packet),
            AtBound::Reset => {
                self.out.drop(DropReason::Full, packet);
                self.kill();
            }
            // Numbers that changed cannot be let go.
            AtBound::Pass if self.conn.mode == Mode::Map => self.refuse(dir, packet),
            AtBound::Pass => {
                self.let_pass();
                self.bypass(dir, packet);
            }
        }
    }

    /// Drops a segment without room for it; forwards its acknowledgement.
    fn refuse(&mut self, dir: usize, packet: Packet) {
        self.out.drop(DropReason::Full, packet);
        self.pass_ack_on(dir);
    }

    /// Forwards waiting segments as they came.
    pub(super) fn give_up_order(&mut self) {
        self.stores.count_spent(DropReason::Repeated, self.out);
        for endpoint in &mut self.conn.endpoints {
            self.stores.reorder.clear(&mut endpoint.waiting);
            for mut packet in self.stores.reorder.spent() {
                packet.set_content_mark(Content::NONE);
                self.out.pass(endpoint.in_port, packet);
            }
        }
    }
}

/// Verifies the checksums of a segment and its IP header.
fn verify(packet: &Packet, parts: &Parts) -> Result<(), Malformed> {
    parts.verify_header(packet)?;
    // PERF: for a packet that represents several, the port has computed TCP's checksum (the merging
    // device had verified those of the segments), and the segmenting one computes those of the
    // parts.
    if packet.segments() > 1 { Ok(()) } else { parts.verify(packet, ip_protocol::TCP) }
}

/// Marks the content of a segment for functions that only look, as it comes.
///
/// # Errors
/// [`DropReason::BadSegment`].
#[inline]
pub fn mark_payload(packet: &mut Packet) -> Result<(), DropReason> {
    let parts = Parts::of_tcp(packet).map_err(|_| DropReason::BadSegment)?;
    parts.trim(packet);
    let fin = packet.transport().get(13).is_some_and(|all| all & flags::FIN != 0);
    packet.set_content_mark(content_of(&parts, fin));
    Ok(())
}

/// The mark of a segment's payload.
#[inline]
fn content_of(parts: &Parts, fin: bool) -> Content {
    let start = (parts.payload - parts.network) as u16;
    let mut content = Content::new(Layer::Tcp, start, parts.payload_len() as u16);
    content.flags = if fin { flag::LAST } else { 0 };
    content
}
