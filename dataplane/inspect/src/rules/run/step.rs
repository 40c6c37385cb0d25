//! One step: some bytes, and which rules are worth a look because of them.

use thruway_wire::ip_protocol;

use crate::patterns::SearchState;
use crate::rules::areas::Traffic;
use crate::rules::buffer::{Buffer, Side};
use crate::rules::run::candidates::Candidates;
use crate::rules::run::memory::Session;
use crate::rules::run::{App, Facts, Found, Inspector, Kind, Part, Piece};
use crate::rules::set::RuleSet;

/// How many bytes of a stream are enough to know what it speaks.
pub(super) const RECOGNISED_WITHIN: u64 = 16;

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

    /// Parses the head of the current message, if that is of use; adds the rules whose
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
