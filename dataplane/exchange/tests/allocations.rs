//! Nothing on the path of a packet to a Worker and back allocates.
#![cfg(not(any(loom, miri)))]

use thruway_exchange::{
    Arena, Control, Doorbell, LinkError, Mapped, Master, Outgoing, SlotTag, Tuning, Worker,
};
use thruway_nf_abi::{LinkShape, flag};
use thruway_region::Pages;

/// A round: packets go there and come back; every eighth is dropped, every fourth has company, and
/// one is injected. One begins a session, which then ends.
fn round(
    arena: &Arena,
    master: &mut Master<Mapped>,
    worker: &mut Worker<Mapped>,
    bell: &Doorbell,
) -> u32 {
    let mut taken = [0; 64];
    for nth in 0..64u8 {
        master.put(SlotTag::NONE, &[nth; 60]).expect("room");
    }
    arena.clear(3);
    master.put(SlotTag::of(0, 0, 3).new_session(), &[1; 60]).expect("room");
    master.put_released(3).expect("room");
    master.publish(bell, 0);
    for nth in 0..worker.waiting() {
        if nth % 4 == 0 {
            worker.emit(Outgoing::default(), [&[1; 30], &[2; 30]]).expect("room");
        }
        let mut head = worker.head(0);
        let is_news = head.flags & flag::RELEASED != 0;
        let start = usize::from(head.start);
        worker.frame_mut(0, &mut head)[start] ^= 1;
        head.flags |= if nth % 8 == 0 || is_news { flag::DROPPED } else { 0 };
        worker.set_head(0, head);
        worker.advance(1);
    }
    worker.inject(Outgoing::default(), [&[3; 60], &[]]).expect("room");
    assert!(!worker.flush(), "the Master does not sleep");
    let mut tokens = 0;
    let mut take = |token: thruway_exchange::Token<'_, Mapped>| {
        let len = token.len() as usize;
        token.copy_to(&mut taken[..len]);
        tokens += 1;
    };
    master.poll(0, u32::MAX, &mut take).expect("an honest Worker");
    master.poll_injected(u32::MAX, &mut take).expect("an honest Worker");
    tokens
}

#[test]
fn a_round_trip_allocates_nothing() -> Result<(), LinkError> {
    let shape = LinkShape { slots: 128, packet_len_max: 64, ..LinkShape::DEFAULT };
    let link = Mapped::create(&shape, None, Pages::Normal)?;
    let fd = link.fd().try_clone_to_owned().expect("a descriptor");
    let mut worker = Worker::open(fd, 32)?;
    let mut master = Master::new(link, 1, Tuning::DEFAULT);
    let bell = Doorbell::new(Control::create()?, None);
    let arena = Arena::create(700, 4).map_err(LinkError::from)?;
    let mut tokens = 0;
    let counted = allocation_counter::measure(|| {
        for _ in 0..100 {
            tokens += round(&arena, &mut master, &mut worker, &bell);
        }
    });
    assert_eq!((counted.count_total, tokens), (0, 100 * (66 + 17 + 1)));
    Ok(())
}
