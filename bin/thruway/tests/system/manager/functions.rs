//! Chains that use declared functions: the declared executable runs, and versions follow one
//! another while packets flow.

use std::collections::BTreeSet;
use std::net::UdpSocket;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use parking_lot::Mutex;
use rustix::process::Signal;
use tempfile::TempDir;
use thruway_manager::events::EventLog;
use thruway_manager::kind::Name;
use thruway_manager::manager::Declared;
use thruway_manager::planes::{Supervisor, SupervisorConfig};
use thruway_manager::store::{ChangeOptions, Store};
use thruway_manager::{
    ChainName, ChainSpec, CheckError, Checker, ConditionKind, Event, FunctionName, FunctionSpec,
    FunctionUse, GroupName, GroupSpec, Limits, Manager, graph,
};
use thruway_sync::atomic::{AtomicBool, Ordering};

use super::keeper::signal;
use super::swap::{LAN, WAN, under_traffic};
use crate::control::Client;
use crate::functions::parts::{LABEL, arguments};
use crate::network::Network;
use crate::process::{privileged, wait_for};

/// A cable whose one direction goes through a function.
const CABLE: &str = "
    lan :: FromDevice(lan0, METHOD LINUX) -> l :: Classifier(12/0806, 12/0800, -);
    wan :: FromDevice(wan0, METHOD LINUX) -> w :: Classifier(12/0806, 12/0800, -);
    far :: ToDevice(wan0, METHOD LINUX); near :: ToDevice(lan0, METHOD LINUX);
    l[0] -> far; w[0] -> near; l[2] -> Discard; w[2] -> Discard; w[1] -> near;
    l[1] -> nf :: Nf($player, ON_FAILURE restart, HOLD 10s) -> far";

/// Longest wait for the answer to a datagram; a new process has begun before.
const WAIT_MAX: Duration = Duration::from_secs(5);

/// Takes every chain: what a data plane refuses is to be seen.
pub struct Trusting;

impl Checker for Trusting {
    fn check(&self, _name: &ChainName, _spec: &ChainSpec) -> Result<String, CheckError> {
        Ok(String::new())
    }
}

/// A manager whose data planes stand between two hosts.
struct Lab {
    network: Network,
    dir: TempDir,
    manager: Manager,
    received: Mutex<Receiver<Event>>,
}

impl Lab {
    fn new() -> Lab {
        let dir = TempDir::new().expect("a directory");
        let state = dir.path().join("state");
        let store = Store::open(&state).expect("a store");
        let config = SupervisorConfig::new(state, env!("CARGO_BIN_EXE_thruway"));
        let (sender, received) = channel();
        let planes = Supervisor::start(config, sender).expect("a free state");
        let events = Arc::<EventLog>::default();
        let manager = Manager::new(store, Arc::new(planes), Arc::new(Trusting), events);
        let (manager, received) = (manager.expect("a manager"), Mutex::new(received));
        Lab { network: Network::new(&LAN, &WAN), dir, manager, received }
    }

    /// With two versions of the function, and a chain that runs the first one; its process.
    fn with_two_versions() -> (Lab, u32) {
        let lab = Lab::new();
        lab.declare("player@1", &lab.write("first", b'1'));
        lab.declare("player@2", &lab.write("second", b'2'));
        lab.ask_for("player@1");
        let pid = lab.runs(1);
        assert_eq!(lab.label(), "1");
        (lab, pid)
    }

    /// Declares something; the threads that this starts are between the hosts.
    fn put<N: Name<Spec: Declared>>(&self, name: &N, spec: &N::Spec) {
        let put = || self.manager.put(name, spec, &ChangeOptions::default());
        self.network.middle.within(put).expect("taken");
    }

    /// The path of an executable.
    fn file(&self, name: &str) -> PathBuf {
        self.dir.path().canonicalize().expect("there").join(name)
    }

