//! Connections that keep all that they can get, and an honest one among them: it notices nothing.

use std::collections::VecDeque;

use proptest::prelude::*;
use thruway_wire::tcp::flags::{ACK, SYN};

use super::super::{DropReason, Mode, Out, Settings, Tcp};
use super::through;
use crate::testing::segment;

const MILLISECOND: i64 = 1_000_000;
/// Bytes of a segment.
const LEN: u32 = 500;
/// The window that receivers announce.
const WINDOW: u32 = 0xffff;
/// Attackers, as many as had filled all memory by default with a window each.
const ATTACKERS: usize = 600;
/// Round trips of the honest connection, and how long one takes.
const ROUNDS: usize = 1500;
const ROUND: i64 = 20 * MILLISECOND;

/// An engine and its ends.
struct Crowd {
    tcp: Tcp,
    now: i64,
    out: Out,
}

/// What a server of a connection has sent, and its client got.
struct Download {
    conn: u32,
    next: u32,
    acked: u32,
}

impl Crowd {
    fn new(settings: Settings) -> Crowd {
        Crowd { tcp: Tcp::new(settings), now: 1_000_000_000, out: Out::default() }
    }

    /// A segment goes through the engine; how many leave in its direction.
    fn pass(&mut self, conn: u32, direction: usize, numbers: (u32, u32, u8), len: u32) -> usize {
        let packet = segment(numbers.0, numbers.1, numbers.2, &vec![7; len as usize]);
        let engine = (&mut self.tcp, &mut self.out);
        let left = through(engine, (conn, direction, self.now), packet, |_| ());
        left.iter().filter(|(port, packet)| *port == direction && packet.len() > 54).count()
    }

    fn open(&mut self) -> Download {
        let conn = self.tcp.open().expect("room for one more");
        self.pass(conn, 0, (99, 0, SYN), 0);
        self.pass(conn, 1, (499, 100, SYN | ACK), 0);
        self.pass(conn, 0, (100, 500, ACK), 0);
        Download { conn, next: 500, acked: 500 }
    }

    /// The server sends up to so many segments; says how many went through.
    fn send(&mut self, download: &mut Download, most: u32) -> usize {
        let mut sent = 0;
        for _ in 0..most {
            if download.next + LEN - download.acked > WINDOW {
                break;
            }
            if self.pass(download.conn, 1, (download.next, 100, ACK), LEN) == 0 {
                break;
            }
            (download.next, sent) = (download.next + LEN, sent + 1);
        }
        sent
    }

    /// The client acknowledges all.
    fn acknowledge(&mut self, download: &mut Download) {
        download.acked = download.next;
        self.pass(download.conn, 0, (100, download.acked, ACK), 0);
    }

    fn tick(&mut self) {
        self.now += ROUND;
        if self.tcp.due().is_some_and(|due| due <= self.now) {
            self.tcp.tick(self.now, &mut self.out);
            self.out.packets.clear();
        }
    }
}

/// Segments that reach an honest client in all rounds.
fn goodput(mode: Mode, attackers: usize) -> (usize, Crowd) {
    let mut crowd = Crowd::new(Settings { mode, ..Settings::default() });
    let mut honest = crowd.open();
    let mut others: Vec<Download> = (0..attackers).map(|_| crowd.open()).collect();
    let mut sum = 0;
    for round in 0..ROUNDS {
        for (number, other) in others.iter_mut().enumerate() {
            if round == 0 {
                crowd.send(other, WINDOW / LEN);
            } else if (round + number) % 50 == 0 {
                crowd.send(other, 2);
                // Those that were reset come again.
                if crowd.tcp.is_over(other.conn) {
                    crowd.tcp.close(other.conn, &mut crowd.out);
                    *other = crowd.open();
                    crowd.send(other, WINDOW / LEN);
                }
            }
        }
        sum += crowd.send(&mut honest, 20);
        crowd.tick();
        crowd.acknowledge(&mut honest);
        let (kept, bound) = (crowd.tcp.memory_bytes(), crowd.tcp.settings().total);
        assert!(kept <= bound, "{kept} bytes are kept");
    }
    (sum, crowd)
}

/// Each of them leaves a window unacknowledged, which together is more than may be kept.
#[test]
fn a_receiver_that_never_acknowledges_starves_no_other() {
    for mode in [Mode::Guard, Mode::Map] {
        let (alone, _) = goodput(mode, 0);
        assert_eq!(alone, 20 * ROUNDS);
        let (among, crowd) = goodput(mode, ATTACKERS);
        let full = crowd.out.drops[DropReason::Full as usize];
        assert!(full > 0, "the attackers are bounded");
        assert!(among * 100 >= alone * 99, "{mode:?}: {among} of {alone} segments");
    }
}

