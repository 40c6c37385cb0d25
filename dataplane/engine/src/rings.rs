//! The rings by which elements hand packets to their replicas in other threads.
//!
//! A ring has one producer and one consumer: it leads from the replica of one element in one thread
//! to the replica of the same element in another one. So packets of a thread stay in order, and an
//! element with a full ring blocks no other one.

use thruway_element::{Handoff, Storage};
use thruway_packet::{Batch, PacketConsumer, PacketProducer, packet_ring};

/// One thread's ends of the rings.
#[derive(Default)]
pub(crate) struct Handoffs {
    /// By element index: where it hands packets to.
    pub(crate) out: Vec<Option<Outlet>>,
    /// Elements that are handed packets here.
    pub(crate) into: Vec<Inlet>,
    /// Packets from the rings of a previous configuration, by element of this one.
    pub(crate) left: Vec<(u32, Batch)>,
}

/// The rings from an element of this thread.
pub(crate) struct Outlet {
    /// By thread.
    rings: Vec<Option<PacketProducer>>,
    /// Packets of each at most.
    capacity: usize,
    /// Whether it stores packets as far as others know: all go by one ring.
    pub(crate) is_store: bool,
}

/// The rings to an element of this thread.
pub(crate) struct Inlet {
    pub node: u32,
    /// With the threads that they come from.
    pub rings: Vec<(usize, PacketConsumer)>,
    /// Whether packets come for their session: the flow managers of both threads count them.
    pub is_entry: bool,
}

/// An element that hands packets over.
#[derive(Clone, Copy)]
pub(crate) struct Point<'a> {
    pub node: usize,
    /// The threads that have a replica.
    pub from: &'a [usize],
    /// The threads that packets are handed off to.
    pub to: &'a [usize],
    pub rings: Handoff,
    pub is_entry: bool,
    pub is_store: bool,
}

impl Handoffs {
    /// Nothing yet, of so many elements.
    pub(crate) fn of(elements: usize) -> Handoffs {
        Handoffs { out: (0..elements).map(|_| None).collect(), ..Handoffs::default() }
    }

    /// Gives the threads the rings of an element.
    pub(crate) fn connect(all: &mut [&mut Handoffs], point: Point<'_>) {
        let Point { node, from, to, rings: Handoff { capacity, to_itself }, .. } = point;
        for thread in from {
            let rings = (0..all.len()).map(|_| None).collect();
            all[*thread].out[node] = Some(Outlet { rings, capacity, is_store: point.is_store });
        }
        for receiver in to {
            let mut into = Vec::new();
            for sender in from.iter().filter(|sender| to_itself || *sender != receiver) {
                let (producer, consumer) = packet_ring(capacity);
                if let Some(outlet) = &mut all[*sender].out[node] {
                    outlet.rings[*receiver] = Some(producer);
                }
                into.push((*sender, consumer));
            }
            let inlet = Inlet { node: node as u32, rings: into, is_entry: point.is_entry };
            all[*receiver].into.push(inlet);
        }
    }

    /// Puts packets from the front of a batch into the ring of `node` to a thread, as many as there
    /// is room for. Says how many.
    #[inline]
    pub(crate) fn put(&mut self, node: u32, thread: usize, batch: &mut Batch) -> usize {
        let outlet = self.out.get_mut(node as usize).and_then(Option::as_mut);
        let ring = outlet.and_then(|outlet| outlet.rings.get_mut(thread)?.as_mut());
        ring.map_or(0, |ring| ring.put(batch))
    }

    /// Packets that other threads have still to take from this element's replica here.
    pub(crate) fn holding(&self, node: usize) -> usize {
        let outlet = self.out.get(node).and_then(Option::as_ref);
        let rings = outlet.into_iter().flat_map(|outlet| &outlet.rings);
        rings.flatten().map(PacketProducer::len).sum()
    }

    /// How full the ring of an element is that hands all packets to one thread; `None` of others.
    pub(crate) fn storage(&self, node: u32) -> Option<Storage> {
        let outlet = self.out.get(node as usize).and_then(Option::as_ref);
        let outlet = outlet.filter(|outlet| outlet.is_store)?;
        Some(Storage { len: self.holding(node as usize), capacity: outlet.capacity })
    }

