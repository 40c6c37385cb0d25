//! Queue: where push ends and pull begins.

use std::any::Any;
use std::collections::VecDeque;
use std::sync::Arc;

use crossbeam_queue::ArrayQueue;
use thruway_element::{
    Alias, Args, Arguments, Buffer, Changes, Cx, Element, Entry, HandlerError, Handlers, HotSwap,
    Operation, Publisher, Replicas, Resize, ShortCut, Spec, Storage, Topic, handler_value, reasons,
};
use thruway_packet::{Batch, Packet};

const SPEC: Spec = Spec {
    topic: Topic::Queueing,
    example: "InfiniteSource(LIMIT 3) -> Queue(10) -> Unqueue -> Discard",
    ports: "1/1-2",
    processing: "h/lh",
    drops: Full::DROPS,
    changes: Changes::Nothing,
    cost: &[Operation::Store.once()],
    large_packets: true,
    ..Spec::DEFAULT
};

/// See the spec.
pub static ENTRY: Entry = Entry::of::<Queue>(Spec {
    name: "Queue",
    aliases: &[
        Alias { name: "FullNoteQueue", summary: "the same" },
        Alias { name: "MSQueue", summary: "the same" },
        Alias {
            name: "NotifierQueue",
            summary: "the same, but sources do not rest while it is full",
        },
        Alias { name: "QuickNoteQueue", summary: "the same" },
        Alias {
            name: "SimpleQueue",
            summary: "the same, but sources do not rest while it is full",
        },
        Alias {
            name: "ThreadSafeQueue",
            summary: "the same: a Queue that several threads reach is safe by itself",
        },
    ],
    summary: "stores packets in a first-in-first-out queue",
    docs: "Keeps up to CAPACITY packets until they are pulled; packets pushed into a full queue \
           leave by output 1, or are dropped where there is none; sources that need not go on \
           (InfiniteSource) rest while it is full. When one thread pushes and \
           another pulls, the queue is a lock-free ring that both share, and its capacity \
           cannot change while it runs. Making the capacity smaller drops the newest packets \
           that no longer fit.",
    replicas: Replicas::Sharing(
        "the packets; which of them drops one that finds no room is shown by its count",
    ),
    short_cut: ShortCut::Stores,
    ..SPEC
})
.with_buffer::<Queue>()
.with_hot_swap::<Queue>()
.with_resize::<Queue>()
.with_publisher::<Queue>();

/// See the spec.
pub static FRONT_DROP: Entry = Entry::of::<Queue>(Spec {
    name: "FrontDropQueue",
    summary: "stores packets in a queue that drops the oldest when it is full",
    docs: "A Queue that, when it is full, makes room for a new packet: the one at its front, \
           which has waited longest, leaves by output 1, or is dropped where there is none. \
           Making the capacity smaller drops the oldest packets too. Sources never rest on \
           its account.",
    example: "InfiniteSource(LIMIT 3) -> FrontDropQueue(10) -> Unqueue -> Discard",
    replicas: Replicas::Sharing("the packets"),
    ..SPEC
})
.with_buffer::<Queue>()
.with_hot_swap::<Queue>()
.with_resize::<Queue>()
.with_publisher::<Queue>();

/// See the spec.
pub static MIXED: Entry = Entry::of::<Queue>(Spec {
    name: "MixedQueue",
    summary: "stores packets in a queue with a second input that goes first",
    docs: "A Queue with two inputs: input 0 is first-in-first-out, input 1 is last-in-first-out: \
           a packet from there is the next to be pulled. A packet that comes to input 0 of a \
           full queue leaves by output 1, or is dropped where there is none; one that comes \
           to input 1 takes the place of the packet at the end of the queue. All that push \
           into it and pull from it must run in one thread.",
    example: "InfiniteSource(LIMIT 3) -> q :: MixedQueue(10) -> Unqueue -> Discard;\n\
              InfiniteSource(LIMIT 1) -> [1] q",
    ports: "2/1-2",
    replicas: Replicas::OneThread("packets enter at both of its ends"),
    ..SPEC
})
.with_buffer::<Queue>()
.with_hot_swap::<Queue>()
.with_resize::<Queue>()
.with_publisher::<Queue>();

