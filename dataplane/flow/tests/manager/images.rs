//! Sessions at another host: what one manager exports, another goes on with.

use thruway_flow::manager::{Change, Manager, NoAnswer, Settings};
use thruway_flow::{Direction, Ended, Fcb, Phase};
use thruway_wire::flow::FiveTuple;

use super::{SECOND, at, bounded, demand, frame, manager, one, release, tcp, udp, udp6};

const SYN: u8 = 0x02;
const ACK: u8 = 0x10;

/// Opens the session of a connection: its function opens it, and translates its source.
fn open(host: &mut Manager, tuple: &FiveTuple<u32>, now: i64) -> Fcb {
    let fcb = one(host, frame(tuple, SYN), now);
    let state = at(host, 1, fcb);
    host.set_opened(&state);
    host.scratch_mut(&state).fill(tuple.src as u8);
    host.answer(&state, &translated(tuple).reversed()).unwrap();
    one(host, frame(&translated(tuple).reversed(), SYN | ACK), now);
    one(host, frame(tuple, ACK), now)
}

fn translated(tuple: &FiveTuple<u32>) -> FiveTuple<u32> {
    FiveTuple { src: 0xc000_0201, src_port: 40_000 + tuple.src as u16, ..*tuple }
}

fn pair() -> [Manager; 2] {
    let mut demands = [demand("connection", 4)];
    demands[0].translates = true;
    [0, 1].map(|_| manager(&demands, &Settings::default()))
}

/// What a replicating element does with the changes of `from`.
fn replicate(from: &mut Manager, to: &mut Manager, now: i64) -> usize {
    let mut changes = 0;
    while let Some(change) = from.next_change() {
        changes += 1;
        match change {
            Change::Ended(level, key) => to.remove(level, key),
            Change::Changed(level, index) => {
                let Some(image) = from.image(level, index, now) else { continue };
                let installed = to.install(&image, now).unwrap();
                let (slot, _) = to.slot(installed, 0).unwrap();
                let (own, _) = from
                    .slot(thruway_flow::manager::Installed { level, index }, 0)
                    .expect("the function");
                let state = from.state(&own).unwrap().to_vec();
                if !to.is_opened(&slot) {
                    to.set_opened(&slot);
                    to.scratch_mut(&slot).copy_from_slice(&state);
                    let host = u32::from(state[0]);
                    let _: Result<(), NoAnswer> =
                        to.answer(&slot, &translated(&tcp(host, 1000)).reversed());
                }
            }
        }
    }
    release(to);
    changes
}

#[test]
fn sessions_go_on_at_another_host() {
    let [mut active, mut backup] = pair();
    active.log_changes(1 << 12);
    let tuples: Vec<_> = (1..200).map(|host| tcp(host, 1000)).collect();
    tuples.iter().for_each(|tuple| {
        open(&mut active, tuple, 0);
    });
    // A flood of SYNs is not replicated.
    (0..500).for_each(|n| {
        one(&mut active, frame(&tcp(n + 1000, 9), SYN), 0);
    });
    let changes = replicate(&mut active, &mut backup, SECOND);
    assert_eq!((backup.counts(0).0, changes), (199, 199));
    for tuple in &tuples {
        let forward = one(&mut backup, frame(tuple, ACK), 2 * SECOND);
        let state = at(&backup, 1, forward);
        assert_eq!(backup.scratch_mut(&state), [tuple.src as u8; 4]);
        assert_eq!(backup.life(&state).phase(), Phase::Open);
        let reply = one(&mut backup, frame(&translated(tuple).reversed(), ACK), 2 * SECOND);
        assert_eq!(reply.session(), forward.session());
        assert_eq!(reply.direction(), Direction::Reply);
    }
    assert_eq!(backup.counts(0).2.created, 199);
}

