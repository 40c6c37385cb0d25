//! What is dropped in front of the host by its own kernel is what the host would drop, and the
//! classes that are noted are the host's: a table of tests, its interpreter, and the XDP program,
//! run on frames by `BPF_PROG_TEST_RUN`.

use std::sync::Arc;

use proptest::prelude::*;
use thruway_flow::chain::Chain;
use thruway_flow::consolidate;
use thruway_flow::drop_table::{DEPTH_MAX, DROP, DropTable, Excluded, SOFTWARE, class_of};
use thruway_flow::fcb::Fcb;
use thruway_flow::manager::{Input, Refusal};
use thruway_flow::plan::Plan;
use thruway_port::drop_stage::{DropProgram, DropTests, Fate};

use super::{ENTRY, Host, cases, chains, frame, frames};

const TESTS_MAX: usize = 1 << 14;
/// Number of the program in front.
const NOTE: u64 = 0x1234;

/// The program of a table; `None` without the rights to load one.
fn program(table: &DropTable) -> Option<DropProgram> {
    let tests = DropTests {
        tests: table.tests.iter().map(|test| test.words()).collect(),
        starts: table.starts,
        leaves_errors: table.leaves_errors,
        depth: table.depth.min(DEPTH_MAX),
    };
    match DropProgram::load(&tests) {
        Ok(program) => Some(program),
        Err(error) if std::env::var_os("THRUWAY_REQUIRE_PRIVILEGES").is_some() => {
            panic!("{error}: {} tests, {} deep", table.tests.len(), table.depth)
        }
        Err(error) if error.kind() == std::io::ErrorKind::PermissionDenied => {
            eprintln!("no program is run: {error}");
            None
        }
        Err(error) => panic!("{error}: {} tests, {} deep", table.tests.len(), table.depth),
    }
}

/// What a program does with a frame.
fn expected(table: &DropTable, frame: &[u8]) -> Fate {
    match table.run(frame) {
        Some(DROP) => Fate::Dropped,
        end => Fate::Passed(end.and_then(class_of)),
    }
}

/// How many of the frames get a class in front, of those that are not dropped there; a host that
/// trusts it does what the host does alone.
fn noted(plan: &Arc<Plan>, chain: &Chain, frames: &[Vec<u8>]) -> u64 {
    let table = DropTable::with_classes(plan, 0, TESTS_MAX).unwrap();
    let mut alone = Host::new(plan, chain, Input::Ethernet);
    let mut behind = [Input::Ethernet, Input::Marked].map(|input| Host::new(plan, chain, input));
    let mut stale = Host::new(plan, chain, Input::Ethernet);
    behind.iter_mut().for_each(|host| host.manager.trust_notes(ENTRY, Some(NOTE)));
    stale.manager.trust_notes(ENTRY, Some(NOTE + 1));
    let program = program(&table);
    let mut noted = 0;
    for frame in frames {
        let fate = expected(&table, frame);
        if let Some(program) = &program {
            let (found, _) = program.run(frame).unwrap();
            assert_eq!(found, fate, "no such table: {frame:02x?}\n{table:?}");
        }
        let (alone, _) = alone.receive(frame, 0);
        let Fate::Passed(class) = fate else {
            assert_eq!(alone, Err(Refusal::Unwanted), "is dropped: {frame:02x?}");
            continue;
        };
        let note = class.map_or(Fcb::NONE, |class| Fcb::of_note(class, NOTE));
        for host in &mut behind {
            let fate = host.receive_with_note(frame, note);
            assert_eq!(fate, alone, "with class {class:?}: {frame:02x?}\n{table:?}");
        }
        assert_eq!(stale.receive_with_note(frame, note), alone, "{frame:02x?}");
        noted += u64::from(class.is_some());
    }
    assert_eq!(behind.map(|host| host.manager.tagged()), [noted; 2]);
    assert_eq!(stale.manager.tagged(), 0, "notes of another program are trusted");
    noted
}

