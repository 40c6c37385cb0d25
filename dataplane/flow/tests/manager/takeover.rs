//! What another configuration does to sessions.

use thruway_flow::chain::Demand;
use thruway_flow::manager::{Manager, Settings};
use thruway_flow::{Direction, Ended, Fcb, Phase};
use thruway_wire::flow::FiveTuple;

use super::{SECOND, at, bounded, demand, frame, manager, one, release, tcp, two, udp};

#[test]
fn another_configuration_takes_sessions_over() {
    let old_demands = [demand("connection", 8), demand("pair", 4)];
    let mut old = manager(&old_demands, &Settings::default());
    let tuples: Vec<FiveTuple<u32>> = (0..600).map(|n| udp(n, n % 7 + 1000, 9, 10)).collect();
    for (n, tuple) in tuples.iter().enumerate() {
        let fcb = one(&mut old, frame(tuple, 0), 0);
        for (node, byte) in [(1, n as u8), (2, (tuple.dst % 251) as u8)] {
            let state_at = at(&old, node, fcb);
            old.set_opened(&state_at);
            old.scratch_mut(&state_at).fill(byte);
        }
    }
    // A new function comes first, the others keep their state: 1 is now 2, and 2 is now 3.
    let demands = [demand("connection", 24), demand("connection", 8), demand("pair", 4)];
    let mut new = manager(&demands, &Settings::default());
    assert_eq!(new.take_over(&mut old, |node| Some(node + 1)), 1200);
    for (n, tuple) in tuples.iter().enumerate() {
        let fcb = one(&mut new, frame(&tuple.reversed(), 0), SECOND);
        assert_eq!(fcb.direction(), Direction::Reply);
        assert!(!new.is_opened(&at(&new, 1, fcb)) && new.is_opened(&at(&new, 2, fcb)));
        let (second, third) = (at(&new, 2, fcb), at(&new, 3, fcb));
        assert_eq!(new.scratch_mut(&second), [n as u8; 8]);
        assert_eq!(new.scratch_mut(&third), [(tuple.dst % 251) as u8; 4]);
    }
    assert_eq!(new.counts(0).2.created, 600);
    // No function is notified twice: the old functions hear of none.
    while old.end_some(Ended::Removed) {
        assert!(release(&mut old).iter().all(|(_, states)| states.is_empty()));
    }
}

/// Packets that elements hold during a swap bear the number of their session's record.
#[test]
fn sessions_keep_their_numbers() {
    let demands = [demand("connection", 8)];
    let mut old = manager(&demands, &Settings::default());
    let tuple = |n: u32| udp(n, 1000, 9, 10);
    // Some of them end, which leaves gaps between the others.
    for n in 0..600 {
        one(&mut old, frame(&tuple(n), 0), if n % 3 == 0 { 0 } else { 100 * SECOND });
    }
    for second in 150..160 {
        old.sweep(second * SECOND);
        release(&mut old);
    }
    assert_eq!(old.counts(0).0, 400);
    let lasting = || (0..600).filter(|n| n % 3 != 0);
    let mut words = lasting().map(|n| one(&mut old, frame(&tuple(n), 0), 160 * SECOND));
    let words: Vec<_> = words.by_ref().collect();
    let mut new = manager(&demands, &Settings::default());
    assert_eq!(new.take_over(&mut old, Some), 400);
    for (n, word) in lasting().zip(&words) {
        assert_eq!(one(&mut new, frame(&tuple(n), 0), 160 * SECOND), *word);
    }
    // The gaps are for others, until as many are there as before.
    for n in 600..800 {
        let fcb = one(&mut new, frame(&tuple(n), 0), 160 * SECOND);
        assert!(fcb.session().is_some_and(|(_, index)| index < 600), "{fcb:?}");
    }
    // Numbers that were never given mean nothing.
    let access = *new.access(1);
    let stray = Fcb::of_session(0, 600, Direction::Forward, false);
    assert!(new.locate(&access, words[0]).is_some() && new.locate(&access, stray).is_none());
}

