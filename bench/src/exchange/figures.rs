//! The figures of the paper: which points each has.

use thruway_region::{HUGE_PAGE_LEN, Pages, Region};

use super::cell::Cell;
use super::drive::Shape;
use super::duty::{Transport, Wait, Work};
use super::options::Options;

/// What a figure shows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Shows {
    /// Packets and bits per second at the end of the chains.
    Throughput,
    /// Packets per second moved by the Master, over all hops.
    Internal,
    /// The distribution of latencies.
    Latency,
}

/// A figure of the paper, or a study of its text.
pub struct Figure {
    /// As on the command line.
    pub name: &'static str,
    pub title: &'static str,
    pub shows: Shows,
    points: fn(&Options) -> Vec<Point>,
}

/// One point: a series' name, its place on the axis, and its conditions.
pub struct Point {
    pub series: String,
    pub x: usize,
    pub cell: Cell,
}

/// Frame lengths of the paper, bytes.
const LENS: [usize; 3] = [64, 700, 1514];

/// Numbers of chains of section 6.5.
const CHAINS: [usize; 6] = [10, 50, 100, 250, 500, 1000];

/// Every figure.
pub const FIGURES: &[Figure] = &[
    Figure {
        name: "5a",
        title: "one chain, dummy Workers, one packet in memory",
        shows: Shows::Throughput,
        points: |options| line(options, Transport::Exchange, Work::Dummy, 1),
    },
    Figure {
        name: "5b",
        title: "one chain, real Workers, one packet in memory",
        shows: Shows::Throughput,
        points: |options| line(options, Transport::Exchange, Work::Real, 1),
    },
    Figure {
        name: "5c",
        title: "one chain, dummy Workers, a million packets in memory",
        shows: Shows::Throughput,
        points: |options| line(options, Transport::Exchange, Work::Dummy, options.memory),
    },
    Figure {
        name: "5d",
        title: "one chain, real Workers, a million packets in memory",
        shows: Shows::Throughput,
        points: |options| line(options, Transport::Exchange, Work::Real, options.memory),
    },
    Figure {
        name: "6a",
        title: "latency of one chain of 64-byte packets",
        shows: Shows::Latency,
        points: |options| latency(options, Transport::Exchange),
    },
    Figure {
        name: "6b",
        title: "latency of one chain of 64-byte packets, zero copy and polling",
        shows: Shows::Latency,
        points: |options| latency(options, Transport::Pointers),
    },
    Figure {
        name: "7",
        title: "one chain, real Workers: packets that the Master moves",
        shows: Shows::Internal,
        points: |options| line(options, Transport::Exchange, Work::Real, options.memory),
    },
    Figure {
        name: "8a",
        title: "one chain, real Workers: a pair of rings and a copy, beside the exchange",
        shows: Shows::Throughput,
        points: |options| beside(options, Transport::Pair),
    },
    Figure {
        name: "8b",
        title: "one chain, real Workers: zero copy and polling, beside the exchange",
        shows: Shows::Throughput,
        points: |options| beside(options, Transport::Pointers),
    },
    Figure {
        name: "9a",
        title: "many chains of two Workers, each Worker in two chains",
        shows: Shows::Throughput,
        points: |options| LENS.into_iter().flat_map(|len| ring(options, len)).collect(),
    },
    Figure {
        name: "9b",
        title: "latency of many chains, 64-byte packets",
        shows: Shows::Latency,
        points: |options| {
            let mut points = ring(options, 64);
            points.iter_mut().for_each(|point| point.series = format!("{} chains", point.x));
            points
        },
    },
    Figure {
        name: "threads",
        title: "Workers as processes and as threads (section 6.4.1)",
        shows: Shows::Throughput,
        points: threads,
    },
    Figure {
        name: "pages",
        title: "rings in normal and in huge pages, Workers with a large automaton (section 6.4.2)",
        shows: Shows::Throughput,
        points: pages,
    },
];

/// The conditions of a point of one chain.
pub fn cell(options: &Options, transport: Transport, workers: usize) -> Cell {
    let mut choices = options.choices.choices(false);
    if transport == Transport::Pointers {
        // The baseline polls: that is what it is.
        choices.wait = Wait::Poll;
    }
    Cell {
        transport,
        work: Work::Real,
        len: 64,
        memory: options.memory,
        workers,
        shape: Shape::Line,
        choices,
    }
}

