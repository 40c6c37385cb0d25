//! A set of numbers, as ranges.

/// Disjoint ranges that do not touch, in order.
#[derive(Debug, Clone, Default)]
pub struct Ranges(Vec<(i64, i64)>);

impl Ranges {
    pub fn clear(&mut self) {
        self.0.clear();
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub fn iter(&self) -> impl Iterator<Item = (i64, i64)> {
        self.0.iter().copied()
    }

    /// Adds `left..right`.
    pub fn insert(&mut self, left: i64, right: i64) {
        if left >= right {
            return;
        }
        let first = self.0.partition_point(|range| range.1 < left);
        let last = self.0.partition_point(|range| range.0 <= right);
        let mut merged = (left, right);
        for (from, to) in &self.0[first..last] {
            merged = (merged.0.min(*from), merged.1.max(*to));
        }
        self.0.splice(first..last, [merged]);
    }

    /// Forgets what lies below.
    pub fn cut_below(&mut self, bound: i64) {
        self.0.retain(|range| range.1 > bound);
        if let Some(first) = self.0.first_mut() {
            first.0 = first.0.max(bound);
        }
    }

    /// The range that a number is in.
    pub fn around(&self, at: i64) -> Option<(i64, i64)> {
        let first = self.0.partition_point(|range| range.1 <= at);
        self.0.get(first).copied().filter(|range| range.0 <= at)
    }

    /// The first number from `at` on that is not in the set.
    pub fn next_absent(&self, at: i64) -> i64 {
        self.around(at).map_or(at, |range| range.1)
    }

    /// Where the first range that begins behind `at` begins.
    pub fn next_present(&self, at: i64) -> Option<i64> {
        self.0.iter().map(|range| range.0).find(|from| *from > at)
    }

    /// How many numbers below `bound` are in the set.
    pub fn count_below(&self, bound: i64) -> i64 {
        self.0.iter().map(|(from, to)| (to.min(&bound) - from).max(0)).sum()
    }

    /// Behind the last.
    pub fn end(&self) -> Option<i64> {
        self.0.last().map(|range| range.1)
    }
}