    /// Makes this program with another label an executable.
    fn write(&self, name: &str, label: u8) -> PathBuf {
        let own = std::env::current_exe().expect("a program");
        let mut bytes = std::fs::read(own).expect("it is there");
        let places: Vec<usize> = {
            let found = bytes.windows(LABEL.len()).enumerate().filter(|(_, part)| *part == LABEL);
            found.map(|(at, _)| at).collect()
        };
        assert!(!places.is_empty(), "the label is in the program");
        for at in places {
            bytes[at + LABEL.len() - 1] = label;
        }
        let path = self.file(name);
        std::fs::write(&path, bytes).expect("room");
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).expect("ours");
        path
    }

    /// Declares a version of the function.
    fn declare(&self, version: &str, path: &Path) {
        let printed = Command::new("sha256sum").arg(path).output().expect("sha256sum").stdout;
        let sha256 = String::from_utf8_lossy(&printed[..64]).into_owned();
        let path = path.to_str().expect("plain text").to_owned();
        let limits = Limits { memory: Some("300M".to_owned()), ..Limits::default() };
        let name = FunctionName::new(version).expect("a name");
        self.put(&name, &FunctionSpec { path, sha256, limits, ..FunctionSpec::default() });
    }

    /// Asks for the chain with a version of the function.
    fn ask_for(&self, version: &str) {
        let functions = [("player".to_owned(), used(version))].into();
        let spec = ChainSpec { configuration: CABLE.into(), functions, ..ChainSpec::default() };
        self.put(&web(), &spec);
    }

    /// Waits until a generation runs; its process.
    #[track_caller]
    fn runs(&self, generation: u64) -> u32 {
        wait_for("the chain", || {
            let status = self.manager.planes().status("web")?;
            let all = status.conditions.iter().all(|one| one.holds);
            let now = all && status.observed_generation == generation;
            if now { status.pid } else { None }
        })
    }

    /// Waits until the chain is not up to date for this reason; the message.
    #[track_caller]
    fn is_refused(&self, reason: &str) -> String {
        wait_for(reason, || {
            let status = self.manager.planes().status("web")?;
            let is_it = |kind| kind == ConditionKind::UpToDate;
            let found = status.conditions.into_iter().find(|one| is_it(one.kind))?;
            (found.reason == reason).then_some(found.message)
        })
    }

    /// The label of the executable that runs, told by itself.
    fn label(&self) -> String {
        Client::unix(&self.dir.path().join("state/chains/web/control.sock"))
            .read("nf.handler label")
    }
}

impl Drop for Lab {
    /// No process stays.
    fn drop(&mut self) {
        let status = self.manager.planes().status("web");
        if let Some(pid) = status.and_then(|status| status.pid) {
            signal(pid, Signal::KILL);
        }
    }
}

/// A version of the function, as one that passes packets.
fn used(version: &str) -> FunctionUse {
    FunctionUse::parse(&format!("{version} {}", arguments("passes"))).expect("a use")
}

fn web() -> ChainName {
    ChainName::new("web").expect("a name")
}

/// Datagrams of one flow.
#[derive(Debug)]
pub struct Flow {
    pub answered: u64,
    pub lost: u64,
}

/// Sends numbered datagrams until it is over, each after the answer to the one before, or when none
/// came.
pub fn ask(socket: &UdpSocket, over: &AtomicBool) -> Flow {
    let mut flow = Flow { answered: 0, lost: 0 };
    while !over.load(Ordering::Acquire) {
        let number = (flow.answered + flow.lost).to_be_bytes();
        socket.send(&number).expect("it is up");
        let mut bytes = [0; 8];
        match socket.recv(&mut bytes) {
            Ok(_) => {
                assert_eq!(bytes, number);
                flow.answered += 1;
            }
            Err(_) => flow.lost += 1,
        }
    }
    flow
}

#[test]
fn versions_of_a_function_follow_one_another_under_traffic() {
    if !privileged("versions_of_a_function_follow_one_another_under_traffic") {
        return;
    }
    let (lab, pid) = Lab::with_two_versions();
    let flows = under_traffic(&lab.network, (WAIT_MAX, ask), || {
        // An upgrade of the file where it was declared changes nothing that runs.
        lab.write("first", b'3');
        lab.ask_for("player@2");
        assert_eq!(lab.runs(2), pid, "a hot swap");
        assert_eq!(lab.label(), "2");
        let back = || lab.manager.rollback(&web(), 1, &ChangeOptions::default());
        lab.network.middle.within(back).expect("taken");
        assert_eq!(lab.runs(3), pid, "a hot swap");
        assert_eq!(lab.label(), "1", "the declared executable, not what is in its place");
    });
    println!("two swaps of the version: {flows:?}");
    // The one datagram of a flow that the old process has, and no other: others wait for the new.
    assert!(flows.iter().all(|flow| flow.answered > 100 && flow.lost <= 2), "{flows:?}");

    // The version is another executable now: the chain follows.
    lab.declare("player@1", &lab.file("first"));
    wait_for("the third executable", || (lab.label() == "3").then_some(()));
    assert_eq!(lab.runs(3), pid);
}

/// Memory that two processes share: inodes of anonymous files that both have mapped (proc(5)).
fn shared(processes: [u32; 2]) -> BTreeSet<String> {
    let [one, other] = processes.map(|pid| {
        let maps = std::fs::read_to_string(format!("/proc/{pid}/maps")).expect("it runs");
        let anonymous = maps.lines().filter(|line| line.contains("/memfd:"));
        let inodes = anonymous.filter_map(|line| line.split_whitespace().nth(4));
        inodes.map(str::to_owned).collect::<BTreeSet<_>>()
    });
    one.intersection(&other).cloned().collect()
}

