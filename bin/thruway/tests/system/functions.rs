//! Isolated functions as processes: what goes in comes out, whatever becomes of the function.

mod both_modes;
mod earlier;
mod guests;
mod machines;
mod moves;
mod neighbour;
pub mod parts;
mod python;
mod sessions;
mod shares;
mod steering;
mod wakes;
pub mod workers;

use std::path::Path;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};

use crate::control::Client;
use crate::frames::{read_capture, write_capture};
use crate::process::{Done, Running, click, run, thruway, wait_for};
use parts::exec;

/// Runs a configuration to the end of its captures.
fn go(text: &str, options: &[&str]) -> Done {
    run(thruway().arg("run").args(options).args(["-e", text]))
}

/// Frames of many lengths, each different.
fn frames(count: usize) -> Vec<Vec<u8>> {
    let frame = |n: usize| {
        let len = 60 + n * 37 % 1400;
        (0..len).map(|at| (n * 7 + at * 13) as u8).chain((n as u32).to_le_bytes()).collect()
    };
    (0..count).map(frame).collect()
}

/// A directory with a capture, and the paths of that and of one to write.
struct Captures {
    dir: tempfile::TempDir,
}

impl Captures {
    fn new(frames: &[Vec<u8>]) -> Captures {
        let captures = Captures { dir: tempfile::tempdir().expect("a directory") };
        write_capture(Path::new(&captures.path("in")), frames);
        captures
    }

    fn path(&self, name: &str) -> String {
        self.dir.path().join(format!("{name}.pcap")).to_str().expect("plain text").to_owned()
    }

    fn written(&self, name: &str) -> Vec<Vec<u8>> {
        read_capture(Path::new(&self.path(name)))
    }
}

#[test]
fn bytes_and_order_are_kept() {
    let frames = frames(3000);
    let captures = Captures::new(&frames);
    for wait in ["block", "poll", "hybrid"] {
        let text = format!(
            "FromDump({}, STOP true) -> nf :: Nf({}, WAIT {wait}) -> ToDump({})",
            captures.path("in"),
            exec("passes"),
            captures.path(wait)
        );
        go(&text, &[]).expect(0);
        assert!(captures.written(wait) == frames, "{wait}");
    }
}

#[test]
fn functions_drop_add_and_change() {
    let frames = frames(300);
    let captures = Captures::new(&frames);
    let (input, output) = (captures.path("in"), captures.path("out"));
    let through = |part: &str| {
        let nf = exec(part) + ", AUX_SLOTS 2048";
        let text = format!("FromDump({input}, STOP true) -> nf :: Nf({nf}) -> ToDump({output})");
        go(&text, &[]).expect(0);
        captures.written("out")
    };
    let kept = frames.iter().enumerate().filter(|(at, _)| at % 3 != 2);
    assert!(through("thirds") == kept.map(|(_, frame)| frame.clone()).collect::<Vec<_>>());
    let twice: Vec<_> = frames.iter().flat_map(|frame| [frame.clone(), frame.clone()]).collect();
    assert!(through("doubles") == twice);
    let tagged: Vec<_> = frames.iter().map(|frame| [b"tag!", &frame[..]].concat()).collect();
    assert!(through("tags") == tagged);
    let text = format!(
        "FromDump({input}, STOP true) -> nf :: Nf({}) -> ToDump({output}); nf[1] -> ToDump({})",
        exec("steers"),
        captures.path("odd")
    );
    go(&text, &[]).expect(0);
    let of = |odd: u8| -> Vec<_> {
        frames.iter().filter(|frame| frame[0] & 1 == odd).cloned().collect()
    };
    assert!(captures.written("out") == of(0) && captures.written("odd") == of(1));
}

