//! Elements do the same in a process of their own as in the host's: the same captures, byte for
//! byte, and the same counts.

use std::fmt::Write as _;
use std::path::Path;

use rustix::process::{Pid, Signal, kill_process};

use super::Captures;
use crate::control::Client;
use crate::frames::{handmade, mutate, read_capture};
use crate::process::{Running, click, root, run, thruway, wait_for};

/// What stands before the element, the element, what stands behind each output (of so many).
struct Case {
    before: &'static str,
    element: &'static str,
    behind: &'static [&'static str],
}

impl Case {
    fn makes_packets(&self) -> bool {
        ["ICMPError", "ARPResponder", "Router"].iter().any(|made| self.element.starts_with(made))
    }
}

const fn case(
    before: &'static str,
    element: &'static str,
    behind: &'static [&'static str],
) -> Case {
    Case { before, element, behind }
}

const IP: &str = "Strip(14) -> CheckIPHeader";

const CASES: &[Case] = &[
    case("Strip(14)", "CheckIPHeader", &["", ""]),
    case(IP, "DecIPTTL", &["", ""]),
    case("MarkIPHeader(14)", "IPFilter(0 tcp or icmp, 1 udp port 53, deny all)", &["", ""]),
    case("Null", "Classifier(12/0800, 12/0806, -)", &["", "", ""]),
    case(IP, "IPClassifier(tcp, ip ttl > 60, -)", &["", "", ""]),
    case(
        "Null",
        "Paint(3)",
        &["ps :: PaintSwitch; ps[0] -> Discard; ps[1] -> Discard; ps[2] -> Discard; ps[3]"],
    ),
    case("Strip(14)", "EtherEncap(0x0800, 1:1:1:1:1:1, 2:2:2:2:2:2)", &[""]),
    case("Null", "Strip(14)", &["Unstrip(14)"]),
    case("Strip(20)", "Unstrip(20)", &[""]),
    case(IP, "ICMPError(10.0.0.9, timeexceeded)", &[""]),
    case("Null", "Tee(3)", &["", "", ""]),
    case(IP, "IPFragmenter(68, HONOR_DF false)", &["", ""]),
    case("Classifier(12/0806 20/0001)", "ARPResponder(0.0.0.0/0 1:2:3:4:5:6)", &[""]),
    case("Null", "Counter", &[""]),
    case("Null", "HashSwitch(26, 4)", &["", "", ""]),
    case("Null", "RoundRobinSwitch", &["", ""]),
    case("Null", "Truncate(70)", &[""]),
    case("Null", "EtherMirror", &[""]),
    case(IP, "IPMirror", &[""]),
    case(IP, "SetIPDSCP(9)", &["SetIPChecksum"]),
    case(IP, "GetIPAddress(16)", &["StaticIPLookup(0/0 0)"]),
    case(IP, "StaticIPLookup(10.0.0.0/8 0, 0/0 1.2.3.4 1)", &["", "StoreIPAddress(16)"]),
    case("Null", "Router", &["", ""]),
];

/// A compound element with a queue inside.
const COMPOUND: &str = "elementclass Router {
    input -> c :: Classifier(12/0800, -);
    c[0] -> Strip(14) -> CheckIPHeader -> q :: Queue(1000) -> Unqueue -> d :: DecIPTTL
        -> Unstrip(14) -> [0] output;
    d[1] -> ICMPError(10.0.0.9, timeexceeded) -> [1] output;
    c[1] -> n :: Counter -> [1] output;
}";

