//! One step: some bytes, and which rules are worth a look because of them.

use std::ops::ControlFlow;

use thruway_wire::ip_protocol;

use crate::patterns::SearchState;
use crate::rules::areas::{Area, Traffic};
use crate::rules::buffer::{Buffer, Side};
use crate::rules::compiled::Scope;
use crate::rules::run::memory::Session;
use crate::rules::run::{App, Facts, Found, Inspector, Kind, Part, Piece};
use crate::rules::set::RuleSet;

/// How many bytes of a stream are enough to know what it speaks.
pub(super) const RECOGNISED_WITHIN: u64 = 16;

/// A rule worth a look.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Candidate {
    pub rule: u32,
    /// Where its fast pattern ended last, if it was found in this step: place in the stream; the
    /// end of time where it is in a head.
    pub at: Option<u64>,
}

/// Some bytes of a stream, and how many before them are remembered.
#[derive(Debug, Clone, Copy)]
pub(super) struct Span<'a> {
    pub slot: u32,
    pub part: Part<'a>,
    /// Bytes that are remembered before the chunk.
    pub before: usize,
    /// Place in the stream of the first of them.
    pub base: u64,
    /// The stream begins.
    pub is_fresh: bool,
}

/// The candidates of a step, each once.
pub(super) struct Candidates<'a> {
    all: &'a mut Vec<Candidate>,
    marks: &'a mut [(u64, u32)],
    step: u64,
}

impl Candidates<'_> {
    pub(super) fn add(&mut self, rule: u32, at: Option<u64>) {
        let Some(mark) = self.marks.get_mut(rule as usize) else { return };
        if mark.0 == self.step {
            let known = &mut self.all[mark.1 as usize];
            known.at = known.at.max(at);
        } else {
            *mark = (self.step, self.all.len() as u32);
            self.all.push(Candidate { rule, at });
        }
    }

    /// Those whose fast patterns are in bytes that go on where `state` was left; `position` tells
    /// where in the stream a pattern is that ends so far in them.
    fn search(
        &mut self,
        area: &Area,
        state: &mut SearchState,
        bytes: &[u8],
        position: impl Fn(usize) -> Option<u64>,
    ) {
        let all = area.patterns.feed(state, bytes, |pattern, end| {
            for rule in &area.rules[pattern] {
                self.add(*rule, position(end));
            }
            ControlFlow::Continue(())
        });
        debug_assert!(all.is_continue(), "nothing stops the search");
    }

    /// Those that have no fast pattern. What is said of ends only is said once for each direction.
    fn without(
        &mut self,
        set: &RuleSet,
        facts: Option<&Facts>,
        is_wanted: impl Fn(&Scope) -> bool,
    ) {
        for number in set.always() {
            let rule = &set.rules()[*number as usize];
            if is_wanted(&rule.scope) && (facts.is_some() || !rule.is_of_ends()) {
                self.add(*number, None);
            }
        }
        if let Some(facts) = facts {
            let rules = set.by_address().of(facts.source, facts.destination);
            rules.for_each(|rule| self.add(rule, None));
        }
    }
}

fn traffic(facts: &Facts) -> Traffic {
    if facts.protocol == ip_protocol::TCP { Traffic::Tcp(facts.side) } else { Traffic::Other }
}

fn server_port(facts: &Facts) -> u16 {
    match facts.side {
        Side::ToServer => facts.destination_port,
        Side::ToClient => facts.source_port,
    }
}

const fn body_of(side: Side) -> Buffer {
    match side {
        Side::ToServer => Buffer::HttpClientBody,
        Side::ToClient => Buffer::HttpServerBody,
    }
}

impl Inspector {
    fn begin(&mut self) {
        self.candidates.clear();
        self.step += 1;
    }

    /// A packet of its own.
    pub(super) fn packet_step(
        &mut self,
        session: &mut Session,
        piece: Piece<'_>,
        found: &mut Found,
    ) {
        self.begin();
        self.has_message = false;
        if session.app == 0 {
            session.app = App::recognise(piece.bytes, server_port(piece.facts)) as u8;
        }
        let set = std::sync::Arc::clone(&self.set);
        let traffic = traffic(piece.facts);
        let unseen = Some(piece.facts).filter(|it| !session.has_seen(it.side));
        let mut candidates = self.candidates();
        if let Some(area) = set.area(traffic, Buffer::Payload) {
            candidates.search(area, &mut SearchState::default(), piece.bytes, |_| None);
        }
        candidates.without(&set, unseen, |scope| scope.packet);
        self.inspect(&set, session, (piece, None), found);
    }

