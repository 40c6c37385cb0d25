//! What is done with a packet that leaves.

use thruway_packet::Packet;
use thruway_wire::ip_protocol;
use thruway_wire::tcp::flags;

use super::edits::Edits;
use super::half::Phase;
use super::{Mode, Out, Seq, Tcp, Why, Work};
use crate::content::{Content, HasContent, Layer, flag};
use crate::segment::{Parts, finish, split, tcp, tcp_mut};

/// Longest payload of a segment whose receiver did not say what it takes, and in whose direction
/// nothing longer was seen.
const MSS_UNKNOWN: u16 = 536;
/// Who says less is not believed: segments would be headers and little else (Linux's least,
/// `tcp_min_snd_mss`).
const MSS_LEAST: u16 = 48;

/// A packet leaves by `port`.
pub(super) fn depart(tcp: &mut Tcp, port: u16, mut packet: Packet, now: i64, out: &mut Out) {
    let mark = packet.content_mark();
    packet.set_content_mark(Content::NONE);
    if mark.conn == 0 && !mark.has(flag::CLOSE | flag::CHANGED) {
        return out.pass(port, packet);
    }
    let Some(mut work) = tcp.work(mark.conn.wrapping_sub(1), now, out) else {
        return out.drop(Why::Foreign, packet);
    };
    work.at_exit = true;
    let fcb = packet.fcb();
    let Some(dir) = work.conn.halves.iter().position(|half| half.fcb == fcb) else {
        return work.out.drop(Why::Foreign, packet);
    };
    work.conn.halves[dir].out_port = port;
    if work.conn.phase == Phase::Dead {
        return work.out.drop(Why::Closed, packet);
    }
    if mark.has(flag::CLOSE) {
        work.out.drop(Why::Closed, packet);
        return work.kill();
    }
    if work.conn.phase == Phase::Passed {
        return work.leave_passed(dir, packet, &mark);
    }
    match mark.layer() {
        Layer::None => work.leave_empty(dir, packet),
        _ => work.leave(dir, packet, &mark),
    }
}