#[test]
fn functions_follow_one_another_on_several_threads() {
    let frames = frames(2000);
    let captures = Captures::new(&frames);
    let chain = |out: &str| {
        let functions: Vec<String> =
            (0..2).map(|_| format!("Nf({}, SLOTS 64)", exec("passes"))).collect();
        let (input, output) = (captures.path("in"), captures.path(out));
        format!("FromDump({input}, STOP true) -> {} -> ToDump({output});", functions.join(" -> "))
    };
    go(&chain("one"), &[]).expect(0);
    assert!(captures.written("one") == frames);
    // Four threads share one function; each has its own rings.
    let sources: String = (0..4)
        .map(|n| {
            let (input, out) = (captures.path("in"), captures.path(&format!("t{n}")));
            format!("FromDump({input}) -> [{n}] nf [{n}] -> ToDump({out});")
        })
        .collect();
    let nf = exec("echoes");
    let text = format!("nf :: Nf({nf}); {sources} Script(TYPE ACTIVE, wait 1s, stop)");
    go(&text, &["-j", "4"]).expect(0);
    for n in 0..4 {
        assert!(captures.written(&format!("t{n}")) == frames, "thread {n}");
    }
}

#[test]
fn groups_share_their_frames() {
    let frames = frames(2000);
    let captures = Captures::new(&frames);
    let member =
        |slots: u32| format!("Nf({}, MODE group, GROUP friends, SLOTS {slots})", exec("passes"));
    let text = format!(
        "TrustGroup(friends, FRAMES 256); FromDump({}, STOP true) -> {} -> {} -> ToDump({})",
        captures.path("in"),
        member(64),
        member(128),
        captures.path("out")
    );
    go(&text, &[]).expect(0);
    assert!(captures.written("out") == frames);
}

#[test]
fn functions_that_do_not_begin_are_told_with_their_place() {
    let refuse = |nf: &str, words: &[&str]| {
        let text = format!("Idle -> nf :: Nf({nf}) -> Discard");
        let done = go(&text, &["--duration", "5"]).expect(1);
        done.says(&["config:1", "in nf :: Nf"]).says(words);
    };
    refuse(&exec("exits"), &["exited with status 1", "the rule file is missing"]);
    refuse(&exec("refuses"), &["there is no rule 7"]);
    let mute = format!("{}, ATTACH_TIMEOUT 200ms", exec("mute"));
    refuse(&mute, &["did not attach within 200ms", "ATTACH_TIMEOUT"]);
    refuse("/no/such/program", &["there is no program '/no/such/program'", "give the path"]);
    refuse("/bin/true, SLOTS 100", &["power of two"]);
    refuse("/bin/true, MODE group, GROUP them", &["declare it: TrustGroup(them"]);
    refuse("/bin/true", &["exited with status 0"]);
}

/// A driver with a control socket, whose function under test is `nf` between counters `c` and `d`,
/// beside an honest neighbour between `nc` and `nd`.
struct Watched {
    driver: Running,
    client: Client,
    _dir: tempfile::TempDir,
}

impl Watched {
    fn start(nf: &str) -> Watched {
        let dir = tempfile::tempdir().expect("a directory");
        let socket = dir.path().join("control");
        let text = format!(
            "s :: RatedSource(RATE 20000) -> c :: Counter -> nf :: Nf({nf}) -> d :: Counter
             -> Discard;
             RatedSource(RATE 5000) -> nc :: Counter -> n :: Nf({}) -> nd :: Counter -> Discard",
            exec("passes")
        );
        let name = socket.to_str().expect("plain text");
        let driver = Running::start(&mut click(&["-u", name, "-e", &text]));
        Watched { driver, client: Client::unix(&socket), _dir: dir }
    }

    fn wait_above(&mut self, handler: &str, number: u64) {
        wait_for(handler, || (self.client.number(handler) > number).then_some(()));
    }

    /// Stops the source, and checks that every packet is accounted for. Gives how many were dropped
    /// because the function failed; on a busy machine its ring may be full as well.
    fn stop_and_count(mut self) -> u64 {
        let client = &mut self.client;
        assert_eq!(client.ask("WRITE s.active false").0, 200);
        wait_for("the ring to be empty", || (client.number("nf.occupancy") == 0).then_some(()));
        let drops = |client: &mut Client, element: &str, of: &str| -> u64 {
            let text = client.read(&format!("{element}.drops"));
            let lines = text.lines().filter(|line| line.ends_with(of));
            lines.filter_map(|line| line.split(' ').next()?.parse::<u64>().ok()).sum()
        };
        let (came, left) = (client.number("c.count"), client.number("d.count"));
        // What it says that it could not add (anything, if it is hostile) never came in.
        let all = drops(client, "nf", "") - drops(client, "nf", " aux-full");
        assert_eq!(came, left + all, "{}", client.read("nf.drops"));
        let lost = drops(client, "nf", " function-failed");
        let (all, full) = (drops(client, "n", ""), drops(client, "n", " ring-full"));
        assert_eq!(all, full, "the neighbour loses nothing: {}", client.read("n.drops"));
        assert_eq!(client.read("n.restarts"), "0");
        self.driver.interrupt().expect(0);
        lost
    }
}

