//! Which sessions had packets since their scratch was last sent to another host.
//!
//! A session stands in a queue once, however many packets it has. It leaves the queue when it is
//! given while the function has none of its packets: then its scratch is that of its last packet.
//! Else it goes to the end of the queue, and is given again.

use std::collections::VecDeque;

use thruway_flow::Fcb;

/// See the module.
pub(in super::super) struct Changes {
    /// By entry the session's word, and how many packets the function had been given with its last.
    /// Arrays of zeros are memory that is only touched as it is used.
    last: Box<[[u32; 2]]>,
    /// A bit for each entry: it is in the queue.
    queued: Box<[u64]>,
    queue: VecDeque<u32>,
    /// How many packets the function has been given with the batch in hand; wraps around.
    given: u32,
}

impl Changes {
    /// Of so many entries, none of which changed.
    pub fn new(count: usize) -> Changes {
        Changes {
            last: vec![[0; 2]; count].into_boxed_slice(),
            queued: vec![0; count.div_ceil(64)].into_boxed_slice(),
            queue: VecDeque::with_capacity(count),
            given: 0,
        }
    }

    /// With the packets that are noted next the function has been given so many.
    #[inline]
    pub fn set_given(&mut self, given: u32) {
        self.given = given;
    }

    /// A packet of a session comes.
    #[inline]
    pub fn note(&mut self, entry: u32, session: Fcb) {
        let Some(last) = self.last.get_mut(entry as usize) else { return };
        *last = [session.0, self.given];
        let (word, bit) = (&mut self.queued[entry as usize / 64], 1 << (entry % 64));
        if *word & bit == 0 {
            *word |= bit;
            self.queue.push_back(entry);
        }
    }

    /// The session of an entry has this word now.
    pub fn set_session(&mut self, entry: u32, session: Fcb) {
        if let Some([word, _]) = self.last.get_mut(entry as usize) {
            *word = session.0;
        }
    }

    /// How many sessions are in the queue.
    pub fn len(&self) -> usize {
        self.queue.len()
    }

    /// The next one, as level and record. `done`: how many packets the function is done with;
    /// `None` if it has none.
    pub fn next(&mut self, done: Option<u32>) -> Option<(u8, u32)> {
        while let Some(entry) = self.queue.pop_front() {
            let [word, given] = self.last[entry as usize];
            if done.is_some_and(|done| (done.wrapping_sub(given) as i32) < 0) {
                self.queue.push_back(entry);
            } else {
                self.queued[entry as usize / 64] &= !(1 << (entry % 64));
            }
            if let Some(session) = Fcb(word).session() {
                return Some(session);
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use thruway_flow::Direction;

    use super::*;

    fn word(entry: u32) -> Fcb {
        Fcb::of_session(1, entry + 100, Direction::Forward, false)
    }

    fn next(changes: &mut Changes, done: Option<u32>) -> Option<u32> {
        changes.next(done).map(|(level, index)| {
            assert_eq!(level, 1);
            index - 100
        })
    }

    #[test]
    fn a_session_is_given_until_its_last_packet_is_back() {
        // Across the wrap of the counter.
        for first in [0u32, u32::MAX - 1] {
            let mut changes = Changes::new(70);
            changes.set_given(first.wrapping_add(1));
            changes.note(69, word(69));
            changes.note(3, word(3));
            changes.set_given(first.wrapping_add(2));
            changes.note(69, word(69));
            assert_eq!(changes.len(), 2, "once each");
            let done = Some(first.wrapping_add(1));
            assert_eq!(next(&mut changes, done), Some(69), "with a packet at the function");
            assert_eq!(next(&mut changes, done), Some(3));
            assert_eq!(next(&mut changes, None), Some(69), "again");
            assert_eq!((next(&mut changes, None), changes.len()), (None, 0));
        }
    }

    #[test]
    fn a_session_in_another_record_is_given_there() {
        let mut changes = Changes::new(4);
        changes.note(2, word(2));
        changes.set_session(2, word(50));
        assert_eq!((next(&mut changes, None), changes.len()), (Some(50), 0));
    }

    proptest! {
        /// Once the queue is empty, of each session a copy was made after its last packet was back,
        /// whenever copies were made before.
        #[test]
        fn no_change_is_missed(
            steps in prop::collection::vec((0u32..8, 0usize..4, 0usize..3), 1..60),
            begin: u32,
        ) {
            let mut changes = Changes::new(8);
            let (mut put, mut done) = (begin, begin);
            let mut ring: VecDeque<u32> = VecDeque::new();
            // Packets of each session that the function is done with, now and in the last copy.
            let (mut counts, mut copies) = ([0; 8], [0; 8]);
            for (entry, returned, looks) in steps {
                put = put.wrapping_add(1);
                changes.set_given(put);
                changes.note(entry, word(entry));
                ring.push_back(entry);
                for entry in ring.drain(..returned.min(ring.len())) {
                    counts[entry as usize] += 1;
                    done = done.wrapping_add(1);
                }
                for _ in 0..looks {
                    let done = Some(done).filter(|_| !ring.is_empty());
                    if let Some(entry) = next(&mut changes, done) {
                        copies[entry as usize] = counts[entry as usize];
                    }
                }
                prop_assert!(changes.len() <= 8);
            }
            ring.iter().for_each(|entry| counts[*entry as usize] += 1);
            while let Some(entry) = next(&mut changes, None) {
                copies[entry as usize] = counts[entry as usize];
            }
            prop_assert_eq!(copies, counts);
        }
    }
}
