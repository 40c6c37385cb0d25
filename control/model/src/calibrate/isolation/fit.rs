//! What operations of isolation cost, from what chains take.
//!
//! Every value is a difference between chains that were measured in the same round: of one that
//! does something and one that does not, or does it less often.

use std::collections::BTreeMap;

use thruway_element::Operation as Op;

use super::super::statistics::{Summary, parts};
use super::chain::{BURSTS, Chain, LINES_MORE, LONG, Mode, SHORT, Sample};

/// What one round measured, by chain.
pub type Round = BTreeMap<Chain, Sample>;

/// Lines that are known of a packet of isolated elements, which go with it.
const KNOWN_LINES: f64 = 2.0;
/// Packets that enter isolated elements at a time.
const PART_BATCH: f64 = 31.0;
/// A difference of fewer wake-ups per packet says nothing of one.
const WAKES_LEAST: f64 = 1e-3;

/// What operations come to, round by round.
#[derive(Debug, Default)]
pub struct Costs {
    /// Cycles each time.
    pub each: BTreeMap<Op, Vec<f64>>,
    /// Of those that cost something per batch: what.
    pub batch: BTreeMap<Op, Vec<f64>>,
}

impl Costs {
    /// Of all rounds; `dispatch`: what the engine takes for a packet of a batch, `each` and
    /// `batch`. What was not measured in a round has no value for it.
    pub fn of(rounds: &[Round], dispatch: (f64, f64)) -> Costs {
        let mut costs = Costs::default();
        for round in rounds {
            let fit = Fit { round, dispatch };
            for (op, value) in fit.each().into_iter().flatten().flatten() {
                costs.each.entry(op).or_default().push(value);
            }
            if let Some((_, batch)) = fit.hop() {
                costs.batch.entry(Op::RingHop).or_default().push(batch);
            }
        }
        costs
    }

    /// The operations with their middles, `each` and, where there is one, `batch`.
    pub fn summaries(&self) -> impl Iterator<Item = (Op, Summary, Option<Summary>)> {
        self.each.iter().map(|(op, values)| {
            (*op, Summary::of(values), self.batch.get(op).map(|values| Summary::of(values)))
        })
    }
}

/// One round.
struct Fit<'a> {
    round: &'a Round,
    dispatch: (f64, f64),
}

/// What a chain takes beyond the same elements inside, without wake-ups.
#[derive(Debug, Clone, Copy)]
struct Plain {
    thread: f64,
    process: f64,
}

type Values = Option<Vec<(Op, f64)>>;

impl Fit<'_> {
    fn sample(&self, mode: Mode, count: usize, len: usize, burst: usize) -> Option<Sample> {
        self.round.get(&Chain { mode, count, len, burst }).copied()
    }

    /// Of short packets in batches of the usual size.
    fn usual(&self, mode: Mode, count: usize) -> Option<Plain> {
        self.plain(mode, count, SHORT, BURSTS[1])
    }

    fn plain(&self, mode: Mode, count: usize, len: usize, burst: usize) -> Option<Plain> {
        let all = self.sample(mode, count, len, burst)?;
        let base = self.sample(Mode::Inside, count, len, burst)?;
        let (wake, sleep) = self.waking().unwrap_or_default();
        Some(Plain {
            thread: all.thread - base.thread - wake * all.woken,
            process: all.process - sleep * all.woken,
        })
    }

    /// What one wake-up takes of the thread, and of the function's process. None where functions
    /// that are woken for whatever waits hardly slept.
    fn waking(&self) -> Option<(f64, f64)> {
        let [eager, usual] =
            [Mode::Eager, Mode::Ring].map(|mode| self.sample(mode, 1, SHORT, BURSTS[1]));
        let (eager, usual) = (eager?, usual?);
        let more = eager.woken - usual.woken;
        let per = |eager: f64, usual: f64| ((eager - usual) / more).max(0.0);
        (more >= WAKES_LEAST)
            .then(|| (per(eager.thread, usual.thread), per(eager.process, usual.process)))
    }

    /// Cycles of the thread for a line into a slot.
    fn copy(&self) -> Option<f64> {
        let long = self.plain(Mode::Ring, 1, LONG, BURSTS[1])?;
        Some(((long.thread - self.usual(Mode::Ring, 1)?.thread) / LINES_MORE).max(0.0))
    }

    /// Those that cost something each time.
    fn each(&self) -> [Values; 6] {
        [self.woken(), self.ring(), self.returned(), self.part(), self.group(), self.turn()]
    }

    fn woken(&self) -> Values {
        let (wake, sleep) = self.waking()?;
        Some(vec![(Op::WorkerWake, wake), (Op::WorkerSleep, sleep)])
    }

    fn ring(&self) -> Values {
        let (each, _) = self.hop()?;
        let serve = self.usual(Mode::Ring, 1)?.process;
        Some(vec![(Op::RingHop, each), (Op::RingCopy, self.copy()?), (Op::RingServe, serve)])
    }

    /// The thread's part, for a packet and for a batch.
    fn hop(&self) -> Option<(f64, f64)> {
        let copy = self.copy()?;
        let of = |burst| Some(self.plain(Mode::Ring, 1, SHORT, burst)?.thread - copy);
        let sizes = BURSTS.map(|burst| burst as f64);
        Some(parts(&sizes, &[of(BURSTS[0])?, of(BURSTS[1])?]))
    }

    fn returned(&self) -> Values {
        let changing = self.usual(Mode::Changing, 1)?.thread;
        let more = changing - self.usual(Mode::Ring, 1)?.thread;
        Some(vec![(Op::RingReturn, more - self.copy()?)])
    }

    fn part(&self) -> Values {
        let short = self.usual(Mode::Part, 1)?;
        let long = self.plain(Mode::Part, 1, LONG, BURSTS[1])?;
        let copied = ((long.process - short.process) / LINES_MORE).max(0.0);
        let lines = 1.0 + KNOWN_LINES;
        let dispatch = self.dispatch.0 + self.dispatch.1 / PART_BATCH;
        Some(vec![
            (Op::PartHop, short.thread - lines * self.copy()?),
            (Op::PartCopy, copied),
            (Op::PartServe, short.process - lines * copied - dispatch),
        ])
    }

    fn group(&self) -> Values {
        let (one, three) = (self.usual(Mode::Group, 1)?, self.usual(Mode::Group, 3)?);
        Some(vec![
            (Op::GroupHop, one.thread - self.copy()?),
            (Op::GroupPass, (three.thread - one.thread) / 2.0),
            (Op::GroupServe, one.process),
        ])
    }

    /// What functions that take turns on one core take more than one that has it alone.
    fn turn(&self) -> Values {
        let (one, three) = (self.usual(Mode::Ring, 1)?, self.usual(Mode::Ring, 3)?);
        Some(vec![(Op::ProcessTurn, three.process / 3.0 - one.process)])
    }
}

