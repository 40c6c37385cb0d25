//! How many connections each source has.

use thruway_flow::hash::Hasher;
use thruway_flow::table::{Pool, Shape};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

use thruway_elements_support::pace::{Bucket, Pace};

/// Sources looked at per new connection, whether they can be forgotten.
const SWEPT_AT_ONCE: u32 = 2;

/// A source's address under the prefix; IPv4 as IPv6 has it (RFC 4291 section 2.5.5.2).
pub(super) type Source = [u32; 4];

/// The state of a source.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, KnownLayout, Immutable)]
#[repr(C)]
struct Entry {
    /// Of new connections, where their rate is limited.
    bucket: Bucket,
    open: u32,
    padding: u32,
}

/// Why a source gets no connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Over {
    /// It has as many as it may.
    Open,
    /// It opens them too fast.
    Rate,
    /// There are too many sources.
    NoRoom,
}

/// All sources of one thread.
pub(super) struct Sources {
    /// Most open connections of a source.
    pub(super) most: Option<u32>,
    /// New connections of a source per second.
    pub(super) pace: Option<Pace>,
    pool: Pool,
    /// Where the sweep goes on.
    hand: u32,
}

impl Sources {
    /// Room for so many sources; `seed` must not be known to them.
    pub(super) fn new(
        most: Option<u32>,
        pace: Option<Pace>,
        sources_max: u32,
        seed: [u64; 2],
    ) -> Sources {
        let shape = Shape {
            key_words: 4,
            alias: false,
            extra_words: 0,
            scratch_len: size_of::<Entry>(),
            scratch_align: align_of::<Entry>(),
            initial: Box::default(),
            sessions_max: sources_max,
        };
        Sources { most, pace, pool: Pool::new(shape, Hasher::new(seed)), hand: 0 }
    }

    /// Sources that are known.
    pub(super) fn len(&self) -> u32 {
        self.pool.len()
    }

    fn entry(&mut self, index: u32) -> Option<&mut Entry> {
        Entry::mut_from_bytes(self.pool.scratch_mut(index)).ok()
    }

    /// Counts a new connection in; gives the number of its source.
    ///
    /// # Errors
    /// It may not have one more.
    pub(super) fn open(&mut self, source: Source, now: i64) -> Result<u32, Over> {
        self.sweep(now);
        let (most, pace) = (self.most, self.pace);
        let index = match self.pool.find(&source).index() {
            Some(index) => index,
            None => {
                let index = self.pool.insert(&source).map_err(|_| Over::NoRoom)?;
                let bucket = pace.map_or(0, |pace| pace.full(now));
                if let Some(entry) = self.entry(index) {
                    *entry = Entry { bucket, open: 0, padding: 0 };
                }
                index
            }
        };
        let entry = self.entry(index).ok_or(Over::NoRoom)?;
        if most.is_some_and(|most| entry.open >= most) {
            return Err(Over::Open);
        }
        if pace.is_some_and(|pace| !pace.take(&mut entry.bucket, 1, now)) {
            return Err(Over::Rate);
        }
        entry.open += 1;
        Ok(index)
    }

    /// Counts a connection of a source out.
    pub(super) fn close(&mut self, index: u32, now: i64) {
        if !self.pool.is_live(index) {
            return;
        }
        if let Some(entry) = self.entry(index) {
            entry.open = entry.open.saturating_sub(1);
        }
        self.forget_idle(index, now);
    }

    /// Forgets a source that has no connection and may open as many as one never seen.
    fn forget_idle(&mut self, index: u32, now: i64) {
        let pace = self.pace;
        let is_idle = self.entry(index).is_some_and(|entry| {
            entry.open == 0 && pace.is_none_or(|pace| pace.is_full(entry.bucket, now))
        });
        if is_idle {
            self.pool.free(index);
        }
    }

    /// Looks at the next few sources.
    fn sweep(&mut self, now: i64) {
        let (live, next) = self.pool.live(self.hand, SWEPT_AT_ONCE);
        let found: [Option<u32>; SWEPT_AT_ONCE as usize] = {
            let mut live = live;
            std::array::from_fn(|_| live.next())
        };
        self.hand = next;
        for index in found.into_iter().flatten() {
            self.forget_idle(index, now);
        }
    }

    /// The sources with the most connections, most first: at most `count` of them.
    pub(super) fn busiest(&self, count: usize) -> Vec<(Source, u32)> {
        let (live, _) = self.pool.live(0, self.pool.extent());
        let open =
            |index| Entry::ref_from_bytes(self.pool.scratch(index)).map_or(0, |entry| entry.open);
        let source = |index| {
            let mut source = [0; 4];
            source.copy_from_slice(self.pool.key(index));
            source
        };
        let mut all: Vec<(Source, u32)> =
            live.map(|index| (source(index), open(index))).filter(|(_, open)| *open > 0).collect();
        all.sort_by(|a, b| b.1.cmp(&a.1).then(a.0.cmp(&b.0)));
        all.truncate(count);
        all
    }
}
