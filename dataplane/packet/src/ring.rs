//! A ring that hands packets from one thread to one other.

use core::ptr::NonNull;

use thruway_sync::{Consumer, Producer, spsc};

use crate::batch::Batch;
use crate::meta::Meta;
use crate::packet::Packet;

/// The end that packets are put in at.
pub struct PacketProducer(Producer<Meta>);

/// The end that they are taken out at.
pub struct PacketConsumer(Consumer<Meta>);

/// A ring of up to `capacity` packets. Packets left in it when both ends are gone are freed.
pub fn packet_ring(capacity: usize) -> (PacketProducer, PacketConsumer) {
    let (producer, consumer) = spsc(capacity, |meta| drop(owned(meta)));
    (PacketProducer(producer), PacketConsumer(consumer))
}

/// The packet that was put into a ring as this pointer.
#[inline]
fn owned(meta: NonNull<Meta>) -> Packet {
    // JUSTIFICATION: a packet is a pointer to its line, which the ring carries. SAFETY: private to
    // this module, which puts in only pointers from `into_meta`; the ring gives each pointer out
    // once, to `take` or to its end.
    unsafe { Packet::from_meta(meta) }
}

impl PacketProducer {
    /// Puts the first packets of a batch in, as many as fit, all visible to the other thread at
    /// once; the others stay in the batch. Returns the number put in.
    #[inline]
    pub fn put(&mut self, batch: &mut Batch) -> usize {
        let room = self.0.room(batch.len());
        self.0.put(&mut batch.drain_front(room).map(Packet::into_meta))
    }

    /// Packets in the ring.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Packets in it at most.
    pub fn capacity(&self) -> usize {
        self.0.capacity()
    }
}

impl PacketConsumer {
    /// Takes up to `max` packets to the end of a batch, in the order in which they were put in.
    /// Says how many.
    #[inline]
    pub fn take(&mut self, max: usize, batch: &mut Batch) -> usize {
        let taken = self.0.take(max);
        let count = taken.len();
        batch.extend(taken.map(owned));
        count
    }

    /// Packets in the ring.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}
