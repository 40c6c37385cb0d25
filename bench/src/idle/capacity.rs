//! The capacity of a router: the highest rate at which it loses nothing (as RFC 2544, section 26.1,
//! finds a throughput).

/// What became of a rate that was tried.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// Everything came through.
    Held,
    /// The router lost something.
    Lost,
    /// The load could not be made, or was lost before the router.
    NotOffered,
}

/// Packets a second that go through.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Capacity {
    pub pps: f64,
    /// Whether the router is what limits, and not the load.
    pub is_routers: bool,
}

/// The first rate; a router that loses packets at it has no capacity.
const FIRST: f64 = 10_000.0;
/// How near the rate that was lost is in the end, to the one that was held.
const NEAR: f64 = 1.01;
/// What disturbs a try can only lose packets: a rate is held if one of so many tries holds it.
const TRIES: u32 = 3;

/// Doubles the rate until it is not held, then halves the distance. `None` if the first one is not.
pub fn find(
    mut offer: impl FnMut(f64) -> anyhow::Result<Outcome>,
) -> anyhow::Result<Option<Capacity>> {
    let mut tried = |rate: f64| -> anyhow::Result<Outcome> {
        let mut outcome = offer(rate)?;
        for _ in 1..TRIES {
            if outcome == Outcome::Held {
                break;
            }
            outcome = offer(rate)?;
        }
        Ok(outcome)
    };
    let (mut held, mut lost, mut is_routers) = (0.0, None, true);
    let mut rate = FIRST;
    while lost.is_none_or(|lost| lost > held * NEAR) {
        match tried(rate)? {
            Outcome::Held => held = rate,
            Outcome::Lost => (lost, is_routers) = (Some(rate), true),
            Outcome::NotOffered => (lost, is_routers) = (Some(rate), false),
        }
        if held == 0.0 {
            return Ok(None);
        }
        rate = lost.map_or(held * 2.0, |lost| f64::midpoint(held, lost));
    }
    Ok(Some(Capacity { pps: held, is_routers }))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What is found of a router and a load that can do so much; every so many tries one is
    /// disturbed.
    fn found(router: f64, load: f64, disturbed: u32) -> Option<Capacity> {
        let mut tries = 0;
        let offer = |rate: f64| {
            tries += 1;
            assert!(tries < 100, "it does not end");
            Ok(match rate {
                rate if rate > load => Outcome::NotOffered,
                rate if rate > router || tries % disturbed == 0 => Outcome::Lost,
                _ => Outcome::Held,
            })
        };
        find(offer).expect("nothing fails")
    }

    #[test]
    fn the_highest_rate_that_is_held_is_found() {
        for router in [10_000.0, 10_050.0, 123_456.0, 1_280_000.0, 7_654_321.0] {
            for disturbed in [2, 3, 5, 1000] {
                let capacity = found(router, 1e9, disturbed).expect("it has one");
                assert!(capacity.is_routers, "{router}");
                let part = capacity.pps / router;
                assert!((1.0 / NEAR - 1e-9..=1.0).contains(&part), "{router}: {capacity:?}");
            }
        }
        assert_eq!(found(9_999.0, 1e9, 1000), None);
    }

    #[test]
    fn a_load_that_is_the_limit_is_told() {
        let capacity = found(1e6, 500_000.0, 1000).expect("it has one");
        assert!(!capacity.is_routers && capacity.pps <= 500_000.0, "{capacity:?}");
        let capacity = found(500_000.0, 510_000.0, 1000).expect("it has one");
        assert!(capacity.is_routers, "{capacity:?}");
    }
}
