//! Random steps of a guest's driver and a device, against plain queues of packets.
#![forbid(unsafe_code)]

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use proptest::prelude::*;
use thruway_packet::{Batch, Packet};
use thruway_vhost::driver::{Driver, INDIRECT, NEXT, RawDescriptor, WRITE};
use thruway_vhost::{Features, GuestMemory, Queue, Received, Ring, Sent};

const SIZE: u16 = 16;
const HEADER_LEN: usize = 12;
/// Where tables of descriptors are, behind all buffers.
const TABLES: usize = 1500;

/// What happens next.
#[derive(Debug, Clone)]
enum Step {
    /// The guest sends a packet of so many bytes, cut into so many pieces.
    GuestSends { len: usize, cuts: usize, indirect: bool },
    /// The device takes up to so many packets.
    Receive(usize),
    /// The guest offers a buffer of so many bytes, in two pieces perhaps.
    GuestOffers { len: u32, cut: bool },
    /// The device sends packets of these lengths.
    Send(Vec<usize>),
    /// The guest looks at what came back.
    GuestTakes,
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        3 => (1usize..4000, 1usize..6, any::<bool>())
            .prop_map(|(len, cuts, indirect)| Step::GuestSends { len, cuts, indirect }),
        3 => (0usize..8).prop_map(Step::Receive),
        4 => (1u32..2000, any::<bool>()).prop_map(|(len, cut)| Step::GuestOffers { len, cut }),
        3 => prop::collection::vec(1usize..3000, 1..5).prop_map(Step::Send),
        3 => Just(Step::GuestTakes),
    ]
}

/// The descriptors of a chain, and its buffers.
type Chain = (Vec<u16>, Vec<(u64, u32)>);

struct World {
    driver: Driver,
    queues: [Queue; 2],
    /// Descriptors of each ring's table that are free.
    free: [Vec<u16>; 2],
    /// Chains by their head: their descriptors, and the buffers.
    chains: [HashMap<u16, Chain>; 2],
    /// Packets that the guest sent and the device has not taken.
    from_guest: VecDeque<Vec<u8>>,
    /// Packets that the device gave and the guest has not looked at.
    to_guest: VecDeque<Vec<u8>>,
    waiting: Batch,
    next_byte: u8,
}

impl World {
    fn new() -> World {
        let driver = Driver::new(SIZE).expect("memory");
        let fds = vec![driver.fd().try_clone_to_owned().expect("a descriptor")];
        let memory = Arc::new(GuestMemory::map(&[driver.part()], fds).expect("it is mapped"));
        let queue = |ring: usize| {
            let ring = Ring::open(Arc::clone(&memory), &driver.spec(ring), true);
            Queue::new(ring.expect("a ring"), Features::OFFERED)
        };
        let all = || (0..SIZE).collect::<Vec<_>>();
        World {
            queues: [queue(0), queue(1)],
            driver,
            free: [all(), all()],
            chains: [HashMap::new(), HashMap::new()],
            from_guest: VecDeque::new(),
            to_guest: VecDeque::new(),
            waiting: Batch::new(),
            next_byte: 0,
        }
    }

    fn bytes(&mut self, len: usize) -> Vec<u8> {
        let mut bytes = Vec::new();
        for _ in 0..len {
            bytes.push(self.next_byte);
            self.next_byte = self.next_byte.wrapping_mul(5).wrapping_add(1);
        }
        bytes
    }

    /// Makes a chain of these pieces available, if there are descriptors for it.
    fn offer(&mut self, ring: usize, lens: &[u32], indirect: bool) -> Option<Vec<(u64, u32)>> {
        let needed = if indirect { 1 } else { lens.len() };
        if self.free[ring].len() < needed {
            return None;
        }
        let at = self.free[ring].len() - needed;
        let used = self.free[ring].split_off(at);
        let head = used[0];
        // Each descriptor has two buffers' room of its own.
        let base = |index: usize| self.driver.buffer(2 * (ring * 128 + index));
        let mut pieces = Vec::new();
        let mut guest = base(usize::from(head) * 4);
        for len in lens {
            pieces.push((guest, *len));
            guest += u64::from(*len);
        }
        let flags = if ring == 0 { WRITE } else { 0 };
        let last = lens.len() - 1;
        let descriptors = pieces.iter().enumerate().map(|(at, (guest, len))| {
            let next = if indirect { at as u16 + 1 } else { *used.get(at + 1).unwrap_or(&0) };
            let flags = flags | if at < last { NEXT } else { 0 };
            RawDescriptor { guest: *guest, len: *len, flags, next }
        });
        let descriptors: Vec<_> = descriptors.collect();
        if indirect {
            let table = self.driver.buffer(TABLES + ring * usize::from(SIZE) + usize::from(head));
            self.driver.table(table, &descriptors);
            let len = 16 * descriptors.len() as u32;
            let one = RawDescriptor { guest: table, len, flags: INDIRECT, next: 0 };
            self.driver.describe(ring, head, one);
        } else {
            for (index, one) in used.iter().zip(&descriptors) {
                self.driver.describe(ring, *index, *one);
            }
        }
        self.driver.offer(ring, head);
        self.chains[ring].insert(head, (used, pieces.clone()));
        Some(pieces)
    }

