//! The flow manager of one thread: it looks at each packet once, finds its class and its session,
//! and writes both into the packet's metadata; functions behind it find their state from there.
//!
//! A batch goes through in three passes, so that the misses of its packets overlap: look, classify
//! and read the key of each; look all keys up; then touch each session. What happens rarely (a
//! session begins or ends) happens in the third.

mod answer;
mod classes;
mod entry;
mod filter;
mod headers;
mod http;
mod level;
mod list;
mod numbers;
mod owners;
mod reader;
mod reply_headers;
mod shared_records;
mod state;
mod sweep;
mod takeover;
mod thread_set;

pub use answer::NoAnswer;
pub use classes::ClassCounts;
pub use entry::{Input, Refusal};
pub use filter::Filter;
pub use headers::{Kind, ParsedHeaders, parse_ethernet, parse_ip};
pub use level::{Bounds, Counts};
pub use list::{Cursor, Ends, Flow};
pub use shared_records::{SharedFlowsByLevel, shared_flows_of};
pub use state::{AccessByLevel, At};
pub use thread_set::{HandoffCounts, THREADS_MAX, ThreadSet};

use std::sync::Arc;

use crate::fcb::Fcb;
use crate::life::{Ended, Life, Timeouts};
use crate::plan::{Hop, LevelId, Plan, PlanError};
use crate::table::Load;
use entry::Work;
use level::{Extra, LevelState};
use reader::Reader;

/// Nanoseconds of a tick: sessions' times are 32 bits of these.
pub const TICK_NS: i64 = 1 << 26;

/// A time in ticks.
#[inline]
pub(crate) fn ticks(now: i64) -> u32 {
    (now / TICK_NS) as u32
}

/// What a user may set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settings {
    /// How many sessions of one level a thread keeps.
    pub bounds: Bounds,
    /// How long.
    pub timeouts: Timeouts,
    /// Secrets of the hash.
    pub seeds: [u64; 2],
    /// Whether packets that nobody behind wants are dropped at once.
    pub early_drop: bool,
}

impl Default for Settings {
    fn default() -> Settings {
        let bounds = Bounds { sessions_max: 1 << 20, embryonic_max: 1 << 18 };
        Settings { bounds, timeouts: Timeouts::default(), seeds: [0; 2], early_drop: true }
    }
}

/// A session that has ended, before its record is used again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EndedSession {
    /// Its level.
    pub level: LevelId,
    /// Its record.
    pub index: u32,
    /// Why.
    pub why: Ended,
}

/// Ticks after which a session of each life is over, by [`Life`]'s bits.
type Limits = Box<[u32; 256]>;

/// One thread's flow manager. The default one has no plan and classifies nothing.
#[derive(Default)]
pub struct Manager {
    plan: Arc<Plan>,
    levels: Vec<LevelState>,
    /// By leaf and family.
    readers: Vec<[Option<Reader>; 3]>,
    /// By leaf: which of `limits`.
    leaf_limits: Vec<u16>,
    limits: Vec<Limits>,
    /// The shortest of all limits: who was seen more recently cannot be over.
    limit_min: u32,
    work: Vec<Work>,
    ended: Vec<EndedSession>,
    /// By leaf: its sessions.
    classes: Vec<ClassCounts>,
    /// Packets without a session, by [`Kind`].
    sessionless: [u64; 6],
    /// TCP segments that told nothing, as their receiver would not take them.
    stray: u64,
    swept: i64,
    /// Time of the batch that is under way, in ticks.
    now: u32,
    /// The entry that it came to.
    entry: u32,
    /// Whether packets of it go to other threads.
    is_handing: bool,
    /// The other threads, where packets can be handed to them.
    threads: Option<ThreadSet>,
}

impl Manager {
    /// The manager of a plan.
    ///
    /// # Errors
    /// Keys for which there is no room.
    pub fn new(plan: Arc<Plan>, settings: &Settings) -> Result<Manager, PlanError> {
        Manager::with_shared_flows(plan, settings, &SharedFlowsByLevel::new())
    }

