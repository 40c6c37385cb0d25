//! Pipeliner: packets go on in another thread.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use thruway_element::{
    Arg, ArgErrors, Args, Changes, Cx, Element, Entry, Handler, HandlerError, Operation, Replicas,
    Run, Spec, Storage, Topic, Ty, handler_value, reasons,
};
use thruway_packet::{Batch, MAX_BATCH, PacketConsumer, PacketProducer, packet_ring};

/// See the spec.
pub static ENTRY: Entry = Entry::new(
    Spec {
        name: "Pipeliner",
        topic: Topic::Moving,
        summary: "hands packets to its own thread, which pushes them on",
        docs: "Each thread that pushes packets into it has a ring of CAPACITY packets; the thread \
               that the element is placed on (StaticThreadSched) empties all rings, up to BURST \
               packets of each at a time, and what is behind runs in that thread only. What that \
               thread pushes itself goes straight through, unless DIRECT_TRAVERSAL is false. A \
               packet that comes to a full ring is dropped or, with BLOCKING true, its thread \
               waits, for a second at most. The thread that empties a ring is woken if it \
               sleeps, so ALWAYS_UP makes no difference.",
        example: "InfiniteSource(LIMIT 3, STOP true) -> p :: Pipeliner -> Discard;\n\
                  StaticThreadSched(p 1)",
        ports: "1/1",
        processing: "h/h",
        args: &[
            Arg::optional("CAPACITY", Ty::UInt, "packets in a ring").or("1024"),
            Arg::optional("BURST", Ty::Int, "packets of a ring at a time; 0 for all there are")
                .or("32"),
            Arg::optional("BLOCKING", Ty::Bool, "whether threads wait for room").or("false"),
            Arg::keyword("ACTIVE", Ty::Bool, "whether rings are emptied").or("true"),
            Arg::keyword("DIRECT_TRAVERSAL", Ty::Bool, "whether its own thread uses no ring")
                .or("true"),
            Arg::keyword("ALWAYS_UP", Ty::Bool, "makes no difference: packets wake the thread"),
            Arg::keyword(
                "NOUSELESS",
                Ty::Bool,
                "makes no difference: nothing is told of a useless Pipeliner",
            ),
            Arg::keyword("VERBOSE", Ty::Bool, "makes no difference: drops are counted, not told"),
        ],
        drops: Lost::DROPS,
        handlers: &[
            Handler::sum("count", "packets that went into a ring"),
            Handler::sum("dropped", "packets for which there was no room"),
            Handler::both("active", "whether rings are emptied"),
        ],
        task: true,
        leaves_at_home: true,
        changes: Changes::Nothing,
        cost: &[Operation::Store.once()],
        replicas: Replicas::Sharing(
            "the rings, one from each thread to the thread that packets are handed to",
        ),
        ..Spec::DEFAULT
    },
    build,
);

reasons! {
    /// Why a packet does not go on.
    enum Lost {
        Full = "queue-full": "the ring was full",
    }
}

/// Longest wait for room: a thread that stops must not wait for one that has.
const WAIT_MAX: Duration = Duration::from_secs(1);
/// Smallest ring, and largest.
const CAPACITIES: std::ops::RangeInclusive<usize> = 4..=1 << 24;

struct Pipeliner {
    /// What this thread pushes goes in here,
    into: PacketProducer,
    /// and comes out at this place among those of all threads.
    place: usize,
    /// Where all threads' packets come out, until the thread that empties the rings takes them.
    all: Arc<Mutex<Vec<PacketConsumer>>>,
    /// The same in that thread; it knows by its task that it is the one.
    emptied: Vec<PacketConsumer>,
    /// Packets on their way out; empty between runs.
    batch: Batch,
    burst: usize,
    blocking: bool,
    active: bool,
    direct: bool,
    count: u64,
    dropped: u64,
}

