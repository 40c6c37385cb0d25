//! The rings by which a thread hands packets to those that serve their sessions.

use thruway_packet::{Batch, MAX_BATCH, Packet, PacketConsumer, PacketProducer, packet_ring};

/// Packets of a ring: some milliseconds of them, for a thread that others keep from its core.
const RING: usize = 4096;

/// One thread's ends of the rings.
pub struct Crossing {
    /// By thread: packets for it, none for this one itself.
    out: Vec<Option<PacketProducer>>,
    /// By thread: packets from it.
    into: Vec<Option<PacketConsumer>>,
    /// By thread: packets that go there when the present batch is classified.
    staged: Vec<Batch>,
    is_staging: bool,
    /// Packets just taken; empty between calls.
    taken: Batch,
    /// Packets for elements of this thread, of which a configuration before had not disposed.
    left: Vec<Packet>,
}

impl Crossing {
    /// Those of so many threads, in their order.
    pub fn of(threads: usize) -> Vec<Crossing> {
        let none = || Crossing {
            out: (0..threads).map(|_| None).collect(),
            into: (0..threads).map(|_| None).collect(),
            staged: (0..threads).map(|_| Batch::new()).collect(),
            is_staging: false,
            taken: Batch::with_room(),
            left: Vec::new(),
        };
        let mut all: Vec<Crossing> = (0..threads).map(|_| none()).collect();
        for from in 0..threads {
            for to in (0..threads).filter(|to| *to != from) {
                let (producer, consumer) = packet_ring(RING);
                all[from].out[to] = Some(producer);
                all[from].staged[to] = Batch::with_room();
                all[to].into[from] = Some(consumer);
            }
        }
        all
    }

    /// Puts a packet aside that came to element `node`, and is for that element in another thread.
    pub(crate) fn stage(&mut self, to: u16, node: u32, mut packet: Packet) {
        // Nobody needs this word until the packet is classified there.
        packet.set_fcb(node);
        self.staged[usize::from(to)].push(packet);
        self.is_staging = true;
    }

    /// Hands over what was put aside: `done` is told each thread that got packets, and left in the
    /// batch are those for which there was no room.
    #[inline]
    pub(crate) fn hand_over(&mut self, mut done: impl FnMut(u16, &mut Batch)) {
        if std::mem::take(&mut self.is_staging) {
            self.put(&mut done);
        }
    }

    #[cold]
    fn put(&mut self, done: &mut dyn FnMut(u16, &mut Batch)) {
        for (to, staged) in self.staged.iter_mut().enumerate() {
            if staged.is_empty() {
                continue;
            }
            if let Some(ring) = &mut self.out[to] {
                ring.put(staged);
            }
            done(to as u16, staged);
            staged.clear();
        }
    }

    /// Takes packets that thread `from` handed over: each bears the number of its element.
    #[inline]
    pub fn take(&mut self, from: usize) -> impl ExactSizeIterator<Item = Packet> + '_ {
        if let Some(ring) = &mut self.into[from] {
            ring.take(MAX_BATCH, &mut self.taken);
        }
        self.taken.drain()
    }

    /// Threads, this one included.
    #[inline]
    pub fn threads(&self) -> usize {
        self.into.len()
    }

    /// Packets that other threads have still to take.
    pub fn holding(&self) -> usize {
        self.out.iter().flatten().map(PacketProducer::len).sum()
    }

    /// Takes what is left in the rings of a configuration that no longer runs; `node_of` tells the
    /// number here of one of its elements. What was for others is freed.
    pub fn take_over(&mut self, old: &mut Crossing, node_of: impl Fn(u32) -> Option<u32>) {
        let mut packets = std::mem::take(&mut old.left);
        for ring in old.into.iter_mut().flatten() {
            while ring.take(MAX_BATCH, &mut old.taken) > 0 {
                packets.extend(old.taken.drain());
            }
        }
        for mut packet in packets {
            if let Some(node) = node_of(packet.fcb()) {
                packet.set_fcb(node);
                self.left.push(packet);
            }
        }
    }

    /// The packets that [`Crossing::take_over`] took, once.
    #[inline]
    pub fn left(&mut self) -> Option<Vec<Packet>> {
        (!self.left.is_empty()).then(|| std::mem::take(&mut self.left))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn packet(number: u8) -> Packet {
        Packet::new(&[number; 60]).expect("memory")
    }

    #[test]
    fn what_has_no_room_stays_with_who_hands_over() {
        let mut all = Crossing::of(2);
        let mut rest = 0;
        for _ in 0..RING / 256 + 1 {
            (0..256).for_each(|n| all[0].stage(1, 7, packet(n as u8)));
            all[0].hand_over(|to, batch| {
                assert_eq!(to, 1);
                rest += batch.len();
            });
        }
        assert_eq!((rest, all[0].holding(), all[1].holding()), (256, RING, 0));
        assert_eq!(all[1].take(1).len(), 0);
        let taken: Vec<Packet> = all[1].take(0).collect();
        assert!(taken.len() == MAX_BATCH && taken.iter().all(|packet| packet.fcb() == 7));
        assert_eq!(taken[0].data()[0], 0);
    }

    #[test]
    fn another_configuration_takes_what_is_left() {
        let (mut old, mut new) = (Crossing::of(2), Crossing::of(2));
        for node in [3, 4] {
            old[0].stage(1, node, packet(node as u8));
            old[0].hand_over(|_, _| {});
        }
        new[1].take_over(&mut old[1], |node| (node == 4).then_some(9));
        let left = new[1].left().expect("one packet");
        assert_eq!((left.len(), left[0].fcb(), left[0].data()[0]), (1, 9, 4));
        assert!(new[1].left().is_none() && new[0].left().is_none());
    }
}
