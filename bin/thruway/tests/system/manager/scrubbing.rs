//! A denial of service with real parts: clients (wrk, curl) of a server (nginx) behind a narrow
//! link, a capture that is replayed, and a flood of invented sources. The manager deploys a
//! function that scrubs what goes to the server, and takes it away again.

use std::path::Path;
use std::process::Command;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use rustix::process::Signal;
use serde_json::Value;
use tempfile::TempDir;
use thruway_manager::Event;
use thruway_sync::atomic::{AtomicBool, Ordering};

use super::keeper::{processes_below, signal};
use crate::clients::overload::{Flood, SYN, station};
use crate::control::Client;
use crate::network::{HostConfig, Network};
use crate::process::Ending;
use crate::process::{Done, Running, need, privileged, root, run, wait_for};
use crate::web::Files;

/// Where clients are, and where replies to invented sources end.
const LAN: HostConfig = HostConfig { addresses: &["10.4.0.1/24"], routers: &[] };
/// The server that is flooded, and one beside it.
const WAN: HostConfig =
    HostConfig { addresses: &["10.4.0.2/24", "10.4.0.3/24"], routers: &["10.4.0.1"] };
const FLOOD: Flood = Flood {
    data: SYN,
    from: "198.18.0.0/16",
    to: "10.4.0.2/32",
    port: Some(80),
    checksum: "SetTCPChecksum",
};
/// Packets a second: of the flood, of the capture, and what the link to the servers takes. A build
/// without optimisation carries them beside the clients, on two cores.
const FLOOD_RATE: u32 = 5_000;
const CAPTURE_RATE: u32 = 300;
const LINK_RATE: u32 = 2_000;
/// Times of a run.
const BEFORE: Duration = Duration::from_secs(4);
const DURING: Duration = Duration::from_secs(6);
/// From the beginning of the flood, when it is scrubbed on any machine.
const SOON: Duration = Duration::from_millis(1500);
const AFTER: Duration = Duration::from_secs(4);
/// Goodput counts as restored when half a second has so much of what it was.
const RESTORED: f64 = 0.95;

/// A program that the workspace builds beside this one.
fn beside(name: &str) -> String {
    let path = Path::new(env!("CARGO_BIN_EXE_thruway")).with_file_name(name);
    assert!(path.exists(), "{} is missing: `cargo build --workspace`", path.display());
    let path = path.canonicalize().expect("it is there");
    path.to_str().expect("plain text").to_owned()
}

/// Clients, a manager in the middle, and servers.
struct Stage {
    daemon: Option<Running>,
    network: Network,
    dir: TempDir,
}

impl Stage {
    fn new() -> Stage {
        let (network, dir) = (Network::new(&LAN, &WAN), TempDir::new().expect("a directory"));
        let mut stage = Stage { daemon: None, network, dir };
        beside("thruway-manager");
        stage.begin();
        stage
    }

    /// Starts the manager.
    fn begin(&mut self) {
        self.daemon = Some(Running::start(&mut self.thruway(&["daemon"])));
        wait_for("the manager", || (run(&mut self.thruway(&["get"])).code() == 0).then_some(()));
    }

    /// A command of the manager.
    fn thruway(&self, args: &[&str]) -> Command {
        let mut command = self.network.middle.thruway();
        command.env("THRUWAY_RUN_DIR", self.dir.path().join("run"));
        command.env("THRUWAY_STATE_DIR", self.dir.path().join("state")).args(args);
        command
    }

