use std::time::Duration;

use thruway_elements::CATALOG;
use thruway_lang::{NoLibraries, Source, Variables};

use super::*;

/// A configuration that has run for a moment.
fn rehearsed(text: &str) -> (Rehearsal, Counts) {
    let source = Source::new("config", text);
    let loaded = thruway_lang::load(source, &CATALOG, &Variables::new(), &NoLibraries).unwrap();
    let options = Options { burst: 32, ..Options::default() };
    let mut rehearsal =
        Rehearsal::new(loaded.graph, &CATALOG, &Captures::default(), &options).unwrap();
    let counts = rehearsal.run(Duration::from_millis(20));
    (rehearsal, counts)
}

fn surprises(rehearsal: &Rehearsal, counts: &Counts, name: &str) -> f64 {
    let element = rehearsal.router.layout().graph.find(name).unwrap();
    rehearsal.surprises(element, counts)
}

#[test]
fn what_cannot_be_foreseen_surprises() {
    let (rehearsal, counts) = rehearsed(
        "source :: InfiniteSource(LIMIT 4000, BURST 32) -> even :: RoundRobinSwitch;
         even -> one :: Counter -> t :: Tee; even[1] -> two :: Counter -> out :: Discard;
         t -> out; t[1] -> last :: Counter -> out",
    );
    // Half to each of two: by shares alone, every second guess is wrong.
    assert!((surprises(&rehearsal, &counts, "even") - 0.5).abs() < 1e-9);
    // One direction, and none.
    assert_eq!(surprises(&rehearsal, &counts, "source"), 0.0);
    assert_eq!(surprises(&rehearsal, &counts, "out"), 0.0);
    // Copies leave by both outputs.
    assert_eq!(surprises(&rehearsal, &counts, "t"), 0.0);
}

#[test]
fn visits_and_batches_are_those_of_the_run() {
    let (rehearsal, counts) = rehearsed(
        "InfiniteSource(LIMIT 4000, BURST 32) -> c :: RoundRobinSwitch; c -> a :: Counter -> Discard;
         c[1] -> b :: Counter -> Discard",
    );
    let load = Load { packet_bytes: 64.0, payload_bytes: 16.0, sessions: 1.0, opening: 0.0 };
    let stations = rehearsal.stations(&counts, &load, false).unwrap();
    let of = |name: &str| {
        let (_, station) = stations.iter().find(|(_, station)| station.name == name).unwrap();
        (station.visits, station.batch)
    };
    assert_eq!((of("c"), of("a"), of("b")), ((1.0, 32.0), (0.5, 16.0), (0.5, 16.0)));
}

#[test]
fn what_touches_the_world_stands_still() {
    let dir = std::env::temp_dir().join(format!("thruway-rehearsal-{}", std::process::id()));
    let text = format!(
        "InfiniteSource(LIMIT 100) -> ToDump({0}.pcap); ControlSocket(UNIX, {0}.sock)",
        dir.display()
    );
    let (rehearsal, _) = rehearsed(&text);
    assert_eq!(rehearsal.replaced.len(), 2);
    assert!(!dir.with_extension("pcap").exists() && !dir.with_extension("sock").exists());
}

#[test]
fn records_of_others_are_not_written_over() {
    let dir = tempfile::tempdir().unwrap();
    let kept = |name: &str| {
        let path = dir.path().join(name);
        std::fs::write(&path, "kept").unwrap();
        path
    };
    let (records, lines) = (kept("records"), kept("lines"));
    rehearsed(&format!(
        "InfiniteSource(LIMIT 100) -> MarkIPHeader -> FlowClassifier(INPUT ip)
            -> SessionStats({}) -> IPPrint(x, OUTFILE {}) -> Discard",
        records.display(),
        lines.display()
    ));
    for path in [records, lines] {
        assert_eq!(std::fs::read_to_string(path).unwrap(), "kept");
    }
}

#[test]
fn a_port_without_traffic_is_named() {
    let source = Source::new("config", "in :: FromDevice(eth0) -> Discard");
    let loaded = thruway_lang::load(source, &CATALOG, &Variables::new(), &NoLibraries).unwrap();
    let wrong = Rehearsal::new(loaded.graph, &CATALOG, &Captures::default(), &Options::default());
    let message = wrong.err().map(|error| error.to_string()).unwrap_or_default();
    assert!(message.starts_with("'in' receives packets from outside: say which"), "{message}");
}

/// Each run ends by its timer, though that may come before the run has begun.
#[test]
fn no_timer_is_missed() {
    let (mut rehearsal, _) = rehearsed("InfiniteSource(LIMIT -1, BURST 32) -> Discard");
    for _ in 0..300 {
        rehearsal.run(Duration::ZERO);
    }
    // And none is for a later run.
    let counts = rehearsal.run(Duration::from_millis(20));
    assert!(counts.packets[0] > 0);
}

/// The share of packets that open a session: of traffic that comes again none does, unless there is
/// no room for all sessions.
#[test]
fn sessions_are_opened_as_often_as_there_is_no_room_for_them() {
    let opened = |most: usize| {
        let (mut rehearsal, _) = rehearsed(&format!(
            "FastUDPFlows(0, 2048, 64, 02:00:00:00:00:01, 10.0.0.1, 02:00:00:00:00:02, 192.0.2.9,
                 1024, 1000000000) -> ReplayUnqueue(STOP -1, BURST 32)
             -> FlowClassifier(SESSIONS_MAX {most}, EMBRYONIC_MAX {most}) -> SessionStats -> Discard"
        ));
        let counts = rehearsal.watch();
        counts.opened as f64 / rehearsal.made_packets(&counts) as f64
    };
    assert_eq!(opened(4096), 0.0);
    let share = opened(64);
    assert!((0.5..=1.0).contains(&share), "{share}");
}
