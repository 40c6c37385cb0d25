//! The bench itself.

use std::time::Duration;

use super::figures::FIGURES;
use super::race::{self, Role};
use super::report::Row;
use super::subject::Subject;
use super::{chosen, race::Done};

const ADD: Role = Role { writes: 1, reads: 0, work: 0, is_timed: false };

/// On one core that others may want, too: nothing about times.
#[test]
fn every_structure_does_what_it_is_asked_for_and_loses_nothing() {
    for subject in Subject::all().filter(|one| matches!(one, Subject::Of(_))) {
        let role = Role { writes: 2, reads: 6, is_timed: true, ..ADD };
        let join = subject.make(1, true);
        let done = race::run(&[role], &join, Duration::from_millis(2)).expect("one core");
        assert_eq!((done.reads, done.lost), (3 * done.writes, 0.0), "{subject:?}");
        assert_eq!(done.times.count() as u64, (done.writes + done.reads).min(200_000));
    }
}

#[test]
fn what_is_not_added_is_lost() {
    let join = Subject::Nothing.make(1, false);
    let done = race::run(&[ADD], &join, Duration::from_millis(1)).expect("one core");
    assert!(done.writes > 0 && done.lost == 1.0, "{done:?}");
}

#[test]
fn rows_are_medians_over_all_threads() {
    let figure = chosen(&["4.25".to_owned()]).expect("a figure")[0];
    let point = figure.points(2, |name| name == "rcu").swap_remove(0);
    let repeats = [(10, 1.0), (30, 0.5), (20, 1.0)].map(|(writes, overlap)| Done {
        writes,
        reads: 10,
        cpu_ns: 1_000,
        overlap,
        ..Done::default()
    });
    let line = super::report::line(&Row::new(figure, point, &repeats));
    // 20 adds and 10 reads of two threads in 500 ns each.
    let words: Vec<&str> = line.split_whitespace().collect();
    let wanted =
        ["rcu", "moment", "-65536", "60.00", "40.00..80.00", "40.000", "20.000", "33.3", "0.50"];
    assert_eq!(words[..9], wanted, "{line}");
}

#[test]
fn figures_have_points_and_names_of_their_own() {
    for (at, figure) in FIGURES.iter().enumerate() {
        assert!(FIGURES[..at].iter().all(|other| other.name != figure.name));
        assert!(!figure.points(2, |_| true).is_empty(), "{}", figure.name);
        for point in figure.points(2, |_| true) {
            assert!(point.shape.roles.iter().all(|role| role.writes + role.reads > 0));
            assert!((1..=2).contains(&point.shape.roles.len()));
        }
    }
    assert!(chosen(&["4.26".to_owned()]).is_err());
}
