//! Sessions that move between replicas, against a plain account: random packets, moves, deaths and
//! ends. Each session's state is at exactly one replica, no packet overtakes another one of its
//! session, and each is accounted for.

mod replica;
mod script;
mod stage;

use std::sync::Arc;

use proptest::prelude::*;
use thruway::load::{self, Libraries};
use thruway_element::{Entry, LogSink, Registry};
use thruway_elements::CATALOG;
use thruway_engine::{ClockKind, Options, Router};
use thruway_lang::{Source, Variables};

use stage::{Event, Stage, Standing, with};

const REPLICAS: usize = 3;
const CONNECTIONS: u16 = 12;

static OWN: &[&Entry] =
    &[&script::SCRIPT, &script::LOOK, &replica::ENTRY, &script::SINK, &script::REFUSES];

static ALL: [&[&Entry]; CATALOG.0.len() + 1] = {
    let mut lists = [OWN; CATALOG.0.len() + 1];
    let mut at = 0;
    while at < CATALOG.0.len() {
        lists[at + 1] = CATALOG.0[at];
        at += 1;
    }
    lists
};

static REGISTRY: Registry = Registry(&ALL);

/// A configuration; `last` is one more element.
fn build(last: &str) -> Router {
    let replicas: String =
        (0..REPLICAS).map(|n| format!("b[{n}] -> r{n} :: Replica({n}) -> seen;")).collect();
    let text = format!(
        "events :: Events -> FlowClassifier(INPUT ip) -> Records -> b :: Balance(FAILOVER 1ms);
         seen :: Seen; {replicas} {last}"
    );
    let log: LogSink = Arc::new(|_| ());
    let options = Options { clock: ClockKind::Simulated(1), log, ..Options::default() };
    let source = (Source::new("moves", text), &REGISTRY);
    let built = load::build_of(source, &Variables::new(), &Libraries::new(""), &options);
    built.unwrap_or_else(|wrong| panic!("{}", wrong.pretty.render(false))).0
}

/// A stage on which nothing has happened yet.
fn begin(events: Vec<Event>) {
    with(|stage| {
        let replicas = vec![Standing::default(); REPLICAS];
        *stage = Stage { events: events.into(), replicas, ..Stage::default() };
    });
}

/// Packets that an element dropped, of all threads, by the reason; no other reason is expected.
fn drops(router: &mut Router, of: &str, reason: &str) -> u32 {
    let text = router.read(&format!("{of}.drops")).expect("a handler");
    let mut count = 0;
    for (number, word) in text.lines().filter_map(|line| line.split_once(' ')) {
        assert!(word == reason || number == "0", "{of}: {text}");
        count += if word == reason { number.parse().expect("a number") } else { 0 };
    }
    count
}

/// Runs all events, in one configuration after the other. How many packets `b` dropped because
/// their session had ended when they could go on after a hot swap.
fn run() -> u32 {
    let mut router = build("");
    load::initialize(&mut router).expect("it begins");
    let mut ended = 0;
    loop {
        let outcome = router.run_threads();
        assert!(outcome.errors.is_empty(), "{:?}", outcome.errors);
        if with(|stage| stage.is_over) {
            return ended + close(router);
        }
        let begins = with(|stage| stage.next_begins);
        let mut next = build(if begins { "" } else { "Refuses" });
        next.take_over(&mut router);
        assert_eq!(load::initialize(&mut next).is_ok(), begins);
        if begins {
            ended += close(std::mem::replace(&mut router, next));
        } else {
            router.take_over(&mut next);
        }
    }
}

/// Ends a configuration; what its `b` dropped as above.
fn close(mut router: Router) -> u32 {
    router.finish();
    for n in 0..REPLICAS {
        drops(&mut router, &format!("r{n}"), "dead");
    }
    drops(&mut router, "b", "session-ended")
}

/// What was sent is what came out, what dead replicas lost, and what a hot swap lost of sessions
/// that had ended; and what is kept of a session has counted all that came out.
fn balance_account(ended_in_swaps: u32) {
    let mut missing = 0;
    with(|stage| {
        stage.check();
        for (of, sent) in &stage.sent {
            let seen = stage.seen.get(of).map_or(0, Vec::len) as u32;
            let lost = stage.lost.get(of).copied().unwrap_or(0);
            let is_open = stage.incarnation(of.connection) == *of;
            assert!(if is_open { *sent == seen + lost } else { *sent >= seen + lost }, "{of:?}");
            missing += sent - seen - lost;
            let kept = stage.kept_at_end.get(of).copied();
            assert_eq!(kept, is_open.then_some(seen), "{of:?}");
        }
    });
    assert_eq!(missing, ended_in_swaps);
}

fn event() -> impl Strategy<Value = Event> {
    let (of, connection) = (0..REPLICAS, 0..CONNECTIONS);
    let count = prop::option::weighted(0.3, 1..6u32);
    prop_oneof![
        20 => prop::collection::vec(connection.clone(), 1..9).prop_map(Event::Packets),
        4 => (of.clone(), prop::option::of(of.clone()), count)
            .prop_map(|(from, to, count)| Event::Move(from, to, count)),
        1 => of.clone().prop_map(Event::Dies),
        2 => of.clone().prop_map(Event::Lives),
        2 => of.clone().prop_map(Event::Stands),
        3 => of.prop_map(Event::Works),
        1 => connection.prop_map(Event::Ends),
        1 => any::<bool>().prop_map(Event::Swap),
        2 => (1..40u8).prop_map(Event::Passes),
    ]
}

proptest! {
    #[test]
    fn sessions_are_at_one_replica_in_order_and_every_packet_is_accounted_for(
        events in prop::collection::vec(event(), 1..300),
    ) {
        begin(events);
        let ended = run();
        balance_account(ended);
    }
}
