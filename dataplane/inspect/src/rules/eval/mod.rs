//! Whether buffers are as a rule wants them.
//!
//! Positions are sets: after each condition, all places are known where what follows may be told
//! from. So there is no going back, however often contents repeat: the time is bounded by the bytes
//! looked at times the conditions.

mod content;
mod numbers;
mod regex;

use crate::rules::compiled::Compiled;
use crate::rules::compiled::chain::{Chain, What};
use crate::rules::view::{View, Views};

/// Bytes that regular expressions may look at in one evaluation of a rule.
pub const REGEX_BYTES_MAX: usize = 1 << 20;

/// What an evaluation found.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Outcome {
    /// The buffers are as wanted.
    pub matched: bool,
    /// And were not before: something new takes part.
    pub new: bool,
    /// It was given up because of [`REGEX_BYTES_MAX`], and counts as matched.
    pub exhausted: bool,
}

impl Outcome {
    const NO: Outcome = Outcome { matched: false, new: false, exhausted: false };

    /// Whether it is to be told.
    pub const fn fires(self) -> bool {
        self.matched && self.new
    }
}

/// A place that the next condition may be told from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Spot {
    /// Index in the view's bytes; negative where they are gone.
    at: i64,
    /// Something new takes part in getting here.
    new: bool,
}

/// Room for evaluating, kept for the next time.
#[derive(Debug, Default)]
pub struct Scratch {
    spots: Spots,
    next: Spots,
    starts: Vec<i64>,
    budget: usize,
}

/// Places, ascending; each once.
#[derive(Debug, Default)]
struct Spots(Vec<Spot>);

impl Spots {
    /// Adds one that is not before the others, or anywhere, at more cost.
    fn add(&mut self, spot: Spot) {
        let at = self.0.partition_point(|known| known.at < spot.at);
        match self.0.get_mut(at) {
            Some(known) if known.at == spot.at => known.new |= spot.new,
            _ => self.0.insert(at, spot),
        }
    }

    /// Those from `low` to `high`: whether there are any, and any new.
    fn between(&self, low: i64, high: i64) -> Option<bool> {
        let from = self.0.partition_point(|spot| spot.at < low);
        let to = self.0.partition_point(|spot| spot.at <= high);
        (from < to).then(|| self.0[from..to].iter().any(|spot| spot.new))
    }
}

impl Compiled {
    /// Whether buffers are as the rule wants them. A rule that says nothing of buffers always
    /// matches, and is always new.
    pub fn evaluate(&self, views: &dyn Views, scratch: &mut Scratch) -> Outcome {
        scratch.budget = REGEX_BYTES_MAX;
        let mut all = Outcome { matched: true, new: self.chains.is_empty(), exhausted: false };
        for chain in &self.chains {
            let Some(view) = views.view(chain.buffer) else { return Outcome::NO };
            let outcome = chain.evaluate(view, scratch);
            if !outcome.matched {
                return Outcome::NO;
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
        let mut all = Outcome { matched: true, new: false, exhausted: false };
        let beginning = Spot { at: -(view.base as i64), new: false };
        scratch.spots.0.clear();
        scratch.spots.0.push(beginning);
        let mut is_positive = false;
        for step in &self.steps {
            let moves = step.what.moves();
            is_positive |= moves;
            let (matched, new) = match &step.what {
                What::Content(place) => place.evaluate(view, scratch),
                What::Pcre { expression, negated, relative } => {
                    let search = regex::Search { expression, relative: *relative, view };
                    let wants_all = step.is_followed;
                    if *negated { search.none(scratch) } else { search.run(wants_all, scratch) }
                }
                What::DataAt(it) => {
                    is_positive |= !it.negated;
                    numbers::data_at(it, view, scratch)
                }
                What::ByteTest(it) => {
                    is_positive = true;
                    numbers::test(it, view, scratch)
                }
                What::ByteJump(it) => numbers::jump(it, view, scratch),
                What::Size(range) => {
                    let len = u32::try_from(view.bytes.len()).unwrap_or(u32::MAX);
                    (range.contains(len), view.fresh)
                }
            };
            if scratch.budget == 0 {
                return Outcome { matched: true, new: true, exhausted: true };
            }
            if !matched {
                return Outcome::NO;
            }
            all.new |= new;
        }
        all.new |= !is_positive && view.fresh;
        all
    }
}