#[cfg(test)]
mod tests {
    use super::super::chain::chains;
    use super::*;

    /// A host of round numbers.
    struct Host {
        hop: f64,
        batch: f64,
        copy: f64,
        wake: f64,
        sleep: f64,
    }

    impl Host {
        /// What a chain takes here: the base, and what its mode does, written down once more.
        fn sample(&self, chain: &Chain) -> Sample {
            let (count, burst) = (chain.count as f64, chain.burst as f64);
            let lines = (chain.len as f64 / 64.0).ceil();
            let base = 20.0 + 0.1 * chain.len as f64 + count * (1.0 + 64.0 / burst);
            let woken = if chain.mode == Mode::Eager { 0.1 } else { 0.002 } * count;
            let ring = self.hop + self.batch / burst;
            let copy = self.copy;
            let (thread, process) = match chain.mode {
                Mode::Inside => return Sample { thread: base, process: 0.0, woken: 0.0 },
                Mode::Ring | Mode::Eager => (ring + copy * lines, 40.0),
                Mode::Changing => (ring + 2.0 * copy * lines + 15.0, 40.0),
                Mode::Part => {
                    (70.0 + copy * (lines + 2.0), 100.0 + 3.0 * (lines + 2.0) + 1.0 + 64.0 / 31.0)
                }
                Mode::Group => ((80.0 + copy * lines + 30.0 * (count - 1.0)) / count, 25.0),
            };
            let turns = if chain.count > 1 { 9.0 } else { 0.0 };
            Sample {
                thread: base + count * thread + woken * self.wake,
                process: count * (process + turns) + woken * self.sleep,
                woken,
            }
        }
    }

    #[test]
    fn what_went_in_comes_out() {
        let host = Host { hop: 50.0, batch: 320.0, copy: 4.0, wake: 3000.0, sleep: 5000.0 };
        let round: Round = chains().map(|chain| (chain, host.sample(&chain))).collect();
        let costs = Costs::of(&[round.clone(), round], (1.0, 64.0));
        let found: BTreeMap<Op, f64> =
            costs.summaries().map(|(op, each, _)| (op, each.value)).collect();
        for (op, value) in [
            (Op::RingHop, 50.0),
            (Op::RingCopy, 4.0),
            (Op::RingReturn, 15.0),
            (Op::RingServe, 40.0),
            (Op::PartHop, 70.0),
            (Op::PartCopy, 3.0),
            (Op::PartServe, 100.0),
            (Op::GroupHop, 80.0),
            (Op::GroupPass, 30.0),
            (Op::GroupServe, 25.0),
            (Op::WorkerWake, 3000.0),
            (Op::WorkerSleep, 5000.0),
            (Op::ProcessTurn, 9.0),
        ] {
            assert!((found[&op] - value).abs() < 1e-6, "{}: {}", op.name(), found[&op]);
        }
        let batch =
            costs.summaries().find_map(|(op, _, batch)| batch.filter(|_| op == Op::RingHop));
        assert!((batch.unwrap().value - 320.0).abs() < 1e-6);
        assert!(found.keys().all(|op| op.is_of_isolation()));
    }

    #[test]
    fn functions_that_never_slept_say_nothing_of_sleep() {
        let host = Host { hop: 50.0, batch: 0.0, copy: 4.0, wake: 3000.0, sleep: 5000.0 };
        let awake = |chain: Chain| (chain, Sample { woken: 0.0, ..host.sample(&chain) });
        let round: Round = chains().map(awake).collect();
        let costs = Costs::of(&[round], (1.0, 64.0));
        assert!(!costs.each.contains_key(&Op::WorkerWake));
        assert!(costs.each.contains_key(&Op::RingHop));
    }
}
