//! Rows of a figure as CSV and for people.

use std::fmt::Write as _;

use thruway_region::Pages;

use super::cell::Result as Measured;
use super::drive::Shape;
use super::duty::Shown;
use super::figures::{Figure, Point, Shows};
use crate::latency::{Latencies, PERCENTILES};
use crate::row::median;

/// A point with its measurements.
pub struct Row {
    pub point: Point,
    pub repeats: Vec<Measured>,
    /// Median over the repeats, and spread: packets per second.
    pub rate: f64,
    pub rate_min: f64,
    pub rate_max: f64,
    /// Median: packets per second moved by the Master.
    pub internal: f64,
    /// Of all repeats.
    pub latencies: Latencies,
}

impl Row {
    /// The row of a point.
    pub fn new(point: Point, repeats: Vec<Measured>) -> Row {
        let rates = || repeats.iter().map(|repeat| repeat.outcome.rate());
        Row {
            rate: median(rates()),
            rate_min: rates().fold(f64::INFINITY, f64::min),
            rate_max: rates().fold(0.0, f64::max),
            internal: median(repeats.iter().map(|repeat| repeat.outcome.rate_internal())),
            latencies: Latencies::merged(repeats.iter().map(|r| &r.outcome.latencies_ns)),
            point,
            repeats,
        }
    }

    /// Bits per second of frames, as the paper counts them: without preamble, gap and checksum.
    pub fn bits(&self) -> f64 {
        self.rate * 8.0 * self.point.cell.len as f64
    }

    fn sum(&self, of: impl Fn(&Measured) -> u64) -> u64 {
        self.repeats.iter().map(of).sum()
    }
}

const COLUMNS: &str = "figure,series,way,work,packet_bytes,packets_in_memory,workers,chains,\
    processes,wait,slots,pages,mpps,mpps_min,mpps_max,gbps,internal_mpps,sent,lost,disordered,\
    sleeps,samples,latency_mean_us";

/// The rows as CSV.
pub fn csv(figure: &Figure, rows: &[Row]) -> String {
    let mut out = COLUMNS.to_owned();
    for percent in PERCENTILES {
        // Writing to a string cannot fail.
        let _ = write!(out, ",latency_p{percent}_us");
    }
    out.push('\n');
    for row in rows {
        out.push_str(&line(figure, row));
    }
    out
}

fn line(figure: &Figure, row: &Row) -> String {
    let cell = &row.point.cell;
    let is_huge = row.repeats.first().is_some_and(|repeat| repeat.pages == Pages::Huge);
    let mut fields = vec![
        figure.name.to_owned(),
        row.point.series.clone(),
        Shown(cell.transport).to_string(),
        Shown(cell.work).to_string(),
        cell.len.to_string(),
        cell.memory.to_string(),
        cell.workers.to_string(),
        chains(cell.shape, cell.workers).to_string(),
        cell.choices.is_process.to_string(),
        Shown(cell.choices.wait).to_string(),
        cell.choices.slots.to_string(),
        if is_huge { "huge" } else { "normal" }.to_owned(),
    ];
    let mega = [row.rate, row.rate_min, row.rate_max, row.bits() / 1e3, row.internal];
    fields.extend(mega.map(|value| format!("{:.4}", value / 1e6)));
    fields.extend([
        row.sum(|repeat| repeat.outcome.sent).to_string(),
        row.sum(|repeat| repeat.outcome.lost).to_string(),
        row.sum(|repeat| repeat.outcome.disordered).to_string(),
        row.sum(|repeat| repeat.sleeps).to_string(),
        row.latencies.count().to_string(),
        format!("{:.2}", row.latencies.mean_ns() / 1e3),
    ]);
    let percentiles = PERCENTILES.map(|percent| row.latencies.percentile_ns(percent) / 1e3);
    fields.extend(percentiles.map(|us| format!("{us:.2}")));
    fields.join(",") + "\n"
}

fn chains(shape: Shape, workers: usize) -> usize {
    if shape == Shape::Line { 1 } else { workers }
}

/// The columns' names, for people.
pub fn heading(figure: &Figure) -> String {
    format!(
        "figure {}: {}\n{:>24} {:>7} {:>9} {:>17} {:>9} {:>9} {:>12} {:>10}\n",
        figure.name,
        figure.title,
        "series",
        if matches!(figure.shows, Shows::Latency) { "" } else { "x" },
        "Mpps",
        "min..max",
        "Gbit/s",
        "moved",
        "latency us",
        "p99 us"
    )
}

/// A row, for people.
pub fn text(row: &Row) -> String {
    let spread = format!("{:.2}..{:.2}", row.rate_min / 1e6, row.rate_max / 1e6);
    format!(
        "{:>24} {:>7} {:>9.3} {spread:>17} {:>9.2} {:>9.2} {:>12.1} {:>10.1}\n",
        row.point.series,
        row.point.x,
        row.rate / 1e6,
        row.bits() / 1e9,
        row.internal / 1e6,
        row.latencies.mean_ns() / 1e3,
        row.latencies.percentile_ns(99.0) / 1e3
    )
}
