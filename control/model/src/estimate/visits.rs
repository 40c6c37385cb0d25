//! How often a packet visits each element: composition of a graph from shares.

/// A graph as far as packets' ways are concerned.
#[derive(Debug, Clone, Default)]
pub struct Ways {
    /// Packets that each element makes, per packet of all sources.
    pub made: Vec<f64>,
    /// From an element to another, with the share of the first one's packets that take this way.
    pub ways: Vec<(usize, usize, f64)>,
}

/// A loop out of which packets come more slowly than they go into it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("packets go round in a loop for ever: give shares that let them leave it")]
pub struct Endless;

/// Rounds of a loop after which what still goes round is too little to count, or will never end.
const ROUNDS: usize = 10_000;
/// Packets that are too few to count.
const NOTHING: f64 = 1e-9;

impl Ways {
    /// Visits of each element per packet that the sources make. A packet that is copied visits
    /// with each copy.
    ///
    /// # Errors
    /// When packets do not leave a loop.
    pub fn visits(&self) -> Result<Vec<f64>, Endless> {
        let mut visits = self.made.clone();
        let mut moving = self.made.clone();
        for _ in 0..ROUNDS {
            let mut next = vec![0.0; moving.len()];
            for (from, to, share) in &self.ways {
                next[*to] += moving[*from] * share;
            }
            let sum: f64 = next.iter().sum();
            if !sum.is_finite() {
                return Err(Endless);
            }
            for (visits, more) in visits.iter_mut().zip(&next) {
                *visits += more;
            }
            if sum < NOTHING {
                return Ok(visits);
            }
            moving = next;
        }
        Err(Endless)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fork_that_joins_is_visited_once() {
        // 0 -> 1 (3/4) and 2 (1/4), both -> 3
        let ways = Ways {
            made: vec![1.0, 0.0, 0.0, 0.0],
            ways: vec![(0, 1, 0.75), (0, 2, 0.25), (1, 3, 1.0), (2, 3, 1.0)],
        };
        assert_eq!(ways.visits().unwrap(), [1.0, 0.75, 0.25, 1.0]);
    }

    #[test]
    fn a_loop_is_visited_again_and_again() {
        // Half of what comes to 1 goes round: 1 + 1/2 + 1/4 + ... = 2.
        let ways =
            Ways { made: vec![1.0, 0.0, 0.0], ways: vec![(0, 1, 1.0), (1, 1, 0.5), (1, 2, 0.5)] };
        let visits = ways.visits().unwrap();
        assert!((visits[1] - 2.0).abs() < 1e-6 && (visits[2] - 1.0).abs() < 1e-6, "{visits:?}");
    }

    #[test]
    fn copies_count_and_endless_loops_are_refused() {
        let tee =
            Ways { made: vec![1.0, 0.0, 0.0], ways: vec![(0, 1, 1.0), (1, 2, 1.0), (1, 2, 1.0)] };
        assert_eq!(tee.visits().unwrap(), [1.0, 1.0, 2.0]);
        let endless = Ways { made: vec![1.0, 0.0], ways: vec![(0, 1, 1.0), (1, 1, 1.0)] };
        assert_eq!(endless.visits(), Err(Endless));
        let growing = Ways { made: vec![1.0, 0.0], ways: vec![(0, 1, 1.0), (1, 1, 3.0)] };
        assert_eq!(growing.visits(), Err(Endless));
    }

    proptest::proptest! {
        /// Against walks over every path of a graph without loops.
        #[test]
        fn all_paths_agree(shares in proptest::collection::vec(0.0..1.0_f64, 10)) {
            let mut ways = Vec::new();
            let mut at = 0;
            for from in 0..5_usize {
                for to in from + 1..5 {
                    ways.push((from, to, shares[at]));
                    at += 1;
                }
            }
            fn walk(ways: &[(usize, usize, f64)], at: usize, weight: f64, sum: &mut [f64; 5]) {
                sum[at] += weight;
                for (from, to, share) in ways {
                    if *from == at {
                        walk(ways, *to, weight * share, sum);
                    }
                }
            }
            let mut expected = [0.0; 5];
            walk(&ways, 0, 1.0, &mut expected);
            let made = vec![1.0, 0.0, 0.0, 0.0, 0.0];
            let visits = Ways { made, ways }.visits().unwrap();
            for (visits, expected) in visits.iter().zip(expected) {
                proptest::prop_assert!((visits - expected).abs() < 1e-6);
            }
        }
    }
}
