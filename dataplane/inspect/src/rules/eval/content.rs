//! Contents.

use crate::rules::compiled::chain::CompiledContent;
use crate::rules::eval::{Scratch, Spot};
use crate::rules::view::View;

impl CompiledContent {
    /// Whether it is where it should be (or is not where it should not). Moves the spots behind it.
    pub(super) fn evaluate(&self, view: View<'_>, scratch: &mut Scratch) -> bool {
        match (self.relative, self.negated) {
            (false, false) => self.absolute(view, scratch),
            (false, true) => self.first(view, -(view.base as i64)).is_none(),
            (true, false) => self.relative(view, scratch),
            (true, true) => self.none_behind(view, scratch),
        }
    }

    fn len(&self) -> i64 {
        self.needle.len() as i64
    }

    /// Where it is first when places are counted from `spot`.
    fn first(&self, view: View<'_>, spot: i64) -> Option<i64> {
        let mut found = None;
        let low = spot + self.from;
        self.each(view, low, self.room.map(|room| low + room), |at| {
            found = Some(at);
            false
        });
        found
    }

    /// All beginnings from `low` on with ends not behind `high`, until `on` returns false.
    fn each(&self, view: View<'_>, low: i64, high: Option<i64>, mut on: impl FnMut(i64) -> bool) {
        let len = self.len();
        let all = view.bytes.len() as i64;
        let high = high.map_or(all, |high| high.min(all));
        let mut from = if self.ends { low.max(all - len) } else { low }.max(0);
        while from + len <= high {
            let bytes = &view.bytes[..high as usize];
            let Some(at) = self.needle.find(bytes, from as usize) else { return };
            let is_there = !self.ends || at as i64 + len == all;
            if is_there && !on(at as i64) {
                return;
            }
            from = at as i64 + 1;
        }
    }

    fn absolute(&self, view: View<'_>, scratch: &mut Scratch) -> bool {
        let spots = &mut scratch.spots.0;
        spots.clear();
        let low = self.from - view.base as i64;
        self.each(view, low, self.room.map(|room| low + room), |at| {
            let end = at + self.len();
            let new = end as usize > view.since;
            spots.push(Spot { at: end, new });
            true
        });
        !spots.is_empty()
    }

    fn relative(&self, view: View<'_>, scratch: &mut Scratch) -> bool {
        let Scratch { spots, next, .. } = scratch;
        next.0.clear();
        let (Some(first), Some(last)) = (spots.0.first(), spots.0.last()) else {
            return false;
        };
        let high = self.room.map(|room| last.at + self.from + room);
        self.each(view, first.at + self.from, high, |at| {
            let end = at + self.len();
            let low = self.room.map_or(i64::MIN, |room| end - self.from - room);
            if let Some(new) = spots.between(low, at - self.from) {
                let new = new || end as usize > view.since;
                next.0.push(Spot { at: end, new });
            }
            true
        });
        std::mem::swap(spots, next);
        !spots.0.is_empty()
    }

    /// Keeps the spots behind which it is not.
    fn none_behind(&self, view: View<'_>, scratch: &mut Scratch) -> bool {
        let Scratch { spots, starts, .. } = scratch;
        starts.clear();
        let Some(first) = spots.0.first() else { return false };
        self.each(view, first.at + self.from, None, |at| {
            starts.push(at);
            true
        });
        spots.0.retain(|spot| {
            let low = spot.at + self.from;
            let next = starts.get(starts.partition_point(|start| *start < low));
            let is_near =
                |start: &i64| self.room.is_none_or(|room| start + self.len() <= low + room);
            !next.is_some_and(is_near)
        });
        !spots.0.is_empty()
    }
}