/// How many of the frames are dropped; of each the table, the program and the host are asked.
fn dropped(plan: &Arc<Plan>, chain: &Chain, table: &DropTable, frames: &[Vec<u8>]) -> u64 {
    let mut host = Host::new(plan, chain, Input::Ethernet);
    let program = program(table);
    let mut dropped = 0;
    for frame in frames {
        let drops = table.drops(frame);
        let (fate, _) = host.receive(frame, 0);
        assert!(!drops || fate == Err(Refusal::Unwanted), "{fate:?} is dropped: {frame:02x?}");
        // No test of these chains looks so far.
        if frame.len() >= 100 && table.excluded.is_empty() && table.run(frame) == Some(SOFTWARE) {
            assert!(fate != Err(Refusal::Unwanted), "it is left to the host: {frame:02x?}");
        }
        if let Some(program) = &program {
            let (found, _) = program.run(frame).unwrap();
            assert_eq!(found, expected(table, frame), "no such table: {frame:02x?}\n{table:?}");
        }
        dropped += u64::from(drops);
    }
    assert!(program.is_none_or(|program| program.dropped() == dropped), "wrong count");
    dropped
}

fn made(dispatchers: &[&[&str]], stateful: bool, long: bool) -> (Chain, Arc<Plan>, DropTable) {
    let dispatchers = dispatchers
        .iter()
        .map(|classes| classes.iter().map(|class| (*class).to_owned()).collect())
        .collect();
    let chain = chains::Plan { dispatchers, stateful, long }.chain();
    let plan = Arc::new(consolidate(&chain).unwrap());
    let table = DropTable::of(&plan, 0, TESTS_MAX).unwrap();
    (chain, plan, table)
}

/// Frames of which all are right, one of each sort.
fn samples() -> Vec<Vec<u8>> {
    let tcp = |port| frame(|parts| parts.ports = [1024, port]);
    let udp = |port| frame(|parts| (parts.protocol, parts.ports) = (17, [1024, port]));
    let ping = frame(|parts| (parts.protocol, parts.icmp) = (1, [8, 0]));
    let six = frame(|parts| (parts.family, parts.version, parts.protocol) = (6, 6, 17));
    let arp = frame(|parts| parts.family = 0);
    vec![tcp(80), tcp(443), udp(53), udp(80), ping, six, arp]
}

#[test]
fn what_nobody_wants_is_dropped_in_the_kernel() {
    let (chain, plan, table) =
        made(&[&["tcp dst port 80", "udp and src net 10.1.0.0/16"]], true, false);
    let fates: Vec<bool> = samples().iter().map(|frame| table.drops(frame)).collect();
    assert_eq!(fates, [false, true, true, true, true, true, true]);
    assert_eq!(dropped(&plan, &chain, &table, &samples()), 6);
    assert!(table.excluded.is_empty() && table.tests.len() < 20, "{table:?}");
}

#[test]
fn what_the_chain_may_read_otherwise_is_left_to_it() {
    let (chain, plan, table) = made(&[&["udp dst port 7"]], true, false);
    let changed = |at: usize, byte: u8, parts: &dyn Fn(&mut frames::Parts)| {
        frame(|all| {
            parts(all);
            all.changed = Some((at, byte));
        })
    };
    let plain = |_: &mut frames::Parts| {};
    let six = |parts: &mut frames::Parts| {
        (parts.family, parts.version, parts.protocol) = (6, 6, 17);
    };
    let mut others = vec![
        frame(|parts| parts.fragment = 0x2000),
        frame(|parts| parts.fragment = 1),
        frame(|parts| parts.version = 5),
        frame(|parts| parts.cut = 1),
        frame(|parts| (parts.family, parts.version, parts.cut) = (6, 6, 1)),
        frame(|parts| (parts.family, parts.version) = (6, 4)),
        // Lengths: of the header too short, of the packet shorter than its header.
        changed(14, 0x44, &plain),
        changed(17, 19, &plain),
        changed(14, 0x4f, &plain),
        changed(19, 0xff, &six),
        frame(|parts| parts.cut = 30),
    ];
    others.extend([0x8100, 0x88a8, 0x9100].map(|tag| frame(|parts| parts.tags = vec![tag])));
    others.extend([0, 43, 44, 51, 60, 135, 139, 140, 253, 254].map(|extension| {
        frame(|parts| {
            six(parts);
            parts.extension = Some(extension);
        })
    }));
    for error in [3, 4, 5, 11, 12] {
        others.push(frame(|parts| (parts.protocol, parts.icmp) = (1, [error, 1])));
    }
    for error in 1..=4 {
        others.push(frame(|parts| {
            six(parts);
            (parts.protocol, parts.icmp) = (58, [error, 1]);
        }));
    }
    for frame in &others {
        assert_eq!(dropped(&plan, &chain, &table, std::slice::from_ref(frame)), 0, "{frame:02x?}");
    }
    assert!(!table.drops(&[0; 13]));
    assert_eq!(dropped(&plan, &chain, &table, &samples()), 7);
}

