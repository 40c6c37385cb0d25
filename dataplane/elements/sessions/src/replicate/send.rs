//! The active host's side: what changed, into batches.

use std::sync::Arc;

use thruway_element::{ConnectionParts, Cx};
use thruway_flow::manager::{Change, SessionImage, TICK_NS};
use thruway_replication::{
    Batch, CONNECTION_LEN_MAX, Ledger, Link, PAYLOAD_MAX, RECORD_LEN_MAX, Record, STATES_LEN_MAX,
    Session, SessionKey, Term,
};
use thruway_sync::atomic::Ordering;

use super::keys;
use super::states::States;

/// Changes that wait at most: more are made good by a transfer of all sessions.
pub(super) const CHANGES: usize = 1 << 16;
/// Changes, and records that are looked at, in one tick at most.
const BUDGET: usize = 1024;
/// Interval, in nanoseconds, at which an unchanged record is sent again, so that the backup does
/// not time its session out.
const REFRESH_NS: i64 = 10_000_000_000;

/// A walk through all records.
#[derive(Clone, Copy)]
struct Walk {
    level: u8,
    index: u32,
    /// All sessions are sent; else those that had packets lately.
    is_full: bool,
}

/// See the module.
pub(super) struct Sender {
    link: Arc<Link>,
    stream: Option<u64>,
    /// The term in which this host serves.
    term: Term,
    walk: Walk,
    has_begun: bool,
    batch: Option<Batch>,
    /// Longest record, in bytes.
    record_len_max: usize,
    /// States of the session in hand.
    exported: Vec<u8>,
    /// Sessions that are sent again, as packets change their states.
    states: Option<States>,
    /// How often one was.
    pub(super) resent: u64,
    parts: ConnectionParts,
    /// Connections of streams go on at the other host, where they can.
    goes_on: bool,
    /// There is a backup, as contexts of streams know.
    is_live: bool,
    last_ns: i64,
    ledger: Ledger,
    /// Sessions are in other records since a hot swap: the log of changes is lost for that.
    has_moved: bool,
}

impl Sender {
    pub(super) fn new(link: Arc<Link>) -> Sender {
        let walk = Walk { level: 0, index: 0, is_full: true };
        Sender {
            link,
            stream: None,
            term: Term::default(),
            walk,
            has_begun: false,
            batch: None,
            record_len_max: RECORD_LEN_MAX,
            exported: Vec::with_capacity(RECORD_LEN_MAX),
            states: None,
            resent: 0,
            parts: ConnectionParts::default(),
            goes_on: false,
            is_live: false,
            last_ns: 0,
            ledger: Ledger::default(),
            has_moved: false,
        }
    }

    /// Has sessions of these functions sent again, of which none has longer states than that.
    pub(super) fn follow_states(&mut self, states: States, states_len_max: usize) {
        self.states = Some(states);
        self.record_len_max = RECORD_LEN_MAX - STATES_LEN_MAX + states_len_max.min(STATES_LEN_MAX);
    }

    /// How many sessions had packets since they were sent.
    pub(super) fn count_changed(&self, cx: &mut Cx<'_>) -> usize {
        self.states.as_ref().map_or(0, |states| states.count(cx))
    }

    /// Sends again sessions of which packets may have changed the states: at its pace, or
    /// (`is_last`) all of them.
    fn send_states(&mut self, cx: &mut Cx<'_>, is_last: bool) {
        let Some(mut states) = self.states.take() else { return };
        if is_last {
            states.begin(cx)
        } else {
            states.look(cx)
        }
        let mut budget = BUDGET;
        while is_last || (states.may_send() && budget > 0) {
            if !self.has_room(cx) {
                break;
            }
            let Some(at) = states.next(cx) else { break };
            states.sent(self.send_session(cx, at, |_| true));
            self.resent += 1;
            budget -= 1;
        }
        self.states = Some(states);
    }

    /// Sends all states that packets may have changed, of functions that hold none; false, and this
    /// is to be tried again, if there was no room.
    pub(super) fn send_last_states(&mut self, cx: &mut Cx<'_>) -> bool {
        self.send_states(cx, true);
        self.put_batch(cx);
        self.count_changed(cx) == 0
    }

    /// Whether connections of streams go on at the other host, or are reset there.
    pub(super) fn set_goes_on(&mut self, goes_on: bool) {
        (self.goes_on, self.is_live) = (goes_on, false);
    }

    /// Whether they go on there.
    pub(super) fn goes_on(&self) -> bool {
        self.goes_on
    }

