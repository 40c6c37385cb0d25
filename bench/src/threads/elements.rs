//! The bench's own elements: an input queue that is never empty, and an end that counts.

use std::sync::Arc;

use parking_lot::Mutex;
use thruway_element::{
    Arg, ArgErrors, Args, Cx, Element, Entry, HandlerError, Handlers, Run, Shared, Spec, Threading,
    Topic, Ty,
};
use thruway_packet::{Batch, Image, MAX_BATCH, Marks, Packet, cycles};
use thruway_sync::atomic::{AtomicU64, Ordering};
use thruway_sync::{CachePadded, Counter};

use crate::traffic;

/// Both of them.
pub const ELEMENTS: &[&Entry] = &[&SOURCE, &SINK];

/// Flows of a source: their packets stay in a first-level cache.
const FLOWS: usize = 128;
/// Bytes of a packet.
const LEN: usize = 64;
/// One of so many batches has the time of a packet kept.
const SAMPLE_EVERY: u64 = 4;
/// Times that a thread keeps.
const SAMPLES_MAX: usize = 1 << 16;

/// Where the ledger lies among the state that elements share.
const SHARED: (&str, &str) = ("", "threads");

/// What the driver, the sources and the sinks of a run know of each other. Times are ticks of the
/// time stamp counter, which all cores share.
#[derive(Debug, Default)]
pub struct Ledger {
    /// Packets that arrive in this time count; sources rest when it is over.
    begin: AtomicU64,
    end: AtomicU64,
    /// Ticks between two packets of a source, in 1/1024; 0 for no pause.
    gap: AtomicU64,
    /// A lane for each thread.
    lanes: Vec<CachePadded<Lane>>,
    samples: Mutex<Vec<u64>>,
}

/// What one thread's sink has seen; only that thread writes it.
#[derive(Debug, Default)]
struct Lane {
    /// Packets in all.
    returned: Counter,
    /// Those that count.
    counted: Counter,
}

impl Ledger {
    /// One for so many threads.
    pub fn new(threads: usize) -> Ledger {
        let lanes = (0..threads).map(|_| CachePadded::default()).collect();
        Ledger { lanes, ..Ledger::default() }
    }

    /// Puts it where the elements of a configuration look for it.
    pub fn provide(self: Arc<Ledger>, shared: &Shared) {
        shared.get(SHARED.0, SHARED.1, || self);
    }

    fn of(args: &Args<'_>) -> Result<Arc<Ledger>, ArgErrors> {
        // Arguments are checked once where nothing is provided.
        let alone = || Arc::new(Ledger::new(args.env().thread + 1));
        let shared = args.env().shared.get::<Arc<Ledger>>(SHARED.0, SHARED.1, alone);
        let ledger = shared.ok_or_else(|| ArgErrors::whole("the bench gave it no ledger"))?;
        if args.env().thread >= ledger.lanes.len() {
            return Err(ArgErrors::whole("only thruway-bench threads knows it"));
        }
        Ok(Arc::clone(&ledger))
    }

    /// Sets the time of the next run, and the ticks between packets of a source.
    pub fn set(&self, begin: u64, end: u64, gap: f64) {
        self.begin.store(begin, Ordering::Relaxed);
        self.gap.store((gap * 1024.0) as u64, Ordering::Relaxed);
        self.lanes.iter().for_each(|lane| lane.0.counted.set(0));
        self.samples.lock().clear();
        self.end.store(end, Ordering::Relaxed);
    }

    /// Packets that arrived in the time of the run.
    pub fn counted(&self) -> u64 {
        self.lanes.iter().map(|lane| lane.0.counted.get()).sum()
    }

    /// Packets that ever arrived.
    pub fn returned(&self) -> u64 {
        self.lanes.iter().map(|lane| lane.0.returned.get()).sum()
    }

    /// Ticks that packets took from source to sink, since the last [`set`](Ledger::set).
    pub fn samples(&self) -> Vec<u64> {
        std::mem::take(&mut self.samples.lock())
    }
}

static SOURCE: Entry = Entry::built::<Source>(
    Spec {
        name: "BenchQueue",
        topic: Topic::Counters,
        summary: "64-byte UDP packets of many flows, as from an input queue that is never empty",
        ports: "0/1",
        processing: "/h",
        args: &[
            Arg::required("BURST", Ty::UInt, "packets at a time"),
            Arg::required(
                "WINDOW",
                Ty::UInt,
                "maximum number of packets in flight: the queue's length",
            ),
            Arg::required("LANE", Ty::Int, "thread of the sink of its packets; -1 for any"),
        ],
        threading: Threading::Task,
        ..Spec::DEFAULT
    },
    |args| Ok(Box::new(Source::new(args)?)),
);

/// See the entry.
#[derive(Handlers)]
#[handler(sum, field = sent, name = "count", "packets so far")]
struct Source {
    ledger: Arc<Ledger>,
    burst: usize,
    window: u64,
    lane: Option<usize>,
    frames: Vec<[u8; LEN]>,
    marks: Marks,
    next: usize,
    sent: u64,
    /// Packets known to have arrived.
    returned: u64,
    /// Begin of the run that is known, and when the next packet is due, in 1/1024 ticks from there.
    begin: u64,
    due: u64,
    /// End of the run that it asked to stop.
    ended: u64,
    batch: Batch,
}

