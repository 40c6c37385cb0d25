//! Pipeliner: packets go on in another thread.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use crossbeam_queue::ArrayQueue;
use thruway_element::{
    Arg, ArgErrors, Args, Changes, Cx, Element, Entry, Handler, HandlerError, Operation, Run, Spec,
    Storage, Topic, Ty, handler_value, reasons,
};
use thruway_packet::{Batch, MAX_BATCH, Packet};

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

type Ring = Arc<ArrayQueue<Packet>>;

struct Pipeliner {
    /// What this thread pushes.
    ring: Ring,
    /// The rings of all threads: complete when packets begin to flow.
    all: Arc<Mutex<Vec<Ring>>>,
    /// The same, in the thread that empties them; it knows by its task that it is the one.
    emptied: Vec<Ring>,
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
    let all = args.shared("rings", || Mutex::new(Vec::new()));
    let ring = Arc::new(ArrayQueue::new(capacity));
    all.lock().unwrap_or_else(PoisonError::into_inner).push(Arc::clone(&ring));
    let burst: i32 = args.get("BURST")?;
    Ok(Box::new(Pipeliner {
        ring,
        all,
        emptied: Vec::new(),
        burst: usize::try_from(burst).ok().filter(|burst| *burst > 0).unwrap_or(MAX_BATCH),
        blocking: args.get("BLOCKING")?,
        active: args.get("ACTIVE")?,
        direct: args.get("DIRECT_TRAVERSAL")?,
        count: 0,
        dropped: 0,
    }))
}

impl Pipeliner {
    /// Puts a packet into the ring, or gives it back.
    fn store(&self, cx: &mut Cx<'_>, packet: Packet) -> Result<(), Packet> {
        let mut packet = match self.ring.push(packet) {
            Err(packet) if self.blocking && !self.is_home() => packet,
            stored => return stored,
        };
        cx.wake_takers();
        let since = Instant::now();
        while since.elapsed() < WAIT_MAX {
            std::thread::yield_now();
            match self.ring.push(packet) {
                Err(back) => packet = back,
                Ok(()) => return Ok(()),
            }
        }
        Err(packet)
    }

    /// Whether this thread is the one that empties the rings.
    fn is_home(&self) -> bool {
        !self.emptied.is_empty()
    }
}

impl Element for Pipeliner {
    fn holding(&self) -> usize {
        if self.active { self.ring.len() } else { 0 }
    }

    fn storage(&self) -> Option<Storage> {
        Some(Storage { len: self.ring.len(), capacity: self.ring.capacity() })
    }

    fn process(&mut self, cx: &mut Cx<'_>, _port: usize, batch: &mut Batch) {
        if self.direct && self.is_home() {
            // First what came before it was known whose thread this is.
            while let Some(packet) = self.ring.pop() {
                cx.emit(0, packet);
            }
            return;
        }
        for packet in batch.drain() {
            match self.store(cx, packet) {
                Ok(()) => self.count += 1,
                Err(packet) => {
                    self.dropped += 1;
                    cx.drop(Lost::Full, packet);
                }
            }
        }
        cx.wake_takers();
    }

    fn run(&mut self, cx: &mut Cx<'_>) -> Run {
        if !self.is_home() {
            self.emptied.clone_from(&self.all.lock().unwrap_or_else(PoisonError::into_inner));
        }
        if !self.active {
            return Run::Idle;
        }
        let mut any = false;
        for ring in &self.emptied {
            for packet in std::iter::from_fn(|| ring.pop()).take(self.burst) {
                any = true;
                cx.emit(0, packet);
            }
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