    /// Declares the function and the chain of the example, with a narrow link to the servers.
    fn declare(&self) {
        let text = std::fs::read_to_string(root().join("examples/scrubbing.click"));
        let far = "far :: ToDevice(";
        let narrow = format!("far :: Queue(200) -> RatedUnqueue({LINK_RATE}) -> ToDevice(");
        let text = text.expect("an example").replace(far, &narrow);
        let program = beside("scrubber");
        let printed = run(Command::new("sha256sum").arg(&program)).expect(0).stdout;
        let sha256 = &printed[..64];
        let declared = serde_json::json!({
            "functions": {"scrubber@1.0": {"path": program, "sha256": sha256}},
            "chains": {"web": {
                "configuration": text,
                "functions": {"SCRUBBER": "scrubber@1.0"},
                "on_demand": {"SCRUBBER": {"when": "detector.flooded", "calm": "1s"}},
            }},
        });
        let file = self.dir.path().join("web.json");
        std::fs::write(&file, declared.to_string()).expect("room");
        run(&mut self.thruway(&["apply", file.to_str().expect("plain text")])).expect(0);
        wait_for("the first ping through the chain", || {
            let ping = self.network.lan.run("ping -n -c 1 -W 1 10.4.0.2");
            (ping.code() == 0).then_some(())
        });
    }

    /// What `describe` shows of functions on demand.
    fn condition(&self) -> String {
        let shown = run(&mut self.thruway(&["describe", "web"])).expect(0).stdout;
        let line = shown.lines().find(|line| line.trim_start().starts_with("OnDemand:"));
        line.unwrap_or_default().trim().to_owned()
    }

    /// When the manager reported this of the chain, in seconds since 1970.
    fn reported(&self, reason: &str) -> Option<f64> {
        let args = ["events", "--chain", "web", "--output", "json"];
        let Done { stdout, .. } = run(&mut self.thruway(&args)).expect(0);
        let events = serde_json::Deserializer::from_str(&stdout).into_iter::<Value>();
        let events = events.map(|one| serde_json::from_value::<Event>(one.expect("JSON")));
        let mut events = events.map(|one| one.expect("an event"));
        events.find(|event| event.reason == reason).map(|event| seconds(event.time))
    }

    fn chain(&self) -> Client {
        Client::unix(&self.dir.path().join("state/chains/web/control.sock"))
    }
}

impl Drop for Stage {
    /// No process stays.
    fn drop(&mut self) {
        drop(self.daemon.take());
        let chains = self.dir.path().join("state/chains");
        processes_below(&chains).into_iter().for_each(|pid| signal(pid, Signal::KILL));
    }
}

fn seconds(time: SystemTime) -> f64 {
    time.duration_since(UNIX_EPOCH).expect("after 1970").as_secs_f64()
}

fn now() -> f64 {
    seconds(SystemTime::now())
}

/// New connections, one request each, one after the other: when each began and how long it took,
/// and how many failed.
fn ask_anew(network: &Network, over: &AtomicBool) -> (Vec<(f64, f64)>, usize) {
    let (mut times, mut failed) = (Vec::new(), 0);
    let line = "curl -sS --fail --max-time 5 -o /dev/null -w %{time_total} http://10.4.0.2/2";
    while !over.load(Ordering::Acquire) {
        let (begin, done) = (now(), network.lan.run(line));
        match done.stdout.parse() {
            Ok(time) if done.code() == 0 => times.push((begin, time)),
            _ => failed += 1,
        }
        std::thread::sleep(Duration::from_millis(50));
    }
    (times, failed)
}

/// Requests that were answered from one time to another, a second.
fn goodput(times: &[f64], from: f64, to: f64) -> f64 {
    times.iter().filter(|time| (from..to).contains(*time)).count() as f64 / (to - from)
}

/// What a run showed: seconds since the first packet of the flood, and parts of what the goodput
/// was before.
struct Seen {
    needed: f64,
    deployed: f64,
    /// The worst tenth of a second, and its goodput.
    worst: (f64, f64),
    restored: Option<f64>,
    /// Goodput from then until the flood was over.
    during: f64,
    /// When the function was taken away, since the end of the flood, and the goodput after that.
    withdrawn: f64,
    after: f64,
    /// Packets that found the link full while the function worked.
    lost: u64,
}

