//! In which level of the memory hierarchy the lines of an object are found.
//!
//! H. Che, Y. Tung and Z. Wang, "Hierarchical Web Caching Systems: Modeling, Design and
//! Experimental Results", 2002: under least-recently-used replacement there is a time, the same
//! for all objects, after which a line that was not used has gone. It is the time in which as many
//! different lines are used as the cache holds. Caches here are taken as inclusive, and their sets
//! as large enough.

use thruway_element::cost::Access;

/// Bytes of a line.
pub const LINE: f64 = 64.0;

/// Something that packets reach: a table, a trace.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Object {
    /// All of it that is reached.
    pub bytes: f64,
    /// Lines of it that are used per packet, on average.
    pub per_packet: f64,
    /// How: streams come back to a line when they have been everywhere.
    pub access: Access,
}

impl Object {
    fn lines(&self) -> f64 {
        (self.bytes / LINE).max(1.0)
    }

    /// Share of its lines that were used within the last `packets` packets.
    fn used_within(&self, packets: f64) -> f64 {
        let turns = packets * self.per_packet / self.lines();
        match self.access {
            Access::Stream => turns.min(1.0),
            Access::Prefetched | Access::Dependent => 1.0 - (-turns).exp(),
        }
    }

    /// Probability that a line, when it is used, was used within the last `packets` packets.
    fn hit_within(&self, packets: f64) -> f64 {
        match self.access {
            Access::Stream if self.used_within(packets) < 1.0 => 0.0,
            Access::Stream => 1.0,
            Access::Prefetched | Access::Dependent => self.used_within(packets),
        }
    }
}

/// Packets after which an unused line leaves a cache of so many bytes; infinite if all fits.
fn time_in_cache(objects: &[Object], bytes: f64) -> f64 {
    let room = bytes / LINE;
    let used = |packets: f64| -> f64 {
        objects.iter().map(|object| object.lines() * object.used_within(packets)).sum()
    };
    let reached = objects.iter().filter(|object| object.per_packet > 0.0);
    if reached.map(Object::lines).sum::<f64>() <= room {
        return f64::INFINITY;
    }
    let (mut low, mut high) = (0.0, 1.0);
    while used(high) < room && high < 1e18 {
        high *= 2.0;
    }
    // Halving a hundred times is exact to the last bit of any double.
    for _ in 0..100 {
        let middle = f64::midpoint(low, high);
        if used(middle) < room {
            low = middle;
        } else {
            high = middle;
        }
    }
    high
}

/// For each object the probability that a line of it is found in each level (of these sizes in
/// bytes, ascending; what is in none of the caches is in the last), when it is used. Sums to 1.
pub fn residency(objects: &[Object], levels: &[f64]) -> Vec<Vec<f64>> {
    let caches = &levels[..levels.len().saturating_sub(1)];
    let times: Vec<f64> = caches.iter().map(|bytes| time_in_cache(objects, *bytes)).collect();
    let of = |object: &Object| {
        let mut inner = 0.0;
        let mut shares: Vec<f64> = Vec::with_capacity(levels.len());
        for time in &times {
            let within = if time.is_infinite() { 1.0 } else { object.hit_within(*time) };
            shares.push((within - inner).max(0.0));
            inner = within.max(inner);
        }
        shares.push(1.0 - inner);
        shares
    };
    objects.iter().map(of).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const LEVELS: [f64; 3] = [32_768.0, 1_048_576.0, 1e10];

    fn table(bytes: f64, per_packet: f64) -> Object {
        Object { bytes, per_packet, access: Access::Prefetched }
    }

    #[test]
    fn what_fits_is_in_the_first_level() {
        assert_eq!(residency(&[table(30_000.0, 1.0)], &LEVELS), [[1.0, 0.0, 0.0]]);
    }

    #[test]
    fn a_table_alone_is_found_in_proportion_to_room() {
        // One table, used evenly: a cache with half as many lines has half of them.
        let shares = residency(&[table(2.0 * 1_048_576.0, 1.0)], &LEVELS);
        let (first, second) = (32_768.0 / 2_097_152.0, 0.5);
        assert!((shares[0][0] - first).abs() < 1e-9, "{shares:?}");
        assert!((shares[0][1] - (second - first)).abs() < 1e-9, "{shares:?}");
        assert!((shares[0][2] - 0.5).abs() < 1e-9, "{shares:?}");
    }

    #[test]
    fn what_is_used_often_stays() {
        let shares = residency(&[table(64.0, 1.0), table(1e9, 2.0)], &LEVELS);
        assert!(shares[0][0] > 0.99, "{shares:?}");
        assert!(shares[1][2] > 0.99, "{shares:?}");
    }

    #[test]
    fn a_stream_that_exceeds_a_level_is_never_in_it() {
        let stream = Object { bytes: 2e6, per_packet: 1.0, access: Access::Stream };
        assert_eq!(residency(&[stream], &LEVELS), [[0.0, 0.0, 1.0]]);
        let shorter = Object { bytes: 5e5, ..stream };
        assert_eq!(residency(&[shorter], &LEVELS), [[0.0, 1.0, 0.0]]);
    }

    #[test]
    fn what_is_not_used_takes_no_room() {
        let shares = residency(&[table(30_000.0, 1.0), table(1e9, 0.0)], &LEVELS);
        assert_eq!(shares[0], [1.0, 0.0, 0.0]);
    }

    /// Against a simulated cache with least-recently-used replacement.
    #[test]
    fn a_simulated_cache_agrees() {
        use std::collections::VecDeque;
        let objects = [table(64.0 * 40.0, 1.0), table(64.0 * 300.0, 2.0)];
        let levels = [64.0 * 100.0, 1e9];
        let (mut cache, mut hits, mut asked) = (VecDeque::<u64>::new(), [0.0; 2], [0.0; 2]);
        let mut state = 12_345_u64;
        let mut random = |below: u64| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (state >> 33) % below
        };
        for _ in 0..60_000 {
            for (object, lines, times) in [(0, 40, 1), (1, 300, 2)] {
                for _ in 0..times {
                    let line = object as u64 * 1000 + random(lines);
                    let found = cache.iter().position(|other| *other == line);
                    asked[object] += 1.0;
                    hits[object] += f64::from(found.is_some());
                    found.and_then(|at| cache.remove(at));
                    cache.push_front(line);
                    cache.truncate(100);
                }
            }
        }
        let expected = residency(&objects, &levels);
        for object in 0..2 {
            let measured = hits[object] / asked[object];
            assert!((measured - expected[object][0]).abs() < 0.01, "{measured} {expected:?}");
        }
    }
}
