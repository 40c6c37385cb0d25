//! A batch that is put at once lies in the ring as if its packets had been put one by one.
#![cfg(not(any(loom, miri)))]

use thruway_exchange::{Control, Doorbell, Mapped, Master, Refusal, SlotTag, Tuning, Worker};
use thruway_nf_abi::LinkShape;
use thruway_region::Pages;

/// Slots of the ring.
const SLOTS: u32 = 8;
/// Most bytes of a packet: with the head room a multiple of eight, as frames are.
const LEN_MAX: usize = 104;

/// Both ends of a link.
fn ends() -> (Master<Mapped>, Worker<Mapped>) {
    let shape = LinkShape { slots: SLOTS, packet_len_max: LEN_MAX as u32, ..LinkShape::DEFAULT };
    let link = Mapped::create(&shape, None, Pages::Normal).expect("a link");
    let fd = link.fd().try_clone_to_owned().expect("a descriptor");
    let worker = Worker::open(fd, 1).expect("a Worker");
    (Master::new(link, 1, Tuning::DEFAULT), worker)
}

/// What the Worker finds, given back: what each head says, and the bytes.
fn seen(master: &mut Master<Mapped>, worker: &mut Worker<Mapped>) -> Vec<(SlotTag, Vec<u8>)> {
    let bell = Doorbell::new(Control::create().expect("a control region"), None);
    master.publish(&bell, 0);
    let found = (0..worker.waiting())
        .map(|_| {
            let head = worker.head(0);
            let at = usize::from(head.start)..usize::from(head.start + head.len);
            let bytes = worker.frame(0, &head)[at].to_vec();
            worker.advance(1);
            let mark = SlotTag {
                input: head.input,
                direction: head.direction,
                fcb: head.fcb,
                flags: head.flags,
            };
            (mark, bytes)
        })
        .collect();
    assert!(!worker.flush(), "the Master does not sleep");
    master.poll(0, u32::MAX, |_| {}).expect("an honest Worker");
    found
}

#[test]
fn a_batch_lies_as_its_packets_one_by_one() {
    let ((mut at_once, mut one), (mut one_by_one, mut other)) = (ends(), ends());
    let mark = SlotTag::of(3, 1, 77).new_session();
    // Five rounds of five go round a ring of eight.
    for round in 0..5u8 {
        let packets: Vec<Vec<u8>> =
            (1..=5).map(|nth| vec![round * 16 + nth; usize::from(nth) * 20]).collect();
        let mut parked = Vec::new();
        let left = at_once.put_all(mark, &mut packets.iter(), |slot, packet| {
            parked.push((slot, packet.clone()));
        });
        assert!(left.is_none());
        for (packet, (slot, kept)) in packets.iter().zip(&parked) {
            assert_eq!(one_by_one.put(mark, packet), Ok(*slot));
            assert_eq!(packet, kept);
        }
        assert_eq!(parked.len(), packets.len());
        assert_eq!(at_once.figures(), one_by_one.figures());
        let found = seen(&mut at_once, &mut one);
        assert_eq!(found, seen(&mut one_by_one, &mut other));
        assert_eq!(found, packets.into_iter().map(|bytes| (mark, bytes)).collect::<Vec<_>>());
    }
}

#[test]
fn the_first_that_does_not_go_ends_a_batch() {
    let (mut master, mut worker) = ends();
    let packets = [vec![1; 10], vec![2; LEN_MAX + 1], vec![3; LEN_MAX]];
    let mut rest = packets.iter();
    let left = master.put_all(SlotTag::NONE, &mut rest, |_, _| {});
    assert_eq!(left, Some((&packets[1], Refusal::TooLong)));
    assert_eq!(master.put_all(SlotTag::NONE, &mut rest, |_, _| {}), None);
    assert_eq!((master.occupancy(), rest.next()), (2, None));
    let many = vec![vec![4; 60]; SLOTS as usize];
    let (mut rest, mut parked) = (many.iter(), 0);
    let left = master.put_all(SlotTag::NONE, &mut rest, |_, _| parked += 1);
    assert_eq!(left.map(|(_, why)| why), Some(Refusal::Full));
    assert_eq!((parked, rest.len(), master.room()), (SLOTS - 2, 1, 0));
    let lens: Vec<usize> =
        seen(&mut master, &mut worker).iter().map(|(_, bytes)| bytes.len()).collect();
    assert_eq!(lens, [10, 104, 60, 60, 60, 60, 60, 60]);
}
