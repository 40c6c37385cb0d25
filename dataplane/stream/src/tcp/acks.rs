//! Acknowledgements: received, forwarded, and our own.

use thruway_packet::Packet;
use thruway_wire::tcp::flags;

use super::arrive::WINDOW_UNKNOWN;
use super::endpoint::Endpoint;
use super::options::{self, Timestamps};
use super::seg::Seg;
use super::seq_map::SeqMap;
use super::template::ControlSegment;
use super::{DropReason, Mode, Seq, Work};
use crate::segment::{Parts, tcp_mut};

/// Duplicate acknowledgements in a row after which we send again (RFC 5681 section
/// 3.2).
const REPEATS: u8 = 3;
/// Times of asking in vain for room that count, where there are answers.
const TRIES_WITHOUT_ROOM: u8 = 4;

impl Work<'_> {
    /// The window scale of a direction, if known (RFC 7323 section 2.2: only if both SYNs have the
    /// option).
    #[inline]
    pub(super) fn scale(&self, dir: usize) -> Option<u8> {
        let [one, other] = &self.conn.endpoints;
        if !one.has_syn || !other.has_syn {
            return None;
        }
        let both = one.scale.is_some() && other.scale.is_some();
        Some(if both { self.conn.endpoints[dir].scale.unwrap_or(0) } else { 0 })
    }

    /// Processes a segment's acknowledgement in direction `dir` of the other one's data.
    pub(super) fn ack(&mut self, dir: usize, seg: &Seg) -> Result<(), DropReason> {
        let scale = self.scale(dir).map(|scale| if seg.has(flags::SYN) { 0 } else { scale });
        if !self.conn.endpoints[1 - dir].is_known {
            self.conn.endpoints[dir].window = seg.scaled_window();
            return Ok(());
        }
        let is_whole = self.conn.is_whole();
        let ack = self.find_position(1 - dir, seg)?;
        let endpoint = &mut self.conn.endpoints[1 - dir];
        endpoint.is_behind &= ack.before(endpoint.isn);
        if ack.after(endpoint.sent) {
            if is_whole && self.conn.mode >= Mode::Guard {
                // Data shown to functions a moment ago may not have left yet; in a capture, data
                // and its acknowledgement may come in one batch.
                let is_shown = self.conn.mode == Mode::Guard && !seg.ack.after(endpoint.next);
                return if is_shown { Ok(()) } else { Err(DropReason::BadAck) };
            }
            self.skip(1 - dir, seg);
            return Ok(());
        }
        let before = endpoint.seq_map.acked_out();
        let is_news = ack.after(before);
        self.is_news = is_news;
        if is_news {
            endpoint.seq_map.acknowledge(&mut self.stores.slab, ack);
            self.stores.retransmit.prune(&mut endpoint.retransmit, ack);
            (endpoint.repeats, endpoint.tries) = (0, 0);
            self.note_acknowledged(1 - dir);
            let acked_in = self.acked_in(1 - dir);
            let endpoint = &mut self.conn.endpoints[1 - dir];
            endpoint.acked_to = endpoint.acked_to.max(acked_in);
        }
        let endpoint = &mut self.conn.endpoints[1 - dir];
        // Late segments carry old windows: the right edge never goes back (RFC 9293
        // section 3.8.6), so the farthest is the latest.
        let right = scale.map(|scale| seg.ack + (u32::from(seg.window) << scale));
        let is_late = right.zip(endpoint.right).is_some_and(|(right, known)| right.before(known));
        if !ack.before(before) && !is_late {
            endpoint.right = right.or(endpoint.right);
            self.conn.endpoints[dir].window = seg.scaled_window();
        }
        let endpoint = &mut self.conn.endpoints[1 - dir];
        if endpoint.sent != endpoint.end_out() {
            // A receiver without room that still answers is not given up (RFC 9293 section
            // 3.8.6.1).
            endpoint.tries = endpoint.tries.min(TRIES_WITHOUT_ROOM);
            self.flush(1 - dir);
        }
        if is_news {
            self.resend_next(1 - dir);
        }
        let withholds = self.withholds(1 - dir);
        let endpoint = &mut self.conn.endpoints[1 - dir];
        let idle = seg.len + seg.fin() == 0 && !is_news && ack == before;
        if idle
            && (withholds || endpoint.seq_map.acked_in() == endpoint.seq_map.end_in())
            && before != endpoint.sent
        {
            endpoint.repeats = endpoint.repeats.saturating_add(1);
            if endpoint.repeats == REPEATS {
                self.resend_from_here(1 - dir);
                self.resend_first(1 - dir);
            }
        }
        self.arm(1 - dir);
        Ok(())
    }

    /// The receiver has bytes that did not come by here: continue after them. (The first packet
    /// seen here was a keep-alive, or some packets take another path.)
    fn skip(&mut self, dir: usize, seg: &Seg) {
        let (ack, scale) = (seg.ack, self.scale(1 - dir));
        let endpoint = &mut self.conn.endpoints[dir];
        let ahead = ack.distance(endpoint.sent);
        let is_quiet =
            endpoint.seq_map.end_in() == endpoint.next && endpoint.sent == endpoint.end_out();
        if !is_quiet || endpoint.fin.is_some() || ahead > WINDOW_UNKNOWN {
            return;
        }
        endpoint.next = endpoint.next + ahead;
        endpoint.seq_map.release(&mut self.stores.slab);
        self.stores.retransmit.clear(&mut endpoint.retransmit);
        endpoint.seq_map = SeqMap::new(endpoint.next, ack);
        endpoint.sent = ack;
        endpoint.acked_to = endpoint.acked_to.max(endpoint.next);
        endpoint.advertised_right = endpoint.advertised_right.max(endpoint.acked_to);
        endpoint.right = scale.map(|scale| ack + (u32::from(seg.window) << scale));
        self.conn.endpoints[1 - dir].window = seg.scaled_window();
        self.drain(dir);
    }

    /// Acknowledgement and window to announce next to an endpoint's sender. Never less than was
    /// announced before.
    pub(super) fn ack_and_window(&mut self, dir: usize) -> (Seq, u16) {
        let scale = self.scale(1 - dir);
        let window = self.conn.endpoints[1 - dir].window;
        let acked_in = self.acked_in(dir);
        let endpoint = &mut self.conn.endpoints[dir];
        endpoint.acked_to = endpoint.acked_to.max(acked_in);
        let (Some(scale), Some(right)) = (scale, endpoint.right) else {
            return (endpoint.acked_to, window);
        };
        // The receiver's room beyond all data that has left is the sender's room beyond all that it
        // sent.
        let free_window =
            if right.after(endpoint.end_out()) { right.distance(endpoint.end_out()) } else { 0 };
        let grown = endpoint.seq_map.end_in() + free_window;
        let unit = 1u32 << scale;
        let kept = match endpoint.advertised_right.after(endpoint.acked_to) {
            true => endpoint.advertised_right.distance(endpoint.acked_to).div_ceil(unit),
            false => 0,
        };
        let grown = if grown.after(endpoint.acked_to) {
            grown.distance(endpoint.acked_to) / unit
        } else {
            0
        };
        let field = kept.max(grown).min(0xffff);
        endpoint.advertised_right = endpoint.advertised_right.max(endpoint.acked_to + field * unit);
        (endpoint.acked_to, field as u16)
    }

    /// The window that goes with what an endpoint's receiver has acknowledged, where numbers are
    /// the same on both sides.
    fn advertised_window(&self, dir: usize) -> u16 {
        let endpoint: &Endpoint = &self.conn.endpoints[dir];
        let ack = endpoint.seq_map.acked_in();
        match (self.scale(1 - dir), endpoint.right) {
            (Some(scale), Some(right)) if right.after(ack) => {
                (right.distance(ack) >> scale).min(0xffff) as u16
            }
            (Some(_), Some(_)) => 0,
            _ => self.conn.endpoints[1 - dir].window,
        }
    }

    /// Updates a packet that leaves in a direction: acknowledgement, window, timestamps. (The
    /// timestamps, because packets that were held back would look old to the receiver: RFC 7323
    /// section 5.2.)
    pub(super) fn refresh(&mut self, dir: usize, packet: &mut Packet, parts: &Parts) {
        let other = &self.conn.endpoints[1 - dir];
        if self.conn.mode == Mode::Map && other.is_known && !other.is_behind {
            self.map_sack(dir, packet, parts);
            let (ack, window) = self.ack_and_window(1 - dir);
            if let Some(header) = tcp_mut(packet, parts).filter(|head| head.has_flags(flags::ACK)) {
                header.update_ack(ack.get());
                header.update_window(window);
            }
        }
        self.refresh_clocks(dir, packet, parts);
    }

    /// Sets the timestamps to the latest that were seen.
    pub(super) fn refresh_clocks(&mut self, dir: usize, packet: &mut Packet, parts: &Parts) {
        let Some((value, echo)) = self.conn.endpoints[dir].timestamps else { return };
        if parts.payload - parts.transport > 20 {
            let latest = |_| Timestamps { value, echo };
            // Invalid options were refused on arrival.
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
        let (slab, endpoint) = (&self.stores.slab, &self.conn.endpoints[1 - dir]);
        let (acked, acked_to) =
            (endpoint.seq_map.acked_out(), endpoint.acked_to.max(endpoint.seq_map.acked_in()));
        let ack = tcp_mut(packet, parts).map_or(acked, |head| Seq::new(head.ack()));
        // The first may report a duplicate (RFC 2883 section 4). A block that is acknowledged by
        // now is no news, and as a first block it would look like a duplicate.
        let (mut nth, mut is_duplicate) = (0, false);
        let _ = options::change(packet, parts, |all| {
            is_duplicate = options::has_duplicate(all, ack);
            options::map_sack(all, |block| {
                nth += 1;
                let mapped = endpoint.seq_map.to_in_range(slab, block, acked);
                mapped.filter(|(left, _)| nth == 1 && is_duplicate || left.after(acked_to))
            })
        });
    }

    /// Acknowledges to the sender of a direction, with the blocks that wait.
    pub(super) fn ack_to_sender(&mut self, dir: usize, blocks: &[(Seq, Seq)]) {
        if !self.can_speak_in(1 - dir) {
            return;
        }
        let (ack, window) = match self.conn.mode {
            Mode::Map => self.ack_and_window(dir),
            _ => (self.conn.endpoints[dir].seq_map.acked_in(), self.advertised_window(dir)),
        };
        let other = &self.conn.endpoints[1 - dir];
        let blocks = if self.conn.endpoints[dir].sack && other.sack { blocks } else { &[] };
        let seq = self.expected(1 - dir);
        let control =
            ControlSegment { flags: flags::ACK, seq, ack, window, timestamps: other.timestamps };
        self.emit(1 - dir, control, blocks);
    }

    /// Whether as much is known of both sides as is needed to speak for one of them: its numbers,
    /// and either both have clocks or none has.
    pub(super) fn can_speak(&self) -> bool {
        let [one, other] = &self.conn.endpoints;
        let both_known = one.is_known && other.is_known;
        both_known && one.timestamps.is_some() == other.timestamps.is_some()
    }

    /// Whether the state suffices for a packet of our own in a direction, including the state of
    /// the side that it impersonates.
    pub(super) fn can_speak_in(&self, dir: usize) -> bool {
        self.can_speak() && !self.conn.endpoints[1 - dir].is_behind
    }

    /// Notes the clocks of a segment that was taken.
    #[inline]
    pub(super) fn note_clocks(&mut self, dir: usize, seg: &Seg) {
        if let Some(Timestamps { value, echo }) = seg.options.timestamps {
            let known = &mut self.conn.endpoints[dir].timestamps;
            let is_newer =
                known.is_none_or(|(latest, _)| !Seq::new(value).before(Seq::new(latest)));
            if is_newer {
                *known = Some((value, echo));
            }
        }
    }
}
