//! Retransmissions: for the sender, or of data that only we have.

use std::cmp::Reverse;

use thruway_packet::Packet;
use thruway_wire::tcp::flags;
use thruway_wire::tcp_option::kind;

use super::options;
use super::part::set_part;
use super::seg::Seg;
use super::template::ControlSegment;
use super::{DropReason, Mode, Seq, Work};
use crate::content::{Content, HasContent};
use crate::segment::{Parts, excerpt};

/// First time after which we send again, nanoseconds; then twice as long, and so on.
const AGAIN_NS: i64 = 300_000_000;
/// Times that we send in vain before we give up.
const TRIES_MAX: u8 = 8;
/// Most segments sent again at once.
const BURST: usize = 16;

impl Work<'_> {
    /// A segment of which everything was shown before.
    pub(super) fn repeated(&mut self, dir: usize, seg: &Seg, packet: Packet) {
        let endpoint = &self.conn.endpoints[dir];
        let is_unseen = endpoint.is_behind && !seg.end().after(endpoint.isn);
        if self.conn.mode < Mode::Guard || is_unseen {
            return self.bypass(dir, packet);
        }
        self.note_clocks(dir, seg);
        if self.resend_for_sender(dir, seg.seq, seg.end()) {
            self.out.drop(DropReason::Repeated, packet);
        } else {
            self.probe(dir, &seg.parts, packet, DropReason::Repeated);
        }
    }

    /// Its sender retransmits a range (of its numbers): sends the kept data, not the new packet's.
    /// False when the receiver has all of it.
    pub(super) fn resend_for_sender(&mut self, dir: usize, from: Seq, to: Seq) -> bool {
        let endpoint = &self.conn.endpoints[dir];
        let acked = endpoint.seq_map.acked_out();
        let to_out = |at: Seq| endpoint.seq_map.to_out(&self.stores.slab, at);
        // Our bytes before those that its first one became are missing as well.
        let (from, mut to) = (to_out(from).max(acked), to_out(to));
        if from == acked && !to.after(from) && endpoint.end_out().after(acked) {
            to = acked + 1;
            self.resend_from_here(dir);
        }
        if !to.after(from) {
            return false;
        }
        self.resend(dir, (from, to), BURST);
        true
    }

    /// Sends the first segment that is not acknowledged again.
    pub(super) fn resend_first(&mut self, dir: usize) {
        let from = self.conn.endpoints[dir].seq_map.acked_out();
        self.resend(dir, (from, from + 1), 1);
    }

    /// Retransmits the kept data of a range of the receiver's numbers, as far as it was sent.
    pub(super) fn resend(&mut self, dir: usize, (from, to): (Seq, Seq), most: usize) {
        let endpoint = self.conn.endpoints[dir];
        if endpoint.sent == endpoint.seq_map.acked_out() {
            return self.ask(dir);
        }
        let mut again: [Option<Packet>; BURST] = [const { None }; BURST];
        let to = to.min(endpoint.sent);
        let kept = self.stores.retransmit.within(&endpoint.retransmit, from, to);
        for (slot, (packet, begin, end)) in again.iter_mut().take(most).zip(kept) {
            *slot = match packet.segments() {
                1 => packet.duplicate(),
                _ => piece(packet, (begin, end), (from, to)),
            };
        }
        for packet in again.into_iter().flatten() {
            self.counts.resent += 1;
            self.out.made += 1;
            self.send_again(dir, packet);
        }
    }

    /// Probes the window when nothing is in flight and waiting data has no room: sends an old
    /// number, which is always answered (RFC 9293 section 3.8.6.1).
    pub(super) fn ask(&mut self, dir: usize) {
        if !self.can_speak_in(dir) {
            return;
        }
        let seq = self.conn.endpoints[dir].seq_map.acked_out() - 1;
        let (ack, window) = self.ack_and_window(1 - dir);
        let timestamps = self.conn.endpoints[dir].timestamps;
        self.emit(dir, ControlSegment { flags: flags::ACK, seq, ack, window, timestamps }, &[]);
    }

    /// Sends a packet that was kept.
    fn send_again(&mut self, dir: usize, mut packet: Packet) {
        if let Ok(parts) = Parts::of_tcp(&packet) {
            // Selective acknowledgements of that time mean nothing now; where numbers are the same
            // on both sides, they go with the acknowledgement of that time.
            if self.conn.mode == Mode::Map && parts.payload - parts.transport > 20 {
                let old = |all: &mut [u8]| options::strip(all, |found| found == kind::SACK);
                let _ = options::change(&mut packet, &parts, old);
            }
            self.refresh(dir, &mut packet, &parts);
        }
        packet.set_content_mark(Content::NONE);
        let endpoint = &self.conn.endpoints[dir];
        self.out.pass(if self.at_exit { endpoint.out_port } else { endpoint.in_port }, packet);
    }

    /// Sends waiting data that has room now.
    pub(super) fn flush(&mut self, dir: usize) {
        loop {
            let endpoint = &mut self.conn.endpoints[dir];
            let (from, to) = (endpoint.sent, endpoint.end_out());
            let mut behind = self.stores.retransmit.within(&endpoint.retransmit, from, to);
            let Some((packet, _, end)) = behind.next() else { return };
            if let Some(right) = endpoint.right.filter(|right| end.after(*right)) {
                // While anything is in flight, more room may come (RFC 9293 section 3.8.6.2.1).
                let is_alone = from == endpoint.seq_map.acked_out() && right.after(from);
                let room = if right.after(from) { right.distance(from) } else { 0 };
                // Segments of a large packet that have room need not wait.
                let each = usize::from(endpoint.longest).max(1) as u32;
                let keep = if room < each { room } else { room - room % each };
                let is_several = room >= each && packet.segments() > 1;
                drop(behind);
                if (is_alone || is_several)
                    && self.stores.retransmit.part(&mut endpoint.retransmit, from, keep)
                {
                    self.out.made += 1;
                    self.stores.unsent += 1;
                    continue;
                }
                return;
            }
            let Some(packet) = packet.duplicate() else { return };
            drop(behind);
            self.conn.endpoints[dir].sent = end;
            self.stores.unsent = self.stores.unsent.saturating_sub(1);
            self.send_again(dir, packet);
        }
    }

    /// Arms the timer of an endpoint with unacknowledged data.
    pub(super) fn arm(&mut self, dir: usize) {
        let endpoint = &mut self.conn.endpoints[dir];
        if self.conn.mode != Mode::Map || endpoint.is_armed || !endpoint.owes() {
            return;
        }
        endpoint.is_armed = true;
        let at = self.now.saturating_add(AGAIN_NS << endpoint.tries.min(TRIES_MAX));
        self.stores.timers.push(Reverse((at, self.id, dir as u8, self.conn.serial)));
    }

    /// A timer has come.
    pub(super) fn remind(&mut self, dir: usize) {
        let endpoint = &mut self.conn.endpoints[dir];
        endpoint.is_armed = false;
        if !endpoint.owes() || self.conn.phase != super::Phase::Alive {
            return;
        }
        endpoint.tries += 1;
        if endpoint.tries > TRIES_MAX {
            return self.kill();
        }
        self.resend_first(dir);
        self.arm(dir);
    }
}

/// The part of a kept packet of several segments, with numbers `begin` to `end`: those from `from`
/// to `to`, and at least one segment.
fn piece(packet: &Packet, (begin, end): (Seq, Seq), (from, to): (Seq, Seq)) -> Option<Packet> {
    let parts = Parts::of_tcp(packet).ok()?;
    let len = parts.payload_len();
    let skip = from.max(begin).distance(begin) as usize;
    let each = len.div_ceil(packet.segments());
    let until = (to.min(end).distance(begin) as usize).max(skip + each).min(len);
    let (mut piece, mut parts) = excerpt(packet, &parts, skip.min(until)..until)?;
    // Its FIN goes with its last byte.
    let has_fin = until == len && end.distance(begin) as usize > len;
    set_part(&mut piece, &mut parts, begin + skip.min(until) as u32, has_fin);
    Some(piece)
}
