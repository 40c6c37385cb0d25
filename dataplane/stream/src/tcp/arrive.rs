//! What is done with a packet that comes in.

use thruway_packet::Packet;
use thruway_wire::ip_protocol;
use thruway_wire::tcp::flags;

use super::depart::set_part;
use super::half::Phase;
use super::reorder::{Expected, Outcome, Taken};
use super::seg::Seg;
use super::template::Template;
use super::{AtBound, Mode, Seq, Urgent, Why, Work};
use crate::content::{Content, HasContent, Layer, flag};
use crate::segment::{Parts, cut_back, finish, split, tcp_mut};

/// What may come ahead where the receiver's window is not known.
pub(super) const WINDOW_UNKNOWN: u32 = 1 << 20;
/// Most blocks of what waits that a sender is told (RFC 2018 section 3).
const BLOCKS_MAX: usize = 3;

impl Work<'_> {
    pub(super) fn arrive(&mut self, dir: usize, port: u16, mut packet: Packet) {
        let half = &mut self.conn.halves[dir];
        (half.in_port, half.fcb) = (port, packet.fcb());
        if !half.is_known {
            // Until one has left: contexts keep ports apart.
            half.out_port = port;
        }
        if self.conn.phase == Phase::Passed {
            return self.bypass(dir, packet);
        }
        if self.conn.mode == Mode::Follow {
            return match look(&mut packet) {
                Ok(()) => self.out.pass(port, packet),
                Err(why) => self.out.drop(why, packet),
            };
        }
        let seg = match self.read(&mut packet) {
            Ok(seg) => seg,
            Err(why) => return self.out.drop(why, packet),
        };
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
        if let Err(why) = self.is_open(dir, &seg).and_then(|()| self.ack(dir, &seg)) {
            return self.refuse_unopened(dir, &seg, packet, why);
        }
        if !self.templates[dir].is_known() {
            self.templates[dir] = Template::of(&packet, &seg.parts);
        }
        self.data(dir, seg, packet);
    }

    /// Drops a segment that has no place in the connection, and ends what cannot go on.
    fn refuse_unopened(&mut self, dir: usize, seg: &Seg, packet: Packet, why: Why) {
        // Its numbers may have been changed once, by us: it cannot go on.
        let is_forgotten = why == Why::NotOpened && self.conn.mode == Mode::Map;
        if is_forgotten || why == Why::Unready {
            self.templates[dir] = Template::of(&packet, &seg.parts);
        }
        if is_forgotten || why == Why::Unready && self.is_of_former(dir, seg) {
            self.disown(dir, seg);
        }
        self.out.drop(why, packet);
    }

    /// Reads and checks a segment.
    fn read(&mut self, packet: &mut Packet) -> Result<Seg, Why> {
        let mut seg = Seg::read(packet)?;
        if self.conn.mode < Mode::Guard {
            return Ok(seg);
        }
        if self.settings.verify && seg.parts.verify(packet, ip_protocol::TCP).is_err() {
            return Err(Why::BadChecksum);
        }
        if seg.is_absurd() {
            return Err(Why::BadFlags);
        }
        if seg.has(flags::URG) {
            match self.settings.urgent {
                Urgent::Pass => {}
                Urgent::Drop => return Err(Why::Urgent),
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
        self.out.pass(self.conn.halves[dir].in_port, packet);
    }

    /// A segment without SYN and RST.
    fn data(&mut self, dir: usize, seg: Seg, packet: Packet) {
        let half = &self.conn.halves[dir];
        if seg.len + seg.fin() == 0 {
            return self.pure_ack(dir, &seg, packet);
        }
        if half.is_behind && seg.seq.before(half.isn) && seg.end().after(half.isn) {
            return self.straddling(dir, seg, packet);
        }
        let half_next = half.next;
        if !seg.end().after(half.next) {
            return self.repeated(dir, &seg, packet);
        }
        if half.fin.is_some_and(|fin| seg.end().after(fin + 1)) {
            return self.out.drop(Why::OutOfWindow, packet);
        }
        if seg.seq.before(half.next) && self.conn.mode >= Mode::Guard {
            let (from, to) = (seg.seq, half.next);
            self.resend_for_sender(dir, from, to);
        }
        // What is sent again comes first: what is kept is kept until it has arrived.
        let is_next = !seg.seq.after(half_next);
        if is_next && self.is_full(dir, &packet, true) {
            // What waits for it comes again, too.
            self.forget_waiting(dir, Why::Full);
        }
        if self.is_full(dir, &packet, is_next) {
            self.note_clocks(dir, &seg);
            return self.full(dir, packet);
        }
        let half = &self.conn.halves[dir];
        let room = self.room(dir);
        if half.waiting.is_empty() && seg.seq == half.next && seg.len <= room {
            self.note_clocks(dir, &seg);
            let (packet, parts) = (packet, seg.parts);
            let fin = seg.fin() == 1;
            return self.show(dir, Taken { packet, parts, seq: seg.seq, fin }, false);
        }
        self.disorder(dir, &seg, packet, room);
    }

    /// A segment that begins before the first byte that was seen: the front of it passes.
    fn straddling(&mut self, dir: usize, seg: Seg, mut packet: Packet) {
        let isn = self.conn.halves[dir].isn;
        let (mut parts, keep) = (seg.parts, isn.distance(seg.seq));
        let Some((mut second, mut behind)) = split(&mut packet, &mut parts, keep as usize) else {
            return self.out.drop(Why::NoMemory, packet);
        };
        self.out.made += 1;
        set_part(&mut packet, &mut parts, seg.seq, false);
        set_part(&mut second, &mut behind, isn, seg.fin() == 1);
        self.bypass(dir, packet);
        let rest = Seg { seq: isn, len: seg.len - keep, parts: behind, ..seg };
        self.data(dir, rest, second);
    }

    /// How many bytes from the next one on the receiver has room for, and its sender was told of.
    fn room(&self, dir: usize) -> u32 {
        let half = &self.conn.halves[dir];
        let right = match self.conn.mode {
            Mode::Follow | Mode::Order => None,
            Mode::Map => half.right.map(|_| half.told_right),
            _ => half.right,
        };
        match right {
            None => WINDOW_UNKNOWN,
            Some(right) if right.after(half.next) => right.distance(half.next),
            Some(_) => 0,
        }
    }

    /// A segment that came too early, or reaches beyond what is expected.
    fn disorder(&mut self, dir: usize, seg: &Seg, packet: Packet, room: u32) {
        if !self.conn.is_whole() && seg.seq.after(self.conn.halves[dir].next) {
            self.inquire(dir, seg, &packet);
        }
        let half = &mut self.conn.halves[dir];
        let next = half.next;
        let expected = Expected { next, window: room, overlap: self.settings.overlap };
        if half.waiting.is_empty() {
            half.waits_since = self.now;
        }
        let place = (seg.seq, seg.fin() == 1);
        let reorder = &mut self.stores.reorder;
        match reorder.insert(&mut half.waiting, (packet, &seg.parts), place, &expected) {
            Outcome::Stored => {}
            Outcome::Duplicate(packet) => return self.out.drop(Why::Repeated, packet),
            Outcome::Full(packet) => return self.full(dir, packet),
            Outcome::OutOfWindow(packet) => {
                // A probe of a window that is closed: the receiver answers it (RFC 9293 section
                // 3.8.6.1).
                return self.probe(dir, &seg.parts, packet, Why::OutOfWindow);
            }
        }
        self.note_clocks(dir, seg);
        self.note_kept(dir);
        let half = &self.conn.halves[dir];
        if seg.seq.after(next) && self.stores.reorder.first(&half.waiting).is_some() {
            self.counts.reordered += 1;
            self.pass_ack_on(dir);
            self.ack_hole(dir);
        }
        self.drain(dir);
    }

    /// What seems to be missing in front of a segment may have passed before the connection was
    /// picked up: its receiver is asked, by the sender itself where we cannot speak for it.
    fn inquire(&mut self, dir: usize, seg: &Seg, packet: &Packet) {
        if self.can_speak_in(dir) {
            self.ask(dir);
        } else if let Some(copy) = packet.duplicate() {
            drop(self.question(dir, &seg.parts, copy));
        }
    }

    /// Shows all that is in order now.
    pub(super) fn drain(&mut self, dir: usize) {
        loop {
            let half = &mut self.conn.halves[dir];
            let Some(taken) = self.stores.reorder.take(&mut half.waiting, half.next) else {
                return;
            };
            half.waits_since = self.now;
            self.show(dir, taken, true);
        }
    }

    /// The acknowledgement of a segment that waits must not wait: the other side needs it.
    fn pass_ack_on(&mut self, dir: usize) {
        if self.is_news {
            self.ack_to_sender(1 - dir, &[]);
        }
    }

    /// Tells the sender that something is missing, and what is there (RFC 5681 section 4.2, RFC
    /// 2018).
    fn ack_hole(&mut self, dir: usize) {
        let mut blocks = [(Seq::default(), Seq::default()); BLOCKS_MAX];
        let mut n = 0;
        // A FIN alone is a range of no bytes.
        let ranges = self.stores.reorder.ranges(&self.conn.halves[dir].waiting);
        for range in ranges.filter(|range| range.start != range.end).take(BLOCKS_MAX) {
            blocks[n] = (range.start, range.end);
            n += 1;
        }
        self.ack_to_sender(dir, &blocks[..n]);
    }

    /// Hands a segment that begins with the next byte to the functions.
    fn show(&mut self, dir: usize, taken: Taken, has_waited: bool) {
        let Taken { mut packet, parts, seq, fin } = taken;
        let half = &mut self.conn.halves[dir];
        let len = parts.payload_len();
        half.next = seq + len as u32 + u32::from(fin);
        half.longest = half.longest.max(len as u16);
        if fin {
            half.fin = Some(seq + len as u32);
        }
        let mut content = content_of(&parts, fin);
        content.conn = self.id + 1;
        packet.set_content_mark(content);
        let port = half.in_port;
        if has_waited {
            self.refresh_clocks(dir, &mut packet, &parts);
        }
        self.out.pass(port, packet);
    }

    /// A segment without data goes on with the numbers that hold when it leaves.
    fn pure_ack(&mut self, dir: usize, seg: &Seg, mut packet: Packet) {
        let half = &self.conn.halves[dir];
        if seg.seq == half.next || !seg.seq.before(half.next) {
            self.note_clocks(dir, seg);
        } else if seg.seq + 1 == half.next && self.conn.mode == Mode::Map {
            // A keep-alive (RFC 9293 section 3.8.4).
            return self.probe(dir, &seg.parts, packet, Why::Repeated);
        }
        let mut content = Content::NONE;
        content.conn = self.id + 1;
        packet.set_content_mark(content);
        self.out.pass(self.conn.halves[dir].in_port, packet);
    }

    /// Drops a packet, and sends in its place a question about what the receiver has.
    pub(super) fn probe(&mut self, dir: usize, parts: &Parts, packet: Packet, why: Why) {
        match self.question(dir, parts, packet) {
            Some(packet) => self.out.drop(why, packet),
            None => self.out.drops[why as usize] += 1,
        }
    }

    /// Makes a packet one that the receiver answers with what it has: no payload, and a number
    /// before the one that it expects. Gives it back if that cannot be done.
    fn question(&mut self, dir: usize, parts: &Parts, mut packet: Packet) -> Option<Packet> {
        let mut parts = *parts;
        let len = parts.payload_len();
        cut_back(&mut packet, &mut parts, len);
        let seq = self.conn.halves[dir].edits.acked_out() - 1;
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

    /// Does what the user wants at the bound.
    fn full(&mut self, dir: usize, packet: Packet) {
        match self.settings.at_bound {
            AtBound::Drop => self.refuse(dir, packet),
            AtBound::Reset => {
                self.out.drop(Why::Full, packet);
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

    /// Drops a segment for which there is no room; what it acknowledges is passed on.
    fn refuse(&mut self, dir: usize, packet: Packet) {
        self.out.drop(Why::Full, packet);
        self.pass_ack_on(dir);
    }

    /// Lets what waits go on as it came.
    pub(super) fn give_up_order(&mut self) {
        self.stores.count_spent(Why::Repeated, self.out);
        for half in &mut self.conn.halves {
            self.stores.reorder.clear(&mut half.waiting);
            for mut packet in self.stores.reorder.spent() {
                packet.set_content_mark(Content::NONE);
                self.out.pass(half.in_port, packet);
            }
        }
    }
}

/// Marks the content of a segment for functions that only look, as it comes.
///
/// # Errors
/// [`Why::BadSegment`].
#[inline]
pub fn look(packet: &mut Packet) -> Result<(), Why> {
    let parts = Parts::of_tcp(packet).map_err(|_| Why::BadSegment)?;
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
