//! One level of one thread: its records, eviction candidates, and counters.

use std::collections::VecDeque;
use std::sync::Arc;

use crate::fcb::RECORDS_MAX;
use crate::life::{Ended, Life, Phase};
use crate::manager::counts::Counts;
use crate::manager::reader::{Key, is_narrow};
use crate::plan::{Serving, SessionTable};
use crate::shared_flows::SharedFlows;
use crate::table::{Found, Pool, Refused, Shape};
use crate::tcp::SIDE_WORDS;

/// Records beyond the bound, for ended sessions with functions still to be notified.
const SPARE: u32 = 1024;
/// Embryonic sessions that are inspected for one to evict.
const EVICTION_TRIES: usize = 16;

/// How many sessions may be kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bounds {
    /// In all, per thread and level.
    pub sessions_max: u32,
    /// Embryonic ones among them.
    pub embryonic_max: u32,
}

/// Whether a record's keys have source and destination exchanged: bits of
/// [`crate::table::Head::flags`].
pub(crate) const FORWARD_EXCHANGED: u8 = 1 << 0;
/// The same of the second key, as replies bring it.
pub(crate) const REPLY_EXCHANGED: u8 = 1 << 1;
/// It has ended and waits for being reported.
pub(crate) const ENDING: u8 = 1 << 2;
/// A function asked for its end.
pub(crate) const END_ASKED: u8 = 1 << 3;
/// Packets of it take a short cut past the software.
pub(crate) const SHORT_CUT: u8 = 1 << 4;

/// In a link: the session's forward direction is the coarser session's reply direction.
pub(crate) const LINK_TURNED: u32 = 1 << 31;

/// Where a record's extra words are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Extra {
    /// How many finer sessions link to it; where some level does.
    pub children: Option<usize>,
    /// The first of its own links.
    pub links: usize,
    /// The number of its shared flow record and 1; where other threads serve sessions of the level.
    pub shared_flows: Option<usize>,
    /// The first word of the two [`crate::tcp::Side`]s, where they are not in a shared flow record.
    pub sides: Option<usize>,
    len: usize,
}

impl Extra {
    /// Of a level that others link to or not, and that other threads serve too or not.
    pub fn new(level: &SessionTable, is_linked: bool, meets: bool) -> Extra {
        let links = usize::from(is_linked);
        let behind = links + level.links.len();
        let end = behind + usize::from(meets);
        let sides = level.follows_tcp() && !meets;
        Extra {
            children: is_linked.then_some(0),
            links,
            shared_flows: meets.then_some(behind),
            sides: sides.then_some(end),
            len: end + if sides { SIDE_WORDS * 2 } else { 0 },
        }
    }
}

/// One level's state.
pub(crate) struct LevelState {
    pub pool: Pool,
    pub extra: Extra,
    /// Where sessions of other threads are found.
    pub shared_flows: Option<Arc<SharedFlows>>,
    pub bounds: Bounds,
    pub counts: Counts,
    /// Sessions now, without those that have ended.
    pub now: u32,
    /// Embryonic ones among them.
    pub embryonic: u32,
    /// Guests among them: see [`crate::manager::owners`].
    pub remotes: u32,
    /// Which threads serve its sessions.
    pub serving: Serving,
    /// Candidates for eviction, oldest first; stale entries are skipped.
    candidates: VecDeque<u32>,
    /// Where the sweep continues.
    pub hand: u32,
    /// Whether it has only one direction.
    pub is_unidirectional: bool,
    /// Whether its sessions are single connections, with lives that TCP segments change.
    pub follows_tcp: bool,
    /// Whether sessions were begun since the present batch was looked up.
    pub is_changed: bool,
}

impl LevelState {
    pub fn new(level: &SessionTable, extra: Extra, bounds: Bounds, seeds: [u64; 2]) -> LevelState {
        let narrow = is_narrow(level);
        let sessions_max = bounds.sessions_max.min(RECORDS_MAX - SPARE);
        let pool = Pool::new(
            Shape {
                key_words: if narrow { 4 } else { 12 },
                alias: level.translates,
                extra_words: extra.len,
                scratch_len: level.scratch_len,
                scratch_align: level.scratch_align,
                initial: Box::default(),
                sessions_max: sessions_max + SPARE,
            },
            crate::hash::Hasher::new(seeds),
        );
        LevelState {
            pool,
            extra,
            shared_flows: None,
            bounds: Bounds { sessions_max, ..bounds },
            counts: Counts::default(),
            now: 0,
            embryonic: 0,
            remotes: 0,
            serving: level.serving(),
            // At once, though memory is only touched as it is used: a queue that grows is copied,
            // and a batch would wait for that.
            candidates: VecDeque::with_capacity(bounds.embryonic_max as usize * 2),
            hand: 0,
            is_unidirectional: !level.session.bidirectional,
            follows_tcp: level.follows_tcp(),
            is_changed: false,
        }
    }

