//! Sessions that go from one isolated function to another one, with their scratch.
//!
//! Scratch lies in memory of the host, also when its function's process is dead: a session moves by
//! a copy, which this thread makes between two packets. So it is at exactly one place at any time,
//! whichever process ends.

use thruway_element::SessionMover;
use zerocopy::{FromBytes, IntoBytes};

use super::link::Link;
use super::replica::Nf;
use super::sessions::{Entries, SessionEntry};
use super::state::NfState;

const NO_SESSIONS: &str = "the function keeps no sessions: set SESSION";
const OF_STREAMS: &str = "sessions of a function of streams (STREAM) cannot move";
const NOT_STARTED: &str = "the function has not started yet: try again when it runs";

impl Nf {
    fn moving_entries(&mut self) -> Option<&mut Entries> {
        self.running.as_mut()?.entries.as_mut()
    }

    /// How many packets it was given and holds no more; `None` if it holds none.
    pub(super) fn done_count(&self) -> Option<u64> {
        let state = self.running.as_ref()?;
        // Those that wait come behind those that were put, in their order.
        let with_it = state.link.as_ref().map_or(0, Link::occupancy);
        let is_idle = with_it == 0 && state.waiting() == 0;
        (!is_idle).then(|| state.figures().put.saturating_sub(with_it.into()))
    }
}

impl SessionMover for Nf {
    fn record_len(&self) -> Result<usize, String> {
        if self.settings.stream.is_some() {
            return Err(OF_STREAMS.to_owned());
        }
        if self.settings.sessions.is_none() {
            return Err(NO_SESSIONS.to_owned());
        }
        let entries = self.running.as_ref().and_then(|state| state.entries.as_ref());
        entries.and_then(Entries::record_len).ok_or_else(|| NOT_STARTED.to_owned())
    }

    fn given(&self) -> u64 {
        self.running.as_ref().map_or(0, |state| state.figures().put + state.waiting() as u64)
    }

    fn is_done_with(&self, given: u64) -> bool {
        self.done_count().is_none_or(|done| done >= given)
    }

    fn room(&self) -> usize {
        let Some(state) = &self.running else { return usize::MAX };
        match &state.link {
            Some(link) if state.backlog.is_empty() => link.room(),
            Some(_) => 0,
            None => self.room_without(state.waiting()),
        }
    }

    fn copy_record(&self, state: &[u8], record: &mut [u8]) -> Option<bool> {
        let entry = SessionEntry::read_from_bytes(state).ok()?;
        let NfState { entries, .. } = self.running.as_ref()?;
        entries.as_ref()?.copy_record(&entry, record)
    }

    fn take_record(&mut self, record: &[u8], is_known: bool, state: &mut [u8]) -> bool {
        let taken = self.moving_entries().and_then(|entries| entries.take_record(record, is_known));
        taken.is_some_and(|entry| entry.write_to(state).is_ok())
    }

    fn leave(&mut self, state: &[u8]) {
        if let (Ok(entry), Some(entries)) =
            (SessionEntry::read_from_bytes(state), self.moving_entries())
        {
            entries.leave(&entry);
        }
    }
}
