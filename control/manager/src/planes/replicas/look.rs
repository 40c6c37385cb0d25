//! What a data plane is asked of replicas, and told about their standing.

use std::time::{Duration, Instant};

use crate::PlaneError;
use crate::planes::remote::Remote;
use crate::replicas::judge::{Counts, batches};
use crate::replicas::{Layout, Phase, Seen, SlotState};

/// After this time sessions that cannot move leave a version that goes back, and begin anew.
const MOVE_MAX: Duration = Duration::from_secs(2);
/// Between two requests to move what is left.
const MOVE_AGAIN: Duration = Duration::from_secs(1);

/// Handlers of the `Balance`.
const BALANCE: [&str; 4] = ["replicas", "counts", "queues", "moving"];
/// Handlers of a replica.
const REPLICA: [&str; 9] = [
    "state",
    "packets_in",
    "drops",
    "restarts",
    "hangs",
    "peer_faults",
    "latency",
    "cpu_time",
    "last_error",
];
/// Reasons for which a packet was not given to the function.
const NOT_GIVEN: [&str; 5] = ["ring-full", "no-entry", "too-long", "no-frame", "empty"];
/// Further reasons for which one did not come back.
const NOT_BACK: [&str; 4] = ["function-dropped", "damaged", "function-failed", "unfinished"];

/// What was seen of a function's replicas.
pub(in crate::planes) struct Looked {
    element: String,
    /// The standing of each: `up`, `drained`, `failed`.
    standing: Vec<String>,
    moving: String,
    /// Of each slot.
    pub(in crate::planes) seen: Vec<Seen>,
}

impl Looked {
    /// Asks the data plane.
    ///
    /// # Errors
    /// It does not answer, or has no such replicas.
    pub(in crate::planes) fn read(
        remote: Remote<'_>,
        element: &str,
        layout: &Layout,
    ) -> Result<Looked, String> {
        let slots: Vec<usize> = (0..layout.slots.len())
            .filter(|at| layout.slots[*at].state != SlotState::Vacant)
            .collect();
        let balance = BALANCE.iter().map(|name| format!("{element}/balance.{name}"));
        let each = slots
            .iter()
            .flat_map(|at| REPLICA.iter().map(move |name| format!("{element}/r{at}.{name}")));
        let handlers: Vec<String> = balance.chain(each).collect();
        let answers = remote.read_each(&handlers).map_err(|error| error.to_string())?;
        let missing = |at: usize| format!("the data plane has no handler {}", handlers[at]);
        let (balance, each) = answers.split_at(BALANCE.len());
        let [replicas, counts, queues, moving] = [0, 1, 2, 3].map(|at| balance[at].as_deref());
        let standing = column(replicas.ok_or_else(|| missing(0))?, 2);
        let sessions = numbers(counts.ok_or_else(|| missing(1))?);
        let waiting = numbers(queues.ok_or_else(|| missing(2))?);
        let moving = moving.ok_or_else(|| missing(3))?.to_owned();
        let mut seen = vec![Seen::default(); layout.slots.len()];
        for (at, seen) in seen.iter_mut().enumerate() {
            seen.sessions = sessions.get(at).copied().unwrap_or(0);
            seen.waiting = waiting.get(at).copied().unwrap_or(0);
        }
        for (at, answers) in slots.into_iter().zip(each.chunks(REPLICA.len())) {
            fill(&mut seen[at], answers);
        }
        Ok(Looked { element: element.to_owned(), standing, moving, seen })
    }

    /// Whether sessions are moving.
    pub(in crate::planes) fn is_moving(&self) -> bool {
        !self.moving.trim().is_empty()
    }

    /// Makes the standing of replicas equal to the layout, and has sessions leave those that drain.
    ///
    /// # Errors
    /// The data plane does not answer.
    pub(in crate::planes) fn apply(
        &self,
        remote: Remote<'_>,
        (moved, layout): (&mut Option<Instant>, &Layout),
    ) -> Result<(), String> {
        let write = |call: &str, value: String| {
            let written = remote.write(&format!("{}/balance.{call}", self.element), &value);
            written.map_err(|error: PlaneError| error.to_string())
        };
        let goes_back = layout.rollout.as_ref().is_some_and(|rollout| rollout.phase == Phase::Back);
        let may_move = !self.is_moving() && moved.is_none_or(|last| last.elapsed() >= MOVE_AGAIN);
        for (at, slot) in layout.slots.iter().enumerate() {
            let is_drained = self.standing.get(at).is_some_and(|word| word == "drained");
            if slot.state == SlotState::Up && is_drained {
                write("resume", at.to_string())?;
            } else if slot.state != SlotState::Up && !is_drained {
                write("drain", at.to_string())?;
            }
            let has_any = self.seen.get(at).is_some_and(|seen| seen.sessions > 0);
            if slot.state == SlotState::Draining && has_any && may_move {
                let lasted = slot.since.elapsed().unwrap_or_default();
                let how = if goes_back && lasted > MOVE_MAX { "anew" } else { "now" };
                write("drain", format!("{at} {how}"))?;
                *moved = Some(Instant::now());
            }
        }
        Ok(())
    }
}

/// What a replica answered.
fn fill(seen: &mut Seen, answers: &[Option<String>]) {
    let text = |nth: usize| answers.get(nth).and_then(Option::as_deref).unwrap_or("");
    let number = |nth: usize| text(nth).trim().parse::<u64>().unwrap_or(0);
    let drops = text(2);
    let dropped = |reasons: &[&str]| -> u64 {
        let count = |line: &str| {
            let (count, reason) = line.split_once(' ')?;
            let reason = reason.split_whitespace().next().unwrap_or("");
            reasons.contains(&reason).then(|| count.parse::<u64>().ok()).flatten()
        };
        drops.lines().filter_map(count).sum()
    };
    seen.is_running = text(0).trim() == "running";
    seen.counts = Counts {
        packets: number(1) + dropped(&NOT_GIVEN),
        lost: dropped(&NOT_GIVEN) + dropped(&NOT_BACK),
        failures: number(3) + number(4) + number(5),
        batches: batches(text(6)),
    };
    seen.cpu_seconds = text(7).trim().parse().unwrap_or(0.0);
    text(8).trim().clone_into(&mut seen.last_error);
}

/// The words of a column.
fn column(text: &str, nth: usize) -> Vec<String> {
    let word = |line: &str| line.split_whitespace().nth(nth).unwrap_or("").to_owned();
    text.lines().map(word).collect()
}

/// The numbers of the second column.
fn numbers(text: &str) -> Vec<u64> {
    column(text, 1).iter().map(|word| word.parse().unwrap_or(0)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_of_a_replica_are_read() {
        let drops = "3 function-dropped the function dropped it\n2 ring-full all slots\n1 stray x";
        let answers = ["running", "10", drops, "1", "2", "3", "<256ns 4\n>= 1", "1.5", "it ended"];
        let answers = answers.map(|text| Some(text.to_owned()));
        let mut seen = Seen::default();
        fill(&mut seen, &answers);
        let batches = vec![4, 1];
        let counts = Counts { packets: 12, lost: 5, failures: 6, batches };
        assert_eq!((seen.is_running, seen.counts), (true, counts));
        assert_eq!((seen.cpu_seconds, seen.last_error.as_str()), (1.5, "it ended"));
        assert_eq!(column("0 1 up\n1 1 drained", 2), ["up", "drained"]);
        assert_eq!(numbers("0 5\n1 7 9"), [5, 7]);
        let mut none = Seen::default();
        fill(&mut none, &[None, None]);
        assert_eq!(none.counts.packets, 0);
    }
}