impl Source {
    fn new(args: &Args<'_>) -> Result<Source, ArgErrors> {
        let ledger = Ledger::of(args)?;
        let lane: i32 = args.get("LANE")?;
        let seed = args.name().bytes().fold(1, |seed: u64, byte| seed * 31 + u64::from(byte));
        let flows = traffic::small_network(seed);
        let marks = Packet::new(&[]).map(|packet| packet.marks());
        Ok(Source {
            lane: usize::try_from(lane).ok().filter(|lane| *lane < ledger.lanes.len()),
            ledger,
            burst: args.get::<usize>("BURST")?.clamp(1, MAX_BATCH),
            window: args.get("WINDOW")?,
            frames: flows.iter().take(FLOWS).map(traffic::packet).collect(),
            marks: marks.ok_or_else(|| ArgErrors::whole("no memory for a packet"))?,
            next: 0,
            sent: 0,
            returned: 0,
            begin: 0,
            due: 0,
            ended: 0,
            batch: Batch::with_room(),
        })
    }

    /// Free packets of the window. Another thread may count them: its counter is read only when the
    /// window is full by its last value.
    fn room(&mut self, wanted: usize) -> usize {
        let free = |source: &Source| source.window.saturating_sub(source.sent - source.returned);
        if free(self) < wanted as u64 {
            self.returned = match self.lane {
                Some(lane) => self.ledger.lanes[lane].0.returned.get(),
                None => self.ledger.returned(),
            };
        }
        wanted.min(free(self) as usize)
    }

    /// Packets that are due by now, and the ticks (in 1/1024) between two.
    fn due(&mut self, now: u64) -> (usize, u64) {
        let gap = self.ledger.gap.load(Ordering::Relaxed);
        let begin = self.ledger.begin.load(Ordering::Relaxed);
        if begin != self.begin {
            // Before the time that counts, too, so that caches are warm when it begins.
            (self.begin, self.due) = (begin, now << 10);
        }
        if gap == 0 {
            return (self.burst, 0);
        }
        let due = ((now << 10).saturating_sub(self.due) / gap) as usize;
        (due.min(self.burst), gap)
    }

    fn fill(&mut self, count: usize, now: u64, gap: u64) {
        if self.next + count > self.frames.len() {
            self.next = 0;
        }
        let frames = &self.frames[self.next..][..count];
        let (marks, first) = (&self.marks, self.due);
        let images = frames.iter().enumerate().map(|(nth, frame)| {
            // When it was due, not when it was made: else a source that was late would hide it.
            let time = if gap == 0 { now } else { (first + nth as u64 * gap) >> 10 };
            Image { bytes: frame, len: LEN, timestamp: time as i64, marks }
        });
        let made = self.batch.fill(images);
        self.next += made;
        self.due += made as u64 * gap;
        self.sent += made as u64;
    }
}

impl Element for Source {
    fn run(&mut self, cx: &mut Cx<'_>) -> Run {
        let now = cycles();
        let end = self.ledger.end.load(Ordering::Relaxed);
        if now >= end {
            if std::mem::replace(&mut self.ended, end) != end {
                cx.stop();
            }
            return Run::Idle;
        }
        let (due, gap) = self.due(now);
        let count = self.room(due);
        if count > 0 {
            self.fill(count, now, gap);
            let mut batch = std::mem::take(&mut self.batch);
            cx.emit_all(0, &mut batch);
            self.batch = batch;
        }
        // As a queue that is polled.
        Run::Again
    }
}

static SINK: Entry = Entry::built::<Sink>(
    Spec {
        name: "BenchEnd",
        topic: Topic::Counters,
        summary: "counts packets, takes the time of some, and frees them",
        ports: "1/0",
        processing: "h/",
        ..Spec::DEFAULT
    },
    |args| {
        let ledger = Ledger::of(args)?;
        let samples = Vec::with_capacity(SAMPLES_MAX);
        Ok(Box::new(Sink { ledger, lane: args.env().thread, batches: 0, samples }))
    },
);

/// See the entry.
#[derive(Handlers)]
#[handler(
    write, name = "flush", "hands over the times that were taken", write = self.write_flush()
)]
struct Sink {
    ledger: Arc<Ledger>,
    lane: usize,
    batches: u64,
    samples: Vec<u64>,
}

impl Element for Sink {
    fn process(&mut self, _cx: &mut Cx<'_>, _port: usize, batch: &mut Batch) {
        let now = cycles();
        let Ledger { begin, end, lanes, .. } = &*self.ledger;
        let lane = &lanes[self.lane].0;
        if (begin.load(Ordering::Relaxed)..end.load(Ordering::Relaxed)).contains(&now) {
            lane.counted.add(batch.len() as u64);
            self.batches += 1;
            if self.batches.is_multiple_of(SAMPLE_EVERY) && self.samples.len() < SAMPLES_MAX {
                // Any place of a batch alike.
                let nth = (self.batches / SAMPLE_EVERY) as usize % batch.len();
                let then = batch.iter().nth(nth).map_or(now, |packet| packet.timestamp() as u64);
                self.samples.push(now.saturating_sub(then));
            }
        }
        let count = batch.len() as u64;
        batch.clear();
        lane.returned.add(count);
    }
}

impl Sink {
    fn write_flush(&mut self) -> Result<(), HandlerError> {
        let mut all = self.ledger.samples.lock();
        all.append(&mut self.samples);
        Ok(())
    }
}