#[test]
fn the_classes_of_what_is_wanted_are_noted() {
    let (chain, plan, _) =
        made(&[&["tcp dst port 80", "udp and src net 10.1.0.0/16"]], true, false);
    let frames = samples();
    // The first one is wanted, the others are dropped.
    assert_eq!(noted(&plan, &chain, &frames), 1);
    let fragment = frame(|parts| parts.fragment = 1);
    let tagged = frame(|parts| parts.tags = vec![0x8100]);
    assert_eq!(noted(&plan, &chain, &[fragment, tagged]), 0);
    let (chain, plan, table) = made(&[&["tcp", "udp", "-"]], false, false);
    assert!(table.is_empty(), "nothing is dropped");
    assert!(!DropTable::with_classes(&plan, 0, TESTS_MAX).unwrap().is_empty());
    assert_eq!(noted(&plan, &chain, &frames), frames.len() as u64);
    let (_, plan, _) = made(&[&["-"]], false, false);
    assert!(DropTable::with_classes(&plan, 0, TESTS_MAX).unwrap().is_empty(), "there is one class");
}

#[test]
fn what_ends_within_a_tested_word_is_left_to_the_chain() {
    let (chain, plan, table) = made(&[&["64/01020304", "72/05"]], false, false);
    let of_len = |len: usize| frame(|parts| parts.padding = len - 54);
    let drops = |len: usize| table.drops(&of_len(len));
    // Of the first word all bytes count, so that it is no match where one is missing.
    assert_eq!([54, 63, 67, 71].map(drops), [false; 4], "the second may match");
    assert_eq!([76, 80].map(drops), [true; 2]);
    let frames: Vec<Vec<u8>> = (54..90).map(of_len).collect();
    assert_eq!(dropped(&plan, &chain, &table, &frames), 90 - 76);
    let (chain, plan, table) = made(&[&["64/01020304"]], false, false);
    assert_eq!(dropped(&plan, &chain, &table, &frames), 90 - 54);
}

#[test]
fn of_many_rules_few_are_tested() {
    let nets = |at: usize| format!("tcp and src net 10.{}.{}.0/24", at / 200, at % 200);
    let rules: Vec<String> = (0..3000).map(nets).collect();
    let mut rules: Vec<&str> = rules.iter().map(String::as_str).collect();
    rules.insert(17, "udp and dst host 10.0.0.2");
    let (chain, plan, table) = made(&[&rules], false, false);
    assert!(plan.decision.len() < 10, "it is not run as a whole");
    assert!(table.excluded.is_empty(), "{:?}", table.excluded);
    assert!(
        table.depth < 40 && table.tests.len() < 20_000,
        "{} {}",
        table.depth,
        table.tests.len()
    );
    let within = |src: u8, dst: u8| {
        [6, 17].map(|of| frame(|parts| (parts.protocol, parts.src, parts.dst) = (of, src, dst)))
    };
    let frames = [within(0, 0), within(0, 1), within(14, 3), within(15, 3), within(200, 0)];
    // Every fourth rule of these chains drops, and so does what follows the last one.
    let count = dropped(&plan, &chain, &table, frames.as_flattened());
    assert!((3..10).contains(&count), "{count}");
}

