//! A new configuration's manager takes the sessions of the one before.

use crate::fcb::Fcb;
use crate::manager::flow_manager::Manager;
use crate::manager::heirs::Heirs;
use crate::manager::level::{LINK_TURNED, LevelState, REPLY_EXCHANGED, SHORT_CUT};
use crate::manager::reader::Reader;
use crate::plan::{LeafId, LevelId, Plan, ScratchSlot, SessionTable};
use crate::table::Head;

/// Of a session without a packet since it was taken over: its class is found out by the
/// next one.
const LEAF_UNKNOWN: LeafId = LeafId::MAX;

/// Where an old level's sessions go.
pub(super) struct Move {
    pub(super) from: usize,
    pub(super) to: usize,
    /// Slots of the old level and those of the same functions in the new one.
    pub(super) scratch_slots: Vec<(ScratchSlot, ScratchSlot)>,
    /// Links of the old level and the new one to levels that go over.
    links: Vec<(usize, usize)>,
}

impl Move {
    /// Of one of these pairs of levels, between two plans, new and old.
    pub(super) fn new(
        (new, old): (&Plan, &Plan),
        ((from, to), pairs): ((usize, usize), &[(usize, usize)]),
        node_of: impl Fn(u32) -> Option<u32>,
    ) -> Move {
        let (before, after) = (&old.levels[from], &new.levels[to]);
        let scratch_slots = before.scratch_slots.iter().filter_map(|scratch_slot| {
            let node = node_of(scratch_slot.node)?;
            let same = after.scratch_slots.iter().find(|other| other.node == node)?;
            let is_same = same.demand.size == scratch_slot.demand.size;
            is_same.then(|| (scratch_slot.clone(), same.clone()))
        });
        let links = before.links.iter().enumerate().filter_map(|(at, coarse)| {
            let goes = |(_, other): &(usize, &LevelId)| {
                pairs.contains(&(usize::from(*coarse), usize::from(**other)))
            };
            Some((at, after.links.iter().enumerate().find(goes)?.0))
        });
        Move { from, to, scratch_slots: scratch_slots.collect(), links: links.collect() }
    }
}

/// By old level and record: the new record and 1; none yet.
pub(super) fn no_records(old: &Manager) -> Vec<Vec<u32>> {
    let none = |state: &LevelState| vec![Fcb::NONE.0; state.pool.extent() as usize];
    old.levels.iter().map(none).collect()
}

impl Manager {
    /// Takes the sessions of `old`, after its threads have ended, with the state of those functions
    /// that exist in both; `node_of` returns the number here of an old function that has kept its
    /// name and class. The rest (the state of removed functions, sessions that no function needs
    /// any more) stays in `old`, and its functions are notified when its sessions are ended.
    /// Returns the number of sessions taken.
    ///
    /// A configuration that could not be initialised returns the sessions by the same call: they
    /// are still here, and get their functions' state back.
    pub fn take_over(&mut self, old: &mut Manager, node_of: impl Fn(u32) -> Option<u32>) -> u64 {
        old.forget_short_cuts();
        let pairs = self.alike_levels(old);
        let mut new_records = no_records(old);
        let mut moved = 0;
        for pair in &pairs {
            let mapping = Move::new((&self.plan, &old.plan), (*pair, &pairs), &node_of);
            moved += self.take_level(old, &mapping, &mut new_records);
            self.levels[pair.1].counts = old.levels[pair.0].counts;
        }
        if let Some(mut log) = old.changes.take() {
            let moves = pairs.iter().map(|(from, to)| (*from, *to, &new_records[*from][..]));
            log.follow(self.levels.iter().map(LevelState::records_max), moves);
            self.changes = Some(log);
        }
        moved
    }

    /// The levels of `old` with sessions of the same kind as levels here, as pairs of an old one
    /// and a new one. Coarser ones come first: finer sessions need their new places.
    pub(super) fn alike_levels(&self, old: &Manager) -> Vec<(usize, usize)> {
        let mut pairs: Vec<(usize, usize)> = Vec::new();
        for (to, level) in self.plan.levels.iter().enumerate() {
            let same = |(from, other): (usize, &SessionTable)| {
                let alike = other.session == level.session && other.family == level.family;
                (alike && self.is_key_alike(to, old, from)).then_some((from, to))
            };
            pairs.extend(old.plan.levels.iter().enumerate().find_map(same));
        }
        pairs.sort_by_key(|(_, to)| self.plan.levels[*to].links.len());
        pairs
    }

    /// Called when all threads have taken over: sessions find the records that the other threads
    /// have published.
    pub fn rejoin(&mut self) {
        self.levels.iter_mut().for_each(LevelState::rejoin);
    }

    /// Whether sessions of a level here have keys of the same form as those of an old one.
    fn is_key_alike(&self, to: usize, old: &Manager, from: usize) -> bool {
        match (self.reader_of(to), old.reader_of(from)) {
            (Some(new), Some(old)) => new.is_like(old),
            _ => false,
        }
    }

    /// How keys of a level are read.
    fn reader_of(&self, level: usize) -> Option<&Reader> {
        let readers = self.readers.iter().flatten().flatten();
        let mut readers = readers.flat_map(|reader| std::iter::once(reader).chain(&*reader.links));
        readers.find(|reader| usize::from(reader.level) == level)
    }

