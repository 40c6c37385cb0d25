//! Outcomes of the configurations that were to replace a running one.

use std::fmt::Write as _;

use parking_lot::Mutex;

/// Counts of a process's hot swaps; the routers that follow one another share them.
///
/// Each configuration that was built has a number, so that a requester can wait for the outcome of
/// its own: several may request at once.
#[derive(Debug, Default)]
pub struct HotSwaps(Mutex<Counts>);

#[derive(Debug, Default)]
struct Counts {
    taken: u64,
    refused: u64,
    /// Number of the last configuration that was built.
    asked: u64,
    /// Number of the last one that took over or could not, and whether it took over.
    settled: Option<(u64, bool)>,
    /// Why the last one was refused.
    reason: String,
}

impl HotSwaps {
    /// A configuration was built and waits to take over; returns its number, from 1.
    pub fn count_asked(&self) -> u64 {
        let mut counts = self.0.lock();
        counts.asked += 1;
        counts.asked
    }

    /// Configuration `number` took over.
    pub fn count_taken(&self, number: u64) {
        let mut counts = self.0.lock();
        counts.taken += 1;
        counts.settled = Some((number, true));
    }

    /// Configuration `number` did not take over, for this reason.
    pub fn count_refused(&self, number: u64, reason: &str) {
        let mut counts = self.0.lock();
        counts.settled = Some((number, false));
        counts.refuse(reason);
    }

    /// A waiting configuration was superseded by a later one, whose outcome decides about both.
    pub fn count_superseded(&self) {
        self.0.lock().refuse("another configuration came before it took over");
    }

    /// The handler `swaps`: `taken N`, `refused N`, `asked N`, after the first one `settled N
    /// taken` or `settled N refused` and, after a refusal, `reason TEXT`.
    pub(crate) fn lines(&self) -> String {
        let counts = self.0.lock();
        let Counts { taken, refused, asked, .. } = *counts;
        let mut text = format!("taken {taken}\nrefused {refused}\nasked {asked}\n");
        if let Some((number, took_over)) = counts.settled {
            let fate = if took_over { "taken" } else { "refused" };
            let _ = writeln!(text, "settled {number} {fate}");
        }
        if refused > 0 {
            let _ = writeln!(text, "reason {}", counts.reason);
        }
        text
    }
}

impl Counts {
    fn refuse(&mut self, reason: &str) {
        self.refused += 1;
        reason.clone_into(&mut self.reason);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_superseded_configuration_shares_the_fate_of_the_later_one() {
        let swaps = HotSwaps::default();
        assert_eq!(swaps.lines(), "taken 0\nrefused 0\nasked 0\n");
        let first = swaps.count_asked();
        let second = swaps.count_asked();
        assert_eq!((first, second), (1, 2));
        swaps.count_superseded();
        let reason = "reason another configuration came before it took over\n";
        assert_eq!(swaps.lines(), format!("taken 0\nrefused 1\nasked 2\n{reason}"));
        swaps.count_taken(second);
        assert_eq!(
            swaps.lines(),
            format!("taken 1\nrefused 1\nasked 2\nsettled 2 taken\n{reason}")
        );
        let third = swaps.count_asked();
        swaps.count_refused(third, "no such file");
        let lines = "taken 1\nrefused 2\nasked 3\nsettled 3 refused\nreason no such file\n";
        assert_eq!(swaps.lines(), lines);
    }
}
