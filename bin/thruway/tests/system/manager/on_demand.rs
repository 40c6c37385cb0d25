//! Functions that run only while they are needed: they come and go while packets flow, whatever
//! becomes of the manager.

use std::os::unix::net::UnixDatagram;
use std::time::Duration;

use rustix::process::Signal;
use thruway_manager::{ChainSpec, FunctionUse};
use thruway_sync::atomic::{AtomicBool, AtomicU64, Ordering};

use super::keeper::{Lab, signal};
use super::replicas::{declare, limit_memory};
use crate::control::Client;
use crate::functions::parts::arguments;
use crate::process::wait_for;

/// A request for a TCP connection, without a link header.
const SYN: [u8; 40] = [
    0x45, 0, 0, 40, 0, 0, 0, 0, 64, 6, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2, 1, 2, 0, 80, 0, 0, 0, 1, 0,
    0, 0, 0, 0x50, 2, 0, 0, 0, 0, 0, 0,
];

/// What comes at a Unix socket, and a function for packets that are suspect.
const SORTED: &str = "
    s :: Socket(UNIX_DGRAM, REQUESTS, CLIENT false) -> MarkIPHeader -> c :: Counter
        -> det :: FloodDetector(500, CALM 500ms) -> d :: Counter -> Discard;
    det[1] -> nf :: Nf($player, SLOTS 1024, ON_FAILURE restart, HOLD 10s) -> d;";

/// The same, where a function sends packets to the role of that one.
const BY_ROLE: &str = "
    s :: Socket(UNIX_DGRAM, REQUESTS, CLIENT false) -> MarkIPHeader -> c :: Counter
        -> det :: FloodDetector(500, CALM 500ms)
        -> w :: Nf($watch, ROLES \"- scrubber\", ON_FAILURE restart, HOLD 10s) -> Discard;
    det[1] -> w; w[1] -> nf :: Nf($player, ON_FAILURE restart, HOLD 10s) -> d :: Counter -> Discard;";

/// A chain whose function runs while there is a flood.
fn chain(lab: &Lab, text: &str, when: &str) -> ChainSpec {
    let used = |part: &str| {
        let used = FunctionUse::parse(&format!("player@1 {}", arguments(part)));
        used.expect("a use")
    };
    let mut functions = vec![("player".to_owned(), used("passes"))];
    if text.contains("$watch") {
        functions.push(("watch".to_owned(), used("suspects")));
    }
    let policy = format!(r#"{{"when": "{when}", "calm": "500ms"}}"#);
    ChainSpec {
        configuration: text.replace("REQUESTS", &socket(lab)),
        functions: functions.into_iter().collect(),
        on_demand: [("player".to_owned(), serde_json::from_str(&policy).expect("a policy"))].into(),
        ..ChainSpec::default()
    }
}

fn socket(lab: &Lab) -> String {
    lab.dir.path().join("requests").display().to_string()
}

/// Begins with the chain; its process.
fn begin(lab: &mut Lab, text: &str) -> u32 {
    declare(lab);
    lab.set("web", chain(lab, text, "det.flooded"));
    lab.converge();
    lab.wait_reason("web", "OnDemand", "NotNeeded");
    lab.status("web").pid.expect("it runs")
}

/// Whether the function is an element of what runs.
fn is_there(lab: &Lab) -> bool {
    Client::unix(&lab.socket("web")).ask_and_take("nf.pid") == 200
}

/// Does `work` while 2,000 requests a second come; how many came.
fn flooded(lab: &mut Lab, work: impl FnOnce(&mut Lab)) -> u64 {
    let (to, over, sent) = (socket(lab), AtomicBool::new(false), AtomicU64::new(0));
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let own = UnixDatagram::unbound().expect("a socket");
            while !over.load(Ordering::Acquire) {
                // It waits where the chain takes none.
                own.send_to(&SYN, &to).expect("the chain listens");
                sent.fetch_add(1, Ordering::AcqRel);
                std::thread::sleep(Duration::from_micros(500));
            }
        });
        let worked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| work(lab)));
        over.store(true, Ordering::Release);
        worked.unwrap_or_else(|panic| std::panic::resume_unwind(panic));
    });
    sent.load(Ordering::Acquire)
}

/// How many packets came and how many went on.
fn counts(lab: &Lab) -> [u64; 2] {
    let mut client = Client::unix(&lab.socket("web"));
    ["c.count", "d.count"].map(|name| client.number(name))
}