    /// A part of a stream, at most a window long.
    pub(super) fn stream_step(
        &mut self,
        session: &mut Session,
        piece: Piece<'_>,
        part: Part<'_>,
        found: &mut Found,
    ) {
        self.begin();
        let chunk = part.chunk;
        let set = std::sync::Arc::clone(&self.set);
        let side = piece.facts.side;
        let traffic = traffic(piece.facts);
        let unseen = Some(piece.facts).filter(|_| !session.has_seen(side));
        let state = &mut session.sides[side.index()];
        let before = self.slots.append(state.slot, chunk);
        let (slot, came) = (state.slot, state.stream);
        let base = came - before as u64;
        let span = Span { slot, part, before, base, is_fresh: came == 0 };
        let position = |end: usize| Some(came + end as u64);
        let mut candidates = self.candidates();
        if let Some(area) = set.area(traffic, Buffer::Payload) {
            candidates.search(area, &mut state.payload, chunk, position);
        }
        if let Some(area) = set.area(traffic, body_of(side)).filter(|_| piece.kind == Kind::Body) {
            candidates.search(area, &mut state.body, chunk, position);
        }
        state.stream += chunk.len() as u64;
        let in_message = state.in_message != 0;
        candidates.without(&set, unseen, |scope| {
            scope.packet || scope.stream || (scope.message && in_message)
        });
        if session.app == 0 && came <= RECOGNISED_WITHIN {
            let bytes = self.slots.last(slot, before + chunk.len());
            let bytes = if bytes.is_empty() { chunk } else { bytes };
            session.app = App::recognise(bytes, server_port(piece.facts)) as u8;
        }
        self.remembered(&set, traffic, &span);
        self.has_message = in_message && (part.head_is_fresh || slot != 0);
        if in_message {
            self.read_head(&set, piece, &span);
        }
        self.inspect(&set, session, (piece, Some(&span)), found);
        session.sides[side.index()].in_body |= u8::from(piece.kind == Kind::Body);
    }

    fn candidates(&mut self) -> Candidates<'_> {
        Candidates { all: &mut self.candidates, marks: &mut self.marks, step: self.step }
    }

    /// Adds what is waited for; all that can be found, where more is waited for than can be kept.
    fn remembered(&mut self, set: &RuleSet, traffic: Traffic, span: &Span<'_>) {
        let Inspector { slots, candidates: all, marks, step, .. } = self;
        let mut candidates = Candidates { all, marks, step: *step };
        let Some(slot) = slots.slot(span.slot) else { return };
        slot.pending.retain(|pending| pending.at > span.base);
        slot.pending.iter().for_each(|pending| candidates.add(pending.rule, None));
        let (is_lost, is_head_lost) = (slot.lost > span.base, slot.lost_head);
        let bytes = slots.last(span.slot, span.before + span.part.chunk.len());
        for buffer in Buffer::ALL {
            let Some(area) = set.area(traffic, *buffer) else { continue };
            if buffer.is_stream() && is_lost {
                candidates.search(area, &mut SearchState::default(), bytes, |_| None);
            } else if !buffer.is_stream() && is_head_lost {
                area.rules.iter().flatten().for_each(|rule| candidates.add(*rule, None));
            }
        }
    }

    /// Takes the head of the message under way apart, if that is of use; adds the rules whose
    /// patterns are in it if it is new.
    fn read_head(&mut self, set: &RuleSet, piece: Piece<'_>, span: &Span<'_>) {
        let side = piece.facts.side;
        if !span.part.head_is_fresh {
            if !self.candidates.is_empty() || self.is_exhaustive() {
                self.head.read(side, self.slots.head(span.slot));
            }
            return;
        }
        self.head.read(side, piece.bytes);
        let traffic = traffic(piece.facts);
        let Inspector { head, candidates: all, marks, step, .. } = self;
        let mut candidates = Candidates { all, marks, step: *step };
        for buffer in Buffer::ALL.iter().filter(|buffer| !buffer.is_stream()) {
            if let (Some(area), Some(bytes)) = (set.area(traffic, *buffer), head.get(*buffer)) {
                let always = |_| Some(u64::MAX);
                candidates.search(area, &mut SearchState::default(), bytes, always);
            }
        }
    }

    #[cfg(not(test))]
    fn is_exhaustive(&self) -> bool {
        false
    }

    #[cfg(test)]
    fn is_exhaustive(&self) -> bool {
        self.exhaustive
    }

    /// Where tests want it, all rules become candidates.
    #[cfg(test)]
    pub(super) fn add_all(&mut self) {
        if self.exhaustive {
            let rules = self.set.rules().len() as u32;
            let mut candidates = self.candidates();
            (0..rules).for_each(|rule| candidates.add(rule, None));
        }
    }
}
