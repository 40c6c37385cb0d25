//! Regular expressions.

use crate::rules::eval::scratch::{Scratch, Spot};
use crate::rules::pcre::Expression;
use crate::rules::view::View;

/// Bytes that a search costs at least, in the budget.
const SEARCH_BYTES_MIN: usize = 16;

/// An expression and where to search.
pub(super) struct Search<'a> {
    pub expression: &'a Expression,
    pub relative: bool,
    pub view: View<'a>,
}

impl Search<'_> {
    /// Whether it is found. Moves the spots behind the matches: behind all of them if `wants_all`,
    /// else at least behind one that is new, if there is one.
    pub(super) fn run(&self, wants_all: bool, scratch: &mut Scratch) -> bool {
        let Scratch { spots, next, budget, .. } = scratch;
        next.0.clear();
        if !self.relative {
            spots.begin(self.view);
        }
        let first = spots.0.first().copied();
        // What begins anywhere is found from the first spot as well as from the others; whether
        // the spot it belongs to is new is known by those that lie before it.
        let each =
            if self.expression.anchored { &spots.0[..] } else { &spots.0[..first.iter().len()] };
        for spot in each {
            let from = spot.at.max(0) as usize;
            let Some(bytes) = self.view.bytes.get(from..) else { continue };
            let is_old = |start: usize| {
                let low = if self.expression.anchored { spot.at } else { i64::MIN };
                !spots
                    .between(low, if self.expression.anchored { spot.at } else { start as i64 })
                    .unwrap_or(false)
            };
            let mut start = 0;
            while let Some(found) = self.find(bytes, start, budget) {
                let end = from + found.1;
                let new = !is_old(from + found.0) || self.is_new(end);
                next.add(Spot { at: end as i64, new });
                if (new && !wants_all) || *budget == 0 {
                    break;
                }
                start = found.0 + 1;
            }
        }
        std::mem::swap(spots, next);
        !spots.0.is_empty()
    }

    /// Whether it is not found; behind no spot, if it is counted from a match: such stay.
    pub(super) fn none(&self, scratch: &mut Scratch) -> bool {
        let Scratch { spots, budget, .. } = scratch;
        if !self.relative {
            return self.find(self.view.bytes, 0, budget).is_none();
        }
        spots.0.retain(|spot| {
            let bytes = self.view.bytes.get(spot.at.max(0) as usize..).unwrap_or(&[]);
            self.find(bytes, 0, budget).is_none()
        });
        !spots.0.is_empty()
    }

    fn find(&self, bytes: &[u8], start: usize, budget: &mut usize) -> Option<(usize, usize)> {
        if start > bytes.len() || *budget == 0 {
            return None;
        }
        let found = self.expression.regex.find_at(bytes, start);
        let end = found.map_or(bytes.len(), |found| found.end());
        *budget = budget.saturating_sub((end - start).max(SEARCH_BYTES_MIN));
        found.map(|found| (found.start(), found.end()))
    }

    /// Whether a match with this end was not there before; it may have become one by what stands
    /// behind it.
    fn is_new(&self, end: usize) -> bool {
        end > self.view.since || (self.expression.looks_ahead && end == self.view.since)
    }
}