#[test]
fn what_a_failed_configuration_took_is_given_back() {
    let demands = [demand("connection", 8), demand("pair", 4)];
    let mut old = manager(&demands, &Settings::default());
    let tuples: Vec<FiveTuple<u32>> = (0..300).map(|n| udp(n % 40, 1000, n as u16, 53)).collect();
    for (n, tuple) in tuples.iter().enumerate() {
        let fcb = one(&mut old, frame(tuple, 0), 0);
        for node in [1, 2] {
            let at = at(&old, node, fcb);
            old.scratch_mut(&at).fill(if node == 1 { n as u8 } else { 7 });
            old.set_opened(&at);
        }
    }
    let before = (old.counts(0), old.counts(1));
    // Only the first function goes over; and comes back.
    let mut new = manager(&demands[..1], &Settings::default());
    let first = |node| (node == 1).then_some(1);
    assert_eq!(new.take_over(&mut old, first), 300);
    assert_eq!(old.take_over(&mut new, first), 300);
    assert_eq!((old.counts(0), old.counts(1)), before);
    for (n, tuple) in tuples.iter().enumerate() {
        let fcb = one(&mut old, frame(&tuple.reversed(), 0), SECOND);
        assert_eq!(fcb.direction(), Direction::Reply);
        let places = [at(&old, 1, fcb), at(&old, 2, fcb)];
        assert!(places.iter().all(|at| old.is_opened(at)));
        assert_eq!(old.scratch_mut(&places[0]), [n as u8; 8]);
        assert_eq!(old.scratch_mut(&places[1]), [7; 4]);
    }
    while new.end_some(Ended::Removed) {
        assert!(release(&mut new).iter().all(|(_, states)| states.is_empty()));
    }
    let mut reports = 0;
    while old.end_some(Ended::Removed) {
        reports += release(&mut old).iter().map(|(_, states)| states.len()).sum::<usize>();
    }
    assert_eq!(reports, 300 + 40, "each function is notified once of each of its sessions");
}

#[test]
fn halves_of_two_threads_are_taken_over() {
    let speaking = Demand { translates: true, shared_words: 2, ..demand("connection", 8) };
    let silent = Demand { shared_words: 1, ..demand("connection", 8) };
    for (has_replied, translated) in [(false, false), (false, true), (true, false), (true, true)] {
        // The half that began may be in the first or the second thread that is taken over.
        for turned in [false, true] {
            let begins = usize::from(turned);
            let mut old = two(std::slice::from_ref(&speaking), &bounded(100, 100));
            let tuple = tcp(7, 1000);
            let opened = one(&mut old[begins], frame(&tuple, 0x02), 0);
            let state_at = at(&old[begins], 1, opened);
            old[begins].publish(&state_at, &[11, 12]);
            let mut reply = tuple.reversed();
            if translated {
                (reply.dst, reply.dst_port) = (0xc102_0304, 61_234);
                old[begins].answer(&state_at, &reply).unwrap();
            }
            if has_replied {
                one(&mut old[1 - begins], frame(&reply, 0x12), 0);
            }
            // A function comes in front.
            let mut new = two(&[silent.clone(), speaking.clone()], &bounded(100, 100));
            for (new, old) in new.iter_mut().zip(&mut old) {
                new.take_over(old, |node| Some(node + 1));
            }
            new.iter_mut().for_each(Manager::rejoin);
            let other = one(&mut new[1 - begins], frame(&reply, 0x12), SECOND);
            assert_eq!(other.direction(), Direction::Reply, "{has_replied} {translated}");
            let far = &new[1 - begins];
            assert_eq!(far.published(&at(far, 2, other)), Some([11, 12, 0, 0]));
            assert_eq!(far.published(&at(far, 1, other)), None);
            let opened = one(&mut new[begins], frame(&tuple, 0x10), SECOND);
            assert_eq!(opened.direction(), Direction::Forward);
            for (manager, fcb) in [(&new[begins], opened), (&new[1 - begins], other)] {
                assert_eq!(manager.life(&at(manager, 2, fcb)).phase(), Phase::Open);
                assert_eq!(manager.counts(0).0, 1);
            }
        }
    }
}
