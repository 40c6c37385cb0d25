//! A load that rises: by the forecast a replica is there before packets wait for it, and without
//! one only after they have waited.

use std::time::{Duration, Instant};

use super::{LOADED, chain, declare};
use crate::control::Client;
use crate::manager::keeper::Lab;
use crate::process::wait_for;

/// Waiting packets of a replica at which another one is added.
const WAITING: u64 = 128;
/// Bounds of both chains; one looks ahead.
const AHEAD: &str = r#"{"scaling": {"min": 1, "max": 2, "ahead": "120s"}}"#;
const BEHIND: &str = r#"{"scaling": {"min": 1, "max": 2}}"#;

/// Packets a second in which one replica spends all its time: each takes it half a millisecond.
const FULL: f64 = 2_000.0;
/// Part of its time that one more second asks of a replica. So in two minutes it would be too much,
/// by far: other programs disturb the measurement.
const GROWTH: f64 = 0.016;
/// The load rises no further: a replica has most of its time left, even while others disturb it.
const TOP: f64 = 0.3;
/// The forecast knows ten seconds of the load; a slow machine begins later.
const RISE_MAX: Duration = Duration::from_secs(20);
/// What comes after the rise: more than one replica does.
const FLOOD: u32 = 3_000;

/// Sets the rate of a chain's source. A chain that swaps at this moment refuses it.
fn offer(lab: &Lab, name: &str, rate: u32) {
    let (code, said) = Client::unix(&lab.socket(name)).ask(&format!("WRITE s.rate {rate}"));
    assert!(code == 200 || code == 540, "{code} {said}");
}

/// Packets that found the queue of the first replica full.
fn refused(lab: &Lab, name: &str) -> u64 {
    let drops = Client::unix(&lab.socket(name)).read("nf/r0.drops");
    let full = drops.lines().find(|line| line.split_whitespace().nth(1) == Some("ring-full"));
    full.map_or(0, |line| {
        line.split_whitespace().next().and_then(|n| n.parse().ok()).expect("a count")
    })
}

/// The chains that another replica was added to, in order, and why.
fn grown(lab: &mut Lab) -> Vec<(String, String)> {
    let all = lab.events_with_messages().into_iter();
    let grown =
        all.filter_map(|(what, why)| Some((what.strip_suffix(" ScaledOut")?.to_owned(), why)));
    grown.collect()
}

#[test]
fn a_replica_is_added_before_packets_wait_where_the_load_is_forecast() {
    let mut lab = Lab::new(None);
    declare(&mut lab);
    for (name, scaling) in [("ahead", AHEAD), ("behind", BEHIND)] {
        let mut spec = chain(LOADED, ("player@1", "works:500"), scaling);
        spec.variables.insert("RATE".to_owned(), "20".to_owned());
        lab.set(name, spec);
    }
    lab.converge();
    for name in ["ahead", "behind"] {
        wait_for(name, || {
            let conditions = lab.status(name).conditions;
            (conditions.len() == 4 && conditions.iter().all(|one| one.holds)).then_some(())
        });
    }
    lab.events();
    // The load rises until one of them grows: that has to be the one that looks ahead.
    let begin = Instant::now();
    let first = loop {
        let mut grown = grown(&mut lab);
        if !grown.is_empty() {
            break grown.swap_remove(0);
        }
        let lasted = begin.elapsed();
        assert!(lasted < RISE_MAX, "no replica was added in {lasted:?}");
        let rate = FULL * (GROWTH * lasted.as_secs_f64()).min(TOP);
        ["ahead", "behind"].iter().for_each(|name| offer(&lab, name, rate as u32 + 20));
        std::thread::sleep(Duration::from_millis(250));
    };
    println!("{:?} after the load began to rise: {first:?}", begin.elapsed());
    let (name, why) = first;
    assert!(name == "ahead" && why.contains("would be busy soon"), "{name}: {why}");
    assert_eq!(refused(&lab, "ahead"), 0, "its queue was never full");
    // More than a replica does: the other one notices when packets wait, and not before.
    let (name, why) = wait_for("the other replica", || {
        offer(&lab, "behind", FLOOD);
        std::thread::sleep(Duration::from_millis(250));
        grown(&mut lab).pop()
    });
    println!("{:?} after: {name}: {why}", begin.elapsed());
    let waited = why.split_once(", as ").and_then(|(_, rest)| rest.split(' ').next()?.parse().ok());
    assert!(name == "behind" && waited.is_some_and(|count: u64| count >= WAITING), "{name}: {why}");
}
