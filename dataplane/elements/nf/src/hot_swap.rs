//! What goes from an isolated function's element to the one in its place when the configuration is
//! replaced.

use std::sync::Arc;

use thruway_element::Cx;
use thruway_exchange::Arena;

use super::lost::Lost;
use super::replica::Nf;
use super::sessions::Entries;
use super::state::NfState;
use super::streams::Streams;

impl Nf {
    /// The sessions of this thread: those of the predecessor with their memory, if it ran the same
    /// program in the same way; else there are none yet.
    pub fn entries(&mut self) -> (Option<Entries>, Option<Arc<Arena>>) {
        let Some(wanted) = &self.settings.sessions else { return (None, None) };
        let first = self.replica.saturating_mul(wanted.entries);
        let mut epoch = 1;
        if let Some(other) = &mut self.other {
            // Sessions stand where the Worker of this thread's link finds them.
            let stay = |entries: &Entries| entries.first() == first;
            if other.settings.keeps_sessions(&self.settings)
                && other.entries.as_ref().is_some_and(stay)
                && let Some(entries) = other.entries.take()
            {
                return (Some(entries), other.function.arena());
            }
            epoch += other.entries.as_ref().map_or(0, Entries::epoch);
        }
        let stream = self.settings.stream.as_ref();
        let streams = stream.map(|to| Streams::new(to.needs, wanted.entries, to.hold_ns));
        (Some(Entries::new(first, wanted.entries, epoch).with_streams(streams)), None)
    }

    /// The predecessor goes on, because this configuration does not run: its sessions are its own.
    pub fn give_back(&mut self, entries: Option<Entries>) {
        if let Some(other) = self.other.as_mut().filter(|other| other.has_given_entries()) {
            other.entries = entries;
        }
    }

    /// What a successor, or a predecessor that goes on, is to have.
    pub fn give_state(&mut self) -> Option<Box<NfState>> {
        if self.other.is_some() {
            let entries = self.running.as_mut().and_then(|state| state.entries.take());
            self.give_back(entries);
            return self.other.take();
        }
        self.running.take().map(Box::new)
    }

    /// Takes frames back from a function that has ended.
    #[cold]
    pub fn take_back_ended(&mut self, cx: &mut Cx<'_>) {
        let lost = self.running.as_mut().map_or(0, NfState::take_back_ended);
        cx.count_drops(Lost::Unfinished, lost);
    }

    /// Ends a function that this configuration does not go on with.
    #[cold]
    pub fn end_other(&mut self, cx: &mut Cx<'_>) {
        let Some(mut other) = self.other.take() else { return };
        if self.replica == 0 {
            other.function.stop();
        }
        let Some(running) = &mut self.running else { return };
        let mut entries = running.entries.as_mut().filter(|_| other.has_given_entries());
        let lost = match &other.link {
            Some(link) if other.may_write() => {
                entries.iter_mut().for_each(|entries| link.recall(entries));
                let lost = other.end_backlog(entries);
                running.ended = Some(other);
                lost
            }
            _ => other.end(entries),
        };
        cx.count_drops(Lost::Unfinished, lost);
    }
}
