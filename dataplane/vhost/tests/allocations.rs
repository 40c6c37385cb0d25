//! Packets pass without allocating.
#![forbid(unsafe_code)]

use std::sync::Arc;

use thruway_packet::Batch;
use thruway_vhost::driver::Driver;
use thruway_vhost::{Features, GuestMemory, Queue, Received, Ring, Sent};

#[test]
fn packets_pass_without_allocating() {
    let mut driver = Driver::new(64).expect("memory");
    let fds = vec![driver.fd().try_clone_to_owned().expect("a descriptor")];
    let memory = Arc::new(GuestMemory::map(&[driver.part()], fds).expect("it is mapped"));
    let queue = |ring: usize| {
        let ring = Ring::open(Arc::clone(&memory), &driver.spec(ring), true).expect("a ring");
        Queue::new(ring, Features::OFFERED)
    };
    let (mut to_guest, mut from_guest) = (queue(0), queue(1));
    let mut batch = Batch::with_room();
    for round in 0..20 {
        for index in 0..32 {
            driver.send(index, &[round; 600]);
            driver.offer_buffer(index);
        }
        let (mut received, mut sent) = (Received::default(), Sent::default());
        let made = allocation_counter::measure(|| {
            from_guest.receive((32, 0), &mut batch, &mut received).expect("no lie");
            to_guest.send(&mut batch, &mut sent).expect("no lie");
        });
        assert_eq!((received.packets, sent.packets), (32, 32));
        while driver.take_used(1).is_some() {}
        assert_eq!(std::iter::from_fn(|| driver.receive()).count(), 32);
        // The first rounds fill caches of frames.
        assert!(round < 3 || made.count_total == 0, "round {round}: {made:?}");
    }
}