#[test]
fn a_killed_function_comes_back_and_all_is_counted() {
    for (policy, is_lossless) in [("open", true), ("closed", false), ("restart", false)] {
        let mut watched = Watched::start(&format!("{}, ON_FAILURE {policy}", exec("passes")));
        watched.wait_above("d.count", 1000);
        let pid: i32 = watched.client.read("nf.pid").parse().expect("a process");
        let pid = Pid::from_raw(pid).expect("a process");
        let neighbour = watched.client.number("nd.count");
        kill_process(pid, Signal::KILL).expect("it runs");
        let client = &mut watched.client;
        wait_for("a restart", || (client.number("nf.restarts") == 1).then_some(()));
        wait_for("its start", || (client.read("nf.state") == "running").then_some(()));
        assert_ne!(client.read("nf.pid"), pid.as_raw_nonzero().to_string());
        let left = client.number("d.count");
        watched.wait_above("d.count", left + 1000);
        watched.wait_above("nd.count", neighbour + 200);
        let why = watched.client.read("nf.last_error");
        assert!(why.contains("signal 9"), "it is told why: {why}");
        let lost = watched.stop_and_count();
        assert_eq!(is_lossless, lost == 0 && policy == "open", "{policy} lost {lost}");
    }
}

#[test]
fn a_killed_function_is_logged_with_time_level_and_reason() {
    for format in ["text", "json"] {
        let dir = tempfile::tempdir().expect("a directory");
        let socket = dir.path().join("control");
        let text = format!(
            "ControlSocket(UNIX, {}); Idle -> gate :: Nf({}) -> Discard",
            socket.display(),
            exec("passes")
        );
        let driver =
            Running::start(thruway().args(["run", "-q", "--log-format", format, "-e", &text]));
        let mut client = Client::unix(&socket);
        let pid: i32 = client.read("gate.pid").parse().expect("a number");
        kill_process(Pid::from_raw(pid).expect("a process"), Signal::KILL).expect("it runs");
        let line = wait_for("the line", || {
            driver.stderr().lines().find(|line| line.contains("ended")).map(str::to_owned)
        });
        wait_for("a restart", || driver.stderr().contains("restarted").then_some(()));
        if format == "json" {
            let event: serde_json::Value = serde_json::from_str(&line).expect("JSON");
            assert_eq!(event["level"], "ERROR", "{line}");
            assert_eq!(event["function"], "gate", "{line}");
            assert!(event["reason"].as_str().expect("text").contains("signal 9"), "{line}");
            assert!(event["timestamp"].as_str().expect("text").ends_with('Z'), "{line}");
        } else {
            let form = r#"^20\d\d-\d\d-\d\dT[\d:.]+Z ERROR isolated function ended function="gate" pid=\d+ reason=".*signal 9"#;
            assert!(regex::Regex::new(form).expect("a form").is_match(&line), "{line}");
        }
        driver.interrupt().expect(0);
    }
}

#[test]
fn hanging_dying_and_lying_functions_are_started_again() {
    for (part, handler, policy) in [
        ("hangs:500", "hangs", "open"),
        ("dies:500", "restarts", "closed"),
        ("lies:500", "peer_faults", "closed"),
    ] {
        let nf = format!("{}, HANG 100ms, ON_FAILURE {policy}", exec(part));
        let mut watched = Watched::start(&nf);
        watched.wait_above(&format!("nf.{handler}"), 0);
        watched.wait_above("nf.restarts", 0);
        let neighbour = watched.client.number("nd.count");
        watched.wait_above("nd.count", neighbour + 200);
        watched.stop_and_count();
    }
}