/// A point of 10 to 1,000 chains.
pub fn ring_cell(options: &Options, chains: usize) -> Cell {
    let choices = options.choices.choices(true);
    Cell { shape: Shape::Ring, choices, ..cell(options, Transport::Exchange, chains) }
}

fn line(options: &Options, transport: Transport, work: Work, memory: u32) -> Vec<Point> {
    let point = |len, workers| Point {
        series: format!("{len} B"),
        x: workers,
        cell: Cell { work, memory, len, ..cell(options, transport, workers) },
    };
    LENS.into_iter().flat_map(|len| (1..=10).map(move |workers| point(len, workers))).collect()
}

fn named(mut points: Vec<Point>, name: &str) -> Vec<Point> {
    points.iter_mut().for_each(|point| point.series = format!("{} {name}", point.series));
    points
}

fn beside(options: &Options, transport: Transport) -> Vec<Point> {
    let name = if transport == Transport::Pair { "pair" } else { "zero copy" };
    let mut points = named(line(options, transport, Work::Real, options.memory), name);
    points
        .extend(named(line(options, Transport::Exchange, Work::Real, options.memory), "exchange"));
    points
}

fn latency(options: &Options, transport: Transport) -> Vec<Point> {
    let point = |workers| Point {
        series: format!("{workers} Workers"),
        x: workers,
        cell: cell(options, transport, workers),
    };
    [1, 2, 4, 6, 8, 10].into_iter().map(point).collect()
}

fn ring(options: &Options, len: usize) -> Vec<Point> {
    let point = move |chains| Point {
        series: format!("{len} B"),
        x: chains,
        cell: Cell { len, ..ring_cell(options, chains) },
    };
    CHAINS.into_iter().map(point).collect()
}

fn threads(options: &Options) -> Vec<Point> {
    let mut points = Vec::new();
    for (is_process, name) in [(true, "processes"), (false, "threads")] {
        let mut some = named(line(options, Transport::Exchange, Work::Real, options.memory), name);
        some.iter_mut().for_each(|point| point.cell.choices.is_process = is_process);
        points.extend(some);
    }
    points
}

fn pages(options: &Options) -> Vec<Point> {
    let mut kinds = vec![(Pages::Normal, "normal pages")];
    // Never normal pages under the name of huge ones.
    match Region::new(HUGE_PAGE_LEN, Pages::Huge) {
        Ok(_) => kinds.push((Pages::Huge, "huge pages")),
        Err(why) => errln!("figure pages has no rows of huge pages: {why}"),
    }
    let mut points = Vec::new();
    for (pages, name) in kinds {
        let mut some =
            named(line(options, Transport::Exchange, Work::Automaton, options.memory), name);
        some.iter_mut().for_each(|point| point.cell.choices.pages = pages);
        points.extend(some.into_iter().filter(|point| [1, 2, 4].contains(&point.x)));
    }
    points
}

impl Figure {
    /// The points that the options want.
    pub fn points(&self, options: &Options) -> Vec<Point> {
        let wanted = |point: &Point| {
            (options.workers.is_empty() || options.workers.contains(&point.x))
                && (options.len.is_empty() || options.len.contains(&point.cell.len))
        };
        (self.points)(options).into_iter().filter(wanted).collect()
    }
}

/// For the help.
pub fn list() -> String {
    let lines = FIGURES.iter().map(|f| format!("  {:8} {}\n", f.name, f.title));
    format!("Figures:\n{}", lines.collect::<String>())
}

/// The figures of these names.
///
/// # Errors
/// A name that none has.
pub fn named_figures(names: &[String]) -> anyhow::Result<Vec<&'static Figure>> {
    let mut chosen = Vec::new();
    for name in names {
        let some: Vec<&Figure> = FIGURES
            .iter()
            .filter(|figure| name == "all" || figure.name == name || is_part(name, figure.name))
            .collect();
        anyhow::ensure!(!some.is_empty(), "no figure '{name}'\n{}", list());
        chosen.extend(some);
    }
    Ok(chosen)
}

/// `6` is `6a` and `6b`.
fn is_part(name: &str, figure: &str) -> bool {
    figure.strip_prefix(name).is_some_and(|rest| rest.len() == 1 && !name.is_empty())
}