/// Functions note changes of their own, which wait in their order.
#[test]
fn what_functions_change_is_replicated() {
    let [mut active, mut backup] = pair();
    active.log_changes(1 << 12);
    let fcb = open(&mut active, &tcp(1, 1000), 0);
    replicate(&mut active, &mut backup, 0);
    assert_eq!(active.peek_change(), None);
    let (level, index) = fcb.session().unwrap();
    active.touch(level, index);
    active.touch(level, index + 1);
    active.touch(level, u32::MAX);
    assert_eq!(active.peek_change(), Some(Change::Changed(level, index)));
    assert_eq!(active.next_change(), Some(Change::Changed(level, index)));
    assert_eq!((active.next_change(), active.has_lost_changes()), (None, false));

    let key = active.image(level, index, 0).expect("a session").key;
    assert_eq!(backup.session(level, &key).map(|found| found.level), Some(level));
    backup.remove(level, key);
    assert_eq!(backup.session(level, &key), None);
    assert_eq!(backup.session(level + 1, &key), None);
}

#[test]
fn ends_are_replicated_and_records_used_again() {
    let [mut active, mut backup] = pair();
    active.log_changes(1 << 12);
    let (first, second) = (tcp(1, 1000), tcp(2, 1000));
    let fcb = open(&mut active, &first, 0);
    replicate(&mut active, &mut backup, 0);
    assert_eq!(backup.counts(0).0, 1);
    let (level, index) = fcb.session().unwrap();
    active.end(level, index, Ended::Removed);
    release(&mut active);
    let again = open(&mut active, &second, 0);
    assert_eq!(again.session(), fcb.session(), "the record is another session's");
    replicate(&mut active, &mut backup, 0);
    assert_eq!(backup.counts(0).0, 1);
    let other = one(&mut backup, frame(&second, ACK), 0);
    let state = at(&backup, 1, other);
    assert_eq!(backup.scratch_mut(&state), [2; 4]);
}

/// A full log is noticed; sessions of other forms, and what is no session, are refused.
#[test]
fn what_cannot_be_replicated_is_refused() {
    let [mut active, mut backup] = pair();
    active.log_changes(3);
    (1..10).for_each(|host| {
        open(&mut active, &tcp(host, 1000), 0);
    });
    assert!(active.has_lost_changes());
    assert_eq!(std::iter::from_fn(|| active.next_change()).count(), 3);
    active.forget_changes();
    assert!(!active.has_lost_changes());

    let image = active.image(0, 0, 0).unwrap();
    assert_eq!(active.image(0, active.extent(0), 0), None);
    assert_eq!(active.image(7, 0, 0), None);
    let mut other = image;
    other.level = 7;
    assert!(backup.install(&other, 0).is_err());
    // A class that is not known there, as after a hot swap of the active host: another serves.
    other = image;
    other.leaf = u16::MAX;
    assert!(backup.install(&other, 0).is_ok());

    let demands = [demand("connection", 4), demand("pair", 4)];
    let coarse = manager(&demands, &Settings::default());
    assert!(!coarse.is_replicable(0) && !coarse.is_replicable(1) && !coarse.is_replicable(9));
    let mut full = manager(&[demand("connection", 4)], &bounded(1, 1));
    one(&mut full, frame(&udp(1, 2, 3, 4), 0), 0);
    one(&mut full, frame(&udp(1, 2, 3, 4).reversed(), 0), 0);
    assert!(full.install(&image, 0).is_err(), "established sessions do not go for it");
}

