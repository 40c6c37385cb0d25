//! Places in a direction of a connection from which another host can go on.

use std::collections::VecDeque;

use super::Seq;

/// Most checkpoints of a direction: of more, the oldest are forgotten.
const CHECKPOINTS_MAX: usize = 1024;
/// Most bytes of functions' states in all of them.
const BYTES_MAX: usize = 256 << 10;

/// What functions had made of all that came before a place.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Checkpoint {
    /// In: the sender's number of the next byte.
    pub at_in: Seq,
    /// Out: the receiver's number of the next byte.
    pub at_out: Seq,
    /// The last number before it is that of the FIN.
    pub is_finished: bool,
    /// The states of functions there, as these wrote them; of the serving host's own, empty.
    pub functions: Box<[u8]>,
}

/// The checkpoints of a direction, in order. At the serving host: those that were sent to the
/// backup, without the functions' states. Its sender is acknowledged nothing in between, so it can
/// send all that lies behind one of them again.
#[derive(Debug, Default)]
pub struct Checkpoints {
    list: VecDeque<Checkpoint>,
    bytes: usize,
}

impl Checkpoints {
    /// Forgets all.
    pub fn clear(&mut self) {
        self.list.clear();
        self.bytes = 0;
    }

    /// The first one.
    pub fn first(&self) -> Option<&Checkpoint> {
        self.list.front()
    }

    /// The last one.
    pub fn last(&self) -> Option<&Checkpoint> {
        self.list.back()
    }

    /// Adds one; another one at the last place takes that one's. False, and all are forgotten, if
    /// it lies before the last one.
    pub fn push(&mut self, checkpoint: Checkpoint) -> bool {
        if let Some(last) = self.list.back() {
            if checkpoint.at_in.before(last.at_in) || checkpoint.at_out.before(last.at_out) {
                self.clear();
                return false;
            }
            if (checkpoint.at_in, checkpoint.at_out) == (last.at_in, last.at_out) {
                self.bytes -= last.functions.len();
                self.list.pop_back();
            }
        }
        self.bytes += checkpoint.functions.len();
        self.list.push_back(checkpoint);
        while self.list.len() > CHECKPOINTS_MAX || self.bytes > BYTES_MAX && self.list.len() > 1 {
            self.forget_first();
        }
        true
    }

    fn forget_first(&mut self) {
        let first = self.list.pop_front();
        self.bytes -= first.map_or(0, |first| first.functions.len());
    }

    /// The receiver has everything before `out`: forgets all before the last one that it reached.
    pub fn acknowledge(&mut self, out: Seq) {
        while self.list.get(1).is_some_and(|second| !second.at_out.after(out)) {
            self.forget_first();
        }
    }

    /// The last one whose place the receiver has reached, taken out with all before it.
    pub fn take_reached(&mut self, out: Seq) -> Option<Checkpoint> {
        self.acknowledge(out);
        let reached = self.list.pop_front_if(|first| !first.at_out.after(out))?;
        self.bytes -= reached.functions.len();
        Some(reached)
    }

    /// The first one, taken out.
    pub fn take_first(&mut self) -> Option<Checkpoint> {
        let first = self.list.pop_front()?;
        self.bytes -= first.functions.len();
        Some(first)
    }

    /// How far the sender may be told that its bytes arrived, which is `acked` by the receiver's
    /// acknowledgement: to the last checkpoint before that. `None` before the first one.
    pub fn floor(&self, acked: Seq) -> Option<Seq> {
        let reached = |checkpoint: &&Checkpoint| !checkpoint.at_in.after(acked);
        self.list.iter().take_while(reached).last().map(|checkpoint| checkpoint.at_in)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn at(at_in: u32, at_out: u32, bytes: usize) -> Checkpoint {
        let functions = vec![0; bytes].into();
        let (at_in, at_out) = (Seq::new(at_in), Seq::new(at_out));
        Checkpoint { at_in, at_out, is_finished: false, functions }
    }

    #[test]
    fn old_ones_go_and_the_reached_one_is_found() {
        let mut all = Checkpoints::default();
        for (at_in, at_out) in [(100, 200), (110, 230), (110, 230), (120, 230), (150, 270)] {
            assert!(all.push(at(at_in, at_out, 3)));
        }
        assert_eq!((all.list.len(), all.bytes), (4, 12));
        assert_eq!(all.floor(Seq::new(99)), None);
        assert_eq!(all.floor(Seq::new(149)), Some(Seq::new(120)));
        // Nothing became of the bytes from 110 to 120.
        assert_eq!(all.take_reached(Seq::new(269)), Some(at(120, 230, 3)));
        assert_eq!(all.take_reached(Seq::new(269)), None);
        assert_eq!((all.first(), all.bytes), (Some(&at(150, 270, 3)), 3));
        assert!(!all.push(at(149, 280, 0)) && all.list.is_empty());
    }

    #[test]
    fn memory_is_bounded() {
        let mut all = Checkpoints::default();
        for step in 0..5_000 {
            all.push(at(step, step, 1_000));
        }
        assert!(all.bytes <= BYTES_MAX && all.list.len() <= CHECKPOINTS_MAX, "{}", all.bytes);
        assert_eq!(all.last().map(|last| last.at_in), Some(Seq::new(4_999)));
        all.push(at(9_999, 9_999, BYTES_MAX + 1));
        assert_eq!(all.list.len(), 1, "the last one stays");
    }

    proptest! {
        /// As a search through all of them says.
        #[test]
        fn the_last_reached_one_counts(
            steps in prop::collection::vec((0u32..50, 0u32..50), 1..40),
            begin: u32,
            out in 0u32..1500,
        ) {
            let (mut all, mut naive) = (Checkpoints::default(), Vec::new());
            let (mut at_in, mut at_out) = (begin, begin.wrapping_add(7));
            for (took, len) in steps {
                (at_in, at_out) = (at_in.wrapping_add(took), at_out.wrapping_add(len));
                all.push(at(at_in, at_out, 1));
                naive.push((at_in.wrapping_sub(begin), at_out.wrapping_sub(begin)));
            }
            let reached = naive.iter().rev().find(|(_, at)| *at <= out);
            let found = all.take_reached(Seq::new(begin.wrapping_add(out)));
            let found = found.map(|found| found.at_in.get().wrapping_sub(begin));
            prop_assert_eq!(found, reached.map(|(at, _)| *at));
        }
    }
}
