//! From repeated measurements to a row.

use thruway_model::calibrate::Summary;

use super::case::Goal;
use super::measure::Usage;

/// One repeat: packets and what they cost.
#[derive(Debug, Clone, Copy)]
pub struct Repeat {
    /// Packets handled.
    pub packets: u64,
    /// Cost of all of them.
    pub usage: Usage,
}

impl Repeat {
    fn per_packet(&self, total: u64) -> f64 {
        total as f64 / self.packets.max(1) as f64
    }

    /// CPU time per packet.
    pub fn ns(&self) -> f64 {
        self.per_packet(self.usage.cpu_ns)
    }

    /// Ticks of the time stamp counter per packet, for the time that this thread had the core.
    fn cycles(&self) -> f64 {
        let share = self.usage.cpu_ns as f64 / self.usage.wall_ns.max(1) as f64;
        self.per_packet(self.usage.ticks) * share.min(1.0)
    }
}

/// A case's result. All costs are per packet and medians over the repeats.
#[derive(Debug, Clone)]
pub struct Row {
    /// The case.
    pub case: String,
    /// CPU time, nanoseconds.
    pub ns: f64,
    /// The fastest repeat.
    pub ns_min: f64,
    /// The slowest repeat.
    pub ns_max: f64,
    /// Wall-clock time, nanoseconds.
    pub wall_ns: f64,
    /// Packets per second of CPU time.
    pub pps: f64,
    /// Gigabits of payload per second of CPU time, where that is asked for.
    pub gbps: Option<f64>,
    /// Ticks of the time stamp counter; `None` where the processor has none.
    pub cycles: Option<f64>,
    /// Instructions.
    pub instructions: Option<f64>,
    /// Misses of the last-level cache.
    pub cache_misses: Option<f64>,
    /// Packets of one repeat.
    pub packets: u64,
    /// How many repeats.
    pub repeats: usize,
    /// Name of the baseline and this case's time in units of its.
    pub ratio: Option<(String, f64)>,
    /// Nanoseconds that each step from the baseline to this case costs.
    pub step_ns: Option<f64>,
    /// What we want to reach.
    pub goal: Option<Goal>,
}

/// The middle value; of two middle ones the mean; 0 of nothing.
pub fn median(values: impl IntoIterator<Item = f64>) -> f64 {
    Summary::of(&values.into_iter().collect::<Vec<f64>>()).value
}

/// The median of what every repeat has.
fn median_of(repeats: &[Repeat], what: impl Fn(&Usage) -> Option<u64>) -> Option<f64> {
    let values: Option<Vec<f64>> = repeats
        .iter()
        .map(|repeat| what(&repeat.usage).map(|total| repeat.per_packet(total)))
        .collect();
    values.map(median)
}

impl Row {
    /// The row of a case.
    pub fn new(case: &str, repeats: &[Repeat]) -> Row {
        let ns = || repeats.iter().map(Repeat::ns);
        let middle = median(ns());
        let cycles = median(repeats.iter().map(Repeat::cycles));
        Row {
            case: case.to_owned(),
            ns: middle,
            ns_min: ns().fold(f64::INFINITY, f64::min),
            ns_max: ns().fold(0.0, f64::max),
            wall_ns: median_of(repeats, |usage| Some(usage.wall_ns)).unwrap_or(0.0),
            pps: if middle > 0.0 { 1e9 / middle } else { 0.0 },
            gbps: None,
            cycles: (cycles > 0.0).then_some(cycles),
            instructions: median_of(repeats, |usage| usage.instructions),
            cache_misses: median_of(repeats, |usage| usage.cache_misses),
            packets: repeats.first().map_or(0, |repeat| repeat.packets),
            repeats: repeats.len(),
            ratio: None,
            step_ns: None,
            goal: None,
        }
    }

    /// The same with the ratio to a baseline that was measured turn by turn with it: the median of
    /// the ratios of neighbours, so that a slow moment counts on both sides.
    /// The same with differences for the steps, which are `steps`.
    pub fn against(
        mut self,
        (name, steps): (&str, u32),
        repeats: &[Repeat],
        baseline: &[Repeat],
    ) -> Row {
        let pairs = repeats.iter().zip(baseline).filter(|(_, base)| base.ns() > 0.0);
        let ratios = pairs.clone().map(|(own, base)| own.ns() / base.ns());
        self.ratio = Some((name.to_owned(), median(ratios)));
        let differences = pairs.map(|(own, base)| own.ns() - base.ns());
        self.step_ns = Some(median(differences) / f64::from(steps.max(1)));
        self
    }

    /// The goal for `ns`, if that is what it is for.
    pub fn goal_ns(&self) -> Option<f64> {
        match self.goal {
            Some(Goal::Ns(goal)) => Some(goal),
            _ => None,
        }
    }

    /// Whether there is a goal and it is missed.
    pub fn missed(&self) -> bool {
        match self.goal {
            None => false,
            Some(Goal::Ns(goal)) => self.ns > goal,
            Some(Goal::StepNs(goal)) => self.step_ns.is_none_or(|step| step > goal),
            Some(Goal::Ratio(goal)) => self.ratio.as_ref().is_none_or(|(_, ratio)| *ratio < goal),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn repeat(cpu_ns: u64) -> Repeat {
        let usage = Usage { cpu_ns, wall_ns: 2 * cpu_ns, ticks: 6 * cpu_ns, ..Usage::default() };
        Repeat { packets: 10, usage }
    }

    #[test]
    fn a_row_is_medians_and_spread() {
        let repeats = [repeat(500), repeat(100), repeat(200)];
        let row = Row::new("x", &repeats);
        assert_eq!((row.ns, row.ns_min, row.ns_max), (20.0, 10.0, 50.0));
        assert_eq!((row.wall_ns, row.pps, row.packets), (40.0, 5e7, 10));
        // Half of the ticks passed while others had the core.
        assert_eq!((row.cycles, row.instructions), (Some(60.0), None));
        let base = [repeat(250), repeat(50), repeat(50)];
        let mut row = row.against(("b", 5), &repeats, &base);
        assert_eq!((row.ratio.clone(), row.step_ns), (Some(("b".into(), 2.0)), Some(3.0)));
        let missed = [Goal::StepNs(2.9), Goal::StepNs(3.0), Goal::Ratio(2.1), Goal::Ratio(2.0)];
        let missed = missed.map(|goal| {
            row.goal = Some(goal);
            row.missed()
        });
        assert_eq!(missed, [true, false, true, false]);
    }

    #[test]
    fn a_goal_is_missed_above_it() {
        let mut row = Row::new("x", &[repeat(100), repeat(300)]);
        assert!(!row.missed());
        row.goal = Some(Goal::Ns(20.0));
        assert!(!row.missed());
        row.goal = Some(Goal::Ns(19.9));
        assert!(row.missed());
    }
}
