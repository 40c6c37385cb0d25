//! Rows for people and for programs.

use std::fmt::Write as _;

use super::account::Cost;
use super::load::Load;
use super::systems::Kind;
use crate::machine::Machine;
use crate::row::median;

/// A contestant with one load. Times are microseconds per request, medians over the rounds.
#[derive(Debug)]
pub struct Row {
    load: &'static str,
    kind: Kind,
    rate: f64,
    process: f64,
    total: f64,
    added: Comparison,
    /// If there are samples.
    own: Option<Comparison>,
    goal: Option<f64>,
}

/// One sort of time.
#[derive(Debug)]
struct Comparison {
    /// Median, least and most.
    spread: [f64; 3],
    /// Haproxy's and nginx's time in units of this one, medians of the rounds' ratios.
    ratios: [f64; 2],
}

impl Comparison {
    /// Of a time per round, and haproxy's and nginx's.
    fn new(own: &[f64], proxies: [&[f64]; 2]) -> Comparison {
        let all = || own.iter().copied();
        let spread =
            [median(all()), all().fold(f64::INFINITY, f64::min), all().fold(0.0, f64::max)];
        let ratios = proxies.map(|proxy| median(proxy.iter().zip(own).map(|(a, b)| a / b)));
        Comparison { spread, ratios }
    }
}

/// The rows of a load: of everyone with their costs in each round.
pub fn of_load(load: &Load, all: &[(Kind, Vec<Cost>)]) -> Vec<Row> {
    let costs_of = |kind: Kind| {
        all.iter().find(|(other, _)| *other == kind).map_or(&[][..], |(_, costs)| &costs[..])
    };
    let direct = costs_of(Kind::Direct);
    let added = |costs: &[Cost]| -> Vec<f64> {
        costs.iter().zip(direct).map(|(cost, direct)| cost.added(direct)).collect()
    };
    let own = |kind: Kind, costs: &[Cost]| -> Option<Vec<f64>> {
        costs
            .iter()
            .zip(direct)
            .map(|(cost, direct)| cost.own(direct, kind.has_process()))
            .collect()
    };
    let proxies = [Kind::Haproxy, Kind::Nginx];
    let proxies_added = proxies.map(|kind| added(costs_of(kind)));
    let proxies_own = proxies.map(|kind| own(kind, costs_of(kind)).unwrap_or_default());
    let row = |(kind, costs): &(Kind, Vec<Cost>)| Row {
        load: load.name,
        kind: *kind,
        rate: median(costs.iter().map(|cost| cost.rate)),
        process: median(costs.iter().map(|cost| cost.process)),
        total: median(costs.iter().map(|cost| cost.total)),
        added: Comparison::new(&added(costs), proxies_added.each_ref().map(|times| &times[..])),
        own: own(*kind, costs)
            .map(|own| Comparison::new(&own, proxies_own.each_ref().map(|times| &times[..]))),
        goal: load.goal.filter(|_| kind.is_thruway()),
    };
    all.iter().map(row).collect()
}

impl Row {
    /// Whether the goal is met, if there is one: by own time, or where there are no samples by
    /// added time.
    pub fn reaches_goal(&self) -> Option<bool> {
        let goal = self.goal?;
        let cost = self.own.as_ref().unwrap_or(&self.added);
        Some(cost.ratios.iter().all(|ratio| *ratio >= goal))
    }
}

/// The lines above the table.
pub fn heading(machine: &Machine, rounds: u32, seconds: u32, samples: bool) -> String {
    let core = machine.pinned.map_or(0, |core| core);
    let samples = match samples {
        true => "",
        false => "perf is not installed: own time is not reported\n",
    };
    format!(
        "bench ends: all on core {core} of {}, {}, Linux {}, load {}; {rounds} rounds of {seconds} s\n\
         us/request: of the box's process; of everyone; added by the box; the box's own. Ratios: \
         haproxy's and nginx's time in this one's\n{samples}",
        machine.cores, machine.model, machine.kernel, machine.load
    )
}

/// The table.
pub fn table(rows: &[Row], goals: bool) -> String {
    let mut text = format!(
        "{:9} {:13} {:>9} {:>8} {:>8} {:>8} {:>16} {:>8} {:>16} {:>13} {:>13}{}\n",
        "load",
        "box",
        "request/s",
        "process",
        "total",
        "added",
        "min..max",
        "own",
        "min..max",
        "added ratio",
        "own ratio",
        if goals { "  goal" } else { "" }
    );
    for row in rows {
        text += &line(row, goals);
    }
    text
}

fn line(row: &Row, goals: bool) -> String {
    let cells = |cost: Option<&Comparison>| match cost {
        None => ["-".to_owned(), "-".to_owned(), "-".to_owned()],
        Some(Comparison { spread: [middle, least, most], ratios: [haproxy, nginx] }) => {
            let ratios = match row.kind {
                Kind::Direct => "-".to_owned(),
                _ => format!("{haproxy:.2} {nginx:.2}"),
            };
            [format!("{middle:.1}"), format!("{least:.1}..{most:.1}"), ratios]
        }
    };
    let goal = match (goals, row.goal, row.reaches_goal()) {
        (true, Some(goal), Some(true)) => format!("  {goal} met"),
        (true, Some(goal), _) => format!("  {goal} missed"),
        _ => String::new(),
    };
    let [added, added_range, added_ratios] = cells(Some(&row.added));
    let [own, own_range, own_ratios] = cells(row.own.as_ref());
    let (load, name) = (row.load, row.kind.name());
    format!(
        "{load:9} {name:13} {:>9.0} {:>8.1} {:>8.1} {added:>8} {added_range:>16} {own:>8} \
         {own_range:>16} {added_ratios:>13} {own_ratios:>13}{goal}\n",
        row.rate, row.process, row.total,
    )
}

/// The rows in JSON, each on a line.
pub fn json(machine: &Machine, rows: &[Row]) -> String {
    let number = |value: f64| match value.is_finite() {
        true => format!("{value:.3}"),
        false => "null".to_owned(),
    };
    let list = |values: &[f64]| {
        let values: Vec<String> = values.iter().map(|value| number(*value)).collect();
        format!("[{}]", values.join(", "))
    };
    let mut text = format!(
        "{{\n  \"bench\": \"ends\",\n  \"version\": \"{}\",\n  \"model\": \"{}\",\n  \"kernel\": \
         \"{}\",\n  \"load\": \"{}\",\n  \"rows\": [\n",
        env!("CARGO_PKG_VERSION"),
        machine.model,
        machine.kernel,
        machine.load
    );
    let numbers = |cost: Option<&Comparison>, pick: fn(&Comparison) -> &[f64]| match cost {
        Some(cost) => list(pick(cost)),
        None => "null".to_owned(),
    };
    for (at, row) in rows.iter().enumerate() {
        let end = if at + 1 == rows.len() { "" } else { "," };
        // Writing to a string cannot fail.
        let _ = writeln!(
            text,
            "    {{\"load\": \"{}\", \"box\": \"{}\", \"requests_per_second\": {}, \"process_us\": {}, \
             \"total_us\": {}, \"added_us\": {}, \"own_us\": {}, \"added_ratio\": {}, \
             \"own_ratio\": {}}}{end}",
            row.load,
            row.kind.name(),
            number(row.rate),
            number(row.process),
            number(row.total),
            numbers(Some(&row.added), |cost| &cost.spread),
            numbers(row.own.as_ref(), |cost| &cost.spread),
            numbers(Some(&row.added), |cost| &cost.ratios),
            numbers(row.own.as_ref(), |cost| &cost.ratios)
        );
    }
    text + "  ]\n}\n"
}
