//! Rows for people and for programs.

use std::fmt::Write as _;

use super::figures::{Figure, Point};
use super::race::Done;
use super::subject::Subject;
use crate::latency::Latencies;
use crate::machine::Machine;
use crate::row::median;

/// A point's measurements.
pub struct Row {
    figure: &'static str,
    point: Point,
    /// Operations of all threads in a second of each thread's processor time, millions: median,
    /// least and most of the repeats.
    mops: [f64; 3],
    /// Adds and reads alone.
    adds: f64,
    reads: f64,
    /// The least part of the time, of all repeats, in which all threads had a processor.
    overlap: f64,
    /// The part of what was added that went missing, the most of all repeats.
    lost: f64,
    /// Of all repeats.
    times: Latencies,
}

/// Millions in a second of each thread's processor time.
fn rate(count: u64, done: &Done, threads: usize) -> f64 {
    count as f64 * 1e3 * threads as f64 / done.cpu_ns.max(1) as f64
}

impl Row {
    /// The row of a point.
    pub fn new(figure: &Figure, point: Point, repeats: &[Done]) -> Row {
        let threads = point.shape.roles.len();
        let all = || repeats.iter().map(|done| rate(done.writes + done.reads, done, threads));
        Row {
            figure: figure.name,
            mops: [median(all()), all().fold(f64::INFINITY, f64::min), all().fold(0.0, f64::max)],
            adds: median(repeats.iter().map(|done| rate(done.writes, done, threads))),
            reads: median(repeats.iter().map(|done| rate(done.reads, done, threads))),
            overlap: repeats.iter().map(|done| done.overlap).fold(1.0, f64::min),
            lost: repeats.iter().map(|done| done.lost).fold(0.0, f64::max),
            times: Latencies::merged(repeats.iter().map(|done| &done.times)),
            point,
        }
    }

    /// Nanoseconds of a thread for an operation.
    fn ns(&self) -> f64 {
        self.point.shape.roles.len() as f64 * 1e3 / self.mops[0]
    }

    /// Median, 99th percentile and longest time, where operations were timed.
    fn waits(&self) -> Option<[f64; 3]> {
        (self.times.count() > 0)
            .then(|| [50.0, 99.0, 100.0].map(|percent| self.times.percentile_ns(percent)))
    }

    /// Whether something is missing that this structure may not lose.
    pub fn is_wrong(&self) -> bool {
        matches!(self.point.subject, Subject::Of(_)) && self.lost != 0.0
    }

    /// The structure's name.
    pub fn name(&self) -> &'static str {
        self.point.subject.name()
    }
}

/// The line above all tables.
pub fn heading(machine: &Machine, repeats: u32, time_ms: u32) -> String {
    format!(
        "bench sync: {machine}; {repeats} repeats of {time_ms} ms\n\
         Mops/s: millions of operations of all threads in a second of each one's processor time; an \
         add is of a batch's packets and bytes\n"
    )
}

/// A figure's columns.
pub fn columns(figure: &Figure) -> String {
    format!(
        "\nfigure {}: {}\n{:>17} {:>12} {:>7} {:>9} {:>17} {:>9} {:>9} {:>8} {:>7} {:>6} {:>24}\n",
        figure.name,
        figure.title,
        "structure",
        "consistent",
        "x",
        "Mops/s",
        "min..max",
        "adds",
        "reads",
        "ns/op",
        "overlap",
        "lost",
        "median, p99, longest ns"
    )
}

/// A row, for people.
pub fn line(row: &Row) -> String {
    let [middle, least, most] = row.mops;
    let spread = format!("{least:.2}..{most:.2}");
    let waits = row
        .waits()
        .map_or("-".to_owned(), |[p50, p99, most]| format!("{p50:.0}, {p99:.0}, {most:.0}"));
    let lost = match row.point.subject {
        Subject::Nothing => "-".to_owned(),
        _ => format!("{:.0}%", row.lost * 100.0),
    };
    format!(
        "{:>17} {:>12} {:>7} {middle:>9.2} {spread:>17} {:>9.3} {:>9.3} {:>8.1} {:>7.2} {lost:>6} \
         {waits:>24}\n",
        row.name(),
        row.point.subject.consistency(),
        row.point.shape.x,
        row.adds,
        row.reads,
        row.ns(),
        row.overlap,
    )
}

/// The rows in JSON, each on a line.
pub fn json(machine: &Machine, rows: &[Row]) -> String {
    let mut text = format!(
        "{{\n  \"bench\": \"sync\",\n  \"version\": \"{}\",\n  \"model\": \"{}\",\n  \"cores\": {},\n  \
         \"kernel\": \"{}\",\n  \"load\": \"{}\",\n  \"rows\": [\n",
        env!("CARGO_PKG_VERSION"),
        machine.model,
        machine.cores,
        machine.kernel,
        machine.load
    );
    for (at, row) in rows.iter().enumerate() {
        let end = if at + 1 == rows.len() { "" } else { "," };
        let [middle, least, most] = row.mops;
        let waits = row.waits().map_or("null".to_owned(), |[p50, p99, most]| {
            format!("[{p50:.0}, {p99:.0}, {most:.0}]")
        });
        // Writing to a string cannot fail.
        let _ = writeln!(
            text,
            "    {{\"figure\": \"{}\", \"structure\": \"{}\", \"consistency\": \"{}\", \"threads\": \
             {}, \"x\": {}, \"large\": {}, \"mops\": {middle:.3}, \"mops_min\": {least:.3}, \
             \"mops_max\": {most:.3}, \"adds_mops\": {:.3}, \"reads_mops\": {:.3}, \"ns\": {:.2}, \
             \"overlap\": {:.3}, \"lost\": {:.4}, \"op_ns_median_p99_max\": {waits}}}{end}",
            row.figure,
            row.name(),
            row.point.subject.consistency(),
            row.point.shape.roles.len(),
            row.point.shape.x,
            row.point.shape.is_large,
            row.adds,
            row.reads,
            row.ns(),
            row.overlap,
            if row.point.subject == Subject::Nothing { 0.0 } else { row.lost },
        );
    }
    text + "  ]\n}\n"
}