impl Work<'_> {
    /// A pure acknowledgement.
    fn leave_empty(&mut self, dir: usize, mut packet: Packet) {
        let port = self.conn.halves[dir].out_port;
        if self.conn.mode == Mode::Map
            && let Some(parts) = Parts::of_changed_tcp(&packet)
        {
            let seq = self.conn.halves[dir].sent;
            if let Some(header) = tcp_mut(&mut packet, &parts) {
                header.update_seq(seq.get());
            }
            self.refresh(dir, &mut packet, &parts);
        }
        self.out.pass(port, packet);
    }

    /// A packet that was shown before its connection went on unseen.
    fn leave_passed(&mut self, dir: usize, mut packet: Packet, mark: &Content) {
        let parts = Parts::of_changed_tcp(&packet).filter(|_| mark.has(flag::CHANGED));
        // Where lengths may change, nothing passes: it cannot be too long.
        let _ = parts.is_some_and(|parts| finish(&mut packet, &parts, ip_protocol::TCP));
        self.out.pass(self.conn.halves[dir].out_port, packet);
    }

    /// A packet with payload, or FIN, or that had payload once.
    fn leave(&mut self, dir: usize, mut packet: Packet, mark: &Content) {
        let Some(parts) = Parts::of_changed_tcp(&packet) else {
            self.out.drop(Why::BadSegment, packet);
            return self.kill();
        };
        let Some((seq, has_fin)) =
            tcp(&packet, &parts).map(|head| (Seq::new(head.seq()), head.has_flags(flags::FIN)))
        else {
            return self.out.drop(Why::BadSegment, packet);
        };
        // Bytes that were held back account for nothing, nor does their packet's FIN.
        let fin = has_fin && mark.has(flag::LAST);
        let half = &self.conn.halves[dir];
        let len = parts.payload_len();
        if self.conn.mode < Mode::Guard {
            return self.leave_looked_at(dir, packet, seq + len as u32 + u32::from(fin));
        }
        if (mark.took > 0 || fin) && seq != half.edits.end_in() {
            self.out.drop(Why::Lost, packet);
            return self.kill();
        }
        let begin = half.end_out();
        if self.number(dir, mark.took, len, fin).is_err() {
            self.out.drop(Why::Full, packet);
            return self.kill();
        }
        if len == 0 && !fin {
            self.out.drop(Why::Absorbed, packet);
            return self.vanished(dir);
        }
        let changed = mark.has(flag::CHANGED) || len != usize::from(mark.took);
        if self.conn.mode == Mode::Map || changed || has_fin != fin {
            if let Some(header) = tcp_mut(&mut packet, &parts) {
                header.update_seq(begin.get());
                let flags = header.flags();
                header.update_flags(if fin { flags } else { flags & !flags::FIN });
            }
            self.refresh(dir, &mut packet, &parts);
        }
        if changed {
            // What exceeds an IP packet is split first, and then finished in parts.
            let _ = finish(&mut packet, &parts, ip_protocol::TCP);
        }
        self.send_parts(dir, packet, parts, (begin, fin));
    }

    /// A packet that functions only looked at. What an element dropped in between comes again, and
    /// passes by.
    fn leave_looked_at(&mut self, dir: usize, packet: Packet, end: Seq) {
        let half = &mut self.conn.halves[dir];
        while end.after(half.end_out()) {
            let step = end.distance(half.end_out()).min(0xffff) as u16;
            if half.edits.push(&mut self.stores.slab, step, step).is_err() {
                // Nobody acknowledges: a capture of one direction.
                half.edits = Edits::new(end, end);
            }
            half.sent = end;
        }
        self.out.pass(half.out_port, packet);
    }

    /// Notes what became of a packet.
    fn number(&mut self, dir: usize, took: u16, len: usize, fin: bool) -> Result<(), NoRoom> {
        let edits = &mut self.conn.halves[dir].edits;
        let slab = &mut self.stores.slab;
        let length = u16::try_from(len).map_err(|_| NoRoom)?;
        edits.push(slab, took, length).map_err(|_| NoRoom)?;
        if fin {
            edits.push(slab, 1, 1).map_err(|_| NoRoom)?;
        }
        Ok(())
    }

    /// All bytes of a packet are gone: nobody else acknowledges them, once everything before them is
    /// acknowledged.
    fn vanished(&mut self, dir: usize) {
        let half = &self.conn.halves[dir];
        if half.edits.acked_in().after(half.told) {
            self.ack_to_sender(dir, &[]);
            let half = &mut self.conn.halves[dir];
            half.told = half.told.max(half.edits.acked_in());
        }
    }

    /// Longest payload for the receiver of a direction.
    fn limit(&self, dir: usize, parts: &Parts) -> usize {
        // The MSS counts payload and options (RFC 6691).
        let options = parts.payload - parts.transport - 20;
        let seen = self.conn.halves[dir].longest;
        let limit = match self.conn.halves[1 - dir].mss {
            0 => usize::from(seen.max(MSS_UNKNOWN.saturating_sub(options as u16))),
            mss => usize::from(mss.max(MSS_LEAST)).saturating_sub(options),
        };
        limit.max(1)
    }

    /// Sends a packet in as many parts as its receiver wants.
    fn send_parts(&mut self, dir: usize, packet: Packet, parts: Parts, (begin, fin): (Seq, bool)) {
        let limit = self.limit(dir, &parts);
        let (mut packet, mut parts, mut begin) = (packet, parts, begin);
        while parts.payload_len() > limit {
            let Some((mut second, mut behind)) = split(&mut packet, &mut parts, limit) else {
                self.out.drop(Why::NoMemory, packet);
                return self.kill();
            };
            self.counts.split += 1;
            self.out.made += 1;
            let end = begin + limit as u32;
            set_part(&mut packet, &mut parts, begin, false);
            self.send(dir, packet, (begin, end));
            set_part(&mut second, &mut behind, end, fin);
            (packet, parts, begin) = (second, behind, end);
        }
        let end = begin + parts.payload_len() as u32 + u32::from(fin);
        self.send(dir, packet, (begin, end));
    }

    /// Sends a packet if its receiver has room, and keeps a copy; else keeps it until it has.
    fn send(&mut self, dir: usize, packet: Packet, (begin, end): (Seq, Seq)) {
        if self.conn.phase == Phase::Dead {
            return self.out.drop(Why::Closed, packet);
        }
        let half = &mut self.conn.halves[dir];
        let list = &mut half.copies;
        let beyond = half.right.is_some_and(|right| end.after(right));
        if self.conn.mode == Mode::Map && (beyond || half.sent != begin) {
            self.counts.queued += 1;
            self.stores.unsent += 1;
            self.stores.copies.push(list, packet, (begin, end), self.now);
            self.note_kept(dir);
            self.flush(dir);
            return self.arm(dir);
        }
        let Some(copy) = packet.duplicate() else {
            self.out.drop(Why::NoMemory, packet);
            return self.kill();
        };
        self.stores.copies.push(list, copy, (begin, end), self.now);
        half.sent = end;
        self.out.pass(half.out_port, packet);
        self.note_kept(dir);
        self.arm(dir);
    }
}

struct NoRoom;

/// Makes a part of a segment one.
pub(super) fn set_part(packet: &mut Packet, parts: &mut Parts, seq: Seq, fin: bool) {
    if let Some(header) = tcp_mut(packet, parts) {
        header.set_seq(seq.get());
        let last = flags::FIN | flags::PSH;
        let flags = header.flags();
        header.set_flags(if fin { flags | flags::FIN } else { flags & !last });
    }
    // A part is no longer than what its receiver takes.
    let _ = finish(packet, parts, ip_protocol::TCP);
}