/// The same with segments that wait for a hole that stays open, and no copies.
#[test]
fn unfilled_holes_starve_no_connection() {
    let mut crowd = Crowd::new(Settings { mode: Mode::Order, ..Settings::default() });
    let mut honest = crowd.open();
    let others: Vec<u32> = (0..ATTACKERS).map(|_| crowd.open().conn).collect();
    let mut shown = 0;
    for round in 0..ROUNDS {
        for (number, conn) in others.iter().enumerate() {
            if round == 0 || (round + number) % 50 == 0 {
                for at in 1..if round == 0 { 130 } else { 3 } {
                    crowd.pass(*conn, 1, (500 + at * LEN, 100, ACK), LEN);
                }
            }
        }
        // The first of each round is overtaken by the others.
        let begin = honest.next;
        for at in (1..10).chain([0]) {
            shown += crowd.pass(honest.conn, 1, (begin + at * LEN, 100, ACK), LEN);
        }
        honest.next += 10 * LEN;
        crowd.tick();
        crowd.acknowledge(&mut honest);
    }
    assert!(shown * 100 >= ROUNDS * 10 * 99, "{shown} of {} segments", ROUNDS * 10);
    assert!(crowd.tcp.memory_bytes() <= crowd.tcp.settings().total);
}

/// However few there are: a receiver that acknowledges nothing for five minutes is reset, whether
/// or not others need room.
#[test]
fn a_receiver_that_acknowledges_nothing_is_not_kept_for_ever() {
    let mut crowd = Crowd::new(Settings { mode: Mode::Guard, ..Settings::default() });
    let mut idle = crowd.open();
    let mut mute = crowd.open();
    crowd.send(&mut idle, 3);
    crowd.acknowledge(&mut idle);
    crowd.send(&mut mute, 3);
    let due = crowd.tcp.due().expect("it is looked after");
    assert_eq!(due - crowd.now, 300_000_000_000);
    crowd.now = due - 1;
    crowd.tcp.tick(crowd.now, &mut crowd.out);
    assert!(crowd.out.packets.is_empty());
    crowd.now = due;
    crowd.tcp.tick(crowd.now, &mut crowd.out);
    assert_eq!(crowd.out.packets.len(), 2, "a reset to each end");
    assert!(crowd.tcp.is_over(mute.conn) && !crowd.tcp.is_over(idle.conn));
    assert_eq!((crowd.tcp.counts.stalled, crowd.tcp.memory_bytes()), (1, 0));
}

/// What the plain oracle knows of a connection: since when each of its segments is kept.
type Plain = VecDeque<i64>;

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]
    /// Connections send, acknowledge and pause in any order. As in plain lists: no more is kept
    /// than permitted; a connection that keeps less than is left is never refused; a reset one had
    /// kept something for three seconds, or for a quarter of one and more than a share.
    #[test]
    fn eviction_order(steps in prop::collection::vec((0..6usize, 0..5u8, 0..900i64), 1..250)) {
        let frame = {
            let mut crowd = Crowd::new(Settings { mode: Mode::Guard, ..Settings::default() });
            let mut one = crowd.open();
            crowd.send(&mut one, 1);
            crowd.tcp.memory_bytes()
        };
        let total = 20 * frame + 100;
        let settings = Settings { mode: Mode::Guard, total, ..Settings::default() };
        let mut crowd = Crowd::new(settings);
        let mut all: Vec<Download> = (0..6).map(|_| crowd.open()).collect();
        let mut plain = vec![Plain::new(); all.len()];
        for (conn, what, pause) in steps {
            crowd.now += pause * MILLISECOND;
            if what == 0 {
                crowd.acknowledge(&mut all[conn]);
                plain[conn].clear();
                continue;
            }
            let before: Vec<bool> = all.iter().map(|one| crowd.tcp.is_over(one.conn)).collect();
            let left = |plain: &[Plain]| 20 - plain.iter().map(VecDeque::len).sum::<usize>();
            let busy = plain.iter().filter(|one| !one.is_empty()).count();
            let share = 20.0 / (busy + 1) as f64;
            let own = plain[conn].len();
            let was_free = left(&plain) > 0 && (own <= left(&plain) || own as f64 <= share);
            let fits = all[conn].next + LEN - all[conn].acked <= WINDOW;
            let sent = crowd.send(&mut all[conn], 1);
            let is_evictable = |(at, one): (usize, &Plain)| {
                let age = one.front().map_or(0, |since| crowd.now - since);
                let is_greedy = one.len() as f64 > share;
                at != conn && (age >= 3_000_000_000 || is_greedy && age >= 250_000_000)
            };
            let others = plain.iter().enumerate().any(is_evictable);
            let acked = (all[conn].acked - 500) as u64;
            let is_new = left(&plain) < 10 && own as u64 * frame > 16 * 2176 + acked * 4;
            let must = !is_new && (was_free || own as f64 <= share && others);
            prop_assert!(!(must && fits && !before[conn]) || sent == 1);
            for at in 0..all.len() {
                if crowd.tcp.is_over(all[at].conn) && !before[at] {
                    prop_assert!(at != conn && !was_free);
                    let age = plain[at].front().map_or(0, |since| crowd.now - since);
                    let is_greedy = plain[at].len() as f64 > share && own as f64 <= share;
                    prop_assert!(age >= 3_000_000_000 || is_greedy && age >= 250_000_000);
                    plain[at].clear();
                }
                if crowd.tcp.is_over(all[at].conn) {
                    crowd.tcp.close(all[at].conn, &mut crowd.out);
                    all[at] = crowd.open();
                    plain[at].clear();
                }
            }
            if sent == 1 {
                plain[conn].push_back(crowd.now);
            }
            let count: usize = plain.iter().map(VecDeque::len).sum();
            prop_assert_eq!(crowd.tcp.memory_bytes(), count as u64 * frame);
            prop_assert!(count <= 20);
        }
    }
}
