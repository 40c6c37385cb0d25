//! Acknowledgements: what those that come say, and what those that go say selectively.

use super::{AckNews, Fault, Host, MILLISECOND, Stage};
use crate::frame::Segment;

impl Host {
    /// False when the rest of the segment is not to be looked at.
    pub(super) fn take_ack(&mut self, segment: &Segment, seq: i64) -> bool {
        let ack = self.offset_of_mine(segment.ack);
        if ack > self.tx.max {
            let most = self.tx.max;
            self.blame(Fault::AckBeyond, format_args!("{ack}, sent to {most}: {segment:?}"));
            return false;
        }
        if self.stage == Stage::SynReceived {
            if ack < 1 {
                return false;
            }
            self.establish();
        }
        let known = self.tx.sacked.count_below(i64::MAX);
        self.take_blocks(segment, ack);
        let news = AckNews {
            ack,
            edge: ack + (i64::from(segment.window) << self.agreed.peer_scale),
            seq,
            news: self.tx.sacked.count_below(i64::MAX) > known,
            has_data: segment.span() > 0,
            rtt: self.round_trip(segment, ack),
        };
        // Less than a unit may be lost where an edge is no multiple of it (RFC 7323 section 2.4).
        let moved = self.tx.acked(news, self.now);
        if moved <= -(1 << self.agreed.peer_scale) && self.config.is_strict {
            self.blame(Fault::WindowShrunk, format_args!("{segment:?}"));
        }
        true
    }

    fn round_trip(&mut self, segment: &Segment, ack: i64) -> Option<i64> {
        let (_, echo) = segment.stamps?;
        let age = self.stamp().wrapping_sub(echo);
        let since_first = self.stamp().wrapping_sub(self.first_stamp?);
        if self.agreed.stamps && age > since_first {
            self.blame(Fault::Echo, format_args!("{segment:?}, now {}", self.stamp()));
            return None;
        }
        (self.agreed.stamps && ack > self.tx.una).then_some(i64::from(age) * MILLISECOND)
    }

    pub(super) fn take_blocks(&mut self, segment: &Segment, ack: i64) {
        let blocks: Vec<(i64, i64)> = segment
            .blocks
            .as_slice()
            .iter()
            .map(|(left, right)| (self.offset_of_mine(*left), self.offset_of_mine(*right)))
            .collect();
        let mut seen: Vec<(i64, i64)> = Vec::new();
        for (index, (left, right)) in blocks.iter().copied().enumerate() {
            let within = |other: &(i64, i64)| other.0 <= left && right <= other.1;
            let is_duplicate = index == 0 && (right <= ack || blocks.get(1).is_some_and(within));
            let overlaps = seen.iter().any(|other| left < other.1 && other.0 < right);
            let is_wrong = left >= right || left < 1 || right > self.tx.max;
            if is_wrong || !is_duplicate && (left <= ack || overlaps) {
                let most = self.tx.max;
                self.blame(Fault::Blocks, format_args!("{segment:?}, sent to {most}"));
            } else if !is_duplicate {
                seen.push((left, right));
                self.tx.sacked.insert(left.max(self.tx.una), right);
            }
        }
    }

    pub(super) fn put_blocks(&mut self, segment: &mut Segment) {
        let used = segment.payload.len() + segment.options_len();
        let free = if segment.payload.is_empty() { 40 } else { self.tx.mss.saturating_sub(used) };
        let most = (free.min(40 - segment.options_len()).saturating_sub(4) / 8).min(4);
        if !self.agreed.sack || most == 0 {
            return;
        }
        for (left, right) in self.rx.blocks(most) {
            let wire = |offset: i64| self.irs.wrapping_add(offset as u32);
            segment.blocks.push((wire(left), wire(right)));
        }
    }
}