#[test]
fn handlers_reach_into_the_function() {
    let mut watched = Watched::start(&exec("ticks"));
    let client = &mut watched.client;
    assert_eq!(client.read("nf.handler part now"), "ticks now");
    assert_eq!(client.ask("WRITE nf.handler part passes").0, 200);
    assert_eq!(client.read("nf.handler part"), "passes ");
    let (code, said) = client.ask("WRITE nf.handler nosuch 1");
    assert!(code >= 500 && said.contains("nosuch"), "{code} {said}");
    wait_for("ticks", || (client.number("nf.injected") > 3).then_some(()));
    wait_for("its own counter", || client.read("nf.counters").starts_with("seen ").then_some(()));
    assert!(client.read("nf.latency").lines().any(|line| !line.ends_with(" 0")));
    assert!(
        client.read("nf.sandbox").contains("network namespace"),
        "{}",
        client.read("nf.sandbox")
    );
    assert!(client.number("nf.wake_ups") > 0 && client.number("nf.sleeps") > 0);
    assert!(client.read("nf.cpu_time").parse::<f64>().expect("seconds") > 0.0);
    assert_eq!(client.ask("WRITE nf.master_threshold 10").0, 200);
    assert_eq!(client.read("nf.master_threshold"), "10");
    assert_eq!(client.ask("WRITE nf.worker_threshold 1").0, 200);
    assert_eq!(client.read("nf.worker_threshold"), "1");
    watched.driver.interrupt().expect(0);
}

#[test]
fn an_idle_chain_sleeps() {
    let text = format!("Idle -> Nf({}) -> Nf({}) -> Discard", exec("passes"), exec("passes"));
    let mut driver = Running::start(thruway().args(["run", "-q", "-e", &text]));
    std::thread::sleep(Duration::from_millis(400));
    let before = cpu_ms(driver.pid());
    std::thread::sleep(Duration::from_secs(1));
    let spent = cpu_ms(driver.pid()) - before;
    assert!(!driver.ended() && spent < 100, "{spent} ms in a second of nothing");
    driver.interrupt().expect(0);
}

/// Processor time of a process so far, in milliseconds.
fn cpu_ms(pid: u32) -> u64 {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).expect("it runs");
    let fields: Vec<&str> = stat.rsplit(") ").next().expect("fields").split(' ').collect();
    // utime and stime, in hundredths of a second.
    let ticks = |at: usize| fields[at].parse::<u64>().expect("a number");
    (ticks(11) + ticks(12)) * 10
}

#[test]
fn a_hot_swap_keeps_the_process_of_an_unchanged_function() {
    let dir = tempfile::tempdir().expect("a directory");
    let socket = dir.path().join("control");
    let name = socket.to_str().expect("plain text");
    let text = |source: &str, more: &str| {
        let nf = exec("passes");
        format!("{source} -> c :: Counter -> nf :: Nf({nf}{more}) -> d :: Counter -> Discard")
    };
    let rated = "s :: RatedSource(RATE 10000)";
    let config = text(rated, "");
    let driver = Running::start(&mut click(&["-R", "-u", name, "-e", &config]));
    let mut client = Client::unix(&socket);
    let pid = client.read("nf.pid");
    let swap = |client: &mut Client, text: &str, marker: &str| {
        assert_eq!(client.write_data("hotconfig", text).0, 200);
        wait_for("the swap", || {
            (client.ask(&format!("CHECKREAD {marker}.name")).0 == 200).then_some(())
        });
    };
    swap(&mut client, &text(&format!("{rated} -> m :: Null"), ""), "m");
    assert_eq!(client.read("nf.pid"), pid, "the same process");
    let count = client.number("d.count");
    wait_for("packets", || (client.number("d.count") > count + 100).then_some(()));
    swap(&mut client, &text(&format!("{rated} -> o :: Null"), ", WORKER_THRESHOLD 8"), "o");
    assert_ne!(client.read("nf.pid"), pid, "another function, another process");
    let count = client.number("d.count");
    wait_for("packets", || (client.number("d.count") > count + 100).then_some(()));
    // One that cannot begin leaves the running one as it is.
    let pid = client.read("nf.pid");
    client.write_data("hotconfig", &text(rated, "").replace("passes", "exits"));
    wait_for("the refusal", || driver.stderr().contains("rule file").then_some(()));
    assert_eq!(client.read("nf.pid"), pid);
    let count = client.number("d.count");
    wait_for("packets", || (client.number("d.count") > count + 100).then_some(()));
    driver.interrupt().expect(0);
}

