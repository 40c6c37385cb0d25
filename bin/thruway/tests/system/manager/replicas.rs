//! Replicas of a function that a manager keeps: new versions by steps, as many as are asked for or
//! as the load needs, and sessions that lose nothing by it.

mod clients;
mod forecast;

use std::time::{Duration, Instant};

use rustix::process::Signal;
use thruway_manager::replicas::ReplicasStatus;
use thruway_manager::{ChainSpec, ChainStatus, FunctionName, FunctionSpec, FunctionUse};

use super::keeper::{Lab, signal};
use crate::control::Client;
use crate::functions::parts::arguments;
use crate::process::wait_for;

/// Declares this program as versions 1 and 2 of a function.
pub(super) fn declare(lab: &mut Lab) {
    let path = std::env::current_exe().expect("a program");
    let printed = std::process::Command::new("sha256sum").arg(&path).output().expect("sha256sum");
    let sha256 = String::from_utf8_lossy(&printed.stdout[..64]).into_owned();
    let path = path.to_str().expect("plain text").to_owned();
    for version in ["player@1", "player@2"] {
        let name = FunctionName::new(version).expect("a name");
        let spec =
            FunctionSpec { path: path.clone(), sha256: sha256.clone(), ..FunctionSpec::default() };
        lab.functions.insert(name, spec);
    }
}

/// A chain whose function has replicas, as JSON declares them.
fn chain(configuration: &str, version: (&str, &str), replicas: &str) -> ChainSpec {
    let used = |(version, part): (&str, &str)| {
        let used = format!("{version} {}", arguments(part));
        FunctionUse::parse(&used).expect("a use")
    };
    let mut functions = vec![("player".to_owned(), used(version))];
    if configuration.contains("$checks") {
        functions.push(("checks".to_owned(), used(("player@1", "checks"))));
    }
    let replicas = serde_json::from_str(replicas).expect("of that form");
    ChainSpec {
        configuration: configuration.to_owned(),
        functions: functions.into_iter().collect(),
        replicas: [("player".to_owned(), replicas)].into(),
        ..ChainSpec::default()
    }
}

/// Numbered packets of 200 sessions at any time, of 100 packets each: replicas number them by the
/// sessions' scratch, and the function behind them checks that each number is the next one.
const NUMBERED: &str = "
    s :: FastUDPFlows(5000, -1, 60, 0:0:0:0:0:1, 10.0.0.1, 0:0:0:0:0:2, 10.0.0.2, 200, 100)
        -> Unqueue -> Strip(14) -> CheckIPHeader -> c :: Counter -> FlowClassifier(INPUT ip)
        -> nf :: Nf($player, SESSION connection, SLOTS 2048, HANG 60s, ON_FAILURE restart,
            HOLD 10s)
        -> k :: Nf($checks, SESSION connection, SLOTS 2048, HANG 60s) -> d :: Counter -> Discard;";

/// What was seen of the chain `web`.
struct Web<'a> {
    lab: &'a mut Lab,
}

impl Web<'_> {
    fn client(&self) -> Client {
        Client::unix(&self.lab.socket("web"))
    }

    fn status(&mut self) -> ChainStatus {
        self.lab.status("web")
    }

    fn replicas(&mut self) -> Option<ReplicasStatus> {
        self.status().replicas.pop()
    }

    /// Waits until as many replicas of a version have all sessions; the chain's process.
    #[track_caller]
    fn settles(&mut self, version: &str, count: usize) -> u32 {
        wait_for(version, || {
            let status = self.status();
            let replicas = &status.replicas.first()?.replicas;
            let is_it = |one: &thruway_manager::replicas::ReplicaStatus| {
                one.version.starts_with(version) && one.state == "up"
            };
            let all = replicas.len() == count && replicas.iter().all(is_it);
            let holds = status.conditions.len() == 4 && status.conditions.iter().all(|c| c.holds);
            if all && holds { status.pid } else { None }
        })
    }

    /// A counter of the function that checks.
    fn checked(&self, name: &str) -> u64 {
        let text = self.client().read("k.counters");
        text.lines().find_map(|line| line.strip_prefix(name)?.trim().parse().ok()).unwrap_or(0)
    }

    /// Stops the source, and says how many packets were lost: all that come are checked.
    fn lost(&self) -> u64 {
        let mut before = u64::MAX;
        wait_for("silence", || {
            // A last hot swap would have a new source.
            assert_eq!(self.client().ask("WRITE s.active false").0, 200);
            std::thread::sleep(Duration::from_millis(300));
            let now = self.client().number("d.count");
            (std::mem::replace(&mut before, now) == now).then_some(())
        });
        assert_eq!((self.checked("gaps"), self.checked("backwards")), (0, 0));
        self.client().number("c.count") - self.client().number("d.count")
    }
}

const CANARY: &str =
    r#"{"count": 2, "canary": {"steps": [10, 50], "window": "1s", "packets": 50}}"#;

