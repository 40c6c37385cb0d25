//! The bench's own.

use std::time::Duration;

use super::figures::{Extent, FIGURES, Shows};
use super::placement::{Approach, Placement, Work};
use super::running::{Running, Ticks};

/// Of a run.
const TIME: Duration = Duration::from_millis(30);

const LITTLE: Work = Work { draws: 1, reads: 2, of_packet: 50, array: 0.01 };

fn placed(approach: Approach, stages: usize, cores: usize) -> Placement {
    Placement { approach, stages, cores, is_batched: true, work: LITTLE }
}

/// What stands between the elements of a configuration, shortened.
fn hops(placement: Placement) -> String {
    let text = placement.text();
    let (chain, places) = text.split_once("StaticThreadSched(").unwrap();
    let words = chain.split_whitespace().filter_map(|word| match word {
        _ if word.starts_with("WorkPackage") => Some("work"),
        _ if word.starts_with("EtherRewrite") => Some("send"),
        _ if word.len() == 2 && word.starts_with('p') => Some(word),
        _ => None,
    });
    let places = places.trim_end().trim_end_matches(')');
    format!("{}; {places}", words.collect::<Vec<_>>().join(" "))
}

#[test]
fn stages_stand_where_they_should() {
    let hops = |approach, stages, cores| hops(placed(approach, stages, cores));
    assert_eq!(hops(Approach::Parallel, 2, 2), "work work send; q0 0, q1 1");
    assert_eq!(hops(Approach::Pipeline, 2, 2), "work p1 work send; q0 0, p1 1");
    assert_eq!(hops(Approach::Returning, 2, 2), "work p1 work p2 send; q0 0, p1 1, p2 0");
    assert_eq!(hops(Approach::OneForIo, 1, 2), "p0 work p1 send; q0 0, p0 1, p1 0");
    assert_eq!(hops(Approach::TwoForIo, 1, 3), "p0 work p1 send; q0 0, p0 1, p1 2");
    // Three on two cores: two stay together.
    assert_eq!(hops(Approach::Returning, 3, 2), "work work p2 work p3 send; q0 0, p2 1, p3 0");
    assert_eq!(hops(Approach::Returning, 3, 1), "work work work send; q0 0");
}

#[test]
fn a_handoff_is_what_a_pipeline_has_and_parallel_has_not() {
    let pipeline = placed(Approach::Pipeline, 2, 2);
    assert!(pipeline.hands_as(&placed(Approach::Parallel, 2, 2)));
    assert!(!pipeline.hands_as(&placed(Approach::Returning, 2, 2)));
    assert!(!pipeline.hands_as(&placed(Approach::Parallel, 3, 3)));
    let single = Placement { is_batched: false, ..pipeline };
    assert!(!single.hands_as(&placed(Approach::Parallel, 2, 2)));
    assert!(!placed(Approach::Pipeline, 3, 2).hands_as(&placed(Approach::Parallel, 3, 2)));
}

#[test]
fn every_placement_carries_packets_and_loses_none() {
    let ticks = Ticks::measure();
    let several = [
        placed(Approach::Parallel, 2, 2),
        placed(Approach::Pipeline, 2, 2),
        placed(Approach::Returning, 3, 2),
        placed(Approach::OneForIo, 1, 2),
        placed(Approach::TwoForIo, 1, 3),
    ];
    let single = several.map(|placement| Placement { is_batched: false, ..placement });
    for placement in several.into_iter().chain(single) {
        let mut running = Running::new(placement).unwrap();
        for rate in [None, Some(20_000.0), None] {
            // A loaded machine may leave no time at all to one of the threads, for a while.
            let mut runs = (0..50).map(|_| running.run(TIME, rate, ticks).unwrap());
            let done = runs.find(|done| done.rate > 0.0 && done.latencies.count() > 0);
            let done = done.unwrap_or_else(|| panic!("{}: nothing came", placement.name()));
            // What it is behind with is made up for, so that it may be above for a moment.
            let is_paced = rate.is_none_or(|rate| done.rate < rate * 3.0);
            assert!(is_paced, "{}: {} packets/s", placement.name(), done.rate);
        }
    }
}

#[test]
fn every_figure_has_something_for_two_cores_and_for_many() {
    for figure in FIGURES {
        for (cores_max, is_quick) in [(2, false), (2, true), (64, false)] {
            let groups = figure.groups(Extent { cores_max, is_quick });
            let placements = || groups.iter().flat_map(|group| &group.placements);
            let fit = placements().filter(|placement| placement.cores <= cores_max).count();
            assert!(fit > 0, "{} on {cores_max} cores", figure.name);
            // Cores that only receive or send are more than those for stages.
            let spare = |it: &Placement| match it.approach {
                Approach::OneForIo => it.cores > 1,
                Approach::TwoForIo => it.cores > 2,
                _ => it.cores > 0,
            };
            assert!(placements().all(spare), "{}", figure.name);
            let pairs = groups.iter().all(|group| group.placements.len() == 2);
            assert_eq!(figure.shows == Shows::Relative, pairs, "{}", figure.name);
        }
    }
}
