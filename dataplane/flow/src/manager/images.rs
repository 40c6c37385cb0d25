//! Sessions in a form for the flow manager of another host: the list of changed ones, the image of
//! one, and the installation of an image.
//!
//! Only sessions of five-tuples without links to coarser ones are replicated, of a manager that
//! shares sessions with no other thread.

use crate::life::{Ended, Life, Phase};
use crate::manager::change_log::{Change, ChangeLog, ChangeMark};
use crate::manager::flow_manager::Manager;
use crate::manager::level::{ENDING, FORWARD_EXCHANGED, LevelState};
use crate::manager::ownership::HERE;
use crate::manager::reader::{Key, Narrow, Reader, Wide};
use crate::manager::settings::ticks;
use crate::manager::state::At;
use crate::plan::{Family, LeafId, LevelId, SessionTable};
use crate::table::{Head, Refused};

/// The state of a session besides that of functions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SessionImage {
    /// Its level.
    pub level: LevelId,
    /// Its key.
    pub key: Key,
    /// Whether source and destination of its first packet are exchanged in the key.
    pub exchanged: bool,
    /// Its life so far.
    pub life: Life,
    /// The class of its packets.
    pub leaf: LeafId,
    /// Ticks since its last packet.
    pub idle: u32,
}

/// A session that was installed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Installed {
    /// Its level.
    pub level: LevelId,
    /// Its record.
    pub index: u32,
}

/// Whether the keys of a level's sessions are five-tuples and nothing else.
fn has_tuples(table: &SessionTable) -> bool {
    let raw = table.session.fields.iter().any(|field| field.mirrored().is_none());
    table.family != Family::Other && !raw
}

/// The key in a record of a level.
fn key_of(table: &SessionTable, words: &[u32]) -> Option<Key> {
    match table.family {
        Family::V4 => Narrow::try_from(words).ok().map(Key::Narrow),
        Family::V6 => Wide::try_from(words).ok().map(Key::Wide),
        Family::Other => None,
    }
}

impl Manager {
    /// From now on keeps up to so many changes of sessions until they are asked for. A log that was
    /// taken over goes on.
    pub fn log_changes(&mut self, capacity: usize) {
        self.changes.get_or_insert_with(|| Box::new(ChangeLog::new(capacity)));
    }

    /// The oldest change that was not asked for yet.
    pub fn next_change(&mut self) -> Option<Change> {
        self.changes.as_mut()?.take()
    }

    /// The same, which stays the oldest one.
    pub fn peek_change(&self) -> Option<Change> {
        self.changes.as_ref()?.peek()
    }

    /// A function has something new of the session in a record, which is to be replicated.
    pub fn touch(&mut self, level: LevelId, index: u32) {
        if index < self.extent(level) {
            self.note_change(level, index);
        }
    }

    /// Forgets all changes, and that some were lost.
    pub fn forget_changes(&mut self) {
        if let Some(log) = &mut self.changes {
            log.clear();
        }
    }

    /// Whether changes were lost for lack of room.
    pub fn has_lost_changes(&self) -> bool {
        self.changes.as_ref().is_some_and(|log| log.is_lost())
    }

    /// Whether a session is replicated: it is not embryonic. Where packets wait for the backup, TCP
    /// handshakes are with their SYN-ACK: the end that gets it may take the connection for
    /// established.
    fn is_replicated(&self, head: &Head) -> bool {
        let life = Life(head.state);
        let is_early = self.changes.as_ref().is_some_and(|log| log.keeps_marks());
        life.phase() != Phase::New || (is_early && life.is_replied())
    }

    /// From now on keeps marks of sessions, too: of each the number of its last change. Handshakes
    /// that were replied to count as changed from then on.
    pub fn mark_changes(&mut self) {
        let levels = self.levels.iter().map(LevelState::records_max);
        if let Some(log) = self.changes.as_mut().filter(|log| !log.keeps_marks()) {
            log.keep_marks(levels);
        }
    }

    /// Numbers of the last change of any session, and of the last that was asked for or forgotten.
    pub fn change_numbers(&self) -> (u64, u64) {
        self.changes.as_ref().map_or((0, 0), |log| (log.last(), log.taken()))
    }

    /// What is noted of the session in a record.
    #[inline]
    pub fn change_mark(&self, level: LevelId, index: u32) -> ChangeMark {
        self.changes.as_ref().map_or(ChangeMark::default(), |log| log.mark(level, index))
    }

    /// Notes a ticket of the session in a record.
    pub fn set_ticket(&mut self, level: LevelId, index: u32, ticket: u64) {
        if let Some(log) = &mut self.changes {
            log.set_ticket(level, index, ticket);
        }
    }

    /// Something new is known of a session. Embryonic ones are not replicated: a flood of them
    /// would be.
    #[cold]
    pub(super) fn note_change(&mut self, level: LevelId, index: u32) {
        if self.changes.is_none() {
            return;
        }
        let is_replicated = self.is_replicated(self.levels[usize::from(level)].pool.head(index));
        if let Some(log) = self.changes.as_mut().filter(|_| is_replicated) {
            log.add((level, index), Change::Changed(level, index));
        }
    }

    /// A session ends; its key is still in its record.
    pub(super) fn note_removal(&mut self, level: LevelId, index: u32) {
        let pool = &self.levels[usize::from(level)].pool;
        if self.changes.is_none() || !self.is_replicated(pool.head(index)) {
            return;
        }
        let key = key_of(&self.plan.levels[usize::from(level)], pool.key(index));
        if let (Some(log), Some(key)) = (&mut self.changes, key) {
            log.add((level, index), Change::Ended(level, key));
        }
    }

