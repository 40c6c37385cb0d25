//! What became of the configurations that were to replace a running one.

use std::fmt::Write as _;
use std::sync::{Mutex, MutexGuard};

/// Counts of a process's hot swaps; the routers that follow one another share them.
#[derive(Debug, Default)]
pub struct HotSwaps(Mutex<Counts>);

#[derive(Debug, Default)]
struct Counts {
    taken: u64,
    refused: u64,
    /// Why the last one was refused.
    reason: String,
}

impl HotSwaps {
    fn counts(&self) -> MutexGuard<'_, Counts> {
        self.0.lock().unwrap_or_else(|poison| poison.into_inner())
    }

    /// A configuration took over.
    pub fn count_taken(&self) {
        self.counts().taken += 1;
    }

    /// A configuration that was built did not take over, for this reason.
    pub fn count_refused(&self, reason: &str) {
        let mut counts = self.counts();
        counts.refused += 1;
        reason.clone_into(&mut counts.reason);
    }

    /// The handler `swaps`: `taken N`, `refused N` and, after a refusal, `reason TEXT`.
    pub(crate) fn lines(&self) -> String {
        let counts = self.counts();
        let mut text = format!("taken {}\nrefused {}\n", counts.taken, counts.refused);
        if counts.refused > 0 {
            let _ = writeln!(text, "reason {}", counts.reason);
        }
        text
    }
}