    fn take_level(
        &mut self,
        old: &mut Manager,
        mapping: &Move,
        new_records: &mut [Vec<u32>],
    ) -> u64 {
        let mut moved = 0;
        for index in 0..old.levels[mapping.from].pool.extent() {
            if !old.levels[mapping.from].pool.is_linked(index) {
                continue;
            }
            let state = &mut self.levels[mapping.to];
            let here = state.pool.find(old.levels[mapping.from].pool.key(index));
            if let Some(at) = here.index().filter(|_| !here.is_alias()) {
                take_state((state, at), (&mut old.levels[mapping.from], index), mapping);
                new_records[mapping.from][index as usize] = at + 1;
                moved += 1;
                continue;
            }
            moved += u64::from(self.take_new(old, (mapping, None), index, new_records).is_some());
        }
        moved
    }

    /// Takes a session that is not here, with its links; its place here.
    pub(super) fn take_new(
        &mut self,
        old: &mut Manager,
        (mapping, heirs): (&Move, Option<&Heirs>),
        index: u32,
        new_records: &mut [Vec<u32>],
    ) -> Option<u32> {
        let links = self.new_links(old, mapping, index, new_records);
        let state = &mut self.levels[mapping.to];
        let at = take_record(state, &mut old.levels[mapping.from], (mapping, heirs), index)?;
        for (number, word) in links {
            let extra = state.extra.links + number;
            *state.pool.extra_mut(at, extra) = word;
        }
        new_records[mapping.from][index as usize] = at + 1;
        Some(at)
    }

    /// The links of a session, to the new places of its coarser ones, which count it.
    fn new_links(
        &mut self,
        old: &Manager,
        mapping: &Move,
        index: u32,
        new_records: &[Vec<u32>],
    ) -> Vec<(usize, u32)> {
        let mut words = Vec::with_capacity(mapping.links.len());
        for (before, after) in &mapping.links {
            let state = &old.levels[mapping.from];
            let word = state.pool.extra(index, state.extra.links + before);
            let coarse = usize::from(old.plan.levels[mapping.from].links[*before]);
            let Some(parent) = (word & !LINK_TURNED).checked_sub(1) else { continue };
            let Some(record) =
                new_records[coarse].get(parent as usize).and_then(|at| at.checked_sub(1))
            else {
                continue;
            };
            let to = usize::from(self.plan.levels[mapping.to].links[*after]);
            let state = &mut self.levels[to];
            if let Some(children) = state.extra.children {
                *state.pool.extra_mut(record, children) += 1;
            }
            words.push((*after, (record + 1) | word & LINK_TURNED));
        }
        words
    }
}

/// Copies one session; `None` when there is no room for it.
fn take_record(
    new: &mut LevelState,
    old: &mut LevelState,
    (mapping, heirs): (&Move, Option<&Heirs>),
    index: u32,
) -> Option<u32> {
    let head = *old.pool.head(index);
    // As both threads know it, where there are two.
    let (life, seen) = old.both(index);
    if new.now >= new.bounds.sessions_max {
        return None;
    }
    let at = new.take(old.pool.key(index), life, index).ok()?;
    let mut aliased = None;
    if let Some(alias) = old.pool.alias_key(index) {
        let last = old.pool.key(index).last().copied();
        let whole: Vec<u32> = alias.iter().copied().chain(last).collect();
        // Without it replies would begin sessions of their own; the key was free a moment ago.
        let _ = new.pool.alias(at, &whole);
        aliased = Some(whole);
    }
    take_state((new, at), (old, index), mapping);
    let copy = new.pool.head_mut(at);
    (copy.leaf, copy.seen) = (LEAF_UNKNOWN, seen);
    copy.flags |= head.flags & Head::USER_FLAGS & !SHORT_CUT;
    new.set_served(at, new.served_as(old.word(index)));
    new.publish_again(at, (old, index), (&mapping.scratch_slots, heirs));
    new.take_sides(at, (old, index));
    if let Some(whole) = aliased {
        // As above.
        let _ = new.also(at, &whole, head.flags & REPLY_EXCHANGED != 0);
    }
    Some(at)
}

/// Copies the functions' state of a session, and the time of its last packet. Functions that have
/// opened it here, too, keep their state: it is that of another half of the session.
pub(super) fn take_state(
    (new, at): (&mut LevelState, u32),
    (old, index): (&mut LevelState, u32),
    mapping: &Move,
) {
    let head = *old.pool.head(index);
    let mut opened = 0;
    for (before, after) in &mapping.scratch_slots {
        if new.pool.head(at).opened & 1 << after.bit != 0 {
            continue;
        }
        let (from, to) = (before.offset as usize, after.offset as usize);
        let size = before.demand.size;
        if let (Some(source), Some(target)) = (
            old.pool.scratch(index).get(from..from + size),
            new.pool.scratch_mut(at).get_mut(to..to + size),
        ) {
            target.copy_from_slice(source);
        }
        if head.opened & 1 << before.bit != 0 {
            opened |= 1 << after.bit;
            // Its function has moved with it: the old one must not notify it.
            old.pool.head_mut(index).opened &= !(1 << before.bit);
        }
    }
    let copy = new.pool.head_mut(at);
    copy.seen = head.seen;
    copy.opened |= opened;
}