    /// Most records that it may have.
    pub fn records_max(&self) -> u32 {
        self.bounds.sessions_max + SPARE
    }

    /// The session of a key, if there is one.
    pub fn find(&self, key: &Key) -> Found {
        self.pool.find(key.words())
    }

    /// A record for a new session with the life `life`.
    pub fn insert(&mut self, key: &Key, life: Life) -> Result<u32, Refused> {
        let index = self.pool.insert(key.words())?;
        self.note(index, life);
        self.counts.created += 1;
        Ok(index)
    }

    /// The same for one that another thread serves, and counts.
    pub fn insert_remote(&mut self, key: &Key, life: Life) -> Result<u32, Refused> {
        let index = self.pool.insert(key.words())?;
        self.note(index, life.opened());
        Ok(index)
    }

    /// The same for a session that was begun elsewhere, in the record of this number, if possible:
    /// packets in flight carry it.
    pub fn take(&mut self, key: &[u32], life: Life, index: u32) -> Result<u32, Refused> {
        let index = self.pool.insert_at(key, index)?;
        self.note(index, life);
        Ok(index)
    }

    /// A record has got a session.
    fn note(&mut self, index: u32, life: Life) {
        self.now += 1;
        self.is_changed = true;
        if life.phase() == Phase::New {
            self.embryonic += 1;
            self.remember(index);
        }
        self.pool.head_mut(index).state = life.0;
        self.forget_sides(index);
    }

    /// Notes an embryonic session or a remote entry as one that may be evicted.
    pub fn remember(&mut self, index: u32) {
        // Twice as many entries as there may be embryonic sessions: the oldest that fall out are
        // stale, or are found by the sweep.
        if self.candidates.len() >= self.bounds.embryonic_max as usize * 2 {
            self.candidates.pop_front();
        }
        self.candidates.push_back(index);
        for _ in 0..2 {
            match self.candidates.front() {
                Some(oldest) if !self.is_evictable(*oldest) => self.candidates.pop_front(),
                _ => break,
            };
        }
    }

    fn is_evictable(&self, index: u32) -> bool {
        if !self.pool.is_live(index) {
            return false;
        }
        let head = self.pool.head(index);
        let is_new = Life(head.state).phase() == Phase::New;
        head.flags & ENDING == 0 && (is_new || self.is_remote(index))
    }

    /// The embryonic session or remote entry to evict so that another can begin, if there is no
    /// room.
    pub fn victim(&mut self, life: Life) -> Result<Option<u32>, Refused> {
        let full = self.now >= self.bounds.sessions_max;
        let crowd = life.phase() == Phase::New && self.embryonic >= self.bounds.embryonic_max;
        if !full && !crowd {
            return Ok(None);
        }
        for _ in 0..EVICTION_TRIES {
            let Some(oldest) = self.candidates.pop_front() else { break };
            if self.is_evictable(oldest) {
                return Ok(Some(oldest));
            }
        }
        Err(Refused::Full)
    }

    /// Takes a session out of the table; its record stays until [`Pool::free`]. Says whether it
    /// was there.
    pub fn end(&mut self, index: u32, why: Ended) -> bool {
        if !self.pool.is_live(index) || self.pool.head(index).flags & ENDING != 0 {
            return false;
        }
        self.pool.unlink(index);
        let head = self.pool.head_mut(index);
        head.flags |= ENDING;
        let embryonic = Life(head.state).phase() == Phase::New;
        self.now -= 1;
        self.embryonic -= u32::from(embryonic);
        if self.is_remote(index) {
            self.remotes -= 1;
        } else {
            self.counts.count(why);
        }
        true
    }

    /// Updates a session with a packet.
    #[inline]
    pub fn advance(&mut self, index: u32, life: Life) {
        let head = self.pool.head_mut(index);
        let before = Life(head.state);
        if before != life {
            head.state = life.0;
            let was = before.phase() == Phase::New;
            self.embryonic -= u32::from(was && life.phase() != Phase::New);
        }
    }
}