    /// Whether sessions of a level can be replicated.
    pub fn is_replicable(&self, level: LevelId) -> bool {
        let linked = self.plan.levels.iter().any(|other| other.links.contains(&level));
        let Some(table) = self.plan.levels.get(usize::from(level)) else { return false };
        has_tuples(table)
            && !linked
            && table.links.is_empty()
            && self.levels[usize::from(level)].shared_flows.is_none()
    }

    /// Records of a level that were ever in use.
    pub fn extent(&self, level: LevelId) -> u32 {
        self.levels.get(usize::from(level)).map_or(0, |state| state.pool.extent())
    }

    /// The image of a session; `None` if there is none, or no function opened it.
    pub fn image(&self, level: LevelId, index: u32, now: i64) -> Option<SessionImage> {
        if !self.is_replicable(level) || index >= self.extent(level) {
            return None;
        }
        let pool = &self.levels[usize::from(level)].pool;
        if !pool.is_live(index) {
            return None;
        }
        let head = *pool.head(index);
        if head.flags & ENDING != 0 || head.opened == 0 || !self.is_replicated(&head) {
            return None;
        }
        Some(SessionImage {
            level,
            key: key_of(self.plan.levels.get(usize::from(level))?, pool.key(index))?,
            exchanged: head.flags & FORWARD_EXCHANGED != 0,
            life: Life(head.state),
            leaf: head.leaf,
            idle: ticks(now).wrapping_sub(head.seen).min(u32::MAX / 2),
        })
    }

    /// The functions of a level, as nodes, in the order of their slots.
    pub fn functions(&self, level: LevelId) -> impl Iterator<Item = u32> + '_ {
        let table = self.plan.levels.get(usize::from(level));
        table.into_iter().flat_map(|table| table.scratch_slots.iter().map(|slot| slot.node))
    }

    /// Where the state of the function in a slot is, and the function's node.
    pub fn slot(&self, session: Installed, slot: usize) -> Option<(At, u32)> {
        let Installed { level, index } = session;
        let own = self.plan.levels.get(usize::from(level))?.scratch_slots.get(slot)?;
        (index < self.extent(level)).then(|| (At::of_slot((level, index), own), own.node))
    }

    /// A function's state of a session, if it has opened it.
    pub fn state(&self, at: &At) -> Option<&[u8]> {
        self.is_opened(at).then(|| self.scratch_of(at))
    }

    /// Installs a session that began elsewhere, or updates it. Another session with replies of its
    /// key ends.
    ///
    /// # Errors
    /// There is no room for it, or no such level, class or form of keys here.
    pub fn install(&mut self, image: &SessionImage, now: i64) -> Result<Installed, Refused> {
        let SessionImage { level, key, life, .. } = *image;
        let leaf = self.leaf_of(level, image.leaf).ok_or(Refused::NoRoom)?;
        if !self.takes_key(level, &key) {
            return Err(Refused::NoRoom);
        }
        self.now = ticks(now);
        let found = self.levels[usize::from(level)].find(&key);
        let index = match found.index() {
            Some(index) if !found.is_alias() => {
                self.levels[usize::from(level)].advance(index, life);
                index
            }
            other => {
                if let Some(other) = other {
                    self.end(level, other, Ended::Evicted);
                }
                let index = self.insert(level, &key, life)?;
                self.levels[usize::from(level)].set_served(index, HERE);
                self.count_begun(leaf);
                index
            }
        };
        let head = self.levels[usize::from(level)].pool.head_mut(index);
        (head.seen, head.leaf) = (self.now.wrapping_sub(image.idle), leaf);
        let exchanged = if image.exchanged { FORWARD_EXCHANGED } else { 0 };
        head.flags = head.flags & !FORWARD_EXCHANGED | exchanged;
        Ok(Installed { level, index })
    }

    /// The class of packets of a level, if a session may be installed there. After a hot swap the
    /// other host does not know it until the next packet: any that finds its sessions there does.
    fn leaf_of(&self, level: LevelId, leaf: LeafId) -> Option<LeafId> {
        if !self.is_replicable(level) {
            return None;
        }
        let family = self.plan.levels[usize::from(level)].family;
        let finds = |of: &[Option<Reader>; 3]| {
            of[family as usize].as_ref().is_some_and(|reader| reader.level == level)
        };
        let known = self.readers.get(usize::from(leaf)).filter(|of| finds(of)).map(|_| leaf);
        known.or_else(|| self.readers.iter().position(finds).map(|leaf| leaf as LeafId))
    }

    /// Whether sessions of a level are replicated, and have keys of this form.
    fn takes_key(&self, level: LevelId, key: &Key) -> bool {
        let table = self.plan.levels.get(usize::from(level));
        self.is_replicable(level) && table.is_some_and(|table| key_of(table, key.words()).is_some())
    }

    /// The session of this key, if there is one.
    pub fn session(&self, level: LevelId, key: &Key) -> Option<Installed> {
        if !self.takes_key(level, key) {
            return None;
        }
        let found = self.levels[usize::from(level)].find(key);
        let index = found.index().filter(|_| !found.is_alias())?;
        Some(Installed { level, index })
    }

    /// Ends the session of this key, if there is one.
    pub fn remove(&mut self, level: LevelId, key: Key) {
        if !self.takes_key(level, &key) {
            return;
        }
        let found = self.levels[usize::from(level)].find(&key);
        if let Some(index) = found.index().filter(|_| !found.is_alias()) {
            self.end(level, index, Ended::Removed);
        }
    }

    /// Ends the session in a record, if there is one.
    pub fn remove_record(&mut self, level: LevelId, index: u32) {
        if index < self.extent(level) && self.levels[usize::from(level)].pool.is_live(index) {
            self.end(level, index, Ended::Removed);
        }
    }
}
