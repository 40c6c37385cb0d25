//! What connections go through on every path.

use std::time::Duration;

use thruway_sync::atomic::{AtomicBool, Ordering};

use super::content::{WORD, word_after};
use super::ends::Plan;
use super::path::{Path, SERVERS};
use super::talks::{Talk, hold};
use crate::process::Ending;
use crate::trials::Trial;
use crate::web::{Files, fetch_many, load, put};

/// All that a path must carry.
pub const ALL: &[Trial<Path>] = &[
    ("much, both ways at once", much),
    ("over IPv6", over_ip6),
    ("a question and its answer", request),
    ("the server closes first", server_first),
    ("nothing at all", nothing),
    ("many at once", many),
    ("2000 short ones", short),
    ("a pause within a word", pause),
    ("a slow reader", slow_reader),
    ("tiny writes", tiny),
    ("clients that give up", abort),
    ("files and requests", web),
];

/// Swaps, by which most elements' counts begin anew.
pub const SWAPS: &[Trial<Path>] = &[("hot swaps", swaps)];

/// What is worth a look on many paths.
pub const SOME: &[Trial<Path>] =
    &[("much, both ways at once", much), ("over IPv6", over_ip6), ("many at once", many)];

/// What makes most packets wait for each other.
pub const MANY: &[Trial<Path>] = &[("many at once", many)];

/// So many connections that do the same, with different bytes.
fn alike(count: u64, talk: &Talk) -> Vec<Talk> {
    let one = |number| Talk { seed: talk.seed + number, ..talk.clone() };
    (0..count).map(one).collect()
}

pub fn much(path: &Path) {
    hold(path, vec![Talk::of(1, 3 << 20)], 1);
}

pub fn over_ip6(path: &Path) {
    hold(path, vec![Talk { is_ip6: true, ..Talk::of(2, 2 << 20) }], 1);
    let mut talks = alike(100, &Talk { is_ip6: true, ..Talk::of(200, 2000) });
    talks.iter_mut().for_each(|talk| talk.client.gap = 30);
    hold(path, talks, 20);
}

/// One side sends all and says so; the other one answers then.
fn request(path: &Path) {
    let mut asks = Talk::of(3, 300_000);
    asks.server.answers = true;
    let mut asked = Talk::of(4, 200_000);
    asked.client.answers = true;
    hold(path, vec![asks, asked], 2);
}

fn server_first(path: &Path) {
    let mut talk = Talk::of(5, 500_000);
    talk.server = Plan { gap: 20, ..Plan::of(100) };
    hold(path, alike(10, &talk), 10);
}

fn nothing(path: &Path) {
    let mut one_way = Talk::of(16, 0);
    one_way.client = Plan { gap: 3, ..Plan::of(1) };
    let mut talks = alike(10, &Talk::of(6, 0));
    talks.push(one_way);
    hold(path, talks, 11);
}

fn many(path: &Path) {
    let mut talk = Talk::of(1000, 20_000);
    talk.client.gap = 100;
    talk.server.write = 1..3000;
    hold(path, alike(200, &talk), 200);
}

fn short(path: &Path) {
    let mut talks = alike(2000, &Talk::of(10_000, 0));
    for (number, talk) in talks.iter_mut().enumerate() {
        let len = number as u64;
        talk.client = Plan { gap: 40, ..Plan::of(len % 700) };
        talk.server = Plan { gap: 200, ..Plan::of(len * 7 % 4000) };
        talk.server.answers = number % 2 == 0;
    }
    hold(path, talks, 64);
}

/// Nothing comes for a while, in the middle of a word.
fn pause(path: &Path) {
    let mut talks = alike(20, &Talk::of(7000, 30_000));
    for (talk, number) in talks.iter_mut().zip(1..) {
        let (client, server) = (talk.client.stream(talk.seed), talk.server.stream(!talk.seed));
        // Behind its first letter, its second, and so on.
        let within = 1 + number % (WORD.len() as u64 - 1);
        talk.client.pause = Some((word_after(client, 9000) + within, PAUSE));
        talk.server.pause = Some((word_after(server, 5000) + within, PAUSE));
        talk.client.write = 500..1500;
    }
    hold(path, talks, 20);
}

/// Longer than any timer of the chain.
const PAUSE: Duration = Duration::from_millis(700);

/// The window closes, and opens again later.
fn slow_reader(path: &Path) {
    let mut talk = Talk::of(8, 0);
    talk.server = Plan { gap: 300, ..Plan::of(1 << 20) };
    let rest = Some((50_000, Duration::from_millis(900)));
    talk.client = Plan { buffer: Some(20_000), rest, read: 10_000, ..Plan::of(1000) };
    hold(path, alike(3, &talk), 3);
}

fn tiny(path: &Path) {
    let mut talk = Talk::of(90, 6000);
    (talk.client.gap, talk.server.gap) = (20, 20);
    (talk.client.write, talk.server.write) = (1..4, 1..2);
    hold(path, alike(4, &talk), 4);
}

/// They leave by a reset, in the middle; and so does a server.
fn abort(path: &Path) {
    let mut talks = alike(30, &Talk::of(10_000, 500_000));
    for (talk, number) in talks.iter_mut().zip(0..) {
        let at = Some(1 + number * 10_000);
        match number % 3 {
            0 => talk.server.abort = at,
            _ => talk.client.abort = at,
        }
    }
    hold(path, talks, 10);
}

/// Files of random bytes arrive as they are, both ways, and no request fails.
fn web(path: &Path) {
    let files = Files::new();
    let web = files.serve(path.server(), "server");
    fetch_many(path.client(), &files, SERVERS[0], 100);
    put(path.client(), &web, SERVERS[0], 500_000);
    let url = format!("http://{}/4", SERVERS[0]);
    load(path.client(), &url, false);
    load(path.client(), &url, true);
    web.content();
}

/// The configuration is swapped for the same one while connections are under way.
fn swaps(path: &Path) {
    let over = AtomicBool::new(false);
    let count = std::thread::scope(|scope| {
        let swapping = scope.spawn(|| {
            let mut count = 0;
            while !over.load(Ordering::Acquire) {
                path.swap();
                count += 1;
                std::thread::sleep(Duration::from_millis(50));
            }
            count
        });
        let ending = Ending(&[&over]);
        hold(path, alike(10, &Talk::of(20_000, 1 << 20)), 10);
        tiny(path);
        drop(ending);
        swapping.join().expect("every swap succeeds")
    });
    assert!(count > 3, "{count} swaps");
}