    /// Takes all packets that there are for this thread's elements.
    pub(crate) fn take_all(&mut self) -> Vec<(u32, Batch)> {
        let mut all = std::mem::take(&mut self.left);
        for inlet in &mut self.into {
            for (_, ring) in &mut inlet.rings {
                let mut batch = Batch::new();
                if ring.take(usize::MAX, &mut batch) > 0 {
                    all.push((inlet.node, batch));
                }
            }
        }
        all
    }
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;

    use proptest::prelude::*;
    use thruway_packet::Packet;

    use super::*;

    /// The rings of element 1 of 2, in threads that hand packets off to those of `to`.
    fn connected<const N: usize>(to: &[usize], rings: Handoff) -> [Handoffs; N] {
        let mut all: [Handoffs; N] = std::array::from_fn(|_| Handoffs::of(2));
        let from: Vec<usize> = (0..N).collect();
        let is_store = to.len() == 1;
        let point = Point { node: 1, from: &from, to, rings, is_entry: false, is_store };
        Handoffs::connect(&mut all.iter_mut().collect::<Vec<_>>(), point);
        all
    }

    fn batch(numbers: impl IntoIterator<Item = u8>) -> Batch {
        let packet = |number| Packet::new(&[number; 60]).expect("memory");
        numbers.into_iter().map(packet).collect()
    }

    fn numbers(batch: &Batch) -> Vec<u8> {
        batch.iter().map(|packet| packet.data()[0]).collect()
    }

    proptest! {
        /// In any order of handoffs and takes: each ring is a queue of bounded length.
        #[test]
        fn rings_are_queues(
            capacity in 4usize..20,
            steps in prop::collection::vec((any::<bool>(), 0usize..3, 0usize..3, 0usize..9), 0..80),
        ) {
            let rings = Handoff { capacity, to_itself: false };
            let mut all: [Handoffs; 3] = connected(&[0, 1, 2], rings);
            let mut model: [[VecDeque<u8>; 3]; 3] = Default::default();
            let mut next = 0;
            for (puts, from, to, count) in steps {
                let queue = &mut model[from][to];
                if from == to {
                    continue;
                }
                if puts {
                    let numbers: Vec<u8> = (0..count as u8).map(|n| n.wrapping_add(next)).collect();
                    next = next.wrapping_add(count as u8);
                    let mut packets = batch(numbers.iter().copied());
                    let room = count.min(capacity - queue.len());
                    queue.extend(&numbers[..room]);
                    prop_assert_eq!(all[from].put(1, to, &mut packets), room);
                    prop_assert_eq!(packets.len(), count - room);
                } else {
                    let ring = all[to].into[0].rings.iter_mut().find(|(sender, _)| *sender == from);
                    let mut packets = Batch::new();
                    ring.expect("a ring").1.take(count, &mut packets);
                    let wanted: Vec<u8> = queue.drain(..count.min(queue.len())).collect();
                    prop_assert_eq!(numbers(&packets), wanted);
                }
                let holding: usize = model[from].iter().map(VecDeque::len).sum();
                prop_assert_eq!(all[from].holding(1), holding);
            }
        }
    }

    #[test]
    fn one_receiver_is_a_store() {
        let mut all: [Handoffs; 2] = connected(&[1], Handoff { capacity: 4, to_itself: true });
        assert_eq!(all[0].put(1, 1, &mut batch(0..6)), 4);
        assert_eq!(all[1].put(1, 1, &mut batch(6..8)), 2);
        // No thread hands off to thread 0, and element 0 hands off to none.
        assert_eq!(
            (all[0].put(1, 0, &mut batch(0..1)), all[0].put(0, 1, &mut batch(0..1))),
            (0, 0)
        );
        assert_eq!(all[0].storage(1), Some(Storage { len: 4, capacity: 4 }));
        assert_eq!((all[0].storage(0), all[1].into[0].rings.len()), (None, 2));
        let all: Vec<_> = all[1].take_all();
        let taken: Vec<_> = all.iter().map(|(node, batch)| (*node, numbers(batch))).collect();
        assert_eq!(taken, [(1, vec![0, 1, 2, 3]), (1, vec![6, 7])]);
    }
}
