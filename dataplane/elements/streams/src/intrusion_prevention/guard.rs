//! The function: shows the inspector what flows, and does what the rules say.

use std::sync::Arc;

use thruway_element::{Layer, Needs, Next, StreamCursor, StreamFunction};
use thruway_inspect::rules::{Action, Facts, Found, Inspector, Kind, Piece, Session, Side};
use thruway_wire::ip_protocol;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

use super::event::{Event, Head};
use super::loading::Loaded;
use crate::journal::Journal;

/// The state of a session.
#[derive(Clone, Copy, Debug, Default, FromBytes, IntoBytes, KnownLayout, Immutable)]
#[repr(C)]
pub(super) struct SessionState {
    session: Session,
    /// Which rules looked at it last.
    generation: u32,
    /// Bits by direction: bytes were seen, a message is in progress.
    seen: u8,
    in_message: u8,
    is_found: u8,
    reserved: u8,
}

/// Counters.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Totals {
    /// Matches that were reported.
    pub(super) alerts: u64,
    /// Sessions with at least one.
    pub(super) sessions: u64,
    /// Sessions that a rule wanted to end.
    pub(super) condemned: u64,
    /// Pieces of sessions of which nothing can be remembered, for want of room.
    pub(super) forgetful: u64,
    /// Rules that were given up as too costly, and count as matched.
    pub(super) exhausted: u64,
}

/// One thread's part.
pub(super) struct Guard {
    pub(super) rules: Arc<Loaded>,
    pub(super) generation: u32,
    /// Generations of the elements that stood here before.
    pub(super) before: u32,
    pub(super) inspector: Inspector,
    /// Sessions end if rules say so.
    pub(super) drops: bool,
    /// Streams are looked at, not packets.
    pub(super) layer: Layer,
    pub(super) journal: Journal<Event>,
    /// By rule: number of alerts.
    pub(super) counts: Vec<u64>,
    pub(super) totals: Totals,
    /// Room for what is found.
    pub(super) found: Found,
}

impl Guard {
    /// From now on these rules count.
    pub(super) fn replace(&mut self, rules: Arc<Loaded>, generation: u32) {
        self.inspector.replace(Arc::clone(&rules.set));
        self.counts = vec![0; rules.set.rules().len()];
        (self.rules, self.generation) = (rules, generation);
    }

    /// Goes on with the sessions of the element that stood here before.
    pub(super) fn take_over(&mut self, kept: Guard) {
        self.before = kept.before.wrapping_add(kept.generation);
        self.inspector = kept.inspector;
        self.inspector.replace(Arc::clone(&self.rules.set));
        self.totals = kept.totals;
        self.journal.take_over(kept.journal);
    }

    /// Shows all pieces to the inspector; what it finds is reported. `true`: the session is to end.
    fn show(&mut self, state: &mut SessionState, data: &mut StreamCursor<'_>) -> bool {
        let direction = data.direction() & 1;
        let now = data.now();
        let is_stream = matches!(self.layer, Layer::Tcp | Layer::Http);
        let mut is_first = true;
        loop {
            let payload_len = data.chunk().len() as u32; // a packet's
            let Some(mut facts) = Facts::of(data.headers()) else { return false };
            facts.side = Side::of(direction);
            facts.payload_len = payload_len;
            facts.established = facts.protocol == ip_protocol::TCP || state.seen == 3;
            if let Some(head) = data.head().filter(|_| is_first) {
                state.in_message |= 1 << direction;
                let piece = Piece { facts: &facts, bytes: head, kind: Kind::Head, now };
                self.inspector.stream(&mut state.session, piece, &mut self.found);
            }
            let is_body = state.in_message & 1 << direction != 0;
            let kind = if is_body { Kind::Body } else { Kind::Plain };
            let bytes = data.chunk();
            let len = bytes.len();
            let piece = Piece { facts: &facts, bytes, kind, now };
            if is_stream && len > 0 {
                self.inspector.stream(&mut state.session, piece, &mut self.found);
            } else if !is_stream && (is_first || len > 0) {
                self.inspector.packet(&mut state.session, piece, &mut self.found);
            }
            if self.report(state, &facts, now) {
                return true;
            }
            if len == 0 {
                return false;
            }
            data.advance(len);
            is_first = false;
            if data.chunk().is_empty() {
                return false;
            }
        }
    }

    /// Reports what was found. `true`: the session is to end.
    fn report(&mut self, state: &mut SessionState, facts: &Facts, now: i64) -> bool {
        let is_condemned = matches!(self.found.verdict, Some(Action::Drop | Action::Reject));
        self.totals.condemned += u64::from(is_condemned);
        self.totals.forgetful += u64::from(self.found.forgetful);
        self.totals.exhausted += u64::from(self.found.exhausted);
        if !self.found.alerts.is_empty() {
            self.totals.sessions += u64::from(state.is_found == 0);
            state.is_found = 1;
            self.write_down(state, facts, (now, is_condemned && self.drops));
        }
        self.found.clear();
        is_condemned && self.drops
    }

    /// Counts and keeps what was found, until it is written; says whether the session ends.
    #[cold]
    fn write_down(&mut self, state: &SessionState, facts: &Facts, (now, ends): (i64, bool)) {
        let head = self.inspector.message().map(|parts| Head::of(parts, facts.side));
        let rules = self.rules.set.rules();
        for rule in &self.found.alerts {
            self.totals.alerts += 1;
            self.counts[*rule as usize] += 1;
            let action = rules[*rule as usize].action;
            if self.journal.is_wanted() {
                self.journal.push(Event {
                    now,
                    rules: Arc::clone(&self.rules),
                    rule: *rule,
                    facts: *facts,
                    app: state.session.app(),
                    is_blocked: ends && matches!(action, Action::Drop | Action::Reject),
                    head,
                });
            }
        }
    }
}

impl StreamFunction for Guard {
    type State = SessionState;
    const NEEDS: Needs = Needs::GUARD;

    fn process(&mut self, state: &mut SessionState, data: &mut StreamCursor<'_>) -> Next {
        let generation = self.before.wrapping_add(self.generation);
        if state.generation != generation {
            self.inspector.renew(&mut state.session);
            state.generation = generation;
        }
        let direction = data.direction() & 1;
        state.seen |= 1 << direction;
        if self.show(state, data) {
            return Next::Close;
        }
        if data.is_last() && state.in_message & 1 << direction != 0 {
            state.in_message &= !(1 << direction);
            self.inspector.end_message(&mut state.session, direction);
        }
        Next::Continue
    }

    fn ended(&mut self, state: &SessionState) {
        self.inspector.end(&state.session);
    }
}
