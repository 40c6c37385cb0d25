//! How long an idle thread polls before it sleeps.

/// Behaviour of idle threads.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Idle {
    /// They poll, and never sleep.
    Poll,
    /// They poll for as long as that has paid off lately, [`POLL_MAX_NS`] at most; then they sleep.
    Adaptive,
    /// They sleep.
    #[default]
    Sleep,
}

/// Longest polling before a sleep, nanoseconds: about the cost of a sleep and its wake-up, so that
/// a thread never spends more than twice of what it would if it knew the next packet's arrival.
pub const POLL_MAX_NS: i64 = 20_000;

/// Excess of a measured idle time that contains a sleep: the time that waking takes.
const WAKE_NS: i64 = 10_000;

/// The first polling time, when it may pay off.
const POLL_FIRST_NS: i64 = 4_000;

/// After this many polls in a row without success, the thread sleeps at once, [`PAUSE`] times:
/// polling may keep the thread that it waits for from running (reception by a kernel thread on the
/// same core).
const VAIN_MAX: u32 = 8;
const PAUSE: u32 = 32;
/// Polls that are tried between pauses, until one succeeds.
const TRIES: u32 = 2;

/// The next event is so near that a sleep until then would not end before it.
pub(crate) const SLEEP_MIN_NS: i64 = 5_000;

/// Learns from quiets how long to look.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Patience {
    idle: Idle,
    /// Nanoseconds.
    looks: i64,
    /// Looks since the last that found something.
    vain: u32,
    /// Quiets that are still slept through at once.
    pause: u32,
}

impl Patience {
    pub fn new(idle: Idle) -> Patience {
        Patience { idle, looks: 0, vain: 0, pause: 0 }
    }

    /// Whether to sleep, after a quiet of so many nanoseconds and so many before the next event.
    pub fn is_over(&self, quiet: i64, left: i64) -> bool {
        let sleeps = match self.idle {
            Idle::Poll => false,
            Idle::Adaptive => quiet >= self.looks,
            Idle::Sleep => true,
        };
        sleeps && left >= SLEEP_MIN_NS
    }

    /// A quiet is over.
    pub fn learn(&mut self, quiet: i64, slept: bool) {
        if self.pause > 0 {
            self.pause -= 1;
            return;
        }
        if self.looks > 0 {
            self.vain = if slept { self.vain + 1 } else { 0 };
        }
        if self.vain >= VAIN_MAX {
            (self.looks, self.pause, self.vain) = (0, PAUSE, VAIN_MAX - TRIES);
            return;
        }
        let quiet = if slept { quiet.saturating_sub(WAKE_NS) } else { quiet };
        self.looks = if quiet <= POLL_MAX_NS {
            (self.looks * 2).clamp(POLL_FIRST_NS, POLL_MAX_NS)
        } else if self.looks > POLL_FIRST_NS {
            self.looks / 2
        } else {
            0
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const LONG: i64 = 1_000_000;

    /// The time spent looking, and the number of sleeps, where packets come after these quiets.
    fn spent(patience: &mut Patience, quiets: &[i64]) -> (i64, usize) {
        let (mut looked, mut sleeps) = (0, 0);
        for quiet in quiets {
            let sleeps_then = patience.is_over(*quiet, LONG);
            looked += if sleeps_then { patience.looks.min(*quiet) } else { *quiet };
            sleeps += usize::from(sleeps_then);
            patience.learn(*quiet + if sleeps_then { WAKE_NS } else { 0 }, sleeps_then);
        }
        (looked, sleeps)
    }

    #[test]
    fn polling_never_sleeps_and_sleeping_always_does() {
        let (poll, sleep) = (Patience::new(Idle::Poll), Patience::new(Idle::Sleep));
        assert!(!poll.is_over(LONG, LONG) && sleep.is_over(0, LONG));
        // But not for less than it takes.
        assert!(!sleep.is_over(0, SLEEP_MIN_NS - 1));
    }

    #[test]
    fn rare_packets_are_slept_for_and_frequent_ones_are_not() {
        let mut patience = Patience::new(Idle::Adaptive);
        let (looked, sleeps) = spent(&mut patience, &[LONG; 100]);
        assert_eq!((looked, sleeps), (0, 100));
        let (_, sleeps) = spent(&mut patience, &[10_000; 100]);
        assert!(sleeps <= 3, "{sleeps}");
        // Its experience is forgotten after a few.
        let (looked, _) = spent(&mut patience, &[LONG; 100]);
        assert!(looked <= 2 * POLL_MAX_NS, "{looked}");
    }

    /// Packets come soon after the thread goes to sleep, and not before.
    #[test]
    fn polling_that_starves_the_awaited_thread_ends() {
        let mut patience = Patience::new(Idle::Adaptive);
        let mut looked = 0;
        for _ in 0..10_000 {
            looked += patience.looks;
            let quiet = patience.looks + 8_000 + WAKE_NS;
            patience.learn(quiet, true);
        }
        // A few short looks in each 34 quiets, where it would be 4 us or more in each.
        assert!(looked < 10_000 * 500, "{looked}");
        // And when looking pays again it is found out.
        let (_, sleeps) = spent(&mut patience, &[3_000; 1_000]);
        assert!(sleeps <= 40, "{sleeps}");
    }

    proptest! {
        /// Against an oracle that knows the arrival of the next packet, with [`POLL_MAX_NS`] as the
        /// cost of a sleep.
        #[test]
        fn it_costs_little_more_than_to_know(
            quiets in prop::collection::vec(prop_oneof![0..POLL_MAX_NS, 0..10 * POLL_MAX_NS], 1..200),
        ) {
            let (looked, sleeps) = spent(&mut Patience::new(Idle::Adaptive), &quiets);
            let known: i64 = quiets.iter().map(|quiet| quiet.min(&POLL_MAX_NS)).sum();
            let cost = looked + sleeps as i64 * POLL_MAX_NS;
            // The first quiets are to learn from; after a long one, short ones are slept in.
            let short = quiets.windows(2).filter(|two| two[0] > POLL_MAX_NS && two[1] < POLL_MAX_NS);
            let learning = (4 + 4 * short.count() as i64) * POLL_MAX_NS;
            prop_assert!(cost <= 2 * known + learning, "{cost} of {known}");
        }

        #[test]
        fn no_quiet_panics(quiets in prop::collection::vec((any::<i64>(), any::<bool>()), 0..50)) {
            let mut patience = Patience::new(Idle::Adaptive);
            for (quiet, slept) in quiets {
                patience.learn(quiet, slept);
                prop_assert!((0..=POLL_MAX_NS).contains(&patience.looks));
            }
        }
    }
}
