//! Rows for people (a table) and for programs (JSON).

use std::fmt::Write as _;

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

/// A string in JSON.
fn quote(text: &str) -> String {
    let mut quoted = String::from("\"");
    for c in text.chars() {
        match c {
            '"' | '\\' => quoted.extend(['\\', c]),
            c if c < ' ' => {
                // Writing to a string cannot fail.
                let _ = write!(quoted, "\\u{:04x}", u32::from(c));
            }
            c => quoted.push(c),
        }
    }
    quoted + "\""
}

fn number(value: Option<f64>) -> String {
    match value {
        Some(value) if value.is_finite() => format!("{value:.3}"),
        _ => "null".into(),
    }
}

fn object(row: &Row) -> String {
    let (baseline, ratio) = match &row.ratio {
        Some((name, ratio)) => (quote(name), number(Some(*ratio))),
        None => ("null".into(), "null".into()),
    };
    let (goal_step_ns, goal_ratio) = match row.goal {
        Some(Goal::StepNs(goal)) => (Some(goal), None),
        Some(Goal::Ratio(goal)) => (None, Some(goal)),
        _ => (None, None),
    };
    let members = [
        ("case", quote(&row.case)),
        ("ns_per_packet", number(Some(row.ns))),
        ("ns_min", number(Some(row.ns_min))),
        ("ns_max", number(Some(row.ns_max))),
        ("wall_ns_per_packet", number(Some(row.wall_ns))),
        ("packets_per_second", number(Some(row.pps))),
        ("gbits_per_second", number(row.gbps)),
        ("cycles_per_packet", number(row.cycles)),
        ("instructions_per_packet", number(row.instructions)),
        ("cache_misses_per_packet", number(row.cache_misses)),
        ("packets", row.packets.to_string()),
        ("repeats", row.repeats.to_string()),
        ("baseline", baseline),
        ("ratio", ratio),
        ("step_ns", number(row.step_ns)),
        ("goal_ns", number(row.goal_ns())),
        ("goal_step_ns", number(goal_step_ns)),
        ("goal_ratio", number(goal_ratio)),
    ];
    let members: Vec<String> = members.iter().map(|(k, v)| format!("{}: {v}", quote(k))).collect();
    format!("{{{}}}", members.join(", "))
}

/// The whole report in JSON: the machine and a row per line.
pub fn json(suite: &str, machine: &Machine, no_counters: Option<&str>, rows: &[Row]) -> String {
    let members = [
        ("bench", quote(suite)),
        ("version", quote(env!("CARGO_PKG_VERSION"))),
        ("model", quote(&machine.model)),
        ("cores", machine.cores.to_string()),
        ("pinned", machine.pinned.map_or("null".into(), |core| core.to_string())),
        ("kernel", quote(&machine.kernel)),
        ("load", quote(&machine.load)),
        ("no_counters", no_counters.map_or("null".into(), quote)),
    ];
    let members: Vec<String> =
        members.iter().map(|(k, v)| format!("  {}: {v},\n", quote(k))).collect();
    let rows: Vec<String> = rows.iter().map(|row| format!("    {}", object(row))).collect();
    format!("{{\n{}  \"rows\": [\n{}\n  ]\n}}\n", members.concat(), rows.join(",\n"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn strings_are_quoted() {
        assert_eq!(quote("a\"b\\c\nd"), r#""a\"b\\c\u000ad""#);
    }

    #[test]
    fn what_is_not_known_is_null() {
        let row = Row::new("a", &[]);
        let text = object(&row);
        assert!(text.contains(r#""case": "a", "ns_per_packet": 0.000"#), "{text}");
        assert!(text.contains(r#""ns_min": null"#), "{text}");
        assert!(text.contains(r#""cycles_per_packet": null"#), "{text}");
        assert!(text.contains(r#""baseline": null, "ratio": null, "step_ns": null"#), "{text}");
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