#[test]
fn a_limit_leaves_the_rest_to_the_chain() {
    let (chain, plan, full) = made(&[&["tcp dst port 50-100", "udp", "icmp type 8"]], true, true);
    let all = dropped(&plan, &chain, &full, &samples());
    assert!(all > 0);
    for tests_max in 0..full.tests.len().min(40) {
        let table = DropTable::of(&plan, 0, tests_max).unwrap();
        assert!(table.tests.len() <= tests_max);
        assert!(table.excluded.contains_key(&Excluded::Limit), "{tests_max}");
        assert!(dropped(&plan, &chain, &table, &samples()) <= all);
    }
    assert!(DropTable::of(&plan, 1, TESTS_MAX).is_none(), "there is one classifier");
}

proptest! {
    #![proptest_config(cases(96))]

    #[test]
    fn a_kernel_and_a_host_do_what_a_host_does(
        made in chains::plan(),
        parts in prop::collection::vec(frames::parts(), 40),
    ) {
        let chain = made.chain();
        let Ok(plan) = consolidate(&chain) else { return Ok(()) };
        let plan = Arc::new(plan);
        let table = DropTable::of(&plan, 0, TESTS_MAX).unwrap();
        let frames: Vec<Vec<u8>> = parts.iter().map(frames::Parts::frame).collect();
        dropped(&plan, &chain, &table, &frames);
        noted(&plan, &chain, &frames);
    }

    /// Lists of rules about few values, so that several hold for most packets, and bounds are met.
    #[test]
    fn lists_are_searched_as_the_host_does(
        rules in prop::collection::vec(rule(), 1..60),
        long in any::<bool>(),
        parts in prop::collection::vec(frames::parts(), 60),
    ) {
        let chain = chains::Plan { dispatchers: vec![rules], stateful: false, long }.chain();
        let Ok(plan) = consolidate(&chain) else { return Ok(()) };
        let plan = Arc::new(plan);
        let table = DropTable::of(&plan, 0, TESTS_MAX).unwrap();
        let right = |mut parts: frames::Parts| {
            (parts.family, parts.version, parts.padding) = (4, 4, 64);
            parts.tags.clear();
            parts.frame()
        };
        let frames: Vec<Vec<u8>> = parts.into_iter().map(right).collect();
        dropped(&plan, &chain, &table, &frames);
        noted(&plan, &chain, &frames);
    }
}

/// A rule about some of: protocol, addresses, ports. Its values are those of the frames, and their
/// neighbours.
fn rule() -> impl Strategy<Value = String> {
    let some = |all: &'static [&'static str]| prop_oneof![2 => Just(String::new()), 3 => prop::sample::select(all).prop_map(str::to_owned)];
    let protocol = prop::sample::select(&["tcp", "udp", "tcp or udp", "ip proto 132"][..]);
    let source = some(&[
        "src net 10.0.0.0/15",
        "src net 10.1.0.0/16",
        "src net 10.2.0.0/15",
        "src host 10.3.0.1",
        "src net 10.0.0.0/8",
        "src host 10.2.0.2",
    ]);
    let target = some(&[
        "dst net 10.0.0.0/23",
        "dst host 10.0.1.2",
        "dst net 10.0.2.0/23",
        "dst host 10.0.3.3",
        "not dst host 10.0.0.2",
    ]);
    let ports = some(&[
        "dst port 53",
        "dst port 80",
        "dst port 443",
        "dst port 1024",
        "dst port 54-443",
        "src port 53-80",
        "src port > 443",
        "src port < 54",
        "src port 80",
    ]);
    (protocol, source, target, ports).prop_map(|(protocol, source, target, ports)| {
        let parts = [format!("({protocol})"), source, target, ports];
        let parts: Vec<String> = parts.into_iter().filter(|part| !part.is_empty()).collect();
        parts.join(" and ")
    })
}
