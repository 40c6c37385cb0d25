//! Rows for people and for programs.

use std::time::Duration;

use serde_json::{Value, json};

use super::figures::{Figure, Group, Shows};
use super::placement::Placement;
use super::running::Done;
use crate::latency::Latencies;
use crate::machine::Machine;
use crate::row::median;

/// Median, least and most of repeats.
type Spread = [f64; 3];

fn spread(values: impl Iterator<Item = f64> + Clone) -> Spread {
    let least = values.clone().fold(f64::INFINITY, f64::min);
    let most = values.clone().fold(f64::NEG_INFINITY, f64::max);
    [median(values), least, most]
}

/// Half and 99 percent of packets take no longer, nanoseconds.
type Times = [f64; 2];

fn times(repeats: &[Done]) -> Times {
    let all = Latencies::merged(repeats.iter().map(|done| &done.latencies));
    [all.percentile_ns(50.0), all.percentile_ns(99.0)]
}

/// A placement's measurements.
pub struct Row {
    pub series: String,
    pub x: f64,
    pub placement: Placement,
    /// Packets per second.
    rate: Spread,
    times: Times,
    /// The rate at which times were taken beside, and those times.
    paced: Option<(f64, Times)>,
    /// By how much it is faster than the other placement, percent.
    pub gain: Option<Spread>,
    /// What a handoff costs the core that is slower for it, nanoseconds a packet.
    handoff_ns: Option<Spread>,
    /// The least part of the cores' time, of all repeats, that this program had.
    busy: f64,
}

impl Row {
    pub fn new(group: &Group, placement: Placement, repeats: &[Done]) -> Row {
        Row {
            series: group.series.clone(),
            x: group.x,
            placement,
            rate: spread(repeats.iter().map(|done| done.rate)),
            times: times(repeats),
            paced: None,
            gain: None,
            handoff_ns: None,
            busy: repeats.iter().map(|done| done.busy).fold(1.0, f64::min),
        }
    }

    /// Packets per second, the median.
    pub fn rate(&self) -> f64 {
        self.rate[0]
    }

    /// Adds what was measured at a rate that is not the highest.
    pub fn set_paced(&mut self, rate: f64, repeats: &[Done]) {
        self.paced = Some((rate, times(repeats)));
    }

    /// Adds what a handoff costs: a core of the pipeline does one stage of each packet, a core in
    /// parallel all stages of its part of them. Without that cost both were as fast.
    pub fn set_handoff(&mut self, own: &[Done], beside: &[Done]) {
        if own.iter().chain(beside).all(|done| done.rate > 0.0) {
            let costs = own
                .iter()
                .zip(beside)
                .map(|(own, beside)| (1.0 / own.rate - 1.0 / beside.rate) * 1e9);
            self.handoff_ns = Some(spread(costs));
        }
    }

    /// Adds how this compares to another placement, turn by turn; nothing if no packet came in one.
    pub fn compare(&mut self, own: &[Done], other: &[Done]) {
        if own.iter().chain(other).any(|done| done.rate == 0.0) {
            return;
        }
        let gains = own.iter().zip(other).map(|(own, other)| (own.rate / other.rate - 1.0) * 100.0);
        self.gain = Some(spread(gains));
    }
}

/// A figure's rows.
pub struct Rows {
    pub figure: &'static Figure,
    pub rows: Vec<Row>,
    /// The numbers of cores that placements want which were left out.
    pub left_out: Vec<usize>,
}

/// The line above all tables.
pub fn heading(machine: &Machine, repeats: u32, time: Duration) -> String {
    format!(
        "bench threads: {machine}; {repeats} repeats of {} ms\n\
         Mpps: millions of packets a second that arrive\n\
         us: half and 99 percent of packets take no longer from source to sink; at that rate, and \
         (paced) at half of the slowest's\n\
         busy: part of the cores' time that this program had, the least of the repeats\n\
         handoff ns: by how much a core is longer at a packet than in parallel\n",
        time.as_millis()
    )
}