    /// This host serves from now on, in this term. Unless the other one has all its sessions, all
    /// are sent.
    pub(super) fn begin(&mut self, cx: &mut Cx<'_>, term: Term, has_all: bool) {
        (self.term, self.has_moved, self.is_live) = (term, false, false);
        // What contexts of streams made of connections since is not at the other host.
        let has_all = has_all && !cx.transfers().has_connections();
        self.drop_batch();
        self.begin_stream(self.link.stream());
        self.resync(cx);
        if has_all && self.stream.is_some() {
            (self.walk.is_full, self.has_begun) = (false, false);
            self.ledger.end_transfer();
        }
    }

    /// All sessions are sent again, over the same stream: another configuration has taken over, or
    /// what was sent last is not at the other host.
    pub(super) fn follow(&mut self) {
        self.has_moved = true;
    }

    /// The stream, if the backup has all sessions, but for what is on its way.
    pub(super) fn complete_stream(&self) -> Option<u64> {
        let is_complete = self.ledger.is_complete() && !self.walk.is_full && !self.has_moved;
        self.stream.filter(|_| is_complete && self.link.stream() == self.stream)
    }

    /// Sends all changes and, as the last record, that the backup serves from now on; false, and
    /// this is to be tried again, if there was no room.
    pub(super) fn switch_over(&mut self, cx: &mut Cx<'_>) -> bool {
        loop {
            let before = cx.flows().map(|flows| flows.change_numbers());
            if before.is_none_or(|(last, taken)| last == taken) {
                break;
            }
            self.send_changes(cx, false);
            if cx.flows().map(|flows| flows.change_numbers()) == before {
                self.put_batch(cx);
                return false;
            }
        }
        let has_room = self.has_room(cx);
        if has_room {
            self.write(&Record::Switchover(self.term.next()));
        }
        self.put_batch(cx);
        has_room
    }

    /// What the backup has.
    pub(super) fn ledger(&self) -> &Ledger {
        &self.ledger
    }

    /// Sends what changed, without waiting for the next tick: packets wait for it.
    pub(super) fn send_now(&mut self, cx: &mut Cx<'_>) {
        let is_lost = cx.flows().is_none_or(|flows| flows.has_lost_changes());
        if self.stream.is_some() && self.link.stream() == self.stream && !is_lost {
            self.send_changes(cx, true);
            self.put_batch(cx);
        }
    }

    fn begin_stream(&mut self, stream: Option<u64>) {
        if stream != self.stream {
            self.drop_batch();
            self.stream = stream;
            self.ledger.begin_stream(0);
        }
    }

    /// Sends some of what changed.
    pub(super) fn tick(&mut self, cx: &mut Cx<'_>) {
        let stream = self.link.stream();
        if stream != self.stream {
            self.begin_stream(stream);
            self.resync(cx);
        }
        if self.goes_on && stream.is_some() != self.is_live {
            self.is_live = stream.is_some();
            cx.transfers().set_replicating(self.is_live);
        }
        let Some(flows) = cx.flows().filter(|_| stream.is_some()) else { return };
        if flows.has_lost_changes() {
            let is_overflow = u64::from(!self.has_moved);
            self.link.counts.overflows.fetch_add(is_overflow, Ordering::Relaxed);
            self.resync(cx);
        }
        self.send_changes(cx, false);
        // A transfer of all sessions has the states, too, and must not wait for room that these
        // take.
        if !self.walk.is_full {
            self.send_states(cx, false);
        }
        self.send_walk(cx);
        self.put_batch(cx);
        self.ledger.acknowledge(self.link.acknowledged());
        self.last_ns = cx.now();
    }

    /// Begins a transfer of all sessions.
    fn resync(&mut self, cx: &mut Cx<'_>) {
        self.walk = Walk { level: 0, index: 0, is_full: true };
        (self.has_begun, self.has_moved) = (false, false);
        if let Some(flows) = cx.flows() {
            flows.forget_changes();
            self.ledger.begin_transfer(flows.change_numbers().0);
        }
    }

    /// Whether there is a batch that a session fits into, and its connection.
    fn has_room(&mut self, cx: &mut Cx<'_>) -> bool {
        let room_max = PAYLOAD_MAX - self.record_len_max - CONNECTION_LEN_MAX;
        if self.batch.as_ref().is_some_and(|batch| batch.bytes.len() > room_max) {
            self.put_batch(cx);
        }
        if self.batch.is_none() {
            let stream = self.stream.unwrap_or_default();
            let term = self.term;
            let batch = |bytes| Batch { stream, term, bytes, ..Batch::default() };
            self.batch = self.link.outgoing.buffer().map(batch);
        }
        self.batch.is_some()
    }

