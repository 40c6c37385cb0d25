//! Processing of a departing packet.

use thruway_packet::Packet;
use thruway_wire::ip_protocol;
use thruway_wire::tcp::flags;

use super::endpoint::Phase;
use super::part::set_part;
use super::seq_map::SeqMap;
use super::{DropReason, Mode, Out, Seq, Tcp, Work};
use crate::content::{Content, HasContent, Layer, flag};
use crate::segment::{Parts, finish, split, tcp, tcp_mut};

impl Tcp {
    /// Sends a packet by `port`; appends packets for the network to `out`.
    pub fn depart(&mut self, port: usize, mut packet: Packet, now: i64, out: &mut Out) {
        let port = port as u16;
        let mark = packet.content_mark();
        packet.set_content_mark(Content::NONE);
        if mark.conn == 0 && !mark.has(flag::CLOSE | flag::CHANGED) {
            return out.pass(port, packet);
        }
        let Some(mut work) = self.work(mark.conn.wrapping_sub(1), now, out) else {
            return out.drop(DropReason::Foreign, packet);
        };
        work.at_exit = true;
        let fcb = packet.fcb();
        let Some(dir) = work.conn.endpoints.iter().position(|endpoint| endpoint.fcb == fcb) else {
            return work.out.drop(DropReason::Foreign, packet);
        };
        work.conn.endpoints[dir].out_port = port;
        if work.conn.phase == Phase::Dead {
            return work.out.drop(DropReason::Closed, packet);
        }
        if mark.has(flag::CLOSE) {
            work.out.drop(DropReason::Closed, packet);
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
}

impl Work<'_> {
    /// A pure acknowledgement.
    fn leave_empty(&mut self, dir: usize, mut packet: Packet) {
        let port = self.conn.endpoints[dir].out_port;
        if self.conn.mode == Mode::Map
            && let Some(parts) = Parts::of_changed_tcp(&packet)
        {
            let seq = self.expected(dir);
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
        self.out.pass(self.conn.endpoints[dir].out_port, packet);
    }

    /// A packet with payload, or FIN, or that had payload once.
    fn leave(&mut self, dir: usize, mut packet: Packet, mark: &Content) {
        let Some(parts) = Parts::of_changed_tcp(&packet) else {
            self.out.drop(DropReason::BadSegment, packet);
            return self.kill();
        };
        let Some((seq, has_fin)) =
            tcp(&packet, &parts).map(|head| (Seq::new(head.seq()), head.has_flags(flags::FIN)))
        else {
            return self.out.drop(DropReason::BadSegment, packet);
        };
        // Bytes that were held back account for nothing, nor does their packet's FIN.
        let fin = has_fin && mark.has(flag::LAST);
        let endpoint = &self.conn.endpoints[dir];
        let len = parts.payload_len();
        if self.conn.mode < Mode::Guard {
            return self.leave_looked_at(dir, packet, seq + len as u32 + u32::from(fin));
        }
        if (mark.took > 0 || fin) && seq != endpoint.seq_map.end_in() {
            self.out.drop(DropReason::Lost, packet);
            return self.kill();
        }
        let begin = endpoint.end_out();
        self.release(dir, &packet);
        if self.number(dir, mark.took, len, fin).is_err() {
            self.out.drop(DropReason::Full, packet);
            return self.kill();
        }
        if len == 0 && !fin {
            self.out.drop(DropReason::Absorbed, packet);
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
            // A packet beyond the maximum IP length is split first, and then finished in parts.
            let _ = finish(&mut packet, &parts, ip_protocol::TCP);
        }
        self.send_parts(dir, packet, parts, (begin, fin));
    }

    /// Forwards a packet that functions only inspected. A packet that an element in between dropped
    /// comes again, and passes by.
    fn leave_looked_at(&mut self, dir: usize, packet: Packet, end: Seq) {
        let endpoint = &mut self.conn.endpoints[dir];
        while end.after(endpoint.end_out()) {
            let step = end.distance(endpoint.end_out()).min(0xffff) as u16;
            if endpoint.seq_map.push(&mut self.stores.slab, step, step).is_err() {
                // There are no acknowledgements: a capture of one direction.
                endpoint.seq_map = SeqMap::new(end, end);
            }
            endpoint.sent = end;
        }
        self.out.pass(endpoint.out_port, packet);
    }

    /// Records the numbers of a departed packet.
    fn number(&mut self, dir: usize, took: u16, len: usize, fin: bool) -> Result<(), NoRoom> {
        let seq_map = &mut self.conn.endpoints[dir].seq_map;
        let slab = &mut self.stores.slab;
        let length = u16::try_from(len).map_err(|_| NoRoom)?;
        seq_map.push(slab, took, length).map_err(|_| NoRoom)?;
        if fin {
            seq_map.push(slab, 1, 1).map_err(|_| NoRoom)?;
        }
        Ok(())
    }

    /// All bytes of a packet were removed: its receiver cannot acknowledge them, so this does, once
    /// everything before them is acknowledged.
    fn vanished(&mut self, dir: usize) {
        let acked_in = self.acked_in(dir);
        if acked_in.after(self.conn.endpoints[dir].acked_to) {
            self.ack_to_sender(dir, &[]);
            let endpoint = &mut self.conn.endpoints[dir];
            endpoint.acked_to = endpoint.acked_to.max(acked_in);
        }
    }

    /// Sends a packet in as many parts as its receiver wants.
    fn send_parts(&mut self, dir: usize, packet: Packet, parts: Parts, (begin, fin): (Seq, bool)) {
        let limit = self.conn.limit(dir, parts.payload - parts.transport - 20);
        let (mut packet, mut parts, mut begin) = (packet, parts, begin);
        let is_whole = self.keep_whole(dir, &mut packet, parts.payload_len(), limit);
        while !is_whole && parts.payload_len() > limit {
            let Some((mut second, mut behind)) = split(&mut packet, &mut parts, limit) else {
                self.out.drop(DropReason::NoMemory, packet);
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

    /// Forwards a packet that represents several segments in one piece, to be cut behind us as it
    /// would have been before: its segments are no longer than its receiver permits and its sender
    /// makes. False for one that must be cut here, as all are while three quarters of the large
    /// frames that may be kept are in use: parts are in small ones, each on its own. The last
    /// quarter is for packets that arrive in disorder.
    fn keep_whole(&self, dir: usize, packet: &mut Packet, len: usize, limit: usize) -> bool {
        let is_long = packet.segments() > 1;
        let _ = packet.set_segments(1);
        if !is_long || self.stores.retransmit.large() >= whole_max(self.settings.large_max) {
            return false;
        }
        let each = usize::from(self.conn.endpoints[dir].longest).clamp(1, limit);
        packet.set_segments(len.div_ceil(each))
    }

    /// Sends a packet if its receiver has room, and keeps a copy; else keeps it until it has.
    fn send(&mut self, dir: usize, packet: Packet, (begin, end): (Seq, Seq)) {
        if self.conn.phase == Phase::Dead {
            return self.out.drop(DropReason::Closed, packet);
        }
        let endpoint = &mut self.conn.endpoints[dir];
        let list = &mut endpoint.retransmit;
        let beyond = endpoint.right.is_some_and(|right| end.after(right));
        if self.conn.mode == Mode::Map && (beyond || endpoint.sent != begin) {
            self.counts.queued += 1;
            self.stores.unsent += 1;
            self.stores.retransmit.push(list, packet, (begin, end), self.now);
            self.note_kept(dir);
            self.flush(dir);
            return self.arm(dir);
        }
        let Some(copy) = packet.duplicate() else {
            self.out.drop(DropReason::NoMemory, packet);
            return self.kill();
        };
        self.stores.retransmit.push(list, copy, (begin, end), self.now);
        endpoint.sent = end;
        self.out.pass(endpoint.out_port, packet);
        self.note_kept(dir);
        self.arm(dir);
    }
}

struct NoRoom;

/// The part of the large frames for whole packets.
fn whole_max(large_max: u32) -> u32 {
    large_max - large_max.div_ceil(4)
}