#[test]
fn a_function_comes_and_goes_though_its_manager_is_killed() {
    let mut lab = Lab::new(None);
    let pid = begin(&mut lab, SORTED);
    assert!(!is_there(&lab));
    let sent = flooded(&mut lab, |lab| {
        lab.wait_reason("web", "OnDemand", "Deployed");
        assert!(is_there(lab));
        let function = Client::unix(&lab.socket("web")).number("nf.pid");
        lab.kill();
        std::thread::sleep(Duration::from_secs(1));
        lab.begin(None);
        lab.keeper().answer();
        lab.converge();
        lab.wait_reason("web", "OnDemand", "Deployed");
        assert_eq!(Client::unix(&lab.socket("web")).number("nf.pid"), function);
    });
    lab.wait_reason("web", "OnDemand", "NotNeeded");
    wait_for("a chain without it", || (!is_there(&lab)).then_some(()));
    assert_eq!(lab.status("web").pid, Some(pid), "one data plane all the time");
    wait_for("all packets", || (counts(&lab) == [sent, sent]).then_some(()));
    let events = lab.events();
    let mut left = events.iter();
    for event in ["web Adopted", "web NotNeeded", "web Withdrawn"] {
        assert!(left.any(|one| one == event), "{event}: {events:?}");
    }
}

#[test]
fn the_instance_of_a_role_changes_while_packets_flow() {
    let mut lab = Lab::new(None);
    begin(&mut lab, BY_ROLE);
    let watch = Client::unix(&lab.socket("web")).number("w.pid");
    let sent = flooded(&mut lab, |lab| {
        lab.wait_reason("web", "OnDemand", "Deployed");
        wait_for("packets through it", || {
            let count = Client::unix(&lab.socket("web")).number("nf.packets_in");
            (count > 100).then_some(())
        });
    });
    lab.wait_reason("web", "OnDemand", "NotNeeded");
    wait_for("a chain without it", || (!is_there(&lab)).then_some(()));
    wait_for("all packets", || (counts(&lab) == [sent, sent]).then_some(()));
    assert_eq!(Client::unix(&lab.socket("web")).number("w.pid"), watch, "who sends goes on");
}

#[test]
fn a_data_plane_that_dies_is_back_without_its_function() {
    let mut lab = Lab::new(None);
    let pid = begin(&mut lab, SORTED);
    flooded(&mut lab, |lab| {
        lab.wait_reason("web", "OnDemand", "Deployed");
    });
    // The next one cannot be bound to the file of one that was killed.
    std::fs::remove_file(socket(&lab)).expect("it is bound");
    lab.wait_reason("web", "OnDemand", "Deployed");
    signal(pid, Signal::KILL);
    wait_for("another process", || lab.status("web").pid.filter(|now| *now != pid));
    // It knows nothing of the flood.
    lab.wait_reason("web", "OnDemand", "NotNeeded");
    assert!(!is_there(&lab));
    // The next flood has it come again.
    flooded(&mut lab, |lab| {
        lab.wait_reason("web", "OnDemand", "Deployed");
    });
}

#[test]
fn a_function_that_finds_no_memory_does_not_come_and_traffic_is_as_before() {
    let mut lab = Lab::new(None);
    let pid = begin(&mut lab, &SORTED.replace("1024", "32768"));
    limit_memory(pid, 24 << 20);
    let sent = flooded(&mut lab, |lab| {
        let message = lab.wait_reason("web", "OnDemand", "DeploymentRefused");
        println!("{message}");
        std::thread::sleep(Duration::from_millis(300));
    });
    assert!(lab.condition("web", "Ready").0 && lab.condition("web", "UpToDate").0);
    assert!(!is_there(&lab));
    wait_for("all packets", || (counts(&lab) == [sent, sent]).then_some(()));
    signal(pid, Signal::KILL);
}

#[test]
fn a_handler_that_is_not_there_is_reported() {
    let mut lab = Lab::new(None);
    begin(&mut lab, SORTED);
    for (when, why) in [("det.nosuch", "no handler det.nosuch"), ("det.class", "'FloodDetector'")] {
        lab.set("web", chain(&lab, SORTED, when));
        lab.converge();
        wait_for(why, || lab.condition("web", "OnDemand").2.contains(why).then_some(()));
    }
    let events = lab.events();
    assert_eq!(events.iter().filter(|event| *event == "web NoNumber").count(), 1, "{events:?}");
}