/// A figure's columns.
pub fn columns(figure: &Figure) -> String {
    let head = format!("\nfigure {}: {}\n", figure.name, figure.title);
    let names = match figure.shows {
        Shows::Rates => format!(
            "{:>23} {:>6} {:>6} {:>8} {:>15} {:>7} {:>8} {:>15} {:>5} {:>10}\n",
            "placement",
            "x",
            "cores",
            "Mpps",
            "min..max",
            "us p50",
            "p99",
            "paced p50, p99",
            "busy",
            "handoff ns"
        ),
        Shows::Relative => format!(
            "{:>12} {:>6} {:>6} {:>9} {:>9} {:>24} {:>16} {:>5}\n",
            "",
            "x",
            "cores",
            "parallel",
            "returning",
            "parallel is faster by %",
            "min..max",
            "busy"
        ),
    };
    head + &names
}

/// A row, for people: of two placements that are compared, both in one.
pub fn lines(figure: &Figure, group: &[Row]) -> String {
    match figure.shows {
        Shows::Rates => group.iter().map(rate_line).collect(),
        Shows::Relative => gain_line(group),
    }
}

fn rate_line(row: &Row) -> String {
    let [middle, least, most] = row.rate.map(|rate| rate / 1e6);
    let [p50, p99] = row.times.map(|ns| ns / 1e3);
    let paced = row
        .paced
        .map_or("-".to_owned(), |(_, [p50, p99])| format!("{:.1}, {:.1}", p50 / 1e3, p99 / 1e3));
    let handoff = row.handoff_ns.map_or("-".to_owned(), |[middle, ..]| format!("{middle:.1}"));
    format!(
        "{:>23} {:>6} {:>6} {middle:>8.2} {:>15} {p50:>7.1} {p99:>8.1} {paced:>15} {:>5.2} {handoff:>10}\n",
        row.placement.name(),
        row.x,
        row.placement.cores,
        format!("{least:.2}..{most:.2}"),
        row.busy,
    )
}

fn gain_line(group: &[Row]) -> String {
    let [first, second] = group else { return String::new() };
    let gain = first.gain.map_or(["-".to_owned(), "-".to_owned()], |[middle, least, most]| {
        [format!("{middle:.1}"), format!("{least:.1}..{most:.1}")]
    });
    format!(
        "{:>12} {:>6} {:>6} {:>9.3} {:>9.3} {:>24} {:>16} {:>5.2}\n",
        first.series,
        first.x,
        first.placement.cores,
        first.rate() / 1e6,
        second.rate() / 1e6,
        gain[0],
        gain[1],
        first.busy.min(second.busy),
    )
}

/// What could not be measured here.
pub fn left_out(rows: &Rows) -> String {
    match (rows.left_out.len(), rows.left_out.iter().min(), rows.left_out.iter().max()) {
        (count, Some(least), Some(most)) => {
            format!("left out: {count} placements, which want {least} to {most} cores\n")
        }
        _ => String::new(),
    }
}

/// All rows in JSON.
pub fn json(machine: &Machine, figures: &[Rows]) -> Value {
    let rows = figures.iter().flat_map(|rows| rows.rows.iter().map(|row| (rows.figure.name, row)));
    json!({
        "bench": "threads",
        "version": env!("CARGO_PKG_VERSION"),
        "model": machine.model,
        "cores": machine.cores,
        "kernel": machine.kernel,
        "load": machine.load,
        "rows": rows.map(|(figure, row)| row_json(figure, row)).collect::<Vec<_>>(),
    })
}

fn row_json(figure: &str, row: &Row) -> Value {
    let Placement { approach, stages, cores, is_batched, work } = row.placement;
    json!({
        "figure": figure,
        "placement": approach.name(),
        "stages": stages,
        "cores": cores,
        "batched": is_batched,
        "draws": work.draws,
        "reads": work.reads,
        "of_packet_percent": work.of_packet,
        "array_megabytes": work.array,
        "packets_per_second": row.rate,
        "latency_ns_p50_p99": row.times,
        "paced_at": row.paced.map(|(rate, _)| rate),
        "paced_latency_ns_p50_p99": row.paced.map(|(_, times)| times),
        "gain_percent": row.gain,
        "handoff_ns": row.handoff_ns,
        "busy": row.busy,
    })
}
