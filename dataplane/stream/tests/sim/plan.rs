//! Random scenarios: all that a seed decides.

use crate::app::{AppConfig, Close};
use crate::frame::Wire;
use crate::host::{Cut, HostConfig, MILLISECOND, Offer, ReceiverConfig, SenderConfig};
use crate::link::LinkConfig;
use crate::pair::PairPlan;
use thruway_random::Random;

/// Bytes that one side writes at most; less where segments are tiny.
const DATA_MOST: usize = 60_000;
const DATA_MOST_TINY: usize = 1500;
/// Words that functions look for, and their like.
const WORDS: [&[u8]; 6] = [b"attack", b"atta", b"attattack", b"word", b"wor", b"aaaaaaa"];

/// The connections of a seed.
pub fn pairs(random: &mut Random) -> Vec<PairPlan> {
    let count = if random.chance(800) { 1 } else { random.size(2..=4) };
    let badness = *random.one_of(&[0, 0, 20, 20, 60, 150]);
    (0..count).map(|index| pair(random, index as u16, badness)).collect()
}

fn pair(random: &mut Random, index: u16, badness: u32) -> PairPlan {
    let wire = Wire { v6: random.chance(300), ports: [40_000 + index, 80] };
    let before = [link(random, badness), link(random, badness)];
    let behind = [link(random, badness), link(random, badness)];
    let is_ordered = before.iter().chain(&behind).all(LinkConfig::is_ordered);
    let most = if random.chance(150) { DATA_MOST_TINY } else { DATA_MOST };
    let hosts = [(); 2].map(|()| host(random, most, is_ordered));
    let mut apps = [app(random, most), app(random, most)];
    if apps.iter().all(|app| app.close == Close::AfterPeer) {
        apps[random.size(0..=1)].close = Close::WhenWritten;
    }
    let calls = if random.chance(50) {
        [Some(0), Some(random.within(0..=30 * MILLISECOND))]
    } else {
        [Some(0), None]
    };
    PairPlan { wire, hosts, apps, before, behind, calls, restart: None }
}

/// A link with at most so many faults per thousand packets, of each kind.
fn link(random: &mut Random, badness: u32) -> LinkConfig {
    let delay = random.magnitude(80_000) as i64 * 1000;
    let jitter = if random.chance(300) { random.within(0..=5 * MILLISECOND) } else { 0 };
    let later = random.within(MILLISECOND..=100 * MILLISECOND);
    let mut rate = || if random.chance(500) { random.size(0..=badness as usize) as u32 } else { 0 };
    LinkConfig {
        lost: rate(),
        doubled: rate(),
        overtaken: rate(),
        spoilt: 0,
        delay: delay..=delay + jitter,
        later: 0..=later,
    }
}

fn host(random: &mut Random, most: usize, is_ordered: bool) -> HostConfig {
    let is_tiny = most == DATA_MOST_TINY;
    let mss = match random.size(0..=9) {
        0 => None,
        1 => Some(random.size(1000..=8960)),
        2 if is_tiny => Some(random.size(1..=50)),
        2 | 3 => Some(random.size(64..=600)),
        _ => Some(1460),
    };
    let cuts = if is_tiny { [Cut::Tiny, Cut::Random] } else { [Cut::Full, Cut::Random] };
    let cut = if random.chance(600) { cuts[0] } else { cuts[1] };
    HostConfig {
        offer: Offer {
            mss: mss.map(|mss| mss as u16),
            sack: random.chance(700),
            stamps: random.chance(700),
            scale: random.chance(700).then(|| random.size(0..=14) as u8),
        },
        sender: SenderConfig {
            cut,
            nagle: random.chance(300),
            first_window: random.within(1..=10),
            buffer: 1 << random.size(10..=18),
            forgets: random.chance(500),
            probes_with_data: random.chance(300),
            lies: false,
            keepalive: random.chance(100).then(|| random.within(1..=20) * 500 * MILLISECOND),
        },
        receiver: ReceiverConfig {
            buffer: 1 << random.size(9..=18),
            delays_acks: random.chance(700),
            reports_duplicates: random.chance(500),
        },
        // Numbers wrap around in some connections.
        iss: if random.chance(300) {
            u32::MAX - random.size(0..=50_000) as u32
        } else {
            random.next_u64() as u32
        },
        clock: if random.chance(200) {
            u32::MAX - random.size(0..=3000) as u32
        } else {
            random.next_u64() as u32
        },
        link_mss: if random.chance(100) { 8960 } else { 1460 },
        is_strict: is_ordered,
    }
}

fn app(random: &mut Random, most: usize) -> AppConfig {
    let len = if random.chance(80) { 0 } else { random.magnitude(most) };
    let data = text(random, len);
    let chunk = (len / 100).max(random.magnitude(20_000)).max(1);
    let write_pause = pause(random);
    let read_chunk = (most / 100).max(random.magnitude(20_000)).max(1);
    let close = match random.size(0..=19) {
        0 => Close::Abort(random.magnitude(3000) as i64 * MILLISECOND),
        1..=6 => Close::AfterPeer,
        _ => Close::WhenWritten,
    };
    AppConfig {
        data,
        close,
        write_chunk: 1..=chunk,
        write_pause: 0..=write_pause,
        read_chunk: 1..=read_chunk,
        read_pause: 0..=pause(random),
    }
}

/// Most time between two writes or reads.
fn pause(random: &mut Random) -> i64 {
    match random.size(0..=9) {
        0..=5 => 0,
        6..=7 => random.within(0..=5 * MILLISECOND),
        8 => random.within(0..=200 * MILLISECOND),
        _ => random.within(0..=3000 * MILLISECOND),
    }
}

/// Text of few letters, with many words, whole and broken off.
fn text(random: &mut Random, len: usize) -> Vec<u8> {
    let mut text = Vec::with_capacity(len + 16);
    while text.len() < len {
        match random.size(0..=7) {
            0 => text.extend_from_slice(WORDS[random.size(0..=WORDS.len() - 1)]),
            1 => text.push(*random.one_of(b"atckword")),
            2 => text.extend(random.next_u64().to_be_bytes()),
            _ => text.extend((0..random.size(1..=24)).map(|_| *random.one_of(b"abcdeklrtwxyz \n"))),
        }
    }
    text.truncate(len);
    text
}
