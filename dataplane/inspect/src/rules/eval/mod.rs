//! Whether buffers are as a rule wants them.
//!
//! Positions are sets: after each condition, all places are known where what follows may be counted
//! from. So there is no going back, however often contents repeat: the time is bounded by the bytes
//! looked at times the conditions.

mod content;
mod numbers;
mod regex;
mod scratch;

pub use scratch::Scratch;

use crate::rules::compiled::Compiled;
use crate::rules::compiled::chain::{Chain, What};
use crate::rules::view::{View, Views};
use scratch::Spot;

/// Bytes that regular expressions may look at in one evaluation of a rule.
pub const REGEX_BYTES_MAX: usize = 1 << 20;

/// What an evaluation found.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Outcome {
    /// The buffers are as wanted.
    pub matched: bool,
    /// And were not before: something new takes part.
    pub new: bool,
    /// They are not, but what is complete is, and more of what comes piece by piece may make them.
    pub open: bool,
    /// It was given up because of `REGEX_BYTES_MAX`, and counts as matched.
    pub exhausted: bool,
}

impl Outcome {
    pub(super) const NO: Outcome =
        Outcome { matched: false, new: false, open: false, exhausted: false };

    pub(super) const YES: Outcome =
        Outcome { matched: true, new: true, open: false, exhausted: false };

    /// Whether it is to be reported.
    pub const fn fires(self) -> bool {
        self.matched && self.new
    }

    /// What is found on either occasion. What matches on one without being new is not told because
    /// of what is new on the other.
    pub(super) const fn or(self, other: Outcome) -> Outcome {
        Outcome {
            matched: self.matched | other.matched,
            new: self.fires() | other.fires(),
            open: self.open | other.open,
            exhausted: self.exhausted | other.exhausted,
        }
    }
}

impl Compiled {
    /// Whether buffers are as the rule wants them. A rule that says nothing of buffers always
    /// matches, and is always new.
    pub fn evaluate(&self, views: &dyn Views, scratch: &mut Scratch) -> Outcome {
        scratch.budget = REGEX_BYTES_MAX;
        let mut all = Outcome { matched: true, new: self.chains.is_empty(), ..Outcome::NO };
        for chain in &self.chains {
            let open = Outcome { open: chain.buffer.is_stream(), ..Outcome::NO };
            let Some(view) = views.view(chain.buffer) else { return open };
            let outcome = chain.evaluate(view, scratch);
            if !outcome.matched {
                return open;
            }
            all.new |= outcome.new;
            all.exhausted |= outcome.exhausted;
        }
        all.new |= all.exhausted;
        all
    }
}

impl Chain {
    fn evaluate(&self, view: View<'_>, scratch: &mut Scratch) -> Outcome {
        let mut all = Outcome { matched: true, ..Outcome::NO };
        scratch.spots.begin(view);
        let mut is_positive = false;
        for step in &self.steps {
            is_positive |= step.what.is_positive();
            if step.what.moves() && !step.what.is_relative() {
                // What went before is a group of its own, and complete.
                all.new |= scratch.spots.is_any_new();
            }
            let (matched, new) = match &step.what {
                What::Content(place) => {
                    (place.evaluate(view, scratch), place.negated && place.ends && view.has_new())
                }
                What::Pcre { expression, negated, relative } => {
                    let search = regex::Search { expression, relative: *relative, view };
                    if *negated {
                        (search.none(scratch), expression.looks_ahead && view.has_new())
                    } else {
                        (search.run(step.is_followed, scratch), false)
                    }
                }
                What::DataAt(it) => numbers::data_at(it, view, scratch),
                What::ByteTest(it) => numbers::test(it, view, scratch),
                What::ByteJump(it) => (numbers::jump(it, view, scratch), false),
                What::Size(range) => {
                    let len = u32::try_from(view.bytes.len()).unwrap_or(u32::MAX);
                    (range.contains(len), view.fresh)
                }
            };
            if scratch.budget == 0 {
                return Outcome { matched: true, new: true, open: false, exhausted: true };
            }
            if !matched {
                return Outcome::NO;
            }
            all.new |= new;
        }
        all.new |= scratch.spots.is_any_new() || (!is_positive && view.fresh);
        all
    }
}
