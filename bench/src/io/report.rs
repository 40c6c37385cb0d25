//! Rows for people and for programs.

use std::fmt::Write as _;

use serde_json::json;

use super::account::Account;
use super::cases::Case;
use super::latency::{self, Latency};
use super::options::Options;
use super::site::Cores;
use super::turn::Rates;
use crate::machine::Machine;
use crate::row::median;

/// A case's result: rates in millions of packets a second, medians over the rounds.
#[derive(Debug)]
pub struct Row {
    case: &'static Case,
    arrived: f64,
    per_core: f64,
    per_core_min: f64,
    per_core_max: f64,
    made: f64,
    /// What part of the core seemed used without load, where nobody's name shows it.
    busy_before: Option<f64>,
    /// To the baseline's rate per core: the median of the rounds' ratios.
    ratio: Option<f64>,
    account: Account,
    latencies: Vec<Latency>,
}

impl Row {
    /// Of its rates in each round, and the baseline's.
    pub fn new(
        case: &'static Case,
        rates: &[Rates],
        base: Option<&[Rates]>,
        account: Account,
    ) -> Row {
        let per_core = || rates.iter().map(|rates| rates.per_core);
        let ratio = base.map(|base| {
            median(rates.iter().zip(base).map(|(own, base)| own.per_core / base.per_core))
        });
        Row {
            case,
            arrived: median(rates.iter().map(|rates| rates.arrived)),
            per_core: median(per_core()),
            per_core_min: per_core().fold(f64::INFINITY, f64::min),
            per_core_max: per_core().fold(0.0, f64::max),
            made: median(rates.iter().map(|rates| rates.made)),
            busy_before: rates[0]
                .busy_before
                .map(|_| median(rates.iter().filter_map(|rates| rates.busy_before))),
            ratio,
            account,
            latencies: Vec::new(),
        }
    }

    /// And of its latencies.
    pub fn with(self, latencies: &[Latency]) -> Row {
        Row { latencies: latencies.to_vec(), ..self }
    }

    /// Its goals: what is wanted, and what is.
    fn goals(&self) -> impl Iterator<Item = (&'static str, f64, f64)> {
        let mpps = self.case.goal_mpps.map(|goal| ("Mpps", goal, self.per_core));
        let ratio = self.case.goal_ratio.map(|goal| ("times", goal, self.ratio.unwrap_or(0.0)));
        mpps.into_iter().chain(ratio)
    }

    /// Whether there is a goal that is not reached.
    pub fn missed(&self) -> bool {
        self.goals().any(|(_, goal, reached)| reached < goal)
    }
}

/// The lines above the table.
pub fn heading(machine: &Machine, cores: Cores, options: &Options) -> String {
    format!(
        "bench io: load on core {}, forwarder on core {}, of {}, {}, Linux {}, load {}; frames of \
         {} bytes, {} flows\nMpps: per second of processor time of the forwarder; per second; offered. \
         Ratios are of the first, turn by turn\n",
        cores.load,
        cores.forwarding,
        machine.cores,
        machine.model,
        machine.kernel,
        machine.load,
        options.len,
        options.flows
    )
}

/// The table, and where packets were lost.
pub fn table(rows: &[Row], goals: bool) -> String {
    let mut text = format!(
        "{:20} {:>8} {:>13} {:>8} {:>8} {:>6}{}\n",
        "case",
        "per core",
        "min..max",
        "rate",
        "offered",
        "ratio",
        if goals { "  goals" } else { "" }
    );
    for row in rows {
        let range = format!("{:.2}..{:.2}", row.per_core_min, row.per_core_max);
        let ratio = row.ratio.map_or("-".to_owned(), |ratio| format!("{ratio:.2}"));
        // Writing to a string cannot fail.
        let _ = write!(
            text,
            "{:20} {:>8.3} {range:>13} {:>8.3} {:>8.3} {ratio:>6}",
            row.case.name, row.per_core, row.arrived, row.made
        );
        for (unit, goal, reached) in row.goals().filter(|_| goals) {
            let met = if reached >= goal { "met" } else { "missed" };
            let _ = write!(text, "  {goal} {unit} {met}");
        }
        text.push('\n');
    }
    text.push_str("packets in all turns, and where they were lost\n");
    for row in rows {
        text += &losses(row);
    }
    text
}

fn losses(row: &Row) -> String {
    let Account { made, arrived, disordered, lost } = &row.account;
    let lost: String =
        lost.iter().map(|(location, count)| format!(", {count} {location}")).collect();
    let busy = row.busy_before.map_or(String::new(), |part| {
        format!("; without load {:.1} % of the core seem used", part * 100.0)
    });
    format!(
        "{:20} {made} made, {arrived} arrived, {disordered} out of order{lost}, {} unexplained{busy}\n",
        row.case.name,
        row.account.unexplained()
    )
}

/// Latencies of packets.
pub fn latency_table(rows: &[Row]) -> String {
    latency::table(rows.iter().map(|row| (row.case.name, &row.latencies[..])))
}

/// The rows in JSON.
pub fn json(machine: &Machine, options: &Options, rows: &[Row]) -> String {
    let row = |row: &Row| {
        let account = &row.account;
        let lost: serde_json::Map<_, _> =
            account.lost.iter().map(|(location, count)| (location.clone(), json!(count))).collect();
        json!({
            "case": row.case.name,
            "mpps_per_core": [row.per_core, row.per_core_min, row.per_core_max],
            "mpps": row.arrived,
            "mpps_offered": row.made,
            "busy_without_load": row.busy_before,
            "ratio": row.ratio,
            "baseline": row.case.baseline,
            "made": account.made,
            "arrived": account.arrived,
            "disordered": account.disordered,
            "lost": lost,
            "unexplained": account.unexplained(),
            "latency": latency::json(&row.latencies),
        })
    };
    let all = json!({
        "bench": "io",
        "version": env!("CARGO_PKG_VERSION"),
        "model": machine.model,
        "kernel": machine.kernel,
        "load": machine.load,
        "frame_bytes": options.len,
        "flows": options.flows,
        "rows": rows.iter().map(row).collect::<Vec<_>>(),
    });
    format!("{all:#}\n")
}

#[cfg(test)]
mod tests {
    use super::super::cases::CASES;
    use super::*;

    fn rates(per_core: f64) -> Rates {
        Rates { arrived: per_core, per_core, made: 9.0, busy_before: None }
    }

    #[test]
    fn a_row_is_medians_and_goals_are_told() {
        let case = CASES.iter().find(|case| case.name == "xdp/route").expect("it is there");
        let account = Account { made: 9, arrived: 8, disordered: 0, lost: Vec::new() };
        let base = [rates(1.0), rates(2.0), rates(1.0)];
        let fast = [rates(2.0), rates(2.5), rates(1.5)];
        let row = Row::new(case, &fast, Some(&base), account.clone());
        assert_eq!((row.per_core, row.per_core_min, row.ratio), (2.0, 1.5, Some(1.5)));
        assert!(!row.missed());
        let text = table(&[row], true);
        assert!(text.contains("2 Mpps met  1.4 times met"), "{text}");
        assert!(text.contains("1 unexplained"), "{text}");
        let slow = [rates(1.9), rates(1.9), rates(1.9)];
        assert!(Row::new(case, &slow, Some(&base), account).missed());
    }
}
