//! Packets that elements hand to their replicas in other threads: order, counts, full rings, stops
//! and hot swaps.

mod support;

use parking_lot::Mutex;
use support::LOG;
use support::router::router;
use thruway_engine::{Options, Router};

/// The recorders' log is shared: one test at a time.
static TURN: Mutex<()> = Mutex::new(());

fn two_threads() -> Options {
    Options { threads: 2, drain: true, ..Options::default() }
}

/// A source in thread 0 and one in thread 1; the packets of both go on in thread 0.
fn text(first: u32, second: u32, hand: &str) -> String {
    format!(
        "a :: Source({first}, 1, STOP false) -> h :: {hand} -> r :: Record -> Sink;
         b :: Source({second}, 4, STOP {}) -> h; StaticThreadSched(b 1)",
        first == 0
    )
}

/// The packets that `r` saw in a run.
fn seen(router: &mut Router) -> Vec<u8> {
    LOG.lock().clear();
    assert!(router.run().errors.is_empty());
    LOG.lock().iter().map(|(_, byte)| *byte).collect()
}

/// A configuration that has run, with so many packets in the ring to thread 0, which takes none.
fn full(capacity: usize, made: u32) -> Router {
    let mut router = router(&text(0, made, &format!("Hand(999, {capacity})")), &two_threads());
    router.write("h.active", "false").unwrap();
    assert!(router.run_threads().errors.is_empty());
    router
}

fn drops(router: &mut Router) -> String {
    router.read("h.drops").unwrap().replace('\n', ", ")
}

#[test]
fn packets_go_on_in_the_thread_that_they_are_handed_to() {
    let _turn = TURN.lock();
    let mut router = router(&text(1, 40, "Hand(41)"), &two_threads());
    let seen = seen(&mut router);
    let packets = |thread: usize, name: &str| {
        let node = router.layout().find(name).unwrap();
        router.stats()[thread][node].packets.get()
    };
    // Each is counted where it came.
    assert_eq!((packets(0, "h"), packets(1, "h")), (1, 40));
    assert_eq!((packets(0, "r"), packets(1, "r")), (41, 0));
    let handed: Vec<u8> = seen.iter().copied().filter(|byte| *byte > 0).collect();
    assert_eq!((seen.len(), handed), (41, (1..40).collect()));
}

#[test]
fn what_a_full_ring_has_no_room_for_is_dropped_and_the_rest_is_counted_at_the_end() {
    let _turn = TURN.lock();
    let mut router = full(8, 100);
    assert_eq!(router.read("h.handed"), Ok("8".into()));
    assert_eq!(drops(&mut router), "0 unconnected, 0 no-memory, 92 congestion-drop, 0 stopped, ");
    assert!(router.finish().is_empty());
    assert_eq!(drops(&mut router), "0 unconnected, 0 no-memory, 92 congestion-drop, 8 stopped, ");
}

#[test]
fn a_draining_stop_waits_for_packets_in_flight() {
    let _turn = TURN.lock();
    // The source stops the driver; more than a round takes is in the ring then.
    let mut router = router(&text(0, 200, "Hand(999)"), &two_threads());
    assert_eq!(seen(&mut router), (0..200).collect::<Vec<u8>>());
}

#[test]
fn another_configuration_takes_what_is_in_rings() {
    let _turn = TURN.lock();
    let mut old = full(200, 80);
    let mut new = router(&text(1, 0, "Hand(81)"), &two_threads());
    new.take_over(&mut old);
    // Older packets come before its own.
    assert_eq!(seen(&mut new), (0..80).chain([0]).collect::<Vec<u8>>());
    assert!(old.finish().is_empty());
    assert!(drops(&mut old).ends_with("0 congestion-drop, 0 stopped, "));
}

#[test]
fn a_configuration_that_cannot_take_over_gives_back_what_is_in_rings() {
    let _turn = TURN.lock();
    let mut old = full(200, 80);
    let mut new = router(&text(1, 0, "Hand(81)"), &two_threads());
    new.take_over(&mut old);
    old.take_over(&mut new);
    assert!(new.finish().is_empty() && drops(&mut new).ends_with("0 stopped, "));
    assert!(old.finish().is_empty() && drops(&mut old).ends_with("80 stopped, "));
}

#[test]
fn what_another_configuration_has_no_element_for_is_counted() {
    let _turn = TURN.lock();
    let mut old = full(200, 80);
    let mut new = router("Source(1) -> h :: Record -> Sink", &two_threads());
    new.take_over(&mut old);
    assert!(drops(&mut old).ends_with("0 congestion-drop, 80 stopped, "));
}

#[test]
fn more_or_fewer_threads_take_what_is_in_rings_or_give_it_back() {
    let _turn = TURN.lock();
    for threads in [1, 3] {
        let options = Options { threads, ..two_threads() };
        let mut old = full(200, 80);
        let mut new = router(&text(1, 0, "Hand(81)"), &options);
        assert_eq!(new.can_follow(old.control()), Ok(()));
        new.take_over(&mut old);
        assert_eq!(seen(&mut new), (0..80).chain([0]).collect::<Vec<u8>>(), "{threads}");
        assert!(old.finish().is_empty());
        assert!(drops(&mut old).ends_with("0 congestion-drop, 0 stopped, "));

        let mut old = full(200, 80);
        let mut new = router(&text(1, 0, "Hand(81)"), &options);
        new.take_over(&mut old);
        old.take_back(&mut new);
        assert!(new.finish().is_empty() && drops(&mut new).ends_with("0 stopped, "));
        assert!(old.finish().is_empty() && drops(&mut old).ends_with("80 stopped, "));
    }
}