reasons! {
    /// Why a packet is not stored, or no longer.
    enum Full {
        Overflow = "queue-full": "the queue held CAPACITY packets",
        Reset = "reset": "the queue was emptied by its reset handler",
        Shrunk = "shrunk": "the capacity was made smaller",
    }
}

/// Largest CAPACITY: more packets than packet memory has frames would be of no use.
const CAPACITY_MAX: usize = 1 << 24;

/// Packets for which room is made beforehand.
const ROOM: usize = 4096;

/// Which packet is dropped when one comes and the queue is full.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Victim {
    /// The packet that comes.
    Newest,
    /// The packet that is next to be pulled.
    Oldest,
}

/// Where the packets are.
enum Store {
    /// One thread pushes and pulls.
    Local(VecDeque<Packet>),
    /// Several threads do.
    Shared(Arc<ArrayQueue<Packet>>),
}

impl Store {
    fn for_threads(args: &Args<'_>, capacity: usize) -> Store {
        if args.env().threads > 1 {
            // A ring of capacity 0 does not exist; it would drop all, as one packet nearly does.
            return Store::Shared(args.shared("ring", || ArrayQueue::new(capacity.max(1))));
        }
        Store::Local(VecDeque::with_capacity(capacity.min(ROOM)))
    }

    fn push(&mut self, capacity: usize, packet: Packet) -> Result<(), Packet> {
        match self {
            Store::Local(queue) if queue.len() >= capacity => Err(packet),
            Store::Local(queue) => {
                queue.push_back(packet);
                Ok(())
            }
            Store::Shared(queue) => queue.push(packet),
        }
    }

    /// Stores a packet, if need be in the place of the oldest, which is given back. (Where there is
    /// room for none, that is the packet itself.)
    fn push_over(&mut self, capacity: usize, packet: Packet) -> Result<(), Packet> {
        let over = match self {
            Store::Local(queue) => {
                queue.push_back(packet);
                if queue.len() > capacity { queue.pop_front() } else { None }
            }
            Store::Shared(queue) => queue.force_push(packet),
        };
        over.map_or(Ok(()), Err)
    }

    /// Stores a packet in front of all others, if need be in the place of the last, which is given
    /// back.
    fn push_front(&mut self, capacity: usize, packet: Packet) -> Result<(), Packet> {
        match self {
            Store::Local(queue) => {
                queue.push_front(packet);
                let over = if queue.len() > capacity { queue.pop_back() } else { None };
                over.map_or(Ok(()), Err)
            }
            // No such queue is made; an end where packets are lost is better than a panic.
            Store::Shared(_) => Err(packet),
        }
    }

    fn pop(&mut self) -> Option<Packet> {
        match self {
            Store::Local(queue) => queue.pop_front(),
            Store::Shared(queue) => queue.pop(),
        }
    }

    fn len(&self) -> usize {
        match self {
            Store::Local(queue) => queue.len(),
            Store::Shared(queue) => queue.len(),
        }
    }
}

#[derive(Arguments, Handlers)]
#[handler(read, shared, name = "length", "packets in it now", get = self.store.len())]
#[handler(read, field = highwater, name = "highwater_length", "most packets it held")]
#[handler(both, field = capacity, "packets it holds", write = self.set_capacity(cx, value))]
#[handler(read, field = config, "the arguments")]
#[handler(sum, field = drops, "packets for which there was no room")]
#[handler(
    write, name = "reset_counts", "sets drops and highwater_length to zero",
    run = (self.drops, self.highwater) = (0, self.store.len())
)]
#[handler(write, name = "reset", "drops all packets in it", write = self.write_reset(cx))]
struct Queue {
    /// packets it holds
    #[arg(optional, or = "1000", via = at_most)]
    capacity: usize,
    #[new(Store::for_threads(args, capacity))]
    store: Store,
    highwater: usize,
    drops: u64,
    #[new(args.text("CAPACITY").unwrap_or_default().to_owned())]
    config: String,
    #[new(if args.class() == "FrontDropQueue" { Victim::Oldest } else { Victim::Newest })]
    victim: Victim,
    /// Whether sources rest while it is full.
    #[new(!SILENT.contains(&args.class()))]
    notifies_sources: bool,
}