    /// The same, of one of several threads, which find each other's sessions by `shared_flows_of`.
    ///
    /// # Errors
    /// As [`Manager::new`].
    pub fn with_shared_flows(
        plan: Arc<Plan>,
        settings: &Settings,
        shared_flows_of: &SharedFlowsByLevel,
    ) -> Result<Manager, PlanError> {
        let linked: Vec<LevelId> =
            plan.levels.iter().flat_map(|level| level.links.clone()).collect();
        let levels = plan.levels.iter().enumerate().map(|(at, level)| {
            let shared_flows = shared_flows_of.get(at).cloned().flatten();
            let extra =
                Extra::new(level, linked.contains(&(at as LevelId)), shared_flows.is_some());
            let mut state = LevelState::new(level, extra, settings.bounds, settings.seeds);
            state.shared_flows = shared_flows;
            state
        });
        let levels: Vec<LevelState> = levels.collect();
        let mut readers = Vec::with_capacity(plan.leaves.len());
        let (mut limits, mut leaf_limits) = (Vec::new(), Vec::with_capacity(plan.leaves.len()));
        let mut known: Vec<(Option<u32>, Option<u32>)> = Vec::new();
        for leaf in &plan.leaves {
            let mut of_leaf = [None, None, None];
            for (reader, key) in of_leaf.iter_mut().zip(&leaf.keys) {
                let Some(key) = key else { continue };
                let level = &plan.levels[usize::from(key.level)];
                let node = level
                    .scratch_slots
                    .first()
                    .map_or(0, |scratch_slot| scratch_slot.node as usize);
                let error = |message| PlanError { node, arg: None, message };
                *reader = Some(Reader::new(key, &plan.levels).map_err(error)?);
            }
            readers.push(of_leaf);
            let asked = (leaf.timeout_s, leaf.closed_s);
            let at = known.iter().position(|known| *known == asked);
            leaf_limits.push(at.unwrap_or_else(|| {
                known.push(asked);
                limits.push(limits_of(&settings.timeouts, asked));
                limits.len() - 1
            }) as u16);
        }
        let limit_min = limits.iter().flat_map(|limits| limits.iter().copied()).min().unwrap_or(0);
        let work = levels.iter().map(|_| Work::default()).collect();
        let classes = vec![ClassCounts::default(); plan.leaves.len()];
        Ok(Manager {
            plan,
            levels,
            readers,
            leaf_limits,
            limits,
            limit_min,
            work,
            classes,
            ended: Vec::with_capacity(1024),
            sessionless: [0; 6],
            stray: 0,
            swept: 0,
            now: 0,
            entry: 0,
            is_handing: false,
            threads: None,
        })
    }

    /// What it works by.
    pub fn plan(&self) -> &Arc<Plan> {
        &self.plan
    }

    /// Whether there is anything to do at all.
    #[inline]
    pub fn is_idle(&self) -> bool {
        self.plan.entries.is_empty()
    }

    /// Where dispatcher `node` sends a packet. [`Hop::InPlace`] if it was never classified.
    #[inline]
    pub fn hop(&self, node: u32, fcb: Fcb) -> Hop {
        let leaf = match (fcb.leaf(), fcb.session()) {
            (Some(leaf), _) => leaf,
            (None, Some((level, index))) => self.levels[usize::from(level)].pool.head(index).leaf,
            (None, None) => return Hop::InPlace,
        };
        let hops = self.plan.nodes.get(node as usize).map(|node| &node.hops);
        hops.and_then(|hops| hops.get(usize::from(leaf))).copied().unwrap_or(Hop::InPlace)
    }

    /// Sessions now, embryonic ones among them, and what happened to them, of a level. Those that
    /// another thread serves are not counted, as far as they are only known here.
    pub fn counts(&self, level: LevelId) -> (u32, u32, Counts) {
        let level = &self.levels[usize::from(level)];
        (level.now - level.remotes, level.embryonic, level.counts)
    }

    /// Packets of a kind that had no session.
    pub fn sessionless(&self, kind: Kind) -> u64 {
        self.sessionless[kind as usize]
    }

    /// TCP segments that changed nothing that is known of their sessions: their numbers are out of
    /// the window, or their checksum is wrong.
    pub fn stray(&self) -> u64 {
        self.stray
    }

    /// How a level's table stands.
    pub fn load(&self, level: LevelId) -> Load {
        self.levels[usize::from(level)].pool.load()
    }

    /// Bytes that a session of a level takes, in its record and in the index.
    pub fn session_bytes(&self, level: LevelId) -> (usize, f64) {
        let pool = &self.levels[usize::from(level)].pool;
        (pool.record_bytes(), pool.index_bytes())
    }

    /// Bytes of a level's table and records.
    pub fn memory_bytes(&self, level: LevelId) -> usize {
        self.levels[usize::from(level)].pool.memory_bytes()
    }
}

/// Limits in ticks; an open session's is what a function asked for, if one did, that of a closing
/// or closed one at least what one asked for.
fn limits_of(timeouts: &Timeouts, (open, closed): (Option<u32>, Option<u32>)) -> Limits {
    use crate::life::Phase;
    let ticks_of = |seconds: u32| {
        u32::try_from(i64::from(seconds) * 1_000_000_000 / TICK_NS).unwrap_or(u32::MAX / 2).max(1)
    };
    Box::new(std::array::from_fn(|bits| {
        let life = Life(bits as u8);
        let usual = timeouts.of(life);
        ticks_of(match life.phase() {
            Phase::New => usual,
            Phase::Open => open.unwrap_or(usual),
            Phase::Closing | Phase::Closed => usual.max(closed.unwrap_or(0)),
        })
    }))
}
