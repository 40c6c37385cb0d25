//! Room for evaluating, and the places in it.

use crate::rules::view::View;

/// A place that the next condition may be counted from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Spot {
    /// Index in the view's bytes; negative where they are gone.
    pub(super) at: i64,
    /// Something new takes part in getting here.
    pub(super) new: bool,
}

/// Room for evaluating, kept for the next time.
#[derive(Debug, Default)]
pub struct Scratch {
    pub(super) spots: Spots,
    pub(super) next: Spots,
    pub(super) starts: Vec<i64>,
    pub(super) budget: usize,
}

/// Places, ascending; each once.
#[derive(Debug, Default)]
pub(super) struct Spots(pub(super) Vec<Spot>);

impl Spots {
    /// Adds one that is not before the others, or anywhere, at more cost.
    pub(super) fn add(&mut self, spot: Spot) {
        let at = self.0.partition_point(|known| known.at < spot.at);
        match self.0.get_mut(at) {
            Some(known) if known.at == spot.at => known.new |= spot.new,
            _ => self.0.insert(at, spot),
        }
    }

    /// Only the beginning of what there is to see.
    pub(super) fn begin(&mut self, view: View<'_>) {
        self.0.clear();
        self.0.push(Spot { at: -(view.base as i64), new: false });
    }

    pub(super) fn is_any_new(&self) -> bool {
        self.0.iter().any(|spot| spot.new)
    }

    /// Those from `low` to `high`: whether there are any, and any new.
    pub(super) fn between(&self, low: i64, high: i64) -> Option<bool> {
        let from = self.0.partition_point(|spot| spot.at < low);
        let to = self.0.partition_point(|spot| spot.at <= high);
        (from < to).then(|| self.0[from..to].iter().any(|spot| spot.new))
    }
}