/// Classes that sources do not rest for.
const SILENT: [&str; 4] = ["NotifierQueue", "SimpleQueue", "MixedQueue", "FrontDropQueue"];

fn at_most(capacity: usize) -> Result<usize, String> {
    if capacity > CAPACITY_MAX { Err(format!("at most {CAPACITY_MAX}")) } else { Ok(capacity) }
}

impl Queue {
    fn set_capacity(&mut self, cx: &mut Cx<'_>, value: &str) -> Result<(), HandlerError> {
        let capacity: usize = handler_value("capacity", value)?;
        let Store::Local(queue) = &mut self.store else {
            return Err(HandlerError::refused(
                "capacity: a queue between threads cannot change its capacity while running",
            ));
        };
        at_most(capacity).map_err(|why| HandlerError::refused(format!("capacity: {why}")))?;
        let victim = self.victim;
        let excess = |queue: &mut VecDeque<Packet>| match victim {
            Victim::Newest => queue.pop_back(),
            Victim::Oldest => queue.pop_front(),
        };
        while queue.len() > capacity
            && let Some(packet) = excess(queue)
        {
            cx.drop(Full::Shrunk, packet);
        }
        self.capacity = capacity;
        self.config = format!("CAPACITY {capacity}");
        self.notify_sources(cx);
        Ok(())
    }

    /// Lets sources rest while nothing more can be stored. A queue between threads never says so:
    /// the thread that empties it could not call it off in time.
    #[inline]
    fn notify_sources(&self, cx: &mut Cx<'_>) {
        let full = match &self.store {
            Store::Local(queue) => self.notifies_sources && queue.len() >= self.capacity,
            Store::Shared(_) => false,
        };
        cx.set_full(full);
    }

    fn write_reset(&mut self, cx: &mut Cx<'_>) -> Result<(), HandlerError> {
        while let Some(packet) = self.store.pop() {
            cx.reject(1, Full::Reset, packet);
        }
        self.notify_sources(cx);
        Ok(())
    }
}

impl Element for Queue {
    fn initialize(&mut self, cx: &mut Cx<'_>) -> Result<(), String> {
        self.notify_sources(cx);
        Ok(())
    }

    fn process(&mut self, cx: &mut Cx<'_>, port: usize, batch: &mut Batch) {
        for packet in batch.drain() {
            let stored = match self.victim {
                _ if port == 1 => self.store.push_front(self.capacity, packet),
                Victim::Newest => self.store.push(self.capacity, packet),
                Victim::Oldest => self.store.push_over(self.capacity, packet),
            };
            if let Err(packet) = stored {
                self.drops += 1;
                cx.reject(1, Full::Overflow, packet);
            }
        }
        self.highwater = self.highwater.max(self.store.len());
        self.notify_sources(cx);
        if matches!(self.store, Store::Shared(_)) {
            let node = cx.node();
            cx.threads().wake_takers(node);
        }
    }

    fn pull(&mut self, cx: &mut Cx<'_>, _port: usize, max: usize, batch: &mut Batch) {
        batch.extend(std::iter::from_fn(|| self.store.pop()).take(max));
        self.notify_sources(cx);
    }
}

impl Publisher for Queue {
    fn figures(&self) -> &'static [&'static str] {
        &["length", "capacity", "highwater_length"]
    }

    fn publish(&self, _cx: &mut Cx<'_>, values: &mut [u64]) {
        let figures = [self.store.len(), self.capacity, self.highwater];
        values.iter_mut().zip(figures).for_each(|(value, figure)| *value = figure as u64);
    }
}

