//! The backup's side: records of the active host, into this host's tables.

use std::sync::Arc;

use thruway_element::{Cx, Life};
use thruway_flow::manager::{Installed, SessionImage};
use thruway_replication::{Batch, Link, Record, Records, Session, Term};
use thruway_sync::atomic::Ordering;

use super::keys;

/// See the module.
pub(super) struct Installer {
    link: Arc<Link>,
    /// By level and record: the transfer of all sessions in which it was last heard of.
    stamps: Vec<Vec<u32>>,
    transfer: u32,
    /// A transfer goes on, and all its sessions have stamps.
    is_transferring: bool,
    /// A transfer of all sessions was complete.
    is_synchronized: bool,
    has_logged: bool,
}

impl Installer {
    pub(super) fn new(link: Arc<Link>) -> Installer {
        Installer {
            link,
            stamps: Vec::new(),
            transfer: 0,
            is_transferring: false,
            is_synchronized: false,
            has_logged: false,
        }
    }

    pub(super) fn is_synchronized(&self) -> bool {
        self.is_synchronized
    }

    /// Whether all sessions are here, and no transfer of all goes on.
    pub(super) fn is_whole(&self) -> bool {
        self.is_synchronized && !self.is_transferring
    }

    /// Another configuration has taken over, and sessions are in other records: which of them the
    /// active host still has, the next transfer shows.
    pub(super) fn follow(&mut self) {
        self.stamps.clear();
        self.is_transferring = false;
    }

    /// This host is a backup from now on, and has all sessions or none that it can go on with.
    pub(super) fn begin(&mut self, has_all: bool) {
        self.follow();
        self.is_synchronized = has_all;
    }

    /// Installs the records of a batch; the term in which this host is to serve, if that follows.
    pub(super) fn install(&mut self, cx: &mut Cx<'_>, batch: &Batch) -> Option<Term> {
        // The stream's thread has looked at all of them.
        for record in Records::new(&batch.bytes).flatten() {
            match record {
                Record::Session(session) => self.install_session(cx, &session),
                Record::Ended(level, key) => {
                    cx.transfers().end(|flows| flows.remove(level, keys::received(&key)));
                }
                Record::Connection(level, key, parts) => {
                    if let Err(why) =
                        cx.transfers().import_connection(level, keys::received(&key), parts)
                    {
                        self.note_unusable(cx, why);
                    }
                }
                Record::ResyncBegins => {
                    self.transfer = self.transfer.wrapping_add(1);
                    self.is_transferring = true;
                }
                Record::ResyncEnds => {
                    // One that began before a hot swap says nothing of those that came before it.
                    if std::mem::take(&mut self.is_transferring) {
                        self.end_others(cx);
                        self.is_synchronized = true;
                        self.link.counts.resyncs.fetch_add(1, Ordering::Relaxed);
                    }
                }
                Record::Switchover(term) => return Some(term),
            }
        }
        None
    }

    /// Ends all sessions.
    pub(super) fn end_all(&mut self, cx: &mut Cx<'_>) {
        self.stamps.clear();
        self.transfer = self.transfer.wrapping_add(1);
        self.end_others(cx);
    }

    fn install_session(&mut self, cx: &mut Cx<'_>, session: &Session<'_>) {
        let Session { level, exchanged, life, leaf, idle, key, states } = *session;
        let key = keys::received(&key);
        let image = SessionImage { level, key, exchanged, life: Life(life), leaf, idle };
        match cx.transfers().import(&image, states) {
            Ok(Installed { level, index }) => {
                let (level, index) = (usize::from(level), index as usize);
                if self.stamps.len() <= level {
                    self.stamps.resize_with(level + 1, Vec::new);
                }
                let stamps = &mut self.stamps[level];
                if stamps.len() <= index {
                    stamps.resize((index + 1).next_power_of_two(), 0);
                }
                stamps[index] = self.transfer;
            }
            Err(why) => self.note_unusable(cx, why),
        }
    }

    fn note_unusable(&mut self, cx: &mut Cx<'_>, why: &str) {
        self.link.counts.unusable.fetch_add(1, Ordering::Relaxed);
        if !std::mem::replace(&mut self.has_logged, true) {
            cx.log(&format!(
                "Replicate: a session cannot go on here: {why} (further ones are counted by the \
                 handler unusable)"
            ));
        }
    }

    /// Ends the sessions that a transfer of all did not have.
    fn end_others(&mut self, cx: &mut Cx<'_>) {
        let (stamps, transfer) = (&self.stamps, self.transfer);
        let levels = cx.flows().map_or(0, |flows| flows.plan().levels.len());
        for level in 0..levels {
            let own = stamps.get(level).map_or(&[][..], |stamps| stamps);
            let extent = cx.flows().map_or(0, |flows| flows.extent(level as u8));
            for index in 0..extent {
                if own.get(index as usize) != Some(&transfer) {
                    cx.transfers().end(|flows| flows.remove_record(level as u8, index));
                }
            }
        }
    }
}