impl Seen {
    fn of(stage: &Stage, times: &[f64], (begin, end): (f64, f64)) -> Seen {
        let reported = |reason| stage.reported(reason).expect(reason);
        let usual = goodput(times, begin - 2.5, begin - 0.1);
        let part = |from: f64, to: f64| goodput(times, from, to) / usual;
        let steps = |from: f64, to: f64| {
            let count = ((to - from) * 100.0) as u32;
            (0..count).map(move |step| from + f64::from(step) / 100.0)
        };
        let tenth = |at: f64| (at, part(at, at + 0.1));
        let worst = steps(begin, begin + 2.0).map(tenth).min_by(|a, b| a.1.total_cmp(&b.1));
        let worst = worst.expect("a time");
        let restored = steps(worst.0, end - 0.5).find(|at| part(*at, at + 0.5) >= RESTORED);
        let withdrawn = reported("Withdrawn");
        Seen {
            needed: reported("Needed") - begin,
            deployed: reported("Deployed") - begin,
            worst: (worst.0 - begin, worst.1),
            restored: restored.map(|at| at - begin),
            during: restored.map_or(0.0, |at| part(at, end)),
            withdrawn: withdrawn - end,
            after: part(withdrawn + 0.2, withdrawn + 2.2),
            lost: 0,
        }
    }
}

/// Starts what sends the flood, and sends nothing yet; its handlers.
fn flood(stage: &Stage) -> (Running, Client) {
    let control = stage.dir.path().join("flood");
    let source = format!("s :: RatedSource(DATA {SYN}, RATE {FLOOD_RATE}, ACTIVE false)");
    let text = FLOOD.text(&source, &station(&stage.network.wan));
    let mut command = stage.network.lan.thruway();
    command.args(["run", "--control"]).arg(&control).args(["-e", &text]);
    (Running::start(&mut command), Client::unix(&control))
}

/// The flood comes and goes, and with it the function; when it began and ended, and how many
/// packets found the link to the servers full, from some time after the beginning on.
fn attack(stage: &Stage, flood: &mut Client) -> (f64, f64, u64) {
    std::thread::sleep(BEFORE);
    assert_eq!(stage.chain().ask_and_take("scrubber.pid"), 510, "it does not run yet");
    let begin = now();
    assert_eq!(flood.ask("WRITE s.active true").0, 200);
    std::thread::sleep(SOON);
    let before = stage.chain().number("far.drops");
    std::thread::sleep(DURING - SOON);
    let lost = stage.chain().number("far.drops") - before;
    let shown = stage.condition();
    assert!(shown.contains("Deployed"), "{shown}");
    let found = stage.chain().read("detector.destinations");
    assert!(found.starts_with("10.4.0.2 ") && found.lines().count() == 1, "{found}");
    println!("{shown}\n{found}{}", stage.chain().read("scrubber.counters"));
    assert_eq!(flood.ask("WRITE s.active false").0, 200);
    let end = now();
    wait_for("the function's end", || stage.reported("Withdrawn").map(|_| ()));
    std::thread::sleep(AFTER);
    println!("{}", stage.condition());
    assert_eq!(stage.chain().ask_and_take("scrubber.pid"), 510, "it does not run any more");
    (begin, end, lost)
}

