//! How long something took, again and again.

use std::fmt::Write as _;

/// The lowest and the highest bucket: below 2^8 ns, 2^33 ns (9 s) and more.
const FIRST: u32 = 8;
const BUCKETS: usize = 27;

/// A histogram of times, in buckets of powers of two nanoseconds.
#[derive(Debug, Default)]
pub struct Durations {
    counts: [u64; BUCKETS],
}

impl Durations {
    /// It took so many nanoseconds.
    pub fn count(&mut self, ns: u64) {
        self.counts[bucket(ns)] += 1;
    }

    /// How often it took so many nanoseconds or longer; a limit within a bucket counts as the
    /// bucket's lower one.
    pub fn count_from(&self, ns: u64) -> u64 {
        self.counts[bucket(ns)..].iter().sum()
    }

    /// A line per bucket, `<LIMIT COUNT`: the limit in nanoseconds.
    pub fn text(&self) -> String {
        let mut text = String::new();
        for (at, count) in self.counts.iter().enumerate() {
            let _ = match at + 1 {
                BUCKETS => writeln!(text, ">= {count}"),
                _ => writeln!(text, "<{}ns {count}", 1u64 << (FIRST as usize + at)),
            };
        }
        text
    }
}

/// Bucket of a time in nanoseconds.
fn bucket(ns: u64) -> usize {
    let bits = u64::BITS - ns.leading_zeros();
    (bits.saturating_sub(FIRST) as usize).min(BUCKETS - 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buckets_are_powers_of_two() {
        for (ns, at) in [(0, 0), (255, 0), (256, 1), (511, 1), (512, 2), (u64::MAX, BUCKETS - 1)] {
            assert_eq!(bucket(ns), at, "{ns}");
        }
    }

    #[test]
    fn a_line_is_a_bucket() {
        let mut durations = Durations::default();
        for ns in [300, 301, u64::MAX] {
            durations.count(ns);
        }
        let text = durations.text();
        assert_eq!(text.lines().count(), BUCKETS);
        let counted: Vec<&str> = text.lines().filter(|line| !line.ends_with(" 0")).collect();
        assert_eq!(counted, ["<512ns 2", ">= 1"]);
        let from = |ns| durations.count_from(ns);
        assert_eq!([from(0), from(256), from(512), from(u64::MAX)], [3, 3, 1, 1]);
    }
}
