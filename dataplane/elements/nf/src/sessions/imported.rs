//! Sessions of another host, with their scratch.
//!
//! Scratch is bytes that a hostile process wrote, here or there: it is copied, of the length that
//! the function here asked for, and never looked at.

use std::sync::Arc;

use thruway_exchange::Arena;
use thruway_flow::Direction::Forward;
use thruway_flow::Fcb;

use super::changes::Changes;
use super::{Entries, SessionEntry};

const OTHER_LENGTH: &str = "the function keeps another number of bytes of a session here: run the \
                            same version of it on both hosts";
const NO_ENTRY: &str = "the function has no room for another session: raise SESSIONS";
const NO_ARENA: &str = "the function has not started yet";

impl Entries {
    /// Has the memory of the function that was started, if there is none yet.
    pub fn have_arena(&mut self, arena: impl FnOnce() -> Option<Arc<Arena>>) {
        if self.arena.is_none()
            && let Some(arena) = arena()
        {
            self.set_arena(Some(arena));
        }
    }

    #[inline]
    pub(super) fn is_imported(&self, entry: u32) -> bool {
        let word = self.imported.get(entry as usize / 64);
        word.is_some_and(|word| word & 1 << (entry % 64) != 0)
    }

    #[inline]
    pub(super) fn clear_imported(&mut self, entry: u32) {
        if let Some(word) = self.imported.get_mut(entry as usize / 64) {
            *word &= !(1 << (entry % 64));
        }
    }

    fn is_own(&self, entry: &SessionEntry) -> bool {
        entry.epoch == self.epoch && entry.entry < self.fresh
    }

    /// Appends the scratch of a session: nothing if the function has not had it yet. False if it
    /// cannot be read.
    pub fn export(&self, entry: &SessionEntry, out: &mut Vec<u8>) -> bool {
        let is_known = self.is_announced_or_imported(entry);
        let Some(arena) = self.arena.as_ref().filter(|_| is_known) else { return true };
        let begin = out.len();
        out.resize(begin + arena.scratch_len() as usize, 0);
        arena.copy_out(self.first + entry.entry, &mut out[begin..])
    }

    fn is_announced_or_imported(&self, entry: &SessionEntry) -> bool {
        self.is_own(entry) && (self.is_announced(entry.entry) || self.is_imported(entry.entry))
    }

    /// Takes in what another host's function exported of a session.
    ///
    /// # Errors
    /// Why this function cannot go on with it.
    pub fn import(&mut self, record: &[u8]) -> Result<SessionEntry, &'static str> {
        self.check(record)?;
        let entry = self.take().ok_or(NO_ENTRY)?;
        self.set_imported(entry.entry, record);
        Ok(entry)
    }

    /// The same of a session that is here already; one of another configuration's entries gets one.
    ///
    /// # Errors
    /// As [`Entries::import`].
    pub fn update(&mut self, entry: &mut SessionEntry, record: &[u8]) -> Result<(), &'static str> {
        if !self.is_own(entry) {
            *entry = self.import(record)?;
            return Ok(());
        }
        self.check(record)?;
        self.set_imported(entry.entry, record);
        Ok(())
    }

    fn check(&self, record: &[u8]) -> Result<(), &'static str> {
        let arena = self.arena.as_ref().ok_or(NO_ARENA)?;
        let fits = record.is_empty() || record.len() == arena.scratch_len() as usize;
        if fits { Ok(()) } else { Err(OTHER_LENGTH) }
    }

    /// Writes the scratch of an entry, which the function finds with the next packet.
    fn set_imported(&mut self, entry: u32, record: &[u8]) {
        let Some(arena) = self.arena.as_ref().filter(|_| !record.is_empty()) else { return };
        let is_written = arena.copy_in(self.first + entry, record);
        // The function knows the session from when this host served it.
        if is_written && !self.is_announced(entry) {
            if self.imported.is_empty() {
                self.imported = vec![0; self.announced.len()].into_boxed_slice();
            }
            self.imported[entry as usize / 64] |= 1 << (entry % 64);
        }
    }

    /// Whether sessions that had packets are noted.
    #[inline]
    pub fn notes_changes(&self) -> bool {
        self.changes.is_some()
    }

    /// With the packets that come next the function has been given so many; wraps around.
    #[inline]
    pub fn set_given(&mut self, given: u32) {
        if let Some(changes) = &mut self.changes {
            changes.set_given(given);
        }
    }

    /// The session of an entry is in this record, as level and index.
    pub fn set_session(&mut self, entry: &SessionEntry, (level, index): (u8, u32)) {
        let is_own = self.is_own(entry);
        if let Some(changes) = self.changes.as_mut().filter(|_| is_own) {
            changes.set_session(entry.entry, Fcb::of_session(level, index, Forward, false));
        }
    }

    /// Sessions that had packets, noted from the first call on.
    pub fn changes(&mut self) -> &mut Changes {
        let count = self.next.len();
        self.changes.get_or_insert_with(|| Box::new(Changes::new(count)))
    }
}

