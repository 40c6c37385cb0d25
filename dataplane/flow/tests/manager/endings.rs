//! When sessions end, and how many at once.

use thruway_flow::Ended;
use thruway_flow::chain::Demand;
use thruway_flow::manager::Settings;
use thruway_wire::flow::FiveTuple;

use super::{SECOND, at, bounded, classify, demand, frame, manager, one, release, tcp, udp};

/// Both ends have finished, and still send again what got lost before that.
#[test]
fn closed_sessions_are_kept_as_long_as_a_function_asks() {
    for (closed_s, is_kept) in [(None, false), (Some(60), true), (Some(5), false)] {
        let demands = [Demand { closed_s, ..demand("connection", 8) }];
        let mut manager = manager(&demands, &Settings::default());
        let tuple = FiveTuple { protocol: 6, ..udp(1, 1000, 2, 80) };
        for (tuple, flags) in [(tuple, 0x02), (tuple.reversed(), 0x12), (tuple, 0x10)] {
            one(&mut manager, frame(&tuple, flags), 0);
        }
        for tuple in [tuple, tuple.reversed()] {
            one(&mut manager, frame(&tuple, 0x11), SECOND);
        }
        manager.sweep(30 * SECOND);
        assert_eq!(release(&mut manager).is_empty(), is_kept, "{closed_s:?}");
    }
}

/// Those that are there go on.
#[test]
fn no_session_begins_while_sessions_drain() {
    let mut manager = manager(&[demand("connection", 8)], &Settings::default());
    let (first, second) = (udp(1, 2, 1000, 80), udp(1, 2, 1001, 80));
    let mut passes = |tuple, is_draining| {
        manager.set_draining(is_draining);
        classify(&mut manager, vec![frame(&tuple, 0)], 0)[0].is_some()
    };
    assert!(passes(first, false));
    assert!(passes(first.reversed(), true), "of a session that is there");
    assert!(!passes(second, true), "of a new one");
    assert!(passes(second, false));
    assert_eq!(manager.counts(0).0, 2);
}

/// However many are over: functions are called for each, and packets wait meanwhile.
#[test]
fn few_sessions_end_in_one_go() {
    let mut manager = manager(&[demand("connection", 8)], &Settings::default());
    for n in 0..1000 {
        one(&mut manager, frame(&udp(n, 1000, 1, 2), 0), 0);
    }
    let mut ended = Vec::new();
    while manager.counts(0).0 > 0 && ended.len() < 1000 {
        let goes = ended.len() as i64;
        manager.sweep((1000 + 2 * goes) * SECOND);
        ended.push(release(&mut manager).len());
    }
    assert_eq!(ended.iter().sum::<usize>(), 1000);
    assert!(ended.iter().all(|count| *count <= 64), "{ended:?}");
}

/// Packets wait that bear the session's number: no other session may get it, however it ends.
#[test]
fn the_record_of_a_held_session_is_not_used_again_before_it_is_let_go() {
    let mut manager = manager(&[demand("connection", 8)], &bounded(4, 4));
    let first = one(&mut manager, frame(&tcp(1, 1000), 0x02), 0);
    let (level, index) = first.session().unwrap();
    let state = at(&manager, 1, first);
    manager.set_opened(&state);
    manager.hold(level, index);
    // A flood of others: it is evicted, as the oldest.
    let mut others = Vec::new();
    for n in 2..40 {
        others.push(one(&mut manager, frame(&tcp(n, 1000), 0x02), 0));
        let ended = release(&mut manager);
        assert!(ended.iter().all(|(_, functions)| functions.is_empty()), "notified later");
    }
    // Its connection begins anew: that is another session.
    others.push(one(&mut manager, frame(&tcp(1, 1000), 0x02), 0));
    assert!(others.iter().all(|fcb| fcb.session() != first.session()));
    assert!(manager.is_opened(&state), "its functions' state is there still");
    manager.let_go(level, index);
    let ended = release(&mut manager);
    assert_eq!((ended.len(), ended[0].1.len()), (1, 1));
    let again: Vec<_> =
        (50..90).map(|n| one(&mut manager, frame(&tcp(n, 1000), 0x02), 0).session()).collect();
    assert!(again.contains(&first.session()), "now it is used again");
}

#[test]
fn held_sessions_end_when_all_do() {
    let mut manager = manager(&[demand("connection", 8)], &Settings::default());
    for n in 0..3 {
        let (level, index) = one(&mut manager, frame(&tcp(n, 1), 0x02), 0).session().unwrap();
        manager.hold(level, index);
        manager.end(level, index, Ended::Removed);
    }
    assert!(release(&mut manager).is_empty());
    assert!(manager.end_some(Ended::Removed));
    assert_eq!(release(&mut manager).len(), 3);
    assert!(!manager.end_some(Ended::Removed));
}
