//! The marks of packets: set, copied, moved and ended.

use crate::mark::{Mark, POOL_BITS, count_unmarked_copy, unmark};
use crate::packet::Packet;
use crate::pool::{self, SMALL, SMALL_FRAME};

impl Packet {
    /// Whether its frame, which is going to leave the packet, is a small one; if so a mark ends.
    #[inline]
    pub(crate) fn leaves_small(&mut self) -> bool {
        self.meta().pool == SMALL || self.leaves_small_marked()
    }

    #[cold]
    fn leaves_small_marked(&mut self) -> bool {
        let is_small = pool::frame_size(self.meta().pool) == SMALL_FRAME;
        if is_small {
            unmark(self.meta_mut());
        }
        is_small
    }

    /// Whether someone follows it.
    #[inline]
    pub fn is_marked(&self) -> bool {
        self.meta().pool >> POOL_BITS != 0
    }

    /// Its mark, if someone follows it.
    #[inline]
    pub fn mark(&self) -> Option<Mark> {
        Mark::of(self.meta().pool)
    }

    /// Lets these follow it from now on; `None` when so many packets are marked that no mark is
    /// left.
    pub fn follow(&mut self, watchers: u64) -> Option<Mark> {
        if let Some(mark) = self.mark() {
            mark.add_watchers(watchers);
            return Some(mark);
        }
        let mark = Mark::claim(0, watchers)?;
        self.meta_mut().pool |= mark.bits();
        Some(mark)
    }

    /// Marks this packet, a copy of a marked one.
    #[cold]
    pub(crate) fn mark_copy(&mut self, of: Mark) {
        if self.is_marked() {
            return;
        }
        match Mark::claim(of.packet(), of.watchers()) {
            Some(mark) => self.meta_mut().pool |= mark.bits(),
            None => count_unmarked_copy(),
        }
    }

    /// Takes over the mark of a packet after its bytes moved here.
    pub(crate) fn take_mark(&mut self, from: &mut Packet) {
        let pool = &mut from.meta_mut().pool;
        let mark = *pool & !((1 << POOL_BITS) - 1);
        *pool &= (1 << POOL_BITS) - 1;
        self.meta_mut().pool |= mark;
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use super::*;
    use crate::batch::Batch;
    use crate::lend::Lending;
    use crate::mark::*;

    /// The table is the process's: one test at a time.
    static TURN: Mutex<()> = Mutex::new(());

    fn packet() -> Packet {
        Packet::new(&[7; 60]).expect("memory")
    }

    fn ends() -> Vec<u64> {
        let mut ends = Vec::new();
        take_ends(|end| ends.push(end.packet));
        ends
    }

    #[test]
    fn a_mark_lasts_as_long_as_its_packet() {
        let _turn = TURN.lock();
        let mut one = packet();
        assert!(!one.is_marked());
        let mark = one.follow(1).expect("a mark");
        let number = mark.packet();
        one.follow(4).expect("the same mark");
        assert_eq!((one.mark(), mark.watchers(), mark.parent()), (Some(mark), 5, 0));
        assert_eq!(one.data(), [7; 60]);
        let _ = ends();
        drop(one);
        assert_eq!(ends(), [number]);
        // The frame that was freed last is taken first, without a mark.
        let two = packet();
        assert!(!two.is_marked());
        assert_eq!(two.tailroom(), crate::SMALL_FRAME - 128 - 60);
    }

    #[test]
    fn copies_have_marks_of_their_own_and_moves_take_theirs_along() {
        let _turn = TURN.lock();
        let mut one = packet();
        let number = one.follow(2).expect("a mark").packet();
        let copy = one.duplicate().expect("memory");
        let mark = copy.mark().expect("a mark");
        assert_eq!((mark.parent(), mark.watchers()), (number, 2));
        assert_ne!(mark.packet(), number);
        let mut piece = packet();
        piece.copy_annotations(&one);
        assert_eq!(piece.mark().map(Mark::parent), Some(number));
        let _ = ends();
        // To another, larger frame.
        assert!(one.push(3000) && one.put(3000));
        assert_eq!(one.mark().map(Mark::packet), Some(number));
        assert!(one.tailroom() < crate::LARGE_FRAME && ends().is_empty());
        drop((one, copy, piece));
        assert_eq!(ends().len(), 3);
    }

    #[test]
    fn batches_and_lent_frames_end_marks() {
        let _turn = TURN.lock();
        let mut batch: Batch = (0..10).map(|_| packet()).collect();
        let numbers: Vec<u64> = batch
            .iter_mut()
            .filter_map(|packet| packet.follow(1).map(Mark::packet))
            .step_by(1)
            .collect();
        let _ = ends();
        batch.clear();
        assert_eq!(ends(), numbers);
        let mut one = packet();
        let number = one.follow(1).expect("a mark").packet();
        let mut lending = Lending::new();
        let offset = lending.lend(one).expect("a small frame");
        assert_eq!(ends(), [number]);
        assert!(!lending.take_back(offset, 60).expect("it was lent").is_marked());
    }

    #[test]
    fn when_all_marks_are_in_use_packets_stay_unmarked() {
        let _turn = TURN.lock();
        let mut packets: Vec<Packet> = (0..MARKS_MAX).map(|_| packet()).collect();
        assert!(packets.iter_mut().all(|packet| packet.follow(1).is_some()));
        let before = unmarked_copies();
        let mut more = packet();
        assert!(more.follow(1).is_none() && !more.is_marked());
        assert!(!packets[0].duplicate().expect("memory").is_marked());
        assert_eq!(unmarked_copies(), before + 1);
        forget_watchers(1);
        assert!(packets.iter().all(|packet| packet.mark().is_some_and(|m| m.watchers() == 0)));
        packets.pop();
        assert!(more.follow(2).is_some());
    }
}