/// Sessions of both versions stand beside each other, each found by its own form of keys.
#[test]
fn sessions_of_ipv6_go_on_at_another_host() {
    let demands = [demand("connection", 4)];
    let [mut active, mut backup] = [0, 1].map(|_| manager(&demands, &Settings::default()));
    active.log_changes(1 << 12);
    let packet = |n: u8, is_reply: bool| match is_reply {
        false => udp6(n, 200, 4000, 53),
        true => udp6(200, n, 53, 4000),
    };
    let mut opened = Vec::new();
    for n in 1..100 {
        let fcb = one(&mut active, packet(n, false), 0);
        let state = at(&active, 1, fcb);
        active.set_opened(&state);
        active.scratch_mut(&state).fill(n);
        one(&mut active, packet(n, true), 0);
        opened.push(fcb);
    }
    let v4 = udp(1, 2, 3, 4);
    let fcb = one(&mut active, frame(&v4, 0), 0);
    let state = at(&active, 1, fcb);
    active.set_opened(&state);
    one(&mut active, frame(&v4.reversed(), 0), 0);
    let (v4_level, v4_index) = fcb.session().unwrap();
    let (v6_level, v6_index) = opened[0].session().unwrap();
    assert_ne!(v4_level, v6_level);

    while let Some(Change::Changed(level, index)) = active.next_change() {
        let image = active.image(level, index, 0).expect("an established session");
        let installed = backup.install(&image, 0).unwrap();
        let (slot, _) = backup.slot(installed, 0).unwrap();
        backup.set_opened(&slot);
        backup.scratch_mut(&slot).fill((index + 1) as u8);
    }
    assert_eq!((backup.counts(v4_level).0, backup.counts(v6_level).0), (1, 99));
    for (n, is_reply) in (1..100).flat_map(|n| [(n, false), (n, true)]) {
        let fcb = one(&mut backup, packet(n, is_reply), SECOND);
        let state = at(&backup, 1, fcb);
        assert_eq!(backup.scratch_mut(&state), [n; 4]);
        assert_eq!(fcb.direction() == Direction::Reply, is_reply);
    }

    // A key of the other version's form is refused, and ends nothing.
    let of_v4 = active.image(v4_level, v4_index, 0).unwrap();
    let of_v6 = active.image(v6_level, v6_index, 0).unwrap();
    for (wrong, key) in [(of_v4, of_v6.key), (of_v6, of_v4.key)] {
        let wrong = thruway_flow::manager::SessionImage { key, ..wrong };
        assert!(backup.install(&wrong, 0).is_err());
        backup.remove(wrong.level, key);
    }
    assert_eq!((backup.counts(v4_level).0, backup.counts(v6_level).0), (1, 99));
    backup.remove(v6_level, of_v6.key);
    release(&mut backup);
    assert_eq!(backup.counts(v6_level).0, 98);
}

/// Where packets wait for the backup, a TCP session is noted with its SYN-ACK; each record knows
/// its last change.
#[test]
fn marked_sessions_are_replicated_from_their_reply_on() {
    let [mut active, mut backup] = pair();
    active.log_changes(1 << 12);
    active.mark_changes();
    let tuple = tcp(1, 1000);
    let fcb = one(&mut active, frame(&tuple, SYN), 0);
    let (level, index) = fcb.session().unwrap();
    let state = at(&active, 1, fcb);
    active.set_opened(&state);
    assert_eq!((active.change_mark(level, index).change, active.next_change()), (0, None));
    one(&mut active, frame(&tuple.reversed(), SYN | ACK), 0);
    active.set_ticket(level, index, 9);
    let mark = active.change_mark(level, index);
    assert_eq!((mark.change, mark.ticket, active.change_numbers()), (1, 9, (1, 0)));
    assert_eq!(active.next_change(), Some(Change::Changed(level, index)));
    assert_eq!(active.change_numbers(), (1, 1));
    let image = active.image(level, index, 0).expect("its reply was seen");
    assert_eq!(image.life.phase(), Phase::New);
    let installed = backup.install(&image, 0).unwrap();
    let (slot, _) = backup.slot(installed, 0).unwrap();
    backup.set_opened(&slot);
    let confirmed = one(&mut backup, frame(&tuple, ACK), 0);
    let slot = at(&backup, 1, confirmed);
    assert_eq!(backup.life(&slot).phase(), Phase::Open);
    one(&mut active, frame(&tuple, ACK), 0);
    assert_eq!(active.change_mark(level, index).change, 2);
    active.end(level, index, Ended::Removed);
    assert_eq!(active.change_mark(level, index).change, 3);
    release(&mut active);
    // Without marks a handshake is not noted.
    let [mut active, _] = pair();
    active.log_changes(1 << 12);
    one(&mut active, frame(&tuple, SYN), 0);
    one(&mut active, frame(&tuple.reversed(), SYN | ACK), 0);
    assert_eq!(active.next_change(), None);
}