#[test]
fn a_version_takes_over_by_steps_though_managers_are_killed() {
    let mut lab = Lab::new(None);
    declare(&mut lab);
    lab.set("web", chain(NUMBERED, ("player@1", "stamps"), CANARY));
    lab.converge();
    let pid = Web { lab: &mut lab }.settles("player@1", 2);
    wait_for("sessions", || (Web { lab: &mut lab }.checked("begun") >= 200).then_some(()));
    lab.set("web", chain(NUMBERED, ("player@2", "stamps-2"), CANARY));
    lab.converge();
    let begin = Instant::now();
    let (mut kills, mut phases) = (0, Vec::new());
    while begin.elapsed() < Duration::from_secs(60) {
        let Some(replicas) = (Web { lab: &mut lab }).replicas() else { continue };
        let phase = replicas.rollout.map(|rollout| (rollout.phase, rollout.percent));
        if phase.is_none() && kills > 0 && replicas.replicas.iter().all(|one| one.number > 1) {
            break;
        }
        phases.push(phase);
        std::thread::sleep(Duration::from_millis(70 + 37 * (kills % 11)));
        lab.kill();
        kills += 1;
        lab.begin(None);
        lab.keeper().answer();
        lab.converge();
        // The next one needs a moment to do anything.
        std::thread::sleep(Duration::from_millis(400));
    }
    phases.dedup();
    println!("{kills} managers were killed; phases: {phases:?}");
    let mut web = Web { lab: &mut lab };
    assert_eq!(web.settles("player@2", 2), pid, "one data plane all the time");
    let of = |percent| Some(("canary".to_owned(), Some(percent)));
    assert!(phases.contains(&of(10)) && phases.contains(&of(50)), "{phases:?}");
    assert_eq!(web.lost(), 0);
}

#[test]
fn replicas_come_and_go_and_no_session_loses_a_packet() {
    let mut lab = Lab::new(None);
    declare(&mut lab);
    for count in [1, 3, 2, 4, 1] {
        let replicas = format!(r#"{{"count": {count}}}"#);
        lab.set("web", chain(NUMBERED, ("player@1", "stamps"), &replicas));
        lab.converge();
        let mut web = Web { lab: &mut lab };
        web.settles("player@1", count);
        wait_for("sessions", || (web.checked("begun") >= 200).then_some(()));
    }
    let web = Web { lab: &mut lab };
    assert_eq!(web.lost(), 0);
}

/// Packets for a function that takes its time.
const LOADED: &str = "
    s :: FastUDPFlows($RATE, -1, 60, 0:0:0:0:0:1, 10.0.0.1, 0:0:0:0:0:2, 10.0.0.2, 100, 1000000000)
        -> Unqueue -> Strip(14) -> CheckIPHeader -> c :: Counter -> FlowClassifier(INPUT ip)
        -> nf :: Nf($player, SLOTS 512, HANG 60s) -> d :: Counter -> Discard;";

#[test]
fn the_number_of_replicas_follows_the_load_out_and_in() {
    let mut lab = Lab::new(None);
    declare(&mut lab);
    let scaling = r#"{"scaling": {"min": 1, "max": 2, "waiting": 64, "calm": "3s"}}"#;
    let at = |rate: &str| {
        let mut spec = chain(LOADED, ("player@1", "works:500"), scaling);
        spec.variables.insert("RATE".to_owned(), rate.to_owned());
        spec
    };
    lab.set("web", at("100"));
    lab.converge();
    let pid = Web { lab: &mut lab }.settles("player@1", 1);
    // One replica does at most 2,000.
    lab.set("web", at("3000"));
    lab.converge();
    assert_eq!(Web { lab: &mut lab }.settles("player@1", 2), pid);
    lab.set("web", at("100"));
    lab.converge();
    assert_eq!(Web { lab: &mut lab }.settles("player@1", 1), pid);
    let events = lab.events();
    let count = |name: &str| events.iter().filter(|event| *event == name).count();
    assert_eq!((count("web ScaledOut"), count("web ScaledIn")), (1, 1), "{events:?}");
}

#[test]
fn replicas_that_find_no_memory_are_none_and_traffic_is_as_before() {
    let mut lab = Lab::new(None);
    declare(&mut lab);
    let text =
        NUMBERED.replace("SLOTS 2048, HANG 60s, ON_FAILURE", "SLOTS 32768, HANG 60s, ON_FAILURE");
    let of = |count: u32| chain(&text, ("player@1", "stamps"), &format!(r#"{{"count": {count}}}"#));
    lab.set("web", of(1));
    lab.converge();
    let pid = Web { lab: &mut lab }.settles("player@1", 1);
    wait_for("sessions", || (Web { lab: &mut lab }.checked("begun") >= 200).then_some(()));
    limit_memory(pid, 24 << 20);
    lab.set("web", of(2));
    lab.converge();
    let message = lab.wait_reason("web", "Scaled", "ScaleOutRefused");
    assert!(message.contains("1 of 2 replicas have sessions"), "{message}");
    println!("{message}");
    assert!(lab.condition("web", "Ready").0 && lab.condition("web", "UpToDate").0);
    let web = Web { lab: &mut lab };
    assert_eq!(web.lost(), 0);
    signal(pid, Signal::KILL);
}

/// Lets a process map so many bytes more than it does.
pub(super) fn limit_memory(pid: u32, more: u64) {
    let text = std::fs::read_to_string(format!("/proc/{pid}/status")).expect("it runs");
    let line = text.lines().find(|line| line.starts_with("VmSize:")).expect("its size");
    let kib: u64 = line.split_whitespace().nth(1).and_then(|word| word.parse().ok()).expect("kB");
    let bytes = (kib << 10) + more;
    let status = std::process::Command::new("prlimit")
        .args([format!("--pid={pid}"), format!("--as={bytes}")])
        .status();
    assert!(status.expect("prlimit").success());
}