#[test]
fn packets_go_from_slot_to_slot() {
    let frames = frames(600);
    let captures = Captures::new(&frames);
    let twice = |frame: &Vec<u8>| {
        let tagged = [b"tag!tag!", &frame[..]].concat();
        [tagged.clone(), tagged]
    };
    let expected: Vec<Vec<u8>> = frames.iter().flat_map(twice).collect();
    // In the last one, what fails open must not come so.
    for (more, hops) in [
        (", ON_FAILURE closed", true),
        (", MODE group, GROUP friends", true),
        (", ON_FAILURE open", false),
    ] {
        let nf = |part: &str| format!("Nf({}, AUX_SLOTS 4096{more})", exec(part));
        let text = format!(
            "TrustGroup(friends, FRAMES 4096);
             FromDump({}, STOP true) -> a :: {} -> b :: {} -> c :: {} -> ToDump({});
             DriverManager(wait, wait 300ms, print a.slot_to_slot, print b.slot_to_slot,
                print c.slot_to_slot, print c.packets_in, print c.packets, stop)",
            captures.path("in"),
            nf("tags"),
            nf("passes"),
            nf("tags-doubles"),
            captures.path("out")
        );
        let done = run(&mut click(&["-e", &text])).expect(0);
        assert!(captures.written("out") == expected, "{more}");
        let numbers: Vec<u64> =
            done.stdout.lines().map(|line| line.parse().expect("a number")).collect();
        assert_eq!(numbers[0] > 0 && numbers[1] > 0, hops, "{more}: {numbers:?}");
        assert_eq!(numbers[2..], [0, 600, 600], "{more}");
    }
}

/// What became of the packets of two equal runs of a function that adds more packets than its ring
/// of auxiliary packets holds at once: bytes that came out, and the element's own figures.
fn added(captures: &Captures, part: &str, aux_slots: u32, name: &str) -> (Vec<Vec<u8>>, Vec<u64>) {
    let text = format!(
        "FromDump({}, STOP true) -> c :: Counter -> nf :: Nf({}, AUX_SLOTS {aux_slots})
            -> d :: Counter -> ToDump({});
         DriverManager(wait, label more, wait 300ms, goto more $(gt $(nf.occupancy) 0),
            print c.count, print d.count, print nf.auxiliary, print nf.drops, stop)",
        captures.path("in"),
        exec(part),
        captures.path(name)
    );
    let done = run(&mut click(&["-e", &text])).expect(0);
    let numbers = done.stdout.lines().filter_map(|line| line.split(' ').next()?.parse().ok());
    (captures.written(name), numbers.collect())
}

#[test]
fn what_a_function_adds_waits_for_room_and_each_loss_is_counted() {
    let captures = Captures::new(&frames(1500));
    // One packet more for each, by a ring of two: none is lost.
    let (one, figures) = added(&captures, "doubles", 2, "one");
    let (other, _) = added(&captures, "doubles", 2, "other");
    assert_eq!(one.len(), 3000, "{figures:?}");
    assert!(one == other, "two runs of one input differ");
    // Five packets more for each, where three have room: no wait can help, and all is counted.
    let (one, figures) = added(&captures, "adds:5", 2, "less");
    let (other, again) = added(&captures, "adds:5", 2, "again");
    let [came, left, added, ref drops @ ..] = figures[..] else { panic!("{figures:?}") };
    assert_eq!((came, left, added), (1500, 1500 * 3, 1500 * 2), "{figures:?}");
    assert_eq!(drops.iter().sum::<u64>(), 1500 * 3, "{figures:?}");
    assert!(one == other && figures == again, "two runs of one input differ");
}
