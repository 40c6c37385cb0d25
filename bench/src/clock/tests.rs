//! The bench itself.

use thruway_clock::Phase;

use super::follow::Point;
use super::report::{csv, stretches, svg};

fn point(ms: i64, phase: Phase, error: i64) -> Point {
    let gap = if error.abs() > 5_000 { 20_000 } else { 80 };
    Point { at: ms * 1_000_000, phase, error, gap, reading: 11 }
}

#[test]
fn stretches_are_phases_and_seconds() {
    let mut points = vec![point(0, Phase::Stabilising, 0), point(100, Phase::Synchronising, 0)];
    points.extend((0..25).map(|at| point(200 + at * 100, Phase::Running, at - 12)));
    points.push(point(2_700, Phase::Running, 10_000));
    let rows = stretches(&points);
    let lengths: Vec<(Phase, usize)> = rows.iter().map(|row| (row.phase, row.points)).collect();
    let running = |points| (Phase::Running, points);
    assert_eq!(lengths[..2], [(Phase::Stabilising, 1), (Phase::Synchronising, 1)]);
    assert_eq!(lengths[2..], [running(10), running(10), running(6)]);
    // -12 to -3; what was interrupted does not count.
    assert_eq!((rows[2].error, rows[2].size[2], rows[2].interrupted), (-7.5, 12.0, 0));
    assert_eq!((rows[4].size[2], rows[4].interrupted), (12.0, 1));
    assert_eq!(csv(&points).lines().count(), points.len() + 1);
    assert_eq!(svg(&points).matches("<polyline").count(), 3);
}

#[test]
fn costs_are_of_what_they_say() {
    let rows = super::cost::measure(1);
    assert_eq!(rows.len(), super::cost::ALL.len());
    assert!(rows.iter().all(|row| row.ns > 0.0 && row.ns_min <= row.ns && row.ns <= row.ns_max));
    assert_eq!(rows[0].ratio, 1.0);
}