#[cfg(test)]
mod tests {
    use thruway_exchange::SlotTag;

    use super::*;

    const FIRST: u32 = 2;

    fn entries(scratch_len: u32) -> (Entries, Arc<Arena>) {
        let arena = Arc::new(Arena::create(scratch_len, 8).unwrap());
        let mut entries = Entries::new(FIRST, 4, 1);
        entries.have_arena(|| Some(Arc::clone(&arena)));
        (entries, arena)
    }

    /// A packet goes to the function: whether that is told of a new session, and what it finds.
    fn packet(entries: &mut Entries, arena: &Arena, entry: &SessionEntry) -> (bool, Vec<u8>) {
        let mark = entries.ready(SlotTag::of(0, 0, FIRST + entry.entry));
        entries.put(mark);
        let mut scratch = vec![0; arena.scratch_len() as usize];
        assert!(arena.copy_out(mark.fcb, &mut scratch));
        (mark.is_new(), scratch)
    }

    fn exported(entries: &Entries, entry: &SessionEntry) -> Vec<u8> {
        let mut out = vec![7];
        assert!(entries.export(entry, &mut out));
        assert_eq!(out.remove(0), 7, "what was there stays");
        out
    }

    #[test]
    fn scratch_goes_from_host_to_host_and_back() {
        let (mut a, here) = entries(300);
        let (mut b, there) = entries(300);
        let mine = a.take().unwrap();
        assert!(exported(&a, &mine).is_empty(), "the function has not had it");
        let mut theirs = b.import(&[]).unwrap();
        assert!(packet(&mut a, &here, &mine).0, "it is new");
        assert!(here.copy_in(FIRST + mine.entry, &[5; 300]));
        b.update(&mut theirs, &exported(&a, &mine)).unwrap();
        assert_eq!(exported(&b, &theirs), [5; 300], "also of one that had no packet");
        assert_eq!(packet(&mut b, &there, &theirs), (false, vec![5; 300]));
        assert!(there.copy_in(FIRST + theirs.entry, &[6; 300]));
        let mut back = mine;
        a.update(&mut back, &exported(&b, &theirs)).unwrap();
        assert_eq!(back, mine);
        assert_eq!(packet(&mut a, &here, &mine), (false, vec![6; 300]));
        assert!(a.knows(FIRST + mine.entry) && b.knows(FIRST + theirs.entry));
    }

    #[test]
    fn a_function_hears_nothing_of_a_session_that_it_never_had() {
        let (mut b, there) = entries(8);
        let entry = b.import(&[1; 8]).unwrap();
        b.end(&entry);
        let ended = b.next_ended().unwrap();
        assert!(!b.knows(ended));
        b.release(ended);
        let next = b.take().unwrap();
        assert_eq!(next.entry, entry.entry);
        assert_eq!(packet(&mut b, &there, &next), (true, vec![0; 8]), "another session");
    }

    #[test]
    fn what_does_not_fit_is_refused_and_changes_nothing() {
        let (mut b, _there) = entries(8);
        let mut entry = b.import(&[1; 8]).unwrap();
        for wrong in [&[2; 7][..], &[2; 9]] {
            assert_eq!(b.import(wrong), Err(OTHER_LENGTH));
            assert_eq!(b.update(&mut entry, wrong), Err(OTHER_LENGTH));
        }
        assert_eq!(exported(&b, &entry), [1; 8]);
        for _ in 1..4 {
            b.import(&[3; 8]).unwrap();
        }
        assert_eq!(b.import(&[3; 8]), Err(NO_ENTRY));
        let mut unstarted = Entries::new(0, 4, 1);
        assert_eq!(unstarted.import(&[1; 8]), Err(NO_ARENA));
    }

    /// A session that came from a configuration with other entries gets one of these.
    #[test]
    fn an_entry_of_another_configuration_is_replaced() {
        let (mut b, _there) = entries(8);
        let mut entry = SessionEntry { entry: 3, epoch: 9 };
        assert!(exported(&b, &entry).is_empty());
        b.update(&mut entry, &[4; 8]).unwrap();
        assert_eq!((entry.epoch, exported(&b, &entry)), (1, vec![4; 8]));
    }
}
