//! Rows for people and for programs.

use std::fmt::Write as _;

use serde_json::{Value, json};
use thruway_clock::Phase;
use thruway_model::calibrate::quantile;

use super::cost::Cost;
use super::follow::Point;
use super::path::Path;
use crate::machine::Machine;
use thruway::draw::{Curve, Lines, Marks};

/// Comparisons with longer readings were interrupted, nanoseconds: by a call into the
/// kernel or another process; this is more than ten readings of a clock.
const INTERRUPTED_NS: i64 = 1_000;

/// Comparisons of one phase; of the running one, of a second.
pub struct Stretch {
    pub phase: Phase,
    /// Seconds since the start.
    pub from: f64,
    pub to: f64,
    /// Median of the error and of its size, its 99th percentile and largest size, nanoseconds, of
    /// those that were not interrupted.
    pub error: f64,
    pub size: [f64; 3],
    /// Median of the time between two readings of the clock.
    pub reading: f64,
    pub points: usize,
    pub interrupted: usize,
}

fn is_whole(point: &&Point) -> bool {
    point.gap <= INTERRUPTED_NS
}

fn sorted(values: impl Iterator<Item = i64>) -> Vec<f64> {
    let mut values: Vec<f64> = values.map(|value| value as f64).collect();
    values.sort_unstable_by(f64::total_cmp);
    values
}

fn of(sorted: &[f64], share: f64) -> f64 {
    if sorted.is_empty() { f64::NAN } else { quantile(sorted, share) }
}

/// Cuts comparisons where the phase changes, and the running one every second.
pub fn stretches(points: &[Point]) -> Vec<Stretch> {
    let mut since = 0;
    let mut same = |a: &Point, b: &Point| {
        let is_long = b.phase == Phase::Running && b.at - since >= 1_000_000_000;
        let same = a.phase == b.phase && !is_long;
        since = if same { since } else { b.at };
        same
    };
    points.chunk_by(|a, b| same(a, b)).map(stretch).collect()
}

fn stretch(points: &[Point]) -> Stretch {
    let whole = || points.iter().filter(is_whole);
    let sizes = sorted(whole().map(|point| point.error.abs()));
    let seconds = |point: Option<&Point>| point.map_or(0.0, |point| point.at as f64 / 1e9);
    Stretch {
        phase: points.first().map_or(Phase::Stabilising, |point| point.phase),
        from: seconds(points.first()),
        to: seconds(points.last()),
        error: of(&sorted(whole().map(|point| point.error)), 0.5),
        size: [0.5, 0.99, 1.0].map(|share| of(&sizes, share)),
        reading: of(&sorted(whole().map(|point| point.reading)), 0.5),
        points: points.len(),
        interrupted: points.len() - whole().count(),
    }
}

/// The line above all tables.
pub fn heading(machine: &Machine) -> String {
    format!(
        "bench clock: {}, Linux {}, load {}, core {}\n",
        machine.model,
        machine.kernel,
        machine.load,
        machine.pinned.map_or("any".to_owned(), |core| core.to_string())
    )
}

/// Figures 3.25 and 3.26 as a table.
pub fn follow(stretches: &[Stretch], points: &[Point]) -> String {
    let mut text = format!(
        "\nthe clock less the system's, ns ({} comparisons)\n{:>14} {:>15} {:>8} {:>8} {:>8} {:>8} \
         {:>8} {:>12}\n",
        points.len(),
        "phase",
        "seconds",
        "median",
        "size",
        "p99",
        "largest",
        "reading",
        "interrupted"
    );
    for row in stretches {
        let [size, p99, most] = row.size;
        // Writing to a string cannot fail.
        let _ = writeln!(
            text,
            "{:>14} {:>15} {:>8.0} {size:>8.0} {p99:>8.0} {most:>8.0} {:>8.0} {:>12}",
            row.phase.to_string(),
            format!("{:.2}..{:.2}", row.from, row.to),
            row.error,
            row.reading,
            format!("{} of {}", row.interrupted, row.points),
        );
    }
    text
}

