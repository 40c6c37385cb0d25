//! The bench's own elements: packets of many sessions that say when they were made, and an end that
//! looks how old they are and how many of their session came before.

use std::ops::Range;
use std::sync::Arc;

use thruway_element::{Arg, Cx, Element, Entry, Pressing, Run, Spec, Threading, Topic, Ty};
use thruway_packet::Batch;
use thruway_sync::Counter;
use thruway_sync::atomic::{AtomicBool, AtomicU64, Ordering};

use crate::flow::elements::{BURST, Frames};
use crate::kills::stamp::{COUNT, NUMBER};
use crate::ledger::{self, Ledger as _, number};

/// Both of them.
pub const ELEMENTS: &[&Entry] = &[&SOURCE, &SINK];

/// Most sessions.
pub const SESSIONS_MAX: u32 = 1 << 20;

/// Where the session's number is in a packet: the end of the source's address, and its port.
const HOST: Range<usize> = 28..30;
const PORT: Range<usize> = 34..36;
/// The first port.
const PORT_MIN: u64 = 1024;
/// When it was made, where other benches have its number.
const MADE_AT: Range<usize> = NUMBER;

/// What came.
#[derive(Debug, Default)]
pub struct Ledger {
    /// Packets that the source made.
    pub made: Counter,
    /// Packets that came.
    pub back: Counter,
    /// Packets with a count that does not exceed that of their session's previous packet.
    pub backwards: Counter,
    /// The longest time from source to sink since it was taken, nanoseconds.
    age_max: AtomicU64,
    /// The source makes no more.
    pub is_over: AtomicBool,
}

impl ledger::Ledger for Ledger {
    const BENCH: &'static str = "moves";
}

impl Ledger {
    /// The longest time from source to sink since this was asked last, nanoseconds.
    pub fn take_age_max(&self) -> u64 {
        // Relaxed: one more packet before or after makes no difference.
        self.age_max.swap(0, Ordering::Relaxed)
    }
}

static SOURCE: Entry = Entry::new(
    Spec {
        name: "MovesSource",
        topic: Topic::Nf,
        summary: "64-byte UDP packets of many sessions in turn, at a rate, with their time",
        ports: "0/1",
        processing: "/h",
        args: &[
            Arg::required("SESSIONS", Ty::UInt, "how many sessions"),
            Arg::required("RATE", Ty::UInt, "packets a second"),
        ],
        threading: Threading::Task,
        ..Spec::DEFAULT
    },
    |args| {
        Ok(Box::new(Source {
            ledger: Ledger::of(args)?,
            sessions: args.get::<u32>("SESSIONS")?.clamp(1, SESSIONS_MAX),
            gap_ns: 1e9 / f64::from(args.get::<u32>("RATE")?.max(1)),
            next_at: None,
            next: 0,
            frames: Frames::new(),
            batch: Batch::with_room(),
            pressing: Pressing::default(),
        }))
    },
);

/// See the entry.
struct Source {
    ledger: Arc<Ledger>,
    sessions: u32,
    gap_ns: f64,
    /// When the next packet is due.
    next_at: Option<f64>,
    /// Its session.
    next: u32,
    frames: Frames,
    batch: Batch,
    pressing: Pressing,
}

impl Element for Source {
    fn run(&mut self, cx: &mut Cx<'_>) -> Run {
        // Relaxed: some packets more do not matter.
        if self.ledger.is_over.load(Ordering::Relaxed) {
            return Run::Idle;
        }
        let now = cx.now() as f64;
        let due = *self.next_at.get_or_insert(now);
        if self.pressing.is_felt(cx) {
            return Run::Again;
        }
        if due > now {
            return Run::At(due as i64);
        }
        let count = (((now - due) / self.gap_ns) as usize + 1).min(BURST);
        for at in 0..count {
            let frame = self.frames.set(at, self.next);
            frame[MADE_AT].copy_from_slice(&cx.now().to_be_bytes());
            self.next = (self.next + 1) % self.sessions;
        }
        self.frames.fill(count, &mut self.batch);
        self.ledger.made.add(self.batch.len() as u64);
        cx.emit_all(0, &mut self.batch);
        self.next_at = Some(due + count as f64 * self.gap_ns);
        Run::Again
    }
}

static SINK: Entry = Entry::new(
    Spec {
        name: "MovesSink",
        topic: Topic::Nf,
        summary: "looks how old packets are and what they count, and frees them",
        ports: "1/0",
        processing: "h/",
        ..Spec::DEFAULT
    },
    |args| {
        let counts = vec![0; SESSIONS_MAX as usize].into_boxed_slice();
        Ok(Box::new(Sink { ledger: Ledger::of(args)?, counts }))
    },
);

/// See the entry.
struct Sink {
    ledger: Arc<Ledger>,
    /// By session.
    counts: Box<[u32]>,
}

impl Sink {
    /// Looks at one packet: how old it is.
    fn look(&mut self, bytes: &[u8], now: i64) -> u64 {
        let word = |range| number(bytes, range);
        let session = word(HOST) | (word(PORT).saturating_sub(PORT_MIN)) << 16;
        if let Some(before) = self.counts.get_mut(session as usize) {
            let count = word(COUNT) as u32;
            self.ledger.backwards.add(u64::from(count <= *before));
            *before = count;
        }
        (now as u64).saturating_sub(word(MADE_AT))
    }
}

impl Element for Sink {
    fn process(&mut self, cx: &mut Cx<'_>, _port: usize, batch: &mut Batch) {
        let now = cx.now();
        let oldest = batch.iter().map(|packet| self.look(packet.data(), now)).max();
        // Relaxed: readers use only the number.
        self.ledger.age_max.fetch_max(oldest.unwrap_or(0), Ordering::Relaxed);
        self.ledger.back.add(batch.len() as u64);
        batch.clear();
    }
}
