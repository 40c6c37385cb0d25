//! Traces: the reported events are those of the packets, and nothing else changes.

mod support;

use parking_lot::Mutex;
use support::LOG;
use support::router::router;
use thruway_engine::{ClockKind, Options, Router};

/// Marks are the process's, and so is the log: one test at a time.
static TURN: Mutex<()> = Mutex::new(());

/// The events of packets in a trace: `ELEMENT WHAT DETAIL` each, packet by packet, in order of
/// numbers.
fn seen(router: &mut Router, name: &str) -> Vec<Vec<String>> {
    let text = router.read(&format!("trace {name}")).expect("the trace's events");
    let mut events: Vec<(u64, u64, String)> = text
        .lines()
        .filter_map(|line| {
            let words: Vec<&str> = line.split('\t').collect();
            let ["event", _thread, cycles, packet, _parent, element, _class, what, detail, ..] =
                words[..]
            else {
                return None;
            };
            let event = format!("{element} {what} {detail}");
            Some((packet.parse().unwrap(), cycles.parse().unwrap(), event))
        })
        .collect();
    events.sort_by_key(|(packet, cycles, _)| (*packet, *cycles));
    let packets = events.chunk_by(|one, next| one.0 == next.0);
    packets.map(|events| events.iter().map(|(.., event)| event.clone()).collect()).collect()
}

/// Runs a configuration with one trace.
fn trace(text: &str, start: &str) -> (Vec<Vec<String>>, Router) {
    LOG.lock().clear();
    let options = Options { clock: ClockKind::Simulated(0), ..Options::default() };
    let mut router = router(text, &options);
    router.write("trace", &format!("start t {start}")).expect("a trace");
    let outcome = router.run();
    assert!(outcome.errors.is_empty());
    (seen(&mut router, "t"), router)
}

/// The numbers after `trace` in the handler's answer: left, chosen, unmarked, copies, lost.
fn counts(router: &mut Router, name: &str) -> Vec<u64> {
    let text = router.read(&format!("trace {name}")).expect("the trace's counts");
    let line = text.lines().find_map(|line| line.strip_prefix("trace\t")).expect("counts");
    line.split('\t').map(|word| word.parse().unwrap()).collect()
}

#[test]
fn every_element_is_traced_in_order() {
    let _turn = TURN.lock();
    let text = "s :: Source(8, BURST) -> a :: Record -> x :: Split;
        x[0] -> b :: Record -> k :: Sink; x[1] -> c :: Record -> k2 :: Sink;";
    for burst in ["1", "3", "8"] {
        let (paths, _) = trace(&text.replace("BURST", burst), "9 - 0/03");
        let expected = [
            "s out 0",
            "a in 0",
            "a out 0",
            "x in 0",
            "x out 1",
            "c in 0",
            "c out 0",
            "k2 in 0",
            "k2 ended -",
        ];
        assert_eq!(paths, [expected], "bursts of {burst}");
        // And the others passed as without it.
        let log = LOG.lock();
        let bytes = |name: &str| -> Vec<u8> {
            log.iter().filter(|(other, _)| other == name).map(|(_, byte)| *byte).collect()
        };
        assert_eq!(bytes("a"), [0, 1, 2, 3, 4, 5, 6, 7]);
        assert_eq!((bytes("b"), bytes("c")), (vec![0, 2, 4, 6], vec![1, 3, 5, 7]));
    }
}

#[test]
fn outputs_that_lead_to_one_input_are_distinguished() {
    let _turn = TURN.lock();
    for burst in [1, 4] {
        let text = format!(
            "s :: Source(4, {burst}) -> x :: Split; x[0] -> j :: Record -> Sink; x[1] -> j"
        );
        let (paths, _) = trace(&text, "9 - -");
        let left: Vec<&str> = paths.iter().map(|path| &path[2][..]).collect();
        assert_eq!(left, ["x out 0", "x out 1", "x out 0", "x out 1"]);
        let log: Vec<u8> = LOG.lock().iter().map(|(_, byte)| *byte).collect();
        assert_eq!(log, [0, 1, 2, 3], "their order stays");
    }
}

