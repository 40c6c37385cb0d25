//! Latencies of frames: a histogram that the sink's program writes.
//!
//! Latencies up to 63 ns have a bucket each; each further power of two has 32 buckets of equal
//! width, so a bucket is at most 1/32 of what falls into it wide.

use crate::bpf::assembly::{Alu, Assembly, By, Function, If, Register, Width};
use std::os::fd::BorrowedFd;

use By::Value;
use Register::{R0, R1, R8};

/// Buckets for a power of two, and its logarithm.
const LINEAR: usize = 1 << LINEAR_LOG;
const LINEAR_LOG: usize = 5;
/// For latencies of 32 bits.
const BUCKETS: usize = LINEAR * (32 - LINEAR_LOG + 1);
/// Where the longest latency stands, behind the buckets.
const LONGEST: usize = BUCKETS;
/// Words of the histogram in the kernel.
pub(super) const HISTOGRAM_WORDS: usize = BUCKETS + 1;

/// Latencies of frames.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Histogram {
    buckets: Vec<u64>,
    longest_ns: u64,
}

impl Histogram {
    pub(super) fn from_words(words: &[u64; HISTOGRAM_WORDS]) -> Histogram {
        Histogram { buckets: words[..BUCKETS].to_vec(), longest_ns: words[LONGEST] }
    }

    /// Of these latencies, nanoseconds.
    pub fn of_ns(latencies: impl IntoIterator<Item = u64>) -> Histogram {
        let mut all = Histogram::default();
        for ns in latencies {
            all.buckets[bucket(ns.min(u32::MAX.into()))] += 1;
            all.longest_ns = all.longest_ns.max(ns);
        }
        all
    }

    /// Frames with a known latency.
    pub fn count(&self) -> u64 {
        self.buckets.iter().sum()
    }

    /// The longest, nanoseconds; 0 of nothing. Those of 4.29 s (2^32 ns) and more are reported as
    /// what they are longer than a multiple of that.
    pub fn longest_ns(&self) -> u64 {
        self.longest_ns
    }

    /// The latency that so many percent do not exceed (nearest rank), nanoseconds: the upper end of
    /// its bucket, which is at most 1/32 more. 0 of nothing.
    pub fn percentile_ns(&self, percent: f64) -> u64 {
        let rank = ((percent / 100.0 * self.count() as f64).ceil() as u64).max(1);
        let mut below = 0;
        let found = self.buckets.iter().position(|count| {
            below += count;
            below >= rank
        });
        found.map_or(0, |bucket| upper_ns(bucket).min(self.longest_ns))
    }
}

/// The bucket of a latency; as the program finds it.
fn bucket(ns: u64) -> usize {
    let shift = ns.checked_ilog2().map_or(0, |log| (log as usize).saturating_sub(LINEAR_LOG));
    shift * LINEAR + (ns >> shift) as usize
}

/// The longest latency of a bucket.
fn upper_ns(bucket: usize) -> u64 {
    let shift = (bucket / LINEAR).saturating_sub(1);
    (((bucket + 1 - shift * LINEAR) as u64) << shift) - 1
}

impl Default for Histogram {
    fn default() -> Histogram {
        Histogram { buckets: vec![0; BUCKETS], longest_ns: 0 }
    }
}

/// Notes the latency of a frame that was made at R8, the lower half of the kernel's nanoseconds,
/// unless R8 is 0. R0 to R5 and R8 are lost.
pub(super) fn note(program: &mut Assembly, histogram: BorrowedFd<'_>) {
    let none = program.jump_if(If::Equal, R8, Value(0));
    program.call(Function::Now);
    program.alu(Alu::Sub, R0, By::Register(R8));
    for half in [Alu::ShiftLeft, Alu::ShiftRight] {
        program.alu(half, R0, Value(32));
    }
    program.map_value(R1, histogram);
    program.load(Width::Double, R8, R1, LONGEST as i16 * 8);
    let shorter = program.jump_if(If::NotLess, R8, By::Register(R0));
    program.store(Width::Double, R1, LONGEST as i16 * 8, R0);
    program.land(shorter);
    // R8 is LINEAR times the shift, in the end the bucket.
    program.alu(Alu::Move, R8, Value(0));
    for shift in [16, 8, 4, 2, 1] {
        let small = program.jump_if(If::Less, R0, Value(1 << (shift + LINEAR_LOG)));
        program.alu(Alu::ShiftRight, R0, Value(shift as i32));
        program.alu(Alu::Add, R8, Value((shift * LINEAR) as i32));
        program.land(small);
    }
    program.alu(Alu::Add, R8, By::Register(R0));
    // The kernel's verifier wants to see it.
    let beyond = program.jump_if(If::NotLess, R8, Value(BUCKETS as i32));
    program.alu(Alu::ShiftLeft, R8, Value(3));
    program.alu(Alu::Add, R1, By::Register(R8));
    program.load(Width::Double, R0, R1, 0);
    program.alu(Alu::Add, R0, Value(1));
    program.store(Width::Double, R1, 0, R0);
    program.land(beyond);
    program.land(none);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buckets_are_narrow_and_follow_each_other() {
        assert_eq!((bucket(0), bucket(u32::MAX.into())), (0, BUCKETS - 1));
        assert_eq!(upper_ns(BUCKETS - 1), u32::MAX.into());
        for at in 1..BUCKETS {
            let (low, high) = (upper_ns(at - 1) + 1, upper_ns(at));
            assert_eq!([low, high].map(bucket), [at; 2]);
            assert!((high - low) * 32 <= low, "{low} to {high}");
        }
    }

    #[test]
    fn percentiles_are_upper_ends() {
        let all = Histogram::of_ns((1..=1000).map(|at| at * 100));
        assert_eq!((all.count(), all.longest_ns()), (1000, 100_000));
        for percent in [1.0, 50.0, 99.0, 100.0] {
            let (found, exact) = (all.percentile_ns(percent), percent * 1000.0);
            assert!(
                found as f64 >= exact && found as f64 <= exact * 33.0 / 32.0,
                "{percent} {found}"
            );
        }
        assert_eq!(Histogram::of_ns([7]).percentile_ns(50.0), 7);
        assert_eq!(Histogram::default().percentile_ns(50.0), 0);
    }
}