/// A configuration with all cases side by side.
fn text(captures: &Captures, run: &str, isolate: bool) -> String {
    let mut text = COMPOUND.to_owned();
    for (n, case) in CASES.iter().enumerate() {
        let (input, before, element) = (captures.path("in"), case.before, case.element);
        let _ = writeln!(text, "\nFromDump({input}, STOP true) -> {before} -> x{n} :: {element};");
        for (port, behind) in case.behind.iter().enumerate() {
            let to = captures.path(&format!("{run}-{n}-{port}"));
            let arrow = if behind.is_empty() { "" } else { "->" };
            let behind = behind.replace("ps", &format!("ps{n}"));
            let _ = writeln!(text, "x{n}[{port}] -> {behind} {arrow} ToDump({to});");
        }
        if isolate {
            let _ = writeln!(
                text,
                "Isolate(x{n}, ISOLATION relaxed, SLOTS 256, AUX_SLOTS 64, MEMORY 128M);"
            );
        }
    }
    let waits = "wait, ".repeat(CASES.len());
    // On a busy machine functions have packets for long after the captures have ended.
    let kept: String = (0..CASES.len()).map(|n| format!(" $(x{n}/nf.occupancy)")).collect();
    let looks = match isolate {
        true => format!("label look, wait 50ms, goto look $(gt $(add{kept}) 0),"),
        false => String::new(),
    };
    text + &format!("DriverManager({waits} {looks} wait 300ms, stop);")
}

#[test]
fn elements_do_the_same_in_a_process_of_their_own() {
    let mut frames = handmade(&root());
    frames.extend(mutate(&frames.clone(), 7, 300));
    frames.retain(|frame| (1..1500).contains(&frame.len()));
    let captures = Captures::new(&frames);
    for (name, isolate) in [("in-process", false), ("isolated", true)] {
        let text = text(&captures, name, isolate);
        run(thruway().args(["run", "-q", "-e", &text])).expect(0);
    }
    let mut compared = 0;
    for (n, case) in CASES.iter().enumerate() {
        for port in 0..case.behind.len() {
            let path = |name: &str| captures.path(&format!("{name}-{n}-{port}"));
            let of = |name: &str| std::fs::read(path(name)).expect("a capture");
            let (here, there) = (of("in-process"), of("isolated"));
            let same = if case.makes_packets() {
                // These bear the present time, in the capture's record heads.
                here.len() == there.len()
                    && read_capture(Path::new(&path("in-process")))
                        == read_capture(Path::new(&path("isolated")))
            } else {
                here == there
            };
            let (element, here, there) = (case.element, here.len(), there.len());
            assert!(same, "{element} [{port}]: {here} and {there} bytes");
            compared += here;
        }
    }
    assert!(compared > 500_000, "{compared} bytes are too few to tell anything");
}

#[test]
fn handlers_of_isolated_elements_work_as_before() {
    let text = "elementclass Pair { input -> a :: Counter -> b :: Counter -> output }
        InfiniteSource(LIMIT 50, STOP true) -> p :: Pair -> s :: Strip(4) -> Discard;
        Isolate(p, s, ISOLATION relaxed);
        DriverManager(wait, wait 200ms, print p/a.count, write p/a.reset, print p/a.count,
            print p/b.count, print p/b.class, print s.packets, print p/nf.packets_out, stop)";
    let done = run(crate::process::click(&["-e", text]).env_remove("PATH")).expect(0);
    assert_eq!(done.stdout, "50\n0\n50\nCounter\n50\n50\n");
}

#[test]
fn what_cannot_be_isolated_is_told_with_its_place() {
    let refuse = |text: &str, words: &[&str]| {
        run(thruway().args(["check", "-e", text])).expect(1).says(words);
    };
    refuse("Idle -> s :: Strip(14) -> Discard; Isolate(t)", &["no element named 't'", "config:1"]);
    refuse("Idle -> s :: Strip(14) -> Discard; Isolate(s, s)", &["isolated twice"]);
    refuse("Idle -> q :: Queue -> Discard; Isolate(q)", &["pulls from 'q'", "Unqueue"]);
    refuse("Idle -> s :: Strip(14) -> Discard; Isolate(s, SLOTS 3)", &["power of two", "SLOTS 3"]);
    refuse("Idle -> s :: Strip(x) -> Discard; Isolate(s)", &["'x'", "Strip(x)"]);
}

