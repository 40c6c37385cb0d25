//! Acknowledgements: those that come, those that are passed on, those that we make.

use thruway_packet::Packet;
use thruway_wire::tcp::flags;

use super::arrive::WINDOW_UNKNOWN;
use super::edits::Edits;
use super::half::Half;
use super::options::{self, Timestamps};
use super::seg::Seg;
use super::template::Saying;
use super::{Mode, Seq, Why, Work};
use crate::segment::{Parts, tcp_mut};

/// Acknowledgements in a row that tell nothing new after which we send again (RFC 5681 section
/// 3.2).
const REPEATS: u8 = 3;
/// Times of asking in vain for room that count, where there are answers.
const TRIES_WITHOUT_ROOM: u8 = 4;

impl Work<'_> {
    /// By how much windows told in a direction are shifted, where that is known (RFC 7323 section
    /// 2.2: only if both SYNs say so).
    #[inline]
    pub(super) fn scale(&self, dir: usize) -> Option<u8> {
        let [one, other] = &self.conn.halves;
        if !one.has_syn || !other.has_syn {
            return None;
        }
        let both = one.scale.is_some() && other.scale.is_some();
        Some(if both { self.conn.halves[dir].scale.unwrap_or(0) } else { 0 })
    }

    /// Takes what a segment of direction `dir` acknowledges of the other one's data.
    pub(super) fn ack(&mut self, dir: usize, seg: &Seg) -> Result<(), Why> {
        let scale = self.scale(dir).map(|scale| if seg.has(flags::SYN) { 0 } else { scale });
        if !self.conn.halves[1 - dir].is_known {
            self.conn.halves[dir].window = seg.scaled_window();
            return Ok(());
        }
        let is_whole = self.conn.is_whole();
        let half = &mut self.conn.halves[1 - dir];
        half.is_behind &= seg.ack.before(half.isn);
        if seg.ack.after(half.sent) {
            if is_whole && self.conn.mode >= Mode::Guard {
                // What functions were shown a moment ago may not have left yet; of a capture, that
                // and its acknowledgement may come in one batch.
                let is_shown = self.conn.mode == Mode::Guard && !seg.ack.after(half.next);
                return if is_shown { Ok(()) } else { Err(Why::BadAck) };
            }
            self.skip(1 - dir, seg);
            return Ok(());
        }
        let before = half.edits.acked_out();
        let is_news = seg.ack.after(before);
        self.is_news = is_news;
        if is_news {
            half.edits.acknowledge(&mut self.stores.slab, seg.ack);
            self.stores.copies.prune(&mut half.copies, seg.ack);
            (half.repeats, half.tries) = (0, 0);
            half.told = half.told.max(half.edits.acked_in());
        }
        // Late segments tell of windows that are gone: the right edge never goes back (RFC 9293
        // section 3.8.6), so the farthest is the latest.
        let right = scale.map(|scale| seg.ack + (u32::from(seg.window) << scale));
        let is_late = right.zip(half.right).is_some_and(|(right, known)| right.before(known));
        if !seg.ack.before(before) && !is_late {
            half.right = right.or(half.right);
            self.conn.halves[dir].window = seg.scaled_window();
        }
        let half = &mut self.conn.halves[1 - dir];
        if half.sent != half.end_out() {
            // Who has no room, but answers, is not given up (RFC 9293 section 3.8.6.1).
            half.tries = half.tries.min(TRIES_WITHOUT_ROOM);
            self.flush(1 - dir);
        }
        let half = &mut self.conn.halves[1 - dir];
        let idle = seg.len + seg.fin() == 0 && !is_news && seg.ack == before;
        if idle && half.edits.acked_in() == half.edits.end_in() && before != half.sent {
            half.repeats = half.repeats.saturating_add(1);
            if half.repeats == REPEATS {
                self.resend_first(1 - dir);
            }
        }
        self.arm(1 - dir);
        Ok(())
    }

    /// The receiver has bytes that did not come by here: what follows them is next. (A connection
    /// whose first packet here was a keep-alive, or of which packets take another way.)
    fn skip(&mut self, dir: usize, seg: &Seg) {
        let (ack, scale) = (seg.ack, self.scale(1 - dir));
        let half = &mut self.conn.halves[dir];
        let ahead = ack.distance(half.sent);
        let is_quiet = half.edits.end_in() == half.next && half.sent == half.end_out();
        if !is_quiet || half.fin.is_some() || ahead > WINDOW_UNKNOWN {
            return;
        }
        half.next = half.next + ahead;
        half.edits.release(&mut self.stores.slab);
        self.stores.copies.clear(&mut half.copies);
        half.edits = Edits::new(half.next, ack);
        half.sent = ack;
        half.told = half.told.max(half.next);
        half.told_right = half.told_right.max(half.told);
        half.right = scale.map(|scale| ack + (u32::from(seg.window) << scale));
        self.conn.halves[1 - dir].window = seg.scaled_window();
        self.drain(dir);
    }

    /// What the sender of a half is told next: acknowledgement and window. Never less than it was
    /// told before.
    pub(super) fn tell(&mut self, dir: usize) -> (Seq, u16) {
        let scale = self.scale(1 - dir);
        let window = self.conn.halves[1 - dir].window;
        let half = &mut self.conn.halves[dir];
        half.told = half.told.max(half.edits.acked_in());
        let (Some(scale), Some(right)) = (scale, half.right) else { return (half.told, window) };
        // What the receiver has room for beyond all that has left, the sender may send beyond all
        // that it sent.
        let room = if right.after(half.end_out()) { right.distance(half.end_out()) } else { 0 };
        let grown = half.edits.end_in() + room;
        let unit = 1u32 << scale;
        let kept = match half.told_right.after(half.told) {
            true => half.told_right.distance(half.told).div_ceil(unit),
            false => 0,
        };
        let grown = if grown.after(half.told) { grown.distance(half.told) / unit } else { 0 };
        let field = kept.max(grown).min(0xffff);
        half.told_right = half.told_right.max(half.told + field * unit);
        (half.told, field as u16)
    }

    /// The window that goes with what the receiver of a half has acknowledged, where numbers are
    /// the same on both sides.
    fn window_told(&self, dir: usize) -> u16 {
        let half: &Half = &self.conn.halves[dir];
        let ack = half.edits.acked_in();
        match (self.scale(1 - dir), half.right) {
            (Some(scale), Some(right)) if right.after(ack) => {
                (right.distance(ack) >> scale).min(0xffff) as u16
            }
            (Some(_), Some(_)) => 0,
            _ => self.conn.halves[1 - dir].window,
        }
    }

    /// Brings a packet that leaves in a direction up to date: what it acknowledges, its window, its
    /// clocks. (The clocks, because packets that were held back would look old to the receiver: RFC
    /// 7323 section 5.2.)
    pub(super) fn refresh(&mut self, dir: usize, packet: &mut Packet, parts: &Parts) {
        let other = &self.conn.halves[1 - dir];
        if self.conn.mode == Mode::Map && other.is_known && !other.is_behind {
            self.map_sack(dir, packet, parts);
            let (ack, window) = self.tell(1 - dir);
            if let Some(header) = tcp_mut(packet, parts).filter(|head| head.has_flags(flags::ACK)) {
                header.update_ack(ack.get());
                header.update_window(window);
            }
        }
        self.refresh_clocks(dir, packet, parts);
    }

    /// Sets the timestamps to the latest that were seen.
    pub(super) fn refresh_clocks(&mut self, dir: usize, packet: &mut Packet, parts: &Parts) {
        let Some((value, echo)) = self.conn.halves[dir].timestamps else { return };
        if parts.payload - parts.transport > 20 {
            let latest = |_| Timestamps { value, echo };
            // What could not be read was refused when it came.
            let _ = options::change(packet, parts, |all| options::map_timestamps(all, latest));
        }
    }

    /// Gives selective acknowledgements in the numbers of the sender that they are for.
    fn map_sack(&mut self, dir: usize, packet: &mut Packet, parts: &Parts) {
        let header = parts.payload - parts.transport;
        // PERF: a header with timestamps alone, as most have it.
        if header == 20 || header == 32 && packet.data().get(parts.transport + 22) == Some(&8) {
            return;
        }
        let (slab, half) = (&self.stores.slab, &self.conn.halves[1 - dir]);
        let (acked, told) = (half.edits.acked_out(), half.told.max(half.edits.acked_in()));
        let said = tcp_mut(packet, parts).map_or(acked, |head| Seq::new(head.ack()));
        // The first may tell of a duplicate (RFC 2883 section 4). What is acknowledged by now is no
        // news, and as a first block it would look like a duplicate.
        let (mut nth, mut is_duplicate) = (0, false);
        let _ = options::change(packet, parts, |all| {
            is_duplicate = options::has_duplicate(all, said);
            options::map_sack(all, |block| {
                nth += 1;
                let mapped = half.edits.to_in_range(slab, block, acked);
                mapped.filter(|(left, _)| nth == 1 && is_duplicate || left.after(told))
            })
        });
    }

    /// Tells the sender of a half how far it has come, and what waits.
    pub(super) fn ack_to_sender(&mut self, dir: usize, blocks: &[(Seq, Seq)]) {
        if !self.can_speak_in(1 - dir) {
            return;
        }
        let (ack, window) = match self.conn.mode {
            Mode::Map => self.tell(dir),
            _ => (self.conn.halves[dir].edits.acked_in(), self.window_told(dir)),
        };
        let other = &self.conn.halves[1 - dir];
        let blocks = if self.conn.halves[dir].sack && other.sack { blocks } else { &[] };
        let seq = other.sent;
        let saying = Saying { flags: flags::ACK, seq, ack, window, timestamps: other.timestamps };
        self.say(1 - dir, saying, blocks);
    }

    /// Whether as much is known of both sides as is needed to speak for one of them: its numbers,
    /// and either both have clocks or none has.
    pub(super) fn can_speak(&self) -> bool {
        let [one, other] = &self.conn.halves;
        let both_known = one.is_known && other.is_known;
        both_known && one.timestamps.is_some() == other.timestamps.is_some()
    }

    /// Whether as much is known as is needed for a packet of our own in a direction: also what the
    /// side for which it speaks has.
    pub(super) fn can_speak_in(&self, dir: usize) -> bool {
        self.can_speak() && !self.conn.halves[1 - dir].is_behind
    }

    /// Notes the clocks of a segment that was taken.
    #[inline]
    pub(super) fn note_clocks(&mut self, dir: usize, seg: &Seg) {
        if let Some(Timestamps { value, echo }) = seg.said.timestamps {
            let known = &mut self.conn.halves[dir].timestamps;
            let is_newer =
                known.is_none_or(|(latest, _)| !Seq::new(value).before(Seq::new(latest)));
            if is_newer {
                *known = Some((value, echo));
            }
        }
    }
}
