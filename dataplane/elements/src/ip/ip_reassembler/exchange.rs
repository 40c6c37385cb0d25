//! Fragments on their way to the thread that puts their packet together.
//!
//! Fragments of one packet may come in by several threads: where the first one is spread by its
//! ports, for the others have none, or where a sender changes its queue. One thread puts together
//! all that one host sends another by one protocol, so that whole packets keep their order; the
//! others hand their fragments over, by a ring for each pair of threads.

use std::sync::Mutex;

use thruway_element::Args;
use thruway_packet::{Batch, PacketConsumer, PacketProducer, packet_ring};
use thruway_wire::ipv4::Ipv4Header;

/// Fragments that a ring holds.
const CAPACITY: usize = 512;

/// The ends of one replica.
struct Ends {
    into: Vec<PacketProducer>,
    from: Vec<PacketConsumer>,
}

/// All rings, until the replicas take their ends.
type Rings = Mutex<Vec<Option<Ends>>>;

/// One replica's part; nothing where there is one replica.
#[derive(Default)]
pub(super) struct Exchange {
    rank: usize,
    /// To each replica.
    into: Vec<PacketProducer>,
    from: Vec<PacketConsumer>,
    /// Fragments that were handed over.
    pub(super) handed: u64,
}

/// A ring from each of so many replicas to each.
fn rings(count: usize) -> Rings {
    let ends = || Ends { into: Vec::with_capacity(count), from: Vec::with_capacity(count) };
    let mut all: Vec<Ends> = (0..count).map(|_| ends()).collect();
    for sender in 0..count {
        for receiver in 0..count {
            let (into, from) = packet_ring(CAPACITY);
            all[sender].into.push(into);
            all[receiver].from.push(from);
        }
    }
    Mutex::new(all.into_iter().map(Some).collect())
}

impl Exchange {
    pub(super) fn build(args: &Args<'_>) -> Exchange {
        let (rank, count) = (args.env().rank, args.env().threads);
        if count < 2 {
            return Exchange::default();
        }
        let rings = args.shared("rings", || rings(count));
        let mut rings = rings.lock().unwrap_or_else(|poison| poison.into_inner());
        let Some(ends) = rings.get_mut(rank).and_then(Option::take) else {
            // Each rank is built once.
            return Exchange::default();
        };
        Exchange { rank, into: ends.into, from: ends.from, handed: 0 }
    }

    /// Whether there are several replicas.
    #[inline]
    pub(super) fn is_shared(&self) -> bool {
        !self.into.is_empty()
    }

    /// The other replica that a fragment is for.
    #[inline]
    pub(super) fn other(&self, ip: &Ipv4Header) -> Option<usize> {
        if self.into.is_empty() {
            return None;
        }
        let pair = u64::from(ip.src()) << 32 | u64::from(ip.dst());
        let mixed = (pair ^ u64::from(ip.protocol())).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let place = (mixed ^ mixed >> 29).wrapping_mul(0xbf58_476d_1ce4_e5b9) >> 32;
        let other = ((place * self.into.len() as u64) >> 32) as usize;
        (other != self.rank).then_some(other)
    }

    /// Hands over the packets for each replica. Those for which there is no room are left in `lost`;
    /// says whether there were any at all.
    pub(super) fn hand_over(&mut self, others: &mut [Batch], lost: &mut Batch) -> bool {
        let mut any = false;
        for (into, batch) in self.into.iter_mut().zip(others).filter(|(_, b)| !b.is_empty()) {
            any = true;
            self.handed += into.put(batch) as u64;
            lost.extend(batch.drain());
        }
        any
    }

    /// What another has handed over, up to `max` fragments.
    pub(super) fn take(&mut self, other: usize, max: usize, batch: &mut Batch) {
        if let Some(from) = self.from.get_mut(other) {
            from.take(max, batch);
        }
    }

    /// Fragments that are under way from here.
    pub(super) fn len(&self) -> usize {
        self.into.iter().map(PacketProducer::len).sum()
    }
}
