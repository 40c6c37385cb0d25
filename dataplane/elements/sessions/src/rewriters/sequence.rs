//! Sequence numbers of connections with segments that an element made longer or shorter.

use thruway_packet::Packet;
use thruway_stream::segment::{Parts, tcp, tcp_mut};
use thruway_stream::tcp::{Seq, options};

/// Changes of one direction that are known at a time. With one more, the first is taken to have
/// been so from the beginning.
const CHANGES_MAX: usize = 8;
/// Connections with changes, at most.
const CONNECTIONS_MAX: usize = 1 << 16;
/// A sender this far beyond a change does not send older bytes any more.
const FAR: u32 = 1 << 30;

/// From this number on, so much is added.
#[derive(Clone, Copy, Debug, Default)]
struct Change {
    from: Seq,
    add: u32,
}

/// The changes of the sequence numbers of one direction.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Shift {
    /// Before the first change.
    begin: u32,
    changes: [Change; CHANGES_MAX],
    len: usize,
}

impl Shift {
    /// From the sender's number `from` on, adds `more` to the previous change. A repeated report
    /// for the same number (a retransmitted segment) counts once. False, and nothing changed, if
    /// later numbers are changed already.
    fn add(&mut self, from: Seq, more: i32) -> bool {
        if let Some(last) = self.changes[..self.len].last() {
            if from.before(last.from) {
                return false;
            }
            self.len -= usize::from(from == last.from);
        }
        if self.len == CHANGES_MAX {
            self.begin = self.changes[0].add;
            self.changes.rotate_left(1);
            self.len -= 1;
        }
        let before = self.changes[..self.len].last().map_or(self.begin, |change| change.add);
        self.changes[self.len] = Change { from, add: before.wrapping_add_signed(more) };
        self.len += 1;
        true
    }

    /// The rewritten number for the sender's.
    fn sent(&self, seq: Seq) -> Seq {
        let is_past = |change: &&Change| !seq.before(change.from);
        let change = self.changes[..self.len].iter().rfind(is_past);
        seq + change.map_or(self.begin, |change| change.add)
    }

    /// The sender's number for one that the receiver acknowledges.
    fn acknowledged(&self, ack: Seq) -> Seq {
        let is_past = |change: &&Change| !(ack - change.add).before(change.from);
        let change = self.changes[..self.len].iter().rfind(is_past);
        ack - change.map_or(self.begin, |change| change.add)
    }

    /// The sender is at this number: changes that lie far back are forgotten.
    fn at(&mut self, seq: Seq) {
        if let Some(last) = self.changes[..self.len].last()
            && !seq.before(last.from + FAR)
        {
            (self.begin, self.len) = (last.add, 0);
        }
    }
}

/// Both directions of a connection: what it sends forward, and what the replies do.
type Both = [Shift; 2];

/// The connections with changes, by number.
#[derive(Debug, Default)]
pub(super) struct Sequences {
    all: Vec<Both>,
    free: Vec<u32>,
}

impl Sequences {
    /// A number for a connection; `None` when there are too many.
    pub(super) fn acquire(&mut self) -> Option<u32> {
        if let Some(number) = self.free.pop() {
            self.all[number as usize] = Both::default();
            return Some(number);
        }
        (self.all.len() < CONNECTIONS_MAX).then(|| {
            self.all.push(Both::default());
            self.all.len() as u32 - 1
        })
    }

    pub(super) fn release(&mut self, number: u32) {
        self.free.push(number);
    }

    /// From `from` on, a connection's direction has so many bytes more.
    pub(super) fn add(&mut self, number: u32, is_reply: bool, from: Seq, more: i32) -> bool {
        let both = self.all.get_mut(number as usize);
        both.is_some_and(|both| both[usize::from(is_reply)].add(from, more))
    }

    /// The present change of a direction's numbers.
    pub(super) fn now(&self, number: u32, is_reply: bool) -> i32 {
        let shift = self.all.get(number as usize).map(|both| both[usize::from(is_reply)]);
        shift.map_or(0, |shift| {
            shift.changes[..shift.len].last().map_or(shift.begin, |change| change.add) as i32
        })
    }

    /// Changes the numbers of a segment; one with a header that is not right is left as it is.
    #[cold]
    pub(super) fn apply(&mut self, number: u32, is_reply: bool, packet: &mut Packet) {
        let Some(both) = self.all.get_mut(number as usize) else { return };
        let Ok(parts) = Parts::of_tcp(packet) else { return };
        let Some(head) = tcp(packet, &parts) else { return };
        let (seq, ack) = (Seq::new(head.seq()), Seq::new(head.ack()));
        let (own, other) = (usize::from(is_reply), usize::from(!is_reply));
        both[own].at(seq);
        let edge = |edge| both[other].acknowledged(edge);
        let bytes = &mut packet.data_mut()[parts.transport + 20..parts.payload];
        // Options that cannot be read have nothing to be changed.
        let delta = options::map_sack(bytes, |(left, right)| Some((edge(left), edge(right))));
        if let Some(head) = tcp_mut(packet, &parts) {
            head.update_seq(both[own].sent(seq).get());
            head.update_ack(edge(ack).get());
            if let Ok(delta) = delta {
                head.update_checksum(delta);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn numbers_behind_a_change_are_shifted_and_acknowledged_back() {
        let mut shift = Shift::default();
        assert!(shift.add(Seq::new(30), -12));
        assert!(shift.add(Seq::new(30), -12));
        assert!(shift.add(Seq::new(65), -12));
        assert!(!shift.add(Seq::new(40), 5));
        let sent = |seq| shift.sent(Seq::new(seq)).get();
        assert_eq!([sent(0), sent(29), sent(30), sent(64), sent(65)], [0, 29, 18, 52, 41]);
        let back = |ack| shift.acknowledged(Seq::new(ack)).get();
        assert_eq!([back(0), back(10), back(18), back(45)], [0, 10, 30, 69]);
        shift.at(Seq::new(65 + FAR));
        assert_eq!(shift.sent(Seq::new(0)).get(), 0u32.wrapping_sub(24));
        assert_eq!(shift.acknowledged(Seq::new(0)).get(), 24);
    }

    proptest! {
        /// Against the plain reading: segments are laid one behind the other, each with what was
        /// made of its length; what begins at a segment comes back to it. Wherever numbers begin.
        #[test]
        fn what_begins_a_segment_is_acknowledged_as_its_begin(
            begin in any::<u32>(), segments in prop::collection::vec((1u32..500, 1u32..500), 1..40),
        ) {
            let mut shift = Shift::default();
            let (mut before, mut after) = (Seq::new(begin), Seq::new(begin));
            let mut laid = Vec::new();
            for (len, becomes) in segments {
                before = before + len;
                after = after + becomes;
                prop_assert!(shift.add(before, becomes as i32 - len as i32));
                laid.push((before, after));
                for (before, after) in laid.iter().rev().take(CHANGES_MAX) {
                    prop_assert_eq!(shift.sent(*before), *after);
                    prop_assert_eq!(shift.acknowledged(*after), *before);
                }
            }
        }
    }
}