/// Costs per reading as a table.
pub fn costs(costs: &[Cost]) -> String {
    let mut text =
        format!("\n{:>22} {:>8} {:>16} {:>10}\n", "a reading of", "ns", "min..max", "x faster");
    for cost in costs {
        let spread = format!("{:.1}..{:.1}", cost.ns_min, cost.ns_max);
        let phase = cost.phase.as_deref().map_or(String::new(), |phase| format!("  {phase}"));
        let _ = writeln!(
            text,
            "{:>22} {:>8.1} {spread:>16} {:>10.2}{phase}",
            cost.name, cost.ns, cost.ratio
        );
    }
    text
}

/// The packet path as a table.
pub fn paths(paths: &[Path]) -> String {
    let mut text = format!(
        "\npackets that get the time (InfiniteSource -> SetTimestamp -> Discard)\n{:>7} {:>8} {:>11} \
         {:>16} {:>18}\n",
        "burst", "clock", "ns/packet", "min..max", "more than none"
    );
    for path in paths {
        let spread = format!("{:.1}..{:.1}", path.ns_min, path.ns_max);
        let _ = writeln!(
            text,
            "{:>7} {:>8} {:>11.1} {spread:>16} {:>18.1}",
            path.burst, path.clock, path.ns, path.more_ns
        );
    }
    text
}

/// All comparisons, a line each.
pub fn csv(points: &[Point]) -> String {
    let mut text = "seconds,phase,error_ns,gap_ns,reading_ns\n".to_owned();
    for point in points {
        let Point { at, phase, error, gap, reading } = point;
        let _ = writeln!(text, "{:.6},{phase},{error},{gap},{reading}", *at as f64 / 1e9);
    }
    text
}

/// Figures 3.25 and 3.26 as a picture: the size of the error, a curve per phase.
pub fn svg(points: &[Point]) -> String {
    let mut curves: Vec<Curve> = Vec::new();
    for point in points.iter().filter(is_whole) {
        let name = point.phase.to_string();
        let at = curves.iter().position(|curve| curve.name == name).unwrap_or_else(|| {
            curves.push(Curve { name, points: Vec::new(), marks: Marks::Line });
            curves.len() - 1
        });
        curves[at].points.push((point.at as f64 / 1e9, point.error.abs() as f64));
    }
    let title = "The clock less the system's, by phase (without interrupted readings)";
    Lines { title, across: "seconds", up: "ns", curves: &curves }.svg()
}

/// Everything in JSON.
pub fn json(machine: &Machine, stretches: &[Stretch], costs: &[Cost], paths: &[Path]) -> String {
    let number = |value: f64| if value.is_finite() { json!(round(value)) } else { Value::Null };
    let stretches: Vec<Value> = stretches
        .iter()
        .map(|row| {
            json!({
                "phase": row.phase.to_string(), "from_s": round(row.from), "to_s": round(row.to),
                "error_ns_median": number(row.error), "size_ns_median": number(row.size[0]),
                "size_ns_p99": number(row.size[1]), "size_ns_max": number(row.size[2]),
                "reading_ns": number(row.reading), "comparisons": row.points,
                "interrupted": row.interrupted,
            })
        })
        .collect();
    let costs: Vec<Value> = costs
        .iter()
        .map(|cost| {
            json!({
                "reading_of": cost.name, "ns": round(cost.ns), "ns_min": round(cost.ns_min),
                "ns_max": round(cost.ns_max), "ratio": round(cost.ratio), "phase": cost.phase,
            })
        })
        .collect();
    let paths: Vec<Value> = paths
        .iter()
        .map(|path| {
            json!({
                "burst": path.burst, "clock": path.clock, "ns": round(path.ns),
                "ns_min": round(path.ns_min), "ns_max": round(path.ns_max),
                "more_ns": round(path.more_ns),
            })
        })
        .collect();
    let all = json!({
        "bench": "clock", "version": env!("CARGO_PKG_VERSION"), "model": machine.model,
        "kernel": machine.kernel, "load": machine.load,
        "follow": stretches, "costs": costs, "paths": paths,
    });
    format!("{all:#}\n")
}

/// Two digits behind the point.
fn round(value: f64) -> f64 {
    (value * 100.0).round() / 100.0
}