    fn write(&mut self, record: &Record<'_>) {
        if let Some(batch) = &mut self.batch {
            batch.count += u64::from(record.write(&mut batch.bytes));
        }
    }

    fn put_batch(&mut self, cx: &mut Cx<'_>) {
        let taken = cx.flows().map_or(0, |flows| flows.change_numbers().1);
        self.ledger.wrote(self.batch.as_ref().map_or(0, |batch| batch.count), taken);
        match self.batch.take() {
            // A thread that holds a buffer has room.
            Some(batch) if batch.count > 0 => drop(self.link.outgoing.put(batch)),
            batch => self.batch = batch,
        }
    }

    fn drop_batch(&mut self) {
        if let Some(batch) = self.batch.take() {
            self.link.outgoing.recycle(batch.bytes);
        }
    }

    /// Sends changes; `while_settled`: up to a connection of which packets are with functions.
    fn send_changes(&mut self, cx: &mut Cx<'_>, while_settled: bool) {
        for _ in 0..BUDGET {
            if !self.has_room(cx) {
                return;
            }
            if while_settled
                && let Some(Change::Changed(level, index)) =
                    cx.flows().and_then(|flows| flows.peek_change())
                && cx.transfers().is_connection_busy((level, index))
            {
                return;
            }
            let Some(change) = cx.flows().and_then(|flows| flows.next_change()) else { return };
            match change {
                Change::Changed(level, index) => {
                    self.send_session(cx, (level, index), |_| true);
                }
                Change::Ended(level, key) => self.write(&Record::Ended(level, keys::sent(&key))),
            }
        }
    }

    /// Sends a session, if it is there and wanted; how many bytes it takes.
    fn send_session(
        &mut self,
        cx: &mut Cx<'_>,
        at: (u8, u32),
        is_wanted: impl FnOnce(&SessionImage) -> bool,
    ) -> usize {
        let before = self.batch.as_ref().map_or(0, |batch| batch.bytes.len());
        let mut states = std::mem::take(&mut self.exported);
        if let Some(image) = cx.transfers().export(at, &mut states).filter(is_wanted) {
            let SessionImage { level, key, exchanged, life, leaf, idle } = image;
            let (life, key) = (life.0, keys::sent(&key));
            let session = Session { level, exchanged, life, leaf, idle, key, states: &states };
            self.write(&Record::Session(session));
            self.send_connection(cx, at, key);
        }
        self.exported = states;
        self.batch.as_ref().map_or(0, |batch| batch.bytes.len()) - before
    }

    /// Sends what contexts know of the connection, behind its session.
    fn send_connection(&mut self, cx: &mut Cx<'_>, at: (u8, u32), key: SessionKey) {
        let mut parts = std::mem::take(&mut self.parts);
        if cx.transfers().export_connection(at, self.goes_on, &mut parts) {
            self.write(&Record::Connection(at.0, key, &parts.contexts));
        }
        self.parts = parts;
    }

    /// Goes on with the walk: all records at once where all are sent, else so many that one round
    /// takes as long as a refresh may.
    fn send_walk(&mut self, cx: &mut Cx<'_>) {
        let Some(flows) = cx.flows() else { return };
        let levels = flows.plan().levels.len() as u8;
        let total: u32 = (0..levels).map(|level| flows.extent(level)).sum();
        let since = (cx.now() - self.last_ns).clamp(0, REFRESH_NS);
        let part = (i64::from(total) * since / REFRESH_NS + 1) as usize;
        let budget = if self.walk.is_full { BUDGET } else { part.min(BUDGET) };
        let lately = (REFRESH_NS / TICK_NS) as u32 + 1;
        for _ in 0..budget {
            if !self.has_room(cx) {
                return;
            }
            let Walk { level, index, is_full } = self.walk;
            if is_full && !self.has_begun {
                self.write(&Record::ResyncBegins);
                self.has_begun = true;
            } else if level >= levels {
                if is_full {
                    self.write(&Record::ResyncEnds);
                    self.put_batch(cx);
                    self.ledger.end_transfer();
                    self.link.counts.resyncs.fetch_add(1, Ordering::Relaxed);
                }
                self.walk = Walk { level: 0, index: 0, is_full: false };
                return;
            } else if cx.flows().is_none_or(|flows| index >= flows.extent(level)) {
                self.walk = Walk { level: level + 1, index: 0, is_full };
            } else {
                self.walk.index += 1;
                self.send_session(cx, (level, index), |image| is_full || image.idle <= lately);
            }
        }
    }
}