#[test]
fn functions_of_a_declared_group_share_memory_as_long_as_they_are_in_it() {
    if !privileged("functions_of_a_declared_group_share_memory_as_long_as_they_are_in_it") {
        return;
    }
    let lab = Lab::new();
    let path = lab.write("first", b'1');
    for version in ["player@1", "player@2"] {
        lab.declare(version, &path);
    }
    let edge = GroupName::new("edge").expect("a name");
    let group = |versions: &[&str]| {
        let names = versions.iter().map(|one| FunctionName::new(one).expect("a name"));
        lab.put(&edge, &GroupSpec { functions: names.collect(), managed_by: None });
    };
    group(&["player@1", "player@2"]);
    let spec = ChainSpec {
        configuration: CABLE.replace("10s) -> far", "10s) -> next :: Nf($second) -> far"),
        functions: [("player".into(), used("player@1")), ("second".into(), used("player@2"))]
            .into(),
        groups: vec![edge.clone()],
        ..ChainSpec::default()
    };
    lab.put(&web(), &spec);
    let pid = lab.runs(1);
    let control = || Client::unix(&lab.dir.path().join("state/chains/web/control.sock"));
    let processes = || {
        ["nf.pid", "next.pid"].map(|handler| {
            wait_for(handler, || control().read(handler).parse().ok().filter(|pid| *pid > 0))
        })
    };
    assert!(!shared(processes()).is_empty(), "the group's region");

    // Without the second function, which goes on outside; then in it again.
    let flows = under_traffic(&lab.network, (WAIT_MAX, ask), || {
        group(&["player@1"]);
        wait_for("two regions", || shared(processes()).is_empty().then_some(()));
        group(&["player@2", "player@1"]);
        wait_for("one region", || (!shared(processes()).is_empty()).then_some(()));
        let hops = || control().read("nf.slot_to_slot").parse::<u64>().expect("a number");
        let before = hops();
        wait_for("packets that are not copied", || (hops() > before + 100).then_some(()));
    });
    println!("out of the group and into it: {flows:?}");
    assert!(flows.iter().all(|flow| flow.answered > 100), "{flows:?}");
    assert_eq!(lab.runs(1), pid, "hot swaps");
}

#[test]
fn the_graph_of_a_chain_that_runs_has_its_counters() {
    if !privileged("the_graph_of_a_chain_that_runs_has_its_counters") {
        return;
    }
    let (lab, pid) = Lab::with_two_versions();
    let pause = || std::thread::sleep(Duration::from_millis(300));
    let flows = under_traffic(&lab.network, (WAIT_MAX, ask), pause);
    let answered: u64 = flows.iter().map(|flow| flow.answered).sum();
    let read = || graph::read(lab.manager.planes(), "web").expect("it runs");
    let graph = read();
    assert_eq!((graph.pid, graph.swaps), (pid, 0));
    let nf = graph.elements.iter().position(|one| one.name == "nf").expect("the function");
    // Threads publish figures of functions a few times a second.
    let graph = wait_for("each question is counted", || {
        let graph = read();
        let mut functions = graph.functions.iter();
        let is_counted = functions.any(|one| one.element == nf && one.packets_in >= answered);
        is_counted.then_some(graph)
    });
    let function = graph.functions.iter().find(|one| one.element == nf).expect("the function");
    assert_eq!((function.state.as_str(), function.slots), ("running", Some(1024)));
    assert!(answered > 0, "each question: {graph:?}");
    let into = graph.edges.iter().filter(|edge| edge.to == nf);
    let carried = into.map(|edge| edge.packets.expect("an only edge")).sum::<u64>();
    assert_eq!((carried, function.packets_in), (graph.elements[nf].packets, carried), "{graph:?}");
}

#[test]
fn an_executable_that_is_not_as_declared_never_runs() {
    if !privileged("an_executable_that_is_not_as_declared_never_runs") {
        return;
    }
    let (lab, pid) = Lab::with_two_versions();
    let name = FunctionName::new("player@2").expect("a name");
    let second = lab.manager.store().get(&name).expect("declared").spec.expect("a version");
    // Neither the copy nor the file is there any more as it was declared.
    let copy = lab.file("state/functions").join(&second.sha256);
    std::fs::remove_file(&copy).expect("ours");
    std::fs::copy(lab.write("second", b'4'), &copy).expect("room");
    lab.ask_for("player@2");
    let message = lab.is_refused("FunctionNotVerified");
    assert!(message.contains("function player@2: ") && message.contains("SHA-256"), "{message}");
    assert_eq!(lab.label(), "1", "what ran runs on");
    // It is tried again and again, and told once.
    std::thread::sleep(Duration::from_secs(5));
    let received = lab.received.lock();
    let refused = received.try_iter().filter(|event| event.reason == "FunctionNotVerified");
    assert_eq!(refused.count(), 1);
    drop(received);
    lab.write("second", b'2');
    assert_eq!(lab.runs(2), pid, "the manager tries again by itself");
    assert_eq!(lab.label(), "2");
}
