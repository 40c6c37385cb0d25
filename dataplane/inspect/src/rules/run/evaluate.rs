//! The look at the rules that are worth it.

use crate::rules::ast::Action;
use crate::rules::buffer::{Buffer, Side};
use crate::rules::compiled::Compiled;
use crate::rules::eval::Outcome;
use crate::rules::run::memory::Session;
use crate::rules::run::step::{RECOGNISED_WITHIN, Span};
use crate::rules::run::{App, Found, HeadParts, Inspector, Kind, Piece};
use crate::rules::session::FlowBitOp;
use crate::rules::set::RuleSet;
use crate::rules::view::{View, Views};

/// What there is to see.
struct Sights<'a> {
    side: Side,
    payload: View<'a>,
    body: Option<View<'a>>,
    head: Option<&'a HeadParts>,
    head_is_fresh: bool,
}

impl Views for Sights<'_> {
    fn view(&self, buffer: Buffer) -> Option<View<'_>> {
        if buffer.side().is_some_and(|side| side != self.side) {
            return None;
        }
        match buffer {
            Buffer::Payload => Some(self.payload),
            buffer if buffer.is_body() => self.body,
            buffer => {
                let bytes = self.head?.get(buffer)?;
                Some(if self.head_is_fresh { View::new(bytes) } else { View::old(bytes) })
            }
        }
    }
}

