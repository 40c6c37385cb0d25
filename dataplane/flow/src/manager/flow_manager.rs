//! The state of one thread's flow manager, made from a plan.

use std::sync::Arc;

use crate::fcb::Fcb;
use crate::manager::change_log::ChangeLog;
use crate::manager::counts::{ClassCounts, Counts};
use crate::manager::endings::Endings;
use crate::manager::headers::Kind;
use crate::manager::level::{Extra, LevelState};
use crate::manager::reader::Reader;
use crate::manager::settings::{Limits, Settings, limits_of};
use crate::manager::shared_records::SharedFlowsByLevel;
use crate::manager::short_cuts::ShortCuts;
use crate::manager::thread_set::ThreadSet;
use crate::manager::work::Work;
use crate::plan::{Hop, LevelId, Plan, PlanError};
use crate::table::Load;
use crate::tags::{Generation, Tags};

/// One thread's flow manager. The default one has no plan and classifies nothing.
#[derive(Default)]
pub struct Manager {
    pub(super) plan: Arc<Plan>,
    pub(super) levels: Vec<LevelState>,
    /// By leaf and family.
    pub(super) readers: Vec<[Option<Reader>; 3]>,
    /// By leaf: which of `limits`.
    pub(super) leaf_limits: Vec<u16>,
    pub(super) limits: Vec<Limits>,
    /// The shortest of all limits: a session seen more recently cannot have expired.
    pub(super) limit_min: u32,
    pub(super) work: Vec<Work>,
    pub(super) ended: Endings,
    /// By leaf: its sessions.
    pub(super) classes: Vec<ClassCounts>,
    /// Packets without a session, by [`Kind`].
    pub(super) sessionless: [u64; 6],
    /// TCP segments without effect, as their receiver would not take them.
    pub(super) stray: u64,
    pub(super) swept: i64,
    /// Time of the current batch, in ticks.
    pub(super) now: u32,
    /// The entry that it came to.
    pub(super) entry: u32,
    /// Whether packets of it go to other threads.
    pub(super) is_handing: bool,
    /// By entry: the input properties of its packets.
    pub(super) inputs: Vec<EntryInput>,
    /// Packets classified by their tag.
    pub(super) tagged: u64,
    /// The other threads, where packets can be handed to them.
    pub(super) threads: Option<ThreadSet>,
    /// Sessions that take short cuts, where a port gives them any.
    pub(super) short_cuts: Option<Box<ShortCuts>>,
    /// The current packet is a probe, and whether the decision about it is only its own.
    pub(super) is_probing: bool,
    pub(super) is_spoiled: bool,
    /// Whether no sessions are to begin.
    pub(super) is_draining: bool,
    /// Changes of sessions, if they are replicated.
    pub(super) changes: Option<Box<ChangeLog>>,
}

/// The input properties of the packets of an entry.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct EntryInput {
    /// The trusted tags: they denote classes of the plan.
    pub(super) trusted: Option<Generation>,
    /// Whether they begin with Ethernet headers.
    pub(super) has_frames: bool,
    /// Their tags, if they have any.
    pub(super) tags: Option<Tags>,
    /// Number of the program in front that notes classes of this plan.
    pub(super) note: Option<u64>,
}

impl Manager {
    /// The manager of a plan.
    ///
    /// # Errors
    /// Keys without room for them.
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
        let inputs = vec![EntryInput::default(); plan.entries.len()];
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
        let classes = vec![ClassCounts::default(); plan.leaves.len()];
        Ok(Manager {
            plan,
            work: levels.iter().map(|_| Work::default()).collect(),
            levels,
            readers,
            leaf_limits,
            limits,
            limit_min,
            classes,
            ended: Endings::new(),
            sessionless: [0; 6],
            stray: 0,
            swept: 0,
            now: 0,
            entry: 0,
            is_handing: false,
            inputs,
            tagged: 0,
            threads: None,
            short_cuts: None,
            is_probing: false,
            is_spoiled: false,
            is_draining: false,
            changes: None,
        })
    }

    /// Its plan.
    pub fn plan(&self) -> &Arc<Plan> {
        &self.plan
    }

    /// Whether no more sessions are to begin: packets that would are refused.
    pub fn set_draining(&mut self, is_draining: bool) {
        self.is_draining = is_draining;
    }

    /// Whether no more sessions are to begin.
    pub fn is_draining(&self) -> bool {
        self.is_draining
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

    /// Sessions now, embryonic ones among them, and the counters of a level. Those that
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
