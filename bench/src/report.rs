//! Rows for people (a table) and for programs (JSON).

use std::path::Path;

use serde::Serialize;
use serde_json::json;
use thruway::load::plain;

use super::case::Goal;
use super::machine::Machine;
use super::row::Row;

/// A number or why there is none.
fn or_none(value: Option<f64>, digits: usize) -> String {
    value.map_or_else(|| "n/a".into(), |value| format!("{value:.digits$}"))
}

/// The line above the table.
pub fn heading(suite: &str, machine: &Machine, repeats: usize) -> String {
    let core = machine.pinned.map_or("not bound to a core".into(), |core| format!("core {core}"));
    format!(
        "bench {suite}: {core} of {}, {}, Linux {}, load {}; {repeats} repeats\n",
        machine.cores, machine.model, machine.kernel, machine.load
    )
}

/// The columns' names, for names of cases up to `width` long.
pub fn columns(width: usize, goals: bool) -> String {
    let goal = if goals { "   goal" } else { "" };
    format!(
        "{:width$} {:>9} {:>15} {:>8} {:>7} {:>8} {:>8} {:>7} {:>7} {:>8}{goal}\n",
        "case",
        "ns/packet",
        "min..max",
        "Mpps",
        "Gbit/s",
        "cycles",
        "instr",
        "misses",
        "ratio",
        "step"
    )
}

/// One row's line.
pub fn line(row: &Row, width: usize, goals: bool) -> String {
    let spread = format!("{:.1}..{:.1}", row.ns_min, row.ns_max);
    let ratio = row.ratio.as_ref().map_or("-".into(), |(_, ratio)| format!("{ratio:.2}"));
    let mut text = format!(
        "{:width$} {:>9.2} {spread:>15} {:>8.2} {:>7} {:>8} {:>8} {:>7} {ratio:>7} {:>8}",
        row.case,
        row.ns,
        row.pps / 1e6,
        row.gbps.map_or("-".into(), |gbps| format!("{gbps:.2}")),
        or_none(row.cycles, 1),
        or_none(row.instructions, 0),
        or_none(row.cache_misses, 2),
        row.step_ns.map_or("-".into(), |step| format!("{step:.2}")),
    );
    if goals {
        let of = match row.goal {
            Some(Goal::Ns(goal)) => format!(" {goal:>6}"),
            Some(Goal::StepNs(goal)) => format!(" {goal:>6} a step"),
            Some(Goal::Ratio(goal)) => format!(" {goal:>6} times"),
            None => "      -".into(),
        };
        let met = if row.missed() { " missed" } else { " met" };
        text += &of;
        text += if row.goal.is_some() { met } else { "" };
    }
    text + "\n"
}

/// A number as JSON has it: of three decimals; null where there is none.
fn number(value: Option<f64>) -> Option<f64> {
    value.filter(|value| value.is_finite()).map(|value| (value * 1e3).round() / 1e3)
}

/// A row as JSON has it; costs are per packet.
#[derive(Serialize)]
struct Record<'a> {
    case: &'a str,
    ns_per_packet: Option<f64>,
    ns_min: Option<f64>,
    ns_max: Option<f64>,
    wall_ns_per_packet: Option<f64>,
    packets_per_second: Option<f64>,
    gbits_per_second: Option<f64>,
    cycles_per_packet: Option<f64>,
    instructions_per_packet: Option<f64>,
    cache_misses_per_packet: Option<f64>,
    packets: u64,
    repeats: usize,
    baseline: Option<&'a str>,
    ratio: Option<f64>,
    step_ns: Option<f64>,
    goal_ns: Option<f64>,
    goal_step_ns: Option<f64>,
    goal_ratio: Option<f64>,
}

