//! The harness at tiny sizes, Workers as threads: a test binary cannot start itself as a Worker.

use std::time::Duration;

use clap::Parser;

use super::cell::{Cell, Span};
use super::drive::Shape;
use super::duty::{Transport, Wait, Work};
use super::figures::{FIGURES, cell, ring_cell};
use super::options::Options;
use super::run::run;
use super::source::Source;
use super::workers::Cores;
use super::{chart, table};

#[derive(Parser)]
struct Line {
    #[command(flatten)]
    options: Options,
}

fn options(args: &[&str]) -> Options {
    let args = ["bench", "--threads", "--memory", "50"].iter().chain(args);
    Line::try_parse_from(args).expect("arguments").options
}

/// As many packets as asked for go through; the cell itself checks that all come out, in order,
/// and that Workers computed what the bytes give.
fn packets(cell: &Cell, packets: u64) -> super::cell::Result {
    let span = Span { warm_up: Duration::ZERO, time: Duration::ZERO, packets: Some(packets) };
    let source = Source::new(cell.memory, cell.len);
    let result = cell.measure(&source, span, &Cores::allowed()).expect("measured");
    assert!(result.outcome.sent >= packets, "{:?}", result.outcome);
    assert_eq!((result.outcome.lost, result.outcome.disordered), (0, 0));
    result
}

#[test]
fn every_way_takes_a_thousand_packets_through_a_chain_of_two() {
    for transport in [Transport::Exchange, Transport::Pair, Transport::Pointers] {
        for work in [Work::Dummy, Work::Real] {
            for wait in [Wait::Block, Wait::Poll, Wait::Hybrid] {
                let mut cell = cell(&options(&["--slots", "16", "--burst", "8"]), transport, 2);
                (cell.work, cell.choices.wait) = (work, wait);
                let result = packets(&cell, 1000);
                assert_eq!(result.outcome.moved, 2 * result.outcome.sent, "{transport:?}");
            }
        }
    }
}

#[test]
fn every_choice_takes_packets_through() {
    let choices: [&[&str]; 6] = [
        &["--publish-each"],
        &["--shared-indices"],
        &["--packed-indices", "--unaligned-slots"],
        &["--time", "tsc", "--age", "100000"],
        &["--master-threshold", "15", "--age", "3"],
        &["--pages", "normal", "--worker-threshold", "1"],
    ];
    for choice in choices {
        let args: Vec<&str> = ["--slots", "32"].iter().chain(choice).copied().collect();
        for transport in [Transport::Exchange, Transport::Pair, Transport::Pointers] {
            packets(&Cell { len: 700, ..cell(&options(&args), transport, 2) }, 500);
        }
    }
}

#[test]
fn a_ring_of_chains_never_waits_for_itself() {
    // Rings as small as can be against a window as large as can be.
    let args = ["--slots", "4", "--burst", "2", "--window", "1000000"];
    for chains in [2, 3, 7] {
        let cell = ring_cell(&options(&args), chains);
        assert_eq!(cell.shape, Shape::Ring);
        let result = packets(&cell, 2000);
        assert!(result.outcome.latencies_ns.count() > 0);
    }
}

#[test]
fn figures_become_rows_and_pictures() {
    let options = options(&["--workers", "1,10", "--len", "64"]);
    for figure in FIGURES {
        let span = Span { warm_up: Duration::ZERO, time: Duration::ZERO, packets: Some(1) };
        let mut points = figure.points(&options);
        assert!(!points.is_empty(), "{}", figure.name);
        points.truncate(1);
        points[0].cell.work = Work::Dummy;
        points[0].cell.choices.is_process = false;
        let source = Source::new(points[0].cell.memory, 64);
        let result = points[0].cell.measure(&source, span, &Cores::allowed()).expect("measured");
        let rows: Vec<_> =
            points.into_iter().map(|p| table::Row::new(p, vec![result.clone()])).collect();
        let csv = table::csv(figure, &rows);
        let columns = |line: &str| line.split(',').count();
        let mut lines = csv.lines().map(columns);
        assert_eq!(lines.next(), lines.next(), "{csv}");
        let picture = chart::svg(figure, &rows);
        assert!(picture.ends_with("</svg>\n") && !picture.contains("NaN"), "{picture}");
    }
}

#[test]
fn wrong_arguments_say_what_is_right() {
    let wrong = |args: &[&str]| run(&options(args)).expect_err("refused").to_string();
    assert!(wrong(&["--figure", "5e"]).contains("no figure '5e'"));
    assert!(wrong(&["--figure", "5a", "--slots", "100"]).contains("power of two"));
    assert!(wrong(&["--figure", "5a", "--seconds", "0"]).contains("--duration 0"));
    let thresholds = ["--figure", "5a", "--slots", "64", "--master-threshold", "64"];
    assert!(wrong(&thresholds).contains("--master-threshold"));
    for args in [["--burst", "0"], ["--worker-threshold", "0"], ["--wait", "no"], ["--repeat", "0"]]
    {
        assert!(Line::try_parse_from(["bench"].iter().chain(&args)).is_err(), "{args:?}");
    }
}
