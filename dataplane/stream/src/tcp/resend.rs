//! What is sent again: because its sender does, or because only we can.

use std::cmp::Reverse;

use thruway_packet::Packet;
use thruway_wire::tcp::flags;
use thruway_wire::tcp_option::kind;

use super::options;
use super::seg::Seg;
use super::template::Saying;
use super::{Mode, Seq, Why, Work};
use crate::content::{Content, HasContent};
use crate::segment::Parts;

/// First time after which we send again, nanoseconds; then twice as long, and so on.
const AGAIN_NS: i64 = 300_000_000;
/// Times that we send in vain before we give up.
const TRIES_MAX: u8 = 8;
/// Most segments sent again at once.
const BURST: usize = 16;

impl Work<'_> {
    /// A segment of which everything was shown before.
    pub(super) fn repeated(&mut self, dir: usize, seg: &Seg, packet: Packet) {
        let half = &self.conn.halves[dir];
        let is_unseen = half.is_behind && !seg.end().after(half.isn);
        if self.conn.mode < Mode::Guard || is_unseen {
            return self.bypass(dir, packet);
        }
        self.note_clocks(dir, seg);
        if self.resend_for_sender(dir, seg.seq, seg.end()) {
            self.out.drop(Why::Repeated, packet);
        } else {
            self.probe(dir, &seg.parts, packet, Why::Repeated);
        }
    }

    /// Its sender sends a range (of its numbers) again: from what was kept, not from what it sends
    /// now. False when the receiver has all of it.
    pub(super) fn resend_for_sender(&mut self, dir: usize, from: Seq, to: Seq) -> bool {
        let half = &self.conn.halves[dir];
        let acked = half.edits.acked_out();
        let to_out = |at: Seq| half.edits.to_out(&self.stores.slab, at);
        // Bytes of ours before those that its first one became are missing as well.
        let (from, mut to) = (to_out(from).max(acked), to_out(to));
        if from == acked && !to.after(from) && half.end_out().after(acked) {
            to = acked + 1;
        }
        if !to.after(from) {
            return false;
        }
        self.resend(dir, (from, to), BURST);
        true
    }

    /// Sends the first segment that is not acknowledged again.
    pub(super) fn resend_first(&mut self, dir: usize) {
        let from = self.conn.halves[dir].edits.acked_out();
        self.resend(dir, (from, from + 1), 1);
    }

    /// Sends what is kept of a range of the receiver's numbers again, as far as it was sent.
    fn resend(&mut self, dir: usize, (from, to): (Seq, Seq), most: usize) {
        let half = self.conn.halves[dir];
        if half.sent == half.edits.acked_out() {
            return self.ask(dir);
        }
        let mut again: [Option<Packet>; BURST] = [const { None }; BURST];
        let to = to.min(half.sent);
        let kept = self.stores.copies.within(&half.copies, from, to);
        for (slot, (packet, ..)) in again.iter_mut().take(most).zip(kept) {
            *slot = packet.duplicate();
        }
        for packet in again.into_iter().flatten() {
            self.counts.resent += 1;
            self.out.made += 1;
            self.send_again(dir, packet);
        }
    }

    /// Nothing is under way, and what waits finds no room: whether there is some now is asked by an
    /// old number, which is always answered (RFC 9293 section 3.8.6.1).
    pub(super) fn ask(&mut self, dir: usize) {
        if !self.can_speak_in(dir) {
            return;
        }
        let seq = self.conn.halves[dir].edits.acked_out() - 1;
        let (ack, window) = self.tell(1 - dir);
        let timestamps = self.conn.halves[dir].timestamps;
        self.say(dir, Saying { flags: flags::ACK, seq, ack, window, timestamps }, &[]);
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
        let half = &self.conn.halves[dir];
        self.out.pass(if self.at_exit { half.out_port } else { half.in_port }, packet);
    }

    /// Sends what waits and has room now.
    pub(super) fn flush(&mut self, dir: usize) {
        loop {
            let half = &mut self.conn.halves[dir];
            let (from, to) = (half.sent, half.end_out());
            let mut behind = self.stores.copies.within(&half.copies, from, to);
            let Some((packet, _, end)) = behind.next() else { return };
            if let Some(right) = half.right.filter(|right| end.after(*right)) {
                drop(behind);
                // While anything is under way, more room may come (RFC 9293 section 3.8.6.2.1).
                let is_alone = from == half.edits.acked_out() && right.after(from);
                let room = right.distance(from);
                if is_alone && self.stores.copies.part(&mut half.copies, from, room) {
                    self.out.made += 1;
                    self.stores.unsent += 1;
                    continue;
                }
                return;
            }
            let Some(packet) = packet.duplicate() else { return };
            drop(behind);
            self.conn.halves[dir].sent = end;
            self.stores.unsent = self.stores.unsent.saturating_sub(1);
            self.send_again(dir, packet);
        }
    }

    /// Sees to it that we look after a half in which we owe something.
    pub(super) fn arm(&mut self, dir: usize) {
        let half = &mut self.conn.halves[dir];
        if self.conn.mode != Mode::Map || half.is_armed || !half.owes() {
            return;
        }
        half.is_armed = true;
        let at = self.now.saturating_add(AGAIN_NS << half.tries.min(TRIES_MAX));
        self.stores.timers.push(Reverse((at, self.id, dir as u8, self.conn.serial)));
    }

    /// A timer has come.
    pub(super) fn remind(&mut self, dir: usize) {
        let half = &mut self.conn.halves[dir];
        half.is_armed = false;
        if !half.owes() || self.conn.phase != super::Phase::Alive {
            return;
        }
        half.tries += 1;
        if half.tries > TRIES_MAX {
            return self.kill();
        }
        self.resend_first(dir);
        self.arm(dir);
    }
}
