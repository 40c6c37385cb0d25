//! When sessions end, and how many at once.

use thruway_flow::chain::Demand;
use thruway_flow::manager::Settings;
use thruway_wire::flow::FiveTuple;

use super::{SECOND, demand, frame, manager, one, release, udp};

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
