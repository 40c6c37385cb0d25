//! Rules over what flows: which of them match, and when.
//!
//! What is promised: let a direction of a session be the bytes of its stream, one after the other.
//! A rule whose contents lie in the stream (or in one body) within [`Limits::window`] bytes of each
//! other is found when the last byte that it needs has come, however the stream was cut into
//! pieces; heads of messages are looked at as a whole, and remembered while their bodies flow. So
//! no cutting hides anything from a rule without negations. What must not be there is looked for
//! among the bytes that are remembered at that moment, so that other cuttings may make such a rule
//! match where one piece would not; never the reverse.

mod candidates;
mod evaluate;
pub(super) mod facts;
mod http;
mod memory;
mod recognise;
mod renew;
mod step;
#[cfg(test)]
mod tests;
mod threshold;

use std::sync::Arc;

pub use facts::Facts;
pub use http::HeadParts;
pub use memory::{Limits, Session};
pub use recognise::App;
pub use threshold::Thresholds;

use crate::rules::ast::Action;
use crate::rules::eval::Scratch;
use crate::rules::set::RuleSet;
use candidates::Candidate;
use memory::Slots;

/// What rules say about some bytes. Kept for the next ones.
#[derive(Debug, Default)]
pub struct Found {
    /// Indexes of the rules that are to be reported, those to be obeyed first in front.
    pub alerts: Vec<u32>,
    /// The strongest of what is to be done: [`Action::Drop`], [`Action::Reject`]; or
    /// [`Action::Pass`], and no rule is reported.
    pub verdict: Option<Action>,
    /// Bytes of this direction could not be remembered, because all slots are taken: what spans
    /// pieces may not be found.
    pub forgetful: bool,
    /// Rules with expressions that took too long, and therefore count as matched.
    pub exhausted: u32,
}

impl Found {
    /// Nothing, again.
    pub fn clear(&mut self) {
        self.alerts.clear();
        (self.verdict, self.forgetful, self.exhausted) = (None, false, 0);
    }
}

/// What a message's head, its body and everything else is to rules.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// A whole message head: a message begins.
    Head,
    /// More of the body of the message with the last head.
    Body,
    /// Neither: there is no current message.
    Plain,
}

/// More of one direction of a session.
#[derive(Debug, Clone, Copy)]
pub struct Piece<'a> {
    /// Of the packet that it came in.
    pub facts: &'a Facts,
    /// The bytes.
    pub bytes: &'a [u8],
    /// What they are.
    pub kind: Kind,
    /// Present time, nanoseconds since the Unix epoch.
    pub now: i64,
}

/// A part of a piece.
#[derive(Debug, Clone, Copy)]
struct Part<'a> {
    /// At most a window long.
    chunk: &'a [u8],
    /// It is the beginning of a message's head.
    head_is_fresh: bool,
    /// It is the whole packet.
    is_packet: bool,
}

/// Looks at what flows with the eyes of rules. One a thread.
#[derive(Debug)]
pub struct Inspector {
    set: Arc<RuleSet>,
    slots: Slots,
    thresholds: Thresholds,
    scratch: Scratch,
    head: HeadParts,
    has_message: bool,
    /// Rules worth a look now.
    candidates: Vec<Candidate>,
    /// For each rule, the step in which it became a candidate last, and its place there.
    marks: Vec<(u64, u32)>,
    step: u64,
    #[cfg(test)]
    exhaustive: bool,
}

impl Inspector {
    /// For these rules, remembering as much.
    pub fn new(set: Arc<RuleSet>, limits: Limits) -> Inspector {
        let rules = set.rules().len();
        Inspector {
            slots: Slots::new(limits),
            thresholds: Thresholds::new(limits.sane().counters),
            scratch: Scratch::default(),
            head: HeadParts::default(),
            has_message: false,
            candidates: Vec::with_capacity(rules),
            marks: vec![(0, 0); rules],
            step: 0,
            set,
            #[cfg(test)]
            exhaustive: false,
        }
    }

    /// The rules.
    pub fn set(&self) -> &RuleSet {
        &self.set
    }

    /// The head of the message that the last piece belonged to, as far as a rule was looked at
    /// because of it; none where it belonged to no message.
    pub fn message(&self) -> Option<&HeadParts> {
        self.has_message.then_some(&self.head)
    }

    /// Directions for which there is still room to remember bytes.
    pub fn slots_free(&self) -> usize {
        self.slots.free()
    }

    /// Looks at a packet that is no part of a stream (UDP, ICMP, SYN...), with its payload. Adds to
    /// `found`.
    pub fn packet(&mut self, session: &mut Session, piece: Piece<'_>, found: &mut Found) {
        if session.passed == 0 {
            self.packet_step(session, piece, found);
        }
    }

    /// Looks at more of a stream: the payload of one packet, or a part of it. Adds to `found`.
    pub fn stream(&mut self, session: &mut Session, piece: Piece<'_>, found: &mut Found) {
        if session.passed != 0 {
            return;
        }
        let side = piece.facts.side.index();
        self.slots.acquire(&mut session.sides[side].slot);
        found.forgetful |= session.sides[side].slot == 0;
        match piece.kind {
            Kind::Head => self.begin_message(session, piece),
            Kind::Body => {}
            Kind::Plain => self.end_message(session, side),
        }
        let window = self.slots.limits.window;
        let is_packet = piece.bytes.len() <= window;
        if !is_packet {
            self.packet_step(session, piece, found);
        }
        for (at, chunk) in piece.bytes.chunks(window).enumerate() {
            let head_is_fresh = piece.kind == Kind::Head && at == 0;
            self.stream_step(session, piece, Part { chunk, head_is_fresh, is_packet }, found);
        }
        let state = &mut session.sides[side];
        if piece.kind == Kind::Head {
            state.body_from = state.stream;
        }
    }

    /// The current message has ended.
    pub fn end_message(&mut self, session: &mut Session, direction: usize) {
        let state = &mut session.sides[direction & 1];
        (state.in_message, state.in_body) = (0, 0);
        if let Some(slot) = self.slots.slot(state.slot) {
            slot.pending.retain(|pending| pending.at != u64::MAX);
            slot.lost_head = false;
        }
    }

    /// The session has ended; called once.
    pub fn end(&mut self, session: &Session) {
        for state in &session.sides {
            self.slots.release(state.slot);
        }
    }

    fn begin_message(&mut self, session: &mut Session, piece: Piece<'_>) {
        let side = piece.facts.side;
        self.end_message(session, side.index());
        session.app = App::Http as u8;
        let state = &mut session.sides[side.index()];
        (state.in_message, state.body) = (1, Default::default());
        state.message_from = state.stream;
        self.slots.put_head(state.slot, piece.bytes);
    }
}