#[test]
fn drops_have_their_reasons() {
    let _turn = TURN.lock();
    let text = "s :: Source(10, 10) -> f :: Refuse -> Sink; f[1] -> h :: Sink;";
    let (paths, router) = trace(text, "99 - -");
    assert_eq!(paths[3], ["s out 0", "f in 0", "f dropped low"]);
    assert_eq!(paths[4][..3], ["s out 0", "f in 0", "f out 0"]);
    assert_eq!(paths[8][..5], ["s out 0", "f in 0", "f out 1", "f counted high", "h in 0"]);
    let node = router.layout().find("f").unwrap();
    assert_eq!(router.stats()[0][node].packets.get(), 10);
    // Without output 1 it is a drop, and so is a packet that leaves by an unconnected output.
    let (paths, _) = trace("s :: Source(9, 3) -> f :: Refuse -> Sink", "99 - 0/08");
    assert_eq!(paths, [["s out 0", "f in 0", "f dropped high"]]);
}

#[test]
fn copies_are_branches() {
    let _turn = TURN.lock();
    let text = "s :: Source(3, 3) -> c :: Copy; c[0] -> a :: Record -> k :: Sink;
        c[1] -> b :: Record -> k2 :: Sink;";
    // Copy sends two copies and frees the packet: the first one takes its number.
    let (paths, _) = trace(text, "1 - 0/01");
    let first = ["s out 0", "c in 0", "c out 0", "a in 0", "a out 0", "k in 0", "k ended -"];
    let copy = ["c out 1", "b in 0", "b out 0", "k2 in 0", "k2 ended -"];
    assert_eq!(paths, [&first[..], &copy[..]]);
    // More than there are marks: some are not followed, and that is reported; all are freed.
    let many = "s :: Source(8, 8) -> m :: Multiply -> r :: Record -> k :: Sink;";
    let (paths, mut router) = trace(many, "8 - -");
    let [left, chosen, unmarked, copies, lost] = counts(&mut router, "t")[..] else { panic!() };
    assert_eq!((left, chosen, unmarked, lost), (0, 8, 0, 0));
    assert!(copies > 0);
    assert_eq!(paths.len() as u64 + copies, 8 * 40);
    assert!(paths.iter().all(|path| path.last().is_some_and(|last| last == "k ended -")));
    let (paths, _) = trace(text, "9 - -");
    assert_eq!(paths.len(), 6, "all marks are free again");
}

#[test]
fn what_is_kept_goes_on() {
    let _turn = TURN.lock();
    let text = "s :: Source(4, 4, STOP false) -> q :: Store -> f :: Refuse -> u :: Puller
        -> k :: Sink; Tick -> Sink;";
    let (paths, _) = trace(text, "9 - -");
    let path = ["s out 0", "q in 0", "q kept -", "q out 0", "f in 0", "f perhaps-dropped low"];
    assert_eq!(paths[2], path);
    let text = text.replace("Source(4, 4", "Source(8, 8");
    let (paths, _) = trace(&text, "9 - 0/06");
    let path = [
        "s out 0",
        "q in 0",
        "q kept -",
        "q out 0",
        "f in 0",
        "f out 0",
        "u in 0",
        "u out 0",
        "k in 0",
        "k ended -",
    ];
    assert_eq!(paths, [path]);
    // Where it is pushed out of a pull path, too.
    let text = text.replace("Source(8, 8", "Source(9, 9") + "f[1] -> h :: Sink";
    let (paths, _) = trace(&text, "9 - 0/08");
    assert_eq!(paths[0][4..], ["f in 0", "f out 1", "h in 0", "h ended -"]);
}

#[test]
fn packets_can_be_chosen_where_they_come_to_an_element() {
    let _turn = TURN.lock();
    let text = "s :: Source(20, 4) -> x :: Split; x[0] -> a :: Record -> k :: Sink; x[1] -> Sink";
    let (paths, mut router) = trace(text, "3 a -");
    assert_eq!(paths, [["a in 0", "a out 0", "k in 0", "k ended -"]; 3]);
    assert_eq!(counts(&mut router, "t"), [0, 3, 0, 0, 0]);
}