impl HotSwap for Queue {
    fn hand_over(&mut self) -> Option<Box<dyn Any + Send>> {
        let packets: VecDeque<Packet> = std::iter::from_fn(|| self.store.pop()).collect();
        Some(Box::new(packets))
    }

    fn take_over(&mut self, state: Box<dyn Any + Send>) {
        let Ok(packets) = state.downcast::<VecDeque<Packet>>() else { return };
        for packet in *packets {
            if self.store.push(self.capacity, packet).is_err() {
                self.drops += 1;
            }
        }
        self.highwater = self.store.len();
    }
}

impl Resize for Queue {
    fn join(&mut self, state: Box<dyn Any + Send>) {
        self.take_over(state);
    }
}

impl Buffer for Queue {
    fn holding(&self) -> usize {
        self.store.len()
    }

    fn storage(&self) -> Option<Storage> {
        Some(Storage { len: self.store.len(), capacity: self.capacity })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn local(capacity: usize) -> Queue {
        let store = Store::Local(VecDeque::new());
        let (victim, config) = (Victim::Newest, String::new());
        Queue { store, capacity, highwater: 0, drops: 0, config, victim, notifies_sources: true }
    }

    #[test]
    fn packets_survive_a_change_of_configuration() {
        let mut old = local(5);
        for number in 0..5u8 {
            assert!(old.store.push(5, Packet::new(&[number]).unwrap()).is_ok());
        }
        let mut new = local(3);
        new.take_over(old.hand_over().unwrap());
        assert_eq!((old.store.len(), new.highwater, new.drops), (0, 3, 2));
        let numbers: Vec<u8> =
            std::iter::from_fn(|| new.store.pop()).map(|packet| packet.data()[0]).collect();
        assert_eq!(numbers, [0, 1, 2]);
        // Another element's state is no harm.
        new.take_over(Box::new("not packets"));
    }

    proptest! {
        /// Both stores are a first-in-first-out list with a limit.
        #[test]
        fn stores_are_bounded_lists(
            capacity in 1usize..6,
            pushes in prop::collection::vec(any::<bool>(), 1..60),
        ) {
            let shared = Store::Shared(Arc::new(ArrayQueue::new(capacity)));
            for mut store in [Store::Local(VecDeque::new()), shared] {
                let mut model = VecDeque::new();
                for (number, push) in pushes.iter().enumerate() {
                    let bytes = [number as u8];
                    if *push {
                        let stored = store.push(capacity, Packet::new(&bytes).unwrap()).is_ok();
                        prop_assert_eq!(stored, model.len() < capacity);
                        model.extend(stored.then_some(bytes));
                    } else {
                        let bytes = store.pop().map(|packet| packet.data().to_vec());
                        prop_assert_eq!(bytes, model.pop_front().map(Vec::from));
                    }
                    prop_assert_eq!(store.len(), model.len());
                }
            }
        }

        /// The other storage policies are lists too, which lose their first or their last packet.
        #[test]
        fn which_packet_is_dropped(
            capacity in 0usize..6,
            pushes in prop::collection::vec(0u8..3, 1..60),
        ) {
            let mut store = Store::Local(VecDeque::new());
            let mut model: VecDeque<Vec<u8>> = VecDeque::new();
            for (number, what) in pushes.iter().enumerate() {
                let bytes = vec![number as u8];
                let packet = Packet::new(&bytes).unwrap();
                let (lost, expected) = match what {
                    0 => {
                        model.push_back(bytes);
                        let over = model.len() > capacity;
                        (store.push_over(capacity, packet).err(), over.then(|| model.pop_front()))
                    }
                    1 => {
                        model.push_front(bytes);
                        let over = model.len() > capacity;
                        (store.push_front(capacity, packet).err(), over.then(|| model.pop_back()))
                    }
                    _ => (store.pop(), Some(model.pop_front())),
                };
                prop_assert_eq!(lost.map(|packet| packet.data().to_vec()), expected.flatten());
                prop_assert_eq!(store.len(), model.len());
            }
        }
    }
}