#[test]
fn several_threads_share_an_isolated_part() {
    let text =
        "a :: InfiniteSource(LIMIT 2000, BURST 8) -> c :: Counter -> d :: Counter -> Discard;
        b :: InfiniteSource(LIMIT 2000, BURST 8) -> c;
        StaticThreadSched(a 0, b 1); Isolate(c, ISOLATION relaxed, SLOTS 256);
        DriverManager(wait 800ms, print d.count, print c.count, print c/nf.drops, stop)";
    let done = run(&mut crate::process::click(&["-j", "2", "-e", text])).expect(0);
    let mut lines = done.stdout.lines();
    assert_eq!((lines.next(), lines.next()), (Some("4000"), Some("4000")));
    assert!(lines.filter(|line| !line.is_empty()).all(|line| line.starts_with("0 ")), "{done:#?}");
}

#[test]
fn an_isolated_part_that_is_killed_begins_anew() {
    let dir = tempfile::tempdir().expect("a directory");
    let socket = dir.path().join("control");
    let text = "s :: RatedSource(RATE 5000) -> a :: Counter -> c :: Counter -> d :: Counter
        -> Discard; Isolate(c, ISOLATION relaxed, ON_FAILURE restart)";
    let path = socket.to_str().expect("plain text");
    let driver = Running::start(&mut click(&["-u", path, "-e", text]));
    let mut client = Client::unix(&socket);
    wait_for("packets", || (client.number("d.count") > 1000).then_some(()));
    let before = client.number("c.count");
    let pid = client.number("c/nf.pid").try_into().ok().and_then(Pid::from_raw);
    kill_process(pid.expect("a process"), Signal::KILL).expect("it runs");
    wait_for("another process", || (client.number("c/nf.restarts") == 1).then_some(()));
    // Who has not begun does not answer.
    wait_for("packets of it", || {
        (client.ask_and_take("c.count") == 200 && client.number("c.count") > 100).then_some(())
    });
    assert_eq!(client.ask("WRITE s.active false").0, 200);
    // It counts from nothing, and each packet arrived or is among the drops.
    wait_for("an end", || {
        let [came, left] = ["a.count", "d.count"].map(|count| client.number(count));
        let drops = client.read("c/nf.drop_reasons");
        let drops = drops.lines().filter_map(|line| line.split_once(' ')?.0.parse::<u64>().ok());
        (came == left + drops.sum::<u64>()).then_some(())
    });
    let [counted, left] = ["c.count", "d.count"].map(|count| client.number(count));
    assert!(before > 0 && counted < left, "{before} before, {counted} of {left} behind");
    driver.interrupt().expect(0);
}

#[test]
fn isolated_parts_hand_what_they_changed_from_slot_to_slot() {
    let frames = super::frames(600);
    let captures = Captures::new(&frames);
    let text = format!(
        "FromDump({}, STOP true) -> a :: Paint(3) -> b :: Counter -> c :: Counter
            -> p :: PaintSwitch; p[0], p[1], p[2] -> Discard; p[3] -> ToDump({});
         Isolate(a, b, c, ISOLATION relaxed);
         DriverManager(wait, wait 300ms, print a/nf.slot_to_slot, print b/nf.slot_to_slot,
            print c.count, print c/nf.packets_out, stop)",
        captures.path("in"),
        captures.path("out")
    );
    let done = run(&mut crate::process::click(&["-e", &text])).expect(0);
    assert!(captures.written("out") == frames, "{done:?}");
    let numbers: Vec<u64> =
        done.stdout.lines().map(|line| line.parse().expect("a number")).collect();
    // The second only counts: what it has is whole in its slot all the same, and goes on there.
    assert!(numbers[0] > 0 && numbers[1] > 0, "{numbers:?}");
    assert_eq!(numbers[2..], [600, 600]);
}