impl<'a> Record<'a> {
    fn of(row: &'a Row) -> Record<'a> {
        let (goal_step_ns, goal_ratio) = match row.goal {
            Some(Goal::StepNs(goal)) => (Some(goal), None),
            Some(Goal::Ratio(goal)) => (None, Some(goal)),
            _ => (None, None),
        };
        Record {
            case: &row.case,
            ns_per_packet: number(Some(row.ns)),
            ns_min: number(Some(row.ns_min)),
            ns_max: number(Some(row.ns_max)),
            wall_ns_per_packet: number(Some(row.wall_ns)),
            packets_per_second: number(Some(row.pps)),
            gbits_per_second: number(row.gbps),
            cycles_per_packet: number(row.cycles),
            instructions_per_packet: number(row.instructions),
            cache_misses_per_packet: number(row.cache_misses),
            packets: row.packets,
            repeats: row.repeats,
            baseline: row.ratio.as_ref().map(|(name, _)| name.as_str()),
            ratio: number(row.ratio.as_ref().map(|(_, ratio)| *ratio)),
            step_ns: number(row.step_ns),
            goal_ns: number(row.goal_ns()),
            goal_step_ns: number(goal_step_ns),
            goal_ratio: number(goal_ratio),
        }
    }
}

/// The whole report in JSON: the machine and a row per line.
///
/// # Errors
/// None that is known: all of it can be JSON.
pub fn json(
    suite: &str,
    machine: &Machine,
    no_counters: Option<&str>,
    rows: &[Row],
) -> serde_json::Result<String> {
    let members = [
        ("bench", json!(suite)),
        ("version", json!(env!("CARGO_PKG_VERSION"))),
        ("model", json!(machine.model)),
        ("cores", json!(machine.cores)),
        ("pinned", json!(machine.pinned)),
        ("kernel", json!(machine.kernel)),
        ("load", json!(machine.load)),
        ("no_counters", json!(no_counters)),
    ];
    let members: String =
        members.iter().map(|(name, value)| format!("  \"{name}\": {value},\n")).collect();
    let rows: Vec<String> = rows
        .iter()
        .map(|row| Ok(format!("    {}", serde_json::to_string(&Record::of(row))?)))
        .collect::<serde_json::Result<_>>()?;
    Ok(format!("{{\n{members}  \"rows\": [\n{}\n  ]\n}}\n", rows.join(",\n")))
}

/// Writes a report to a file.
///
/// # Errors
/// The file's name and why it cannot be written.
pub fn write(file: &Path, text: &str) -> anyhow::Result<()> {
    std::fs::write(file, text)
        .map_err(|error| anyhow::anyhow!("{}: {}", file.display(), plain(&error)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_report_is_json_with_null_for_what_is_not_known() {
        let mut row = Row::new("a\"b", &[]);
        row.gbps = Some(1.23456);
        let machine = Machine::look(2, None);
        let text = json("x", &machine, Some("no \\"), &[row]).expect("JSON");
        let parsed: serde_json::Value = serde_json::from_str(&text).expect("JSON");
        assert_eq!(
            (&parsed["bench"], &parsed["pinned"], &parsed["no_counters"]),
            (&json!("x"), &json!(null), &json!("no \\"))
        );
        let row = &parsed["rows"][0];
        assert_eq!((&row["case"], &row["ns_per_packet"]), (&json!("a\"b"), &json!(0.0)));
        assert_eq!(row["gbits_per_second"], json!(1.235));
        for name in ["ns_min", "cycles_per_packet", "baseline", "ratio", "step_ns"] {
            assert_eq!(row[name], json!(null), "{name}");
        }
        // A row is a line, and its case comes first.
        assert_eq!(text.lines().filter(|line| line.starts_with("    {\"case\":")).count(), 1);
    }

    #[test]
    fn a_missed_goal_is_said() {
        let mut row = Row::new("a", &[]);
        row.ns = 5.0;
        row.goal = Some(Goal::Ns(4.0));
        assert!(line(&row, 3, true).ends_with("4 missed\n"));
        row.ns = 4.0;
        assert!(line(&row, 3, true).ends_with("4 met\n"));
    }
}
