//! Real clients while versions and numbers of replicas change: who has a connection keeps it.

use std::net::UdpSocket;
use std::time::Duration;

use thruway_sync::atomic::{AtomicBool, Ordering};

use super::{Web, chain, declare};
use crate::manager::functions::{Flow, ask};
use crate::manager::keeper::Lab;
use crate::manager::swap::{LAN, WAN, under_traffic};
use crate::network::Network;
use crate::process::{Ending, privileged, wait_for};

/// A cable with a function in each direction of its sessions.
const CABLE: &str = "
    lan :: FromDevice(lan0, METHOD LINUX) -> l :: Classifier(12/0806, 12/0800, -);
    wan :: FromDevice(wan0, METHOD LINUX) -> w :: Classifier(12/0806, 12/0800, -);
    far :: ToDevice(wan0, METHOD LINUX); near :: ToDevice(lan0, METHOD LINUX);
    l[0] -> far; w[0] -> near; l[2] -> Discard; w[2] -> Discard;
    l[1] -> FlowClassifier -> nf :: Nf($player, ON_FAILURE restart, HOLD 10s) -> far;
    w[1] -> FlowClassifier -> [1] nf; nf[1] -> near;";

const CANARY: &str =
    r#"{"count": 1, "canary": {"steps": [20, 60], "window": "1s", "packets": 40}}"#;

/// A lab whose chain runs version 1, and the process of its data plane.
fn begun(network: &Network) -> (Lab, u32) {
    let mut lab = Lab::new(Some(&network.middle));
    declare(&mut lab);
    lab.set("web", chain(CABLE, ("player@1", "cable"), CANARY));
    lab.converge();
    let pid = Web { lab: &mut lab }.settles("player@1", 1);
    (lab, pid)
}

/// Clients that come and go: each has one question, and another session.
fn come_and_go(network: &Network, wait_max: Duration, over: &AtomicBool) -> (u64, u64) {
    let (mut answered, mut lost) = (0, 0);
    while !over.load(Ordering::Acquire) {
        let socket = network.lan.within(|| UdpSocket::bind("10.4.0.1:0").expect("a free port"));
        socket.connect("10.4.0.2:7").expect("an address");
        socket.set_read_timeout(Some(wait_max)).expect("a time above zero");
        socket.send(b"question").expect("it is up");
        match socket.recv(&mut [0; 8]) {
            Ok(_) => answered += 1,
            Err(_) => lost += 1,
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    (answered, lost)
}

/// Does `work` while clients talk: what those that stay found, and those that come and go, which
/// wait so long for an answer.
fn with_clients(
    network: &Network,
    wait_max: Duration,
    work: impl FnOnce(),
) -> (Vec<Flow>, (u64, u64)) {
    let (over, mut found) = (AtomicBool::new(false), (0, 0));
    let flows = under_traffic(network, (Duration::from_secs(5), ask), || {
        found = std::thread::scope(|scope| {
            let clients = scope.spawn(|| come_and_go(network, wait_max, &over));
            let ending = Ending(&[&over]);
            work();
            drop(ending);
            clients.join().expect("no panic")
        });
    });
    (flows, found)
}

#[test]
fn clients_do_not_notice_a_good_version_nor_more_or_fewer_replicas() {
    if !privileged("clients_do_not_notice_a_good_version_nor_more_or_fewer_replicas") {
        return;
    }
    let network = Network::new(&LAN, &WAN);
    let (mut lab, pid) = begun(&network);
    let (stayed, (answered, lost)) = with_clients(&network, Duration::from_secs(5), || {
        lab.set("web", chain(CABLE, ("player@2", "cable"), CANARY));
        lab.converge();
        assert_eq!(Web { lab: &mut lab }.settles("player@2", 1), pid);
        for count in [3, 1] {
            let replicas = format!(r#"{{"count": {count}}}"#);
            lab.set("web", chain(CABLE, ("player@2", "cable"), &replicas));
            lab.converge();
            assert_eq!(Web { lab: &mut lab }.settles("player@2", count), pid);
        }
    });
    println!("stayed: {stayed:?}; came and went: {answered} answered, {lost} lost");
    assert!(stayed.iter().all(|flow| flow.answered > 100 && flow.lost == 0), "{stayed:?}");
    assert!(answered > 100 && lost == 0, "{answered} {lost}");
}

#[test]
fn a_version_that_loses_packets_goes_back_and_spares_who_was_there() {
    if !privileged("a_version_that_loses_packets_goes_back_and_spares_who_was_there") {
        return;
    }
    let network = Network::new(&LAN, &WAN);
    let (mut lab, pid) = begun(&network);
    let (stayed, (answered, lost)) = with_clients(&network, Duration::from_millis(300), || {
        // It drops a third.
        lab.set("web", chain(CABLE, ("player@2", "cable-thirds"), CANARY));
        lab.converge();
        let message = lab.wait_reason("web", "RolledOut", "WentBack");
        println!("{message}");
        assert!(message.contains("% of its packets were lost or dropped"), "{message}");
        let mut web = Web { lab: &mut lab };
        assert_eq!(web.status().pid, Some(pid));
        let replicas = web.replicas().expect("some").replicas;
        assert!(replicas.iter().all(|one| one.version.starts_with("player@1")), "{replicas:?}");
        // The next version is tried, and this one again, when another was asked for.
        lab.set("web", chain(CABLE, ("player@1", "cable"), CANARY));
        lab.converge();
        wait_for("the old version", || lab.condition("web", "RolledOut").0.then_some(()));
    });
    println!("stayed: {stayed:?}; came and went: {answered} answered, {lost} lost");
    assert!(stayed.iter().all(|flow| flow.answered > 100 && flow.lost == 0), "{stayed:?}");
    assert!(answered > 100 && lost > 0, "{answered} {lost}");
    let events = lab.events();
    let steps = ["RolloutBegan", "ReplicaUp", "CanaryStep", "CanaryWorse", "WentBack"];
    let mut left = events.iter();
    for step in steps {
        assert!(left.any(|event| *event == format!("web {step}")), "{step}: {events:?}");
    }
}