    fn take_used(&mut self, ring: usize) -> Option<(Vec<(u64, u32)>, u32)> {
        let (head, len) = self.driver.take_used(ring)?;
        let (used, pieces) = self.chains[ring].remove(&(head as u16)).expect("a chain of ours");
        self.free[ring].extend(used);
        Some((pieces, len))
    }

    fn guest_sends(&mut self, len: usize, cuts: usize, indirect: bool) {
        let packet = self.bytes(len);
        let whole = [&[0; HEADER_LEN][..], &packet].concat();
        let each = whole.len().div_ceil(cuts);
        let lens: Vec<u32> = whole.chunks(each).map(|piece| piece.len() as u32).collect();
        if let Some(pieces) = self.offer(1, &lens, indirect) {
            for ((guest, _), bytes) in pieces.iter().zip(whole.chunks(each)) {
                self.driver.put(*guest, bytes);
            }
            self.from_guest.push_back(packet);
        }
    }

    fn receive(&mut self, max: usize) {
        let (mut batch, mut received) = (Batch::new(), Received::default());
        self.queues[1].receive((max, 7), &mut batch, &mut received).expect("no lie");
        assert_eq!(batch.len(), max.min(self.from_guest.len()));
        assert_eq!(received.packets, batch.len());
        for packet in batch.drain() {
            assert_eq!(packet.data(), self.from_guest.pop_front().expect("one"));
        }
        while let Some((_, len)) = self.take_used(1) {
            assert_eq!(len, 0);
        }
    }

    fn send(&mut self, lens: &[usize]) {
        for len in lens {
            let bytes = self.bytes(*len);
            self.waiting.push(Packet::new(&bytes).expect("memory"));
        }
        let all: Vec<_> = self.waiting.iter().map(|packet| packet.data().to_vec()).collect();
        let mut sent = Sent::default();
        self.queues[0].send(&mut self.waiting, &mut sent).expect("no lie");
        assert_eq!(sent.packets + self.waiting.len(), all.len());
        self.to_guest.extend(all.into_iter().take(sent.packets));
        // As many as may wait in the test.
        drop(self.waiting.drain_front(self.waiting.len().saturating_sub(4)));
    }

    fn guest_takes(&mut self) {
        while let Some((pieces, len)) = self.take_used(0) {
            let mut whole = self.gather(&pieces, len);
            let buffers = u16::from_le_bytes([whole[10], whole[11]]);
            for _ in 1..buffers {
                let (pieces, len) = self.take_used(0).expect("as many as the header says");
                whole.extend(self.gather(&pieces, len));
            }
            assert_eq!(whole[..10], [0; 10]);
            assert_eq!(whole[HEADER_LEN..], self.to_guest.pop_front().expect("one"));
        }
        assert!(self.to_guest.is_empty(), "the guest sees all that was sent");
    }

    fn gather(&self, pieces: &[(u64, u32)], len: u32) -> Vec<u8> {
        let all = pieces.iter().flat_map(|(guest, len)| self.driver.get(*guest, *len as usize));
        all.take(len as usize).collect()
    }

    fn step(&mut self, step: Step) {
        match step {
            Step::GuestSends { len, cuts, indirect } => self.guest_sends(len, cuts, indirect),
            Step::Receive(max) => self.receive(max),
            // The header must fit the first buffer.
            Step::GuestOffers { len, cut: false } => {
                self.offer(0, &[len.max(12)], false);
            }
            Step::GuestOffers { len, cut: true } => {
                self.offer(0, &[12, len], len % 2 == 0);
            }
            Step::Send(lens) => self.send(&lens),
            Step::GuestTakes => self.guest_takes(),
        }
    }
}

proptest! {
    #[test]
    fn packets_come_and_go_as_through_plain_queues(
        steps in prop::collection::vec(step(), 1..120)
    ) {
        let mut world = World::new();
        for step in steps {
            world.step(step);
        }
    }
}