impl Inspector {
    /// The visible bytes of a stream; of the current message, for rules about messages.
    fn sights<'a>(
        &'a self,
        is_of_message: bool,
        session: &Session,
        piece: Piece<'_>,
        span: &Span<'a>,
    ) -> Sights<'a> {
        let side = piece.facts.side;
        let state = &session.sides[side.index()];
        let remembered = self.slots.last(span.slot, span.before + span.part.chunk.len());
        let bytes = if remembered.is_empty() { span.part.chunk } else { remembered };
        let payload = View { bytes, base: span.base, since: span.before, fresh: span.is_fresh };
        let is_body = piece.kind == Kind::Body;
        let message = || from(payload, state.message_from, span.part.head_is_fresh);
        Sights {
            side,
            payload: if is_of_message { message() } else { payload },
            body: is_body.then(|| from(payload, state.body_from, state.in_body == 0)),
            head: self.message(),
            head_is_fresh: span.part.head_is_fresh,
        }
    }

    /// Evaluates the candidates, and does what they say.
    pub(super) fn inspect(
        &mut self,
        set: &RuleSet,
        session: &mut Session,
        (piece, span): (Piece<'_>, Option<&Span<'_>>),
        found: &mut Found,
    ) {
        #[cfg(test)]
        self.add_all();
        self.candidates.sort_unstable_by_key(|candidate| set.rank(candidate.rule));
        let side = piece.facts.side.index();
        let came = session.sides[side].stream;
        let may_change =
            (session.app == 0 && came <= RECOGNISED_WITHIN) || !piece.facts.established;
        for at in 0..self.candidates.len() {
            let candidate = self.candidates[at];
            let rule = &set.rules()[candidate.rule as usize];
            let is_about = rule.is_about(piece.facts, App::of(session.app));
            let is_asked = is_about && asked(rule, session);
            let outcome = match is_asked {
                true if rule.is_plain && candidate.at.is_some() => Outcome::YES,
                true => self.evaluate(rule, session, piece, span),
                false => Outcome::NO,
            };
            found.exhausted += u32::from(outcome.exhausted);
            if let (Some(span), Some(end)) = (span, candidate.at.filter(|_| rule.waits)) {
                let is_refused = is_asked && !outcome.matched && !outcome.open;
                let may_come = may_change || !rule.conditions.is_empty() || is_about;
                if let Some(slot) = self.slots.slot(span.slot).filter(|_| may_come && !is_refused) {
                    slot.wait(candidate.rule, end);
                }
            }
            if outcome.fires() && self.obey((candidate.rule, rule), session, piece, found) {
                break;
            }
        }
        session.seen |= 1 << side;
    }

    /// On all occasions that the rule is looked at.
    fn evaluate(
        &mut self,
        rule: &Compiled,
        session: &Session,
        piece: Piece<'_>,
        span: Option<&Span<'_>>,
    ) -> Outcome {
        let side = piece.facts.side;
        // What is said of ends only is said once for each direction.
        if rule.is_of_ends() && session.has_seen(side) {
            return Outcome::NO;
        }
        let mut scratch = std::mem::take(&mut self.scratch);
        let mut all = Outcome::NO;
        if rule.scope.packet && span.is_none_or(|span| span.part.is_packet) {
            let payload = View::new(piece.bytes);
            let sights = Sights { side, payload, body: None, head: None, head_is_fresh: false };
            all = all.or(self.judge(rule, &sights, &mut scratch));
        }
        let in_message = session.sides[side.index()].in_message != 0;
        if let Some(span) = span.filter(|_| rule.scope.stream || rule.scope.message && in_message) {
            let sights = self.sights(rule.scope.message, session, piece, span);
            all = all.or(self.judge(rule, &sights, &mut scratch));
        }
        self.scratch = scratch;
        all
    }

    #[cfg(not(test))]
    fn judge(
        &self,
        rule: &Compiled,
        sights: &Sights<'_>,
        scratch: &mut crate::rules::eval::Scratch,
    ) -> Outcome {
        rule.evaluate(sights, scratch)
    }

    /// By the oracle, where tests want it.
    #[cfg(test)]
    fn judge(
        &self,
        rule: &Compiled,
        sights: &Sights<'_>,
        scratch: &mut crate::rules::eval::Scratch,
    ) -> Outcome {
        if self.exhaustive {
            crate::rules::naive::evaluate(&rule.parts, sights)
        } else {
            rule.evaluate(sights, scratch)
        }
    }

    /// Does what a rule says that matches. True: no other rule is to be looked at.
    fn obey(
        &mut self,
        (number, rule): (u32, &Compiled),
        session: &mut Session,
        piece: Piece<'_>,
        found: &mut Found,
    ) -> bool {
        let (is_obeyed, is_reported) = self.thresholds.count(number, rule, piece.facts, piece.now);
        if !is_obeyed {
            return false;
        }
        for bit in &rule.bits {
            for number in &bit.numbers {
                match bit.op {
                    FlowBitOp::Set => session.set_bit(*number, true),
                    FlowBitOp::Unset => session.set_bit(*number, false),
                    FlowBitOp::Toggle => session.set_bit(*number, !session.bit(*number)),
                    FlowBitOp::IsSet | FlowBitOp::IsNotSet => {}
                }
            }
        }
        match rule.action {
            Action::Pass => {
                session.passed = u8::from(rule.scope.stream || rule.scope.message);
                found.alerts.clear();
                found.verdict = Some(Action::Pass);
                return true;
            }
            Action::Drop if found.verdict.is_none() => found.verdict = Some(Action::Drop),
            Action::Reject => found.verdict = Some(Action::Reject),
            Action::Drop | Action::Alert => {}
        }
        if is_reported && !rule.quiet {
            found.alerts.push(number);
        }
        false
    }
}

/// Whether the flow bits are as the rule wants them.
fn asked(rule: &Compiled, session: &Session) -> bool {
    rule.bits.iter().all(|bit| {
        let any = bit.numbers.iter().any(|number| session.bit(*number));
        match bit.op {
            FlowBitOp::IsSet => any,
            FlowBitOp::IsNotSet => !any,
            FlowBitOp::Set | FlowBitOp::Unset | FlowBitOp::Toggle => true,
        }
    })
}

/// What of the payload comes from this place in the stream on.
fn from(payload: View<'_>, from_byte: u64, fresh: bool) -> View<'_> {
    let skipped = usize::try_from(from_byte.saturating_sub(payload.base)).unwrap_or(usize::MAX);
    View {
        bytes: payload.bytes.get(skipped..).unwrap_or(&[]),
        base: payload.base.saturating_sub(from_byte),
        since: payload.since.saturating_sub(skipped),
        fresh,
    }
}
