//! Traces: what becomes of chosen packets, element by element.
//!
//! A trace chooses packets where they enter (or where they come to one element) by a filter, and
//! marks them ([`thruway_packet::Mark`]). From then on the engine writes down what happens to them:
//! they come to an element, leave it, are kept, dropped, freed. A marked packet of a batch is
//! handed to its element alone, between those before and behind it, so that all that the element
//! does meanwhile is about that packet; no element takes part.
//!
//! Without a trace, that costs a test for each batch, pull and task. With one, each thread writes
//! into memory of its own, allocated when the trace began, and the tracing client empties it by
//! commands; excess events are counted.

mod command;
mod event;
mod filter;
mod follow;
mod tracer;

pub(crate) use command::Scope;
pub use event::SHOT_MAX;
pub(crate) use event::{Event, Shot, What};
pub use filter::Filter;
pub(crate) use tracer::{Order, Tracer};

use std::time::{Duration, Instant};

use parking_lot::Mutex;
use thruway_sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// Traces of a router at once.
const TRACES_MAX: usize = 8;
/// A trace ends by itself if no client reads its events for so long.
const PATIENCE: Duration = Duration::from_secs(10);

/// The state of one trace that all threads share.
#[derive(Debug)]
pub(crate) struct Shared {
    /// The client's name for the trace.
    name: String,
    /// Its bit among the watchers of a mark.
    bit: u64,
    /// Packets that are still to be chosen.
    left: AtomicU64,
    /// Packets that were chosen.
    chosen: AtomicU64,
    /// Packets that fitted and could not be marked, for all marks were in use.
    unmarked: AtomicU64,
    /// Events for which there was no room.
    lost: AtomicU64,
    /// Copies of marked packets that were not marked, when it began.
    unmarked_copies_before: u64,
    over: AtomicBool,
    /// When its events were last asked for.
    asked: Mutex<Instant>,
}

impl Shared {
    fn new(name: String, bit: u64, count: u64) -> Shared {
        Shared {
            name,
            bit,
            left: AtomicU64::new(count),
            chosen: AtomicU64::new(0),
            unmarked: AtomicU64::new(0),
            lost: AtomicU64::new(0),
            unmarked_copies_before: thruway_packet::unmarked_copies(),
            over: AtomicBool::new(false),
            asked: Mutex::new(Instant::now()),
        }
    }

    /// Whether no client waits for its events any more.
    fn is_over(&self) -> bool {
        let asked = *self.asked.lock();
        self.over.load(Ordering::Relaxed) || asked.elapsed() > PATIENCE
    }

    /// Records that a client reads its events.
    fn ask(&self) {
        *self.asked.lock() = Instant::now();
    }

    /// Takes one of the packets that are still to be chosen.
    fn take_one(&self) -> bool {
        // Relaxed: a count, and nothing depends on its order with other memory.
        let one_less = |left: u64| left.checked_sub(1);
        self.left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, one_less).is_ok()
    }
}