fn build(args: &Args<'_>) -> Result<Box<dyn Element>, ArgErrors> {
    let capacity: usize = args.get("CAPACITY")?;
    if !CAPACITIES.contains(&capacity) {
        let (least, most) = CAPACITIES.into_inner();
        return Err(args.error("CAPACITY", format!("must be between {least} and {most}")).into());
    }
    let all: Arc<Mutex<Vec<PacketConsumer>>> = args.shared("rings", Mutex::default);
    let (into, out) = packet_ring(capacity);
    let mut rings = all.lock().unwrap_or_else(PoisonError::into_inner);
    let place = rings.len();
    rings.push(out);
    drop(rings);
    let burst: i32 = args.get("BURST")?;
    Ok(Box::new(Pipeliner {
        into,
        place,
        all,
        emptied: Vec::new(),
        batch: Batch::with_room(),
        burst: usize::try_from(burst).ok().filter(|burst| *burst > 0).unwrap_or(MAX_BATCH),
        blocking: args.get("BLOCKING")?,
        active: args.get("ACTIVE")?,
        direct: args.get("DIRECT_TRAVERSAL")?,
        count: 0,
        dropped: 0,
    }))
}

impl Pipeliner {
    /// Puts packets into the ring; those stay in the batch for which there is no room.
    #[inline]
    fn store(&mut self, cx: &mut Cx<'_>, batch: &mut Batch) {
        let mut stored = self.into.put(batch);
        if !batch.is_empty() && self.blocking && !self.is_home() {
            stored += self.wait(cx, batch);
        }
        self.count += stored as u64;
    }

    /// Goes on putting packets in as room comes, and says how many.
    #[cold]
    fn wait(&mut self, cx: &mut Cx<'_>, batch: &mut Batch) -> usize {
        let (mut stored, since) = (0, Instant::now());
        while !batch.is_empty() && since.elapsed() < WAIT_MAX {
            // It may sleep: nobody told it of what is in the ring.
            cx.wake_takers();
            std::thread::yield_now();
            stored += self.into.put(batch);
        }
        stored
    }

    /// Whether this thread is the one that empties the rings.
    #[inline]
    fn is_home(&self) -> bool {
        !self.emptied.is_empty()
    }

    /// Sends on up to `max` packets of a ring. Says whether there were any.
    #[inline]
    fn empty(&mut self, cx: &mut Cx<'_>, ring: usize, max: usize) -> bool {
        // PERF: asking for the packets' lines here is no faster (`bench threads --figure 4.4`): the
        // thread that makes packets is what a short pipeline waits for.
        let taken = self.emptied[ring].take(max, &mut self.batch);
        cx.emit_all(0, &mut self.batch);
        taken > 0
    }
}

impl Element for Pipeliner {
    fn holding(&self) -> usize {
        if self.active { self.into.len() } else { 0 }
    }

    fn storage(&self) -> Option<Storage> {
        Some(Storage { len: self.into.len(), capacity: self.into.capacity() })
    }

    fn process(&mut self, cx: &mut Cx<'_>, _port: usize, batch: &mut Batch) {
        if self.direct && self.is_home() {
            // First what came before it was known whose thread this is.
            while self.empty(cx, self.place, MAX_BATCH) {}
            return;
        }
        self.store(cx, batch);
        if !batch.is_empty() {
            self.dropped += batch.len() as u64;
            cx.drop_all(Lost::Full, batch);
        }
        cx.wake_takers();
    }

    fn run(&mut self, cx: &mut Cx<'_>) -> Run {
        if !self.is_home() {
            let mut all = self.all.lock().unwrap_or_else(PoisonError::into_inner);
            self.emptied = std::mem::take(&mut all);
        }
        if !self.active {
            return Run::Idle;
        }
        let mut any = false;
        for ring in 0..self.emptied.len() {
            any |= self.empty(cx, ring, self.burst);
        }
        if any { Run::Again } else { Run::Idle }
    }

    fn read(&mut self, _cx: &mut Cx<'_>, name: &str, _param: &str) -> Result<String, HandlerError> {
        match name {
            "count" => Ok(self.count.to_string()),
            "dropped" => Ok(self.dropped.to_string()),
            "active" => Ok(self.active.to_string()),
            _ => Err(HandlerError::no_read(name)),
        }
    }

    fn write(&mut self, _cx: &mut Cx<'_>, name: &str, value: &str) -> Result<(), HandlerError> {
        match name {
            "active" => self.active = handler_value(name, value)?,
            _ => return Err(HandlerError::no_write(name)),
        }
        Ok(())
    }
}