/// The whole scenario: what was seen of it, new connections while the flood lasted, and how many of
/// all failed.
fn scenario(stage: &Stage) -> (Seen, (Vec<f64>, usize)) {
    let (lan, wan) = (&stage.network.lan, &stage.network.wan);
    let web = Files::new().serve_and_log(wan, "wan");
    let capture = root().join("examples/captures/lan.pcap").display().to_string();
    let capture = format!(
        "FromDump({capture}) -> RatedUnqueue({CAPTURE_RATE}) -> Queue
        -> ToDevice(eth0, METHOD LINUX)"
    );
    let mut command = lan.thruway();
    let background = Running::start(command.args(["run", "--control", "none", "-e", &capture]));
    let (flood, mut flood_control) = flood(stage);
    // The function goes about three seconds after the flood.
    let seconds = (BEFORE + DURING + AFTER).as_secs() + 4;
    let mut wrk = lan.command("wrk");
    wrk.args(["-t", "1", "-c", "8", "--timeout", "5s", "-d", &format!("{seconds}s")]);
    let wrk = Running::start(wrk.arg("http://10.4.0.2/2"));
    let over = AtomicBool::new(false);
    let ((begin, end, lost), anew) = std::thread::scope(|scope| {
        let anew = scope.spawn(|| ask_anew(&stage.network, &over));
        let _ending = Ending(&[&over]);
        let times = attack(stage, &mut flood_control);
        over.store(true, Ordering::Release);
        (times, anew.join().expect("no panic"))
    });
    let done = wrk.wait(Duration::from_secs(30)).expect(0);
    println!("{}", done.stdout);
    drop((background, flood));
    let (anew, failed) = anew;
    let anew = anew.into_iter().filter(|(at, _)| (begin..end).contains(at));
    let anew = anew.map(|(_, time)| time).collect();
    let seen = Seen { lost, ..Seen::of(stage, &web.times(), (begin, end)) };
    (seen, (anew, failed))
}

#[test]
fn a_flood_is_scrubbed_within_a_second_and_clients_keep_their_goodput() {
    if !privileged("a_flood_is_scrubbed_within_a_second_and_clients_keep_their_goodput") {
        return;
    }
    need("wrk", "wrk");
    let stage = Stage::new();
    stage.declare();
    let (seen, (times, failed)) = scenario(&stage);
    let slow = times.iter().filter(|time| **time > 0.5).count();
    let longest = times.iter().copied().fold(0.0, f64::max);
    let Seen { needed, deployed, worst, restored, during, withdrawn, after, lost } = seen;
    println!(
        "needed after {needed:.3} s, deployed after {deployed:.3} s; goodput {:.3} of what it was \
         at {:.3} s, restored after {restored:.3?} s, then {during:.3}; withdrawn {withdrawn:.3} s \
         after the flood, then {after:.3}; {lost} packets found the link full",
        worst.1, worst.0
    );
    println!(
        "{} new connections, {failed} failed, {slow} took more than 0.5 s, the longest \
         {longest:.3} s",
        times.len()
    );
    // What is goodput's part depends on who else uses the machine; what the link loses does not.
    assert!(worst.1 < 0.7, "the flood was felt");
    assert!(deployed < SOON.as_secs_f64() && restored.is_some(), "restored");
    let sent = f64::from(LINK_RATE) * (DURING - SOON).as_secs_f64();
    assert!((lost as f64) < 0.01 * sent, "{lost} packets lost");
    assert!(failed == 0 && times.len() > 10, "new connections");
}

#[test]
fn a_manager_that_is_killed_in_a_flood_leaves_what_it_deployed_to_the_next() {
    if !privileged("a_manager_that_is_killed_in_a_flood_leaves_what_it_deployed_to_the_next") {
        return;
    }
    let mut stage = Stage::new();
    stage.declare();
    let (_flood, mut control) = flood(&stage);
    assert_eq!(control.ask("WRITE s.active true").0, 200);
    wait_for("the function", || stage.reported("Deployed").map(|_| ()));
    let function = stage.chain().number("scrubber.pid");
    // As `kill -9` does.
    drop(stage.daemon.take());
    std::thread::sleep(Duration::from_secs(1));
    assert_eq!(stage.chain().number("scrubber.pid"), function);
    stage.begin();
    wait_for("the next manager", || stage.condition().contains("yes, Deployed").then_some(()));
    assert_eq!(stage.chain().number("scrubber.pid"), function, "it goes on");
    assert!(stage.reported("Deployed").is_none(), "nothing was done again");
    assert_eq!(control.ask("WRITE s.active false").0, 200);
    wait_for("the function's end", || stage.reported("Withdrawn").map(|_| ()));
    assert_eq!(stage.chain().ask_and_take("scrubber.pid"), 510);
}