#[test]
fn two_traces_see_their_packets() {
    let _turn = TURN.lock();
    let text =
        "s :: Source(6, 6) -> a :: Record -> x :: Split; x[0] -> k :: Sink; x[1] -> l :: Sink";
    let mut router = router(text, &Options::default());
    router.write("trace", "start one 9 - 0/03").unwrap();
    router.write("trace", "start two 2 x -").unwrap();
    router.write("trace", "start three 9 - 0/05").unwrap();
    router.write("trace", "stop three").unwrap();
    router.run();
    let one = seen(&mut router, "one");
    assert_eq!((one.len(), &one[0][0][..]), (1, "s out 0"));
    let two = seen(&mut router, "two");
    assert_eq!(
        two,
        [
            ["x in 0", "x out 0", "k in 0", "k ended -"],
            ["x in 0", "x out 1", "l in 0", "l ended -"]
        ]
    );
    assert!(router.read("trace three").is_err());
    assert!(seen(&mut router, "one").is_empty(), "it was read already");
    router.write("trace", "stop one").unwrap();
    router.write("trace", "stop two").unwrap();
}

#[test]
fn one_packet_may_be_in_two_traces() {
    let _turn = TURN.lock();
    let mut router = router("s :: Source(4, 4) -> a :: Record -> k :: Sink", &Options::default());
    router.write("trace", "start one 9 - 0/03").unwrap();
    router.write("trace", "start two 9 k 0/03").unwrap();
    router.run();
    let path = ["s out 0", "a in 0", "a out 0", "k in 0", "k ended -"];
    assert_eq!(seen(&mut router, "one"), [path]);
    assert_eq!(seen(&mut router, "two"), [["k in 0", "k ended -"]]);
}

#[test]
fn memory_is_bounded_and_losses_are_counted() {
    let _turn = TURN.lock();
    let (paths, mut router) = trace("Source(9000, 8) -> Record -> k :: Sink", "100000 - -");
    let events: usize = paths.iter().map(Vec::len).sum();
    let [left, chosen, unmarked, copies, lost] = counts(&mut router, "t")[..] else { panic!() };
    assert_eq!((left, chosen, unmarked, copies), (91_000, 9000, 0, 0));
    assert_eq!(events as u64 + lost, 9000 * 5);
    assert_eq!(events, 8192);
}

#[test]
fn mistakes_are_reported() {
    let _turn = TURN.lock();
    let mut router = router("Source(1) -> a :: Record -> Sink", &Options::default());
    for (command, said) in [
        ("", "write 'start"),
        ("begin", "'begin': write 'start"),
        ("start", "a name"),
        ("start t", "'': a trace chooses 1 to"),
        ("start t 0 - -", "'0': a trace chooses 1 to"),
        ("start t 1 b -", "no element named 'b'"),
        ("start t 1 - udp prt 4", "the filter: "),
        ("start t 1 -", "the filter: "),
        ("stop t", "no trace 't'"),
    ] {
        let error = router.write("trace", command).unwrap_err().to_string();
        assert!(error.contains(said), "{command}: {error}");
    }
    assert!(router.read("trace t").unwrap_err().to_string().contains("no trace 't'"));
    assert_eq!(router.read("trace").unwrap(), "");
    router.write("trace", "start t 1 - -").unwrap();
    let again = router.write("trace", "start t 1 - -").unwrap_err().to_string();
    assert!(again.contains("'t' already"), "{again}");
    for nth in 1..8 {
        router.write("trace", &format!("start t{nth} 1 a -")).unwrap();
    }
    let many = router.write("trace", "start t8 1 - -").unwrap_err().to_string();
    assert!(many.contains("8 traces run already"), "{many}");
    for nth in 1..8 {
        router.write("trace", &format!("stop t{nth}")).unwrap();
    }
    router.write("trace", "start t8 1 - -").unwrap();
    assert_eq!(router.read("trace").unwrap(), "t\nt8\n");
}
