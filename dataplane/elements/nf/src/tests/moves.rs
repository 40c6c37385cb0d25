//! How many packets a function takes whose sessions move.

use super::*;

fn room(stage: &Stage) -> usize {
    stage.rig.session_mover().unwrap().room()
}

#[test]
fn room_ends_before_sources_are_to_wait() {
    let mut stage = Stage::new(&[]);
    // A quarter of the eight slots is for what is under way.
    assert_eq!(room(&stage), 6);
    stage.push(&[b"1", b"2", b"3", b"4"]);
    assert_eq!(room(&stage), 2);
    stage.push(&[&b"x"[..]; 6]);
    assert_eq!((room(&stage), stage.rig.holding()), (0, 10), "two wait for a slot");
    for _ in 0..3 {
        stage.works(|_, _| {});
        stage.run();
    }
    assert_eq!(room(&stage), 6);
    assert_eq!(stage.dropped(Lost::Full), 0);
}

#[test]
fn while_no_function_runs_as_many_are_taken_as_wait() {
    let mut stage = Stage::new(&["ON_FAILURE restart", "HOLD 1s"]);
    stage.dies();
    stage.push(&[b"1", b"2"]);
    assert_eq!(room(&stage), 255 - 2);
    stage.rig.pass(2_000_000_000);
    stage.run();
    assert_eq!((stage.dropped(Lost::Failed), room(&stage)), (2, 255));
    // What is lost in any case does not wait.
    for (policy, lost) in [("ON_FAILURE closed", 1), ("ON_FAILURE open", 0)] {
        let mut stage = Stage::new(&[policy]);
        stage.dies();
        stage.push(&[b"1"]);
        assert_eq!((stage.dropped(Lost::Failed), room(&stage)), (lost, usize::MAX));
    }
}

#[test]
fn what_is_with_it_is_known_by_count() {
    let mut stage = Stage::new(&[]);
    let given = |stage: &Stage| stage.rig.session_mover().unwrap().given();
    let is_done = |stage: &Stage, given| stage.rig.session_mover().unwrap().is_done_with(given);
    stage.push(&[&b"x"[..]; 10]);
    let first = given(&stage);
    assert_eq!((first, is_done(&stage, first)), (10, false));
    stage.works(|_, _| {});
    stage.run();
    assert!(!is_done(&stage, first), "two had waited for a slot");
    // What comes later makes no difference.
    stage.push(&[b"later"]);
    assert!(!is_done(&stage, first));
    stage.works(|_, _| {});
    stage.run();
    assert!(is_done(&stage, first));
}
