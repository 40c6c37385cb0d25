//! Another configuration takes over while packets flow, and what becomes of one that cannot.

use std::net::UdpSocket;
use std::time::Duration;

use rustix::process::Signal;
use thruway_manager::ChainSpec;
use thruway_sync::atomic::{AtomicBool, Ordering};

use super::keeper::{Lab, signal, spec};
use super::{connect, counted, echo, talk};
use crate::control::Client;
use crate::network::{HostConfig, Network};
use crate::process::{Ending, LIMIT, privileged, wait_for};
use crate::sockets::round_trip;

pub const LAN: HostConfig = HostConfig { addresses: &["10.4.0.1/24"], routers: &[] };
pub const WAN: HostConfig = HostConfig { addresses: &["10.4.0.2/24"], routers: &[] };
/// Hot swaps under traffic.
const SWAPS: u32 = 10;
/// Every so many swaps the manager is killed meanwhile.
const KILL: u32 = 3;

#[test]
fn a_refused_configuration_leaves_the_old_one_running_and_says_why() {
    let mut lab = Lab::new(None);
    let (good, path) = echo(&lab, "web");
    lab.set("web", good.clone());
    lab.converge();
    let pid = lab.is_up("web");
    let mut stream = Some(connect(&path));
    for (text, why) in [
        ("Idle -> Nosuch -> Discard", "chain.click:1"),
        ("Idle -> ToDump(/nodir/file)", "/nodir/file"),
    ] {
        lab.set("web", spec(text));
        lab.converge();
        wait_for(why, || {
            let (_, reason, message) = lab.condition("web", "UpToDate");
            (reason == "ConfigurationRefused" && message.contains(why)).then_some(())
        });
        let status = lab.status("web");
        assert_eq!((status.pid, status.observed_generation), (Some(pid), 1));
        assert!(lab.condition("web", "Ready").0, "the old one runs");
        // Whoever has it read its file again gets the same.
        let file = lab.socket("web").with_file_name("chain.click");
        assert_eq!(std::fs::read_to_string(file).expect("ours"), good.configuration);
    }
    assert_eq!(talk(stream.take().expect("a connection"), counted(10)), 10);
    // What it ran runs again when it dies, not what was refused.
    signal(pid, Signal::KILL);
    wait_for("another process", || lab.status("web").pid.filter(|now| *now != pid));
    lab.wait_reason("web", "UpToDate", "ConfigurationRefused");
    assert_eq!(talk(connect(&path), counted(10)), 10);
    assert!(lab.events().iter().any(|event| event == "web ConfigurationRefused"));
}

#[test]
fn variables_are_swapped_and_threads_that_cannot_be_need_a_restart() {
    let mut lab = Lab::new(None);
    // With two threads each source has its own.
    let text = "Idle -> q :: Queue($SIZE) -> Discard; \
                RatedSource(RATE 1) -> d :: Delay(1ms) -> Discard; RatedSource(RATE 1) -> d";
    let sized = |size: &str, threads| ChainSpec {
        variables: [("SIZE".to_owned(), size.to_owned())].into(),
        threads,
        ..spec(text)
    };
    lab.set("web", sized("5", None));
    lab.converge();
    let pid = lab.is_up("web");
    let capacity = |lab: &Lab| Client::unix(&lab.socket("web")).read("q.capacity");
    assert_eq!(capacity(&lab), "5");
    lab.set("web", sized("7", None));
    lab.converge();
    assert_eq!(lab.is_up("web"), pid);
    assert_eq!(capacity(&lab), "7");

    lab.set("web", sized("9", Some(2)));
    lab.converge();
    let message = lab.wait_reason("web", "UpToDate", "RestartNeeded");
    assert!(message.contains("stop the chain"), "{message}");
    assert!(message.contains("'d' (Delay) keeps state"), "{message}");
    assert_eq!(capacity(&lab), "9", "what can be swapped is");
    let status = lab.status("web");
    assert_eq!((status.pid, status.observed_generation), (Some(pid), 2));
    lab.set("web", ChainSpec { stopped: true, ..sized("9", Some(2)) });
    lab.converge();
    lab.wait_reason("web", "Ready", "Stopped");
    lab.set("web", sized("9", Some(2)));
    lab.converge();
    assert_ne!(lab.is_up("web"), pid);
    assert_eq!(Client::unix(&lab.socket("web")).read("threads"), "2");
    lab.set("web", sized("x", Some(2)));
    lab.converge();
    lab.wait_reason("web", "UpToDate", "ConfigurationRefused");
}

/// The cores on which the first thread of a process may run.
fn cores_of(pid: u32) -> String {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:"));
    line.unwrap_or_default().trim().to_owned()
}

#[test]
fn a_data_plane_moves_to_other_cores_with_its_connections() {
    let mut lab = Lab::new(None);
    let (good, path) = echo(&lab, "web");
    let own = rustix::thread::sched_getaffinity(None).expect("it is known");
    let own: Vec<usize> = (0..256).filter(|core| own.is_set(*core)).collect();
    let [first, .., last] = own[..] else {
        println!("only one core: nowhere to move to");
        return;
    };
    let on = |cores: usize| ChainSpec { cores: Some(cores.to_string()), ..good.clone() };
    lab.set("web", on(first));
    lab.converge();
    let pid = lab.is_up("web");
    wait_for("the first core", || (cores_of(pid) == first.to_string()).then_some(()));
    let stream = connect(&path);
    lab.set("web", on(last));
    lab.converge();
    assert_eq!(lab.is_up("web"), pid);
    assert_eq!(lab.status("web").observed_generation, 2);
    wait_for("the other core", || (cores_of(pid) == last.to_string()).then_some(()));
    assert_eq!(talk(stream, counted(10)), 10, "a connection from before");
    // What cannot be is refused, and it runs on where it was.
    lab.set("web", on(999));
    lab.converge();
    let message = lab.wait_reason("web", "UpToDate", "ConfigurationRefused");
    assert!(message.contains("999"), "{message}");
    assert_eq!(cores_of(pid), last.to_string());
    signal(pid, Signal::KILL);
    wait_for("the next data plane", || {
        let next = lab.status("web").pid.filter(|next| *next != pid)?;
        (cores_of(next) == last.to_string()).then_some(())
    });
}

#[test]
fn what_does_not_begin_to_run_gives_way_to_what_ran() {
    let mut lab = Lab::new(None);
    let (good, path) = echo(&lab, "web");
    lab.set("web", good.clone());
    lab.converge();
    let pid = lab.is_up("web");
    let more = ChainSpec { threads: Some(2), cores: Some("999".to_owned()), ..good.clone() };
    lab.set("web", more);
    lab.converge();
    lab.wait_reason("web", "UpToDate", "RestartNeeded");
    signal(pid, Signal::KILL);
    let message = lab.wait_reason("web", "UpToDate", "ConfigurationRefused");
    assert!(message.contains("generation 1 runs") && message.contains("999"), "{message}");
    assert_eq!(talk(connect(&path), counted(10)), 10);
    assert_eq!(lab.status("web").observed_generation, 1);
    let unknown = ChainSpec { variables: [("NOSUCH".to_owned(), "1".to_owned())].into(), ..good };
    lab.set("web", unknown);
    lab.converge();
    wait_for("the refusal", || lab.condition("web", "UpToDate").2.contains("NOSUCH").then_some(()));
    assert_eq!(talk(connect(&path), counted(10)), 10);
}

/// A cable with a firewall; each `number` is another configuration.
fn cable(rules: &str, number: u32) -> String {
    format!(
        "lan :: FromDevice(lan0, METHOD LINUX) -> l :: Classifier(12/0806, 12/0800, -);
        wan :: FromDevice(wan0, METHOD LINUX) -> w :: Classifier(12/0806, 12/0800, -);
        far :: ToDevice(wan0, METHOD LINUX); near :: ToDevice(lan0, METHOD LINUX);
        l[0] -> far; w[0] -> near; l[2] -> Discard; w[2] -> Discard;
        l[1] -> inside :: FlowClassifier ~> fw :: StatefulFirewall({rules}) -> far;
        w[1] -> outside :: FlowClassifier ~> [1] fw; fw[1] -> near;
        swap{number} :: Script(TYPE PASSIVE)"
    )
}

/// Sends numbered datagrams, each after the answer to the one before, until it is over; how many.
fn ask(socket: &UdpSocket, over: &AtomicBool) -> u64 {
    let mut number = 0u64;
    while !over.load(Ordering::Acquire) {
        round_trip(socket, number);
        number += 1;
    }
    number
}

/// Answers each datagram with the same.
fn reflect(socket: &UdpSocket, over: &AtomicBool) {
    let mut bytes = [0; 8];
    while !over.load(Ordering::Acquire) {
        if let Ok((len, from)) = socket.recv_from(&mut bytes) {
            // Whoever asked sees that no answer came.
            let _ = socket.send_to(&bytes[..len], from);
        }
    }
}

/// A socket of `lan` to the service of `wan`.
fn client(network: &Network, wait_max: Duration) -> UdpSocket {
    let socket = network.lan.within(|| UdpSocket::bind("10.4.0.1:0").expect("a free port"));
    socket.connect("10.4.0.2:7").expect("an address");
    socket.set_read_timeout(Some(wait_max)).expect("a time above zero");
    socket
}

/// Sends datagrams through the chain, by clients that wait so long for an answer, while `work` is
/// done; what each client found.
pub fn under_traffic<T: Send>(
    network: &Network,
    (wait_max, ask): (Duration, fn(&UdpSocket, &AtomicBool) -> T),
    work: impl FnOnce(),
) -> Vec<T> {
    let server = network.wan.within(|| UdpSocket::bind("10.4.0.2:7").expect("a free port"));
    server.set_read_timeout(Some(Duration::from_millis(100))).expect("a time above zero");
    let clients: Vec<UdpSocket> = (0..4).map(|_| client(network, wait_max)).collect();
    let (over, ended) = (AtomicBool::new(false), AtomicBool::new(false));
    std::thread::scope(|scope| {
        scope.spawn(|| reflect(&server, &ended));
        let asks: Vec<_> =
            clients.iter().map(|client| scope.spawn(|| ask(client, &over))).collect();
        // Whatever comes of it, the threads end.
        let ending = (Ending(&[&over]), Ending(&[&ended]));
        work();
        drop(ending.0);
        let found: Vec<_> = asks.into_iter().map(|ask| ask.join()).collect();
        found.into_iter().map(|one| one.expect("each was answered")).collect()
    })
}

/// Swaps again and again, and kills managers in the middle of it.
fn swap_on(lab: &mut Lab, network: &Network, pid: u32) {
    for number in 1..=SWAPS {
        // From the last one on nobody new may begin: who was there before goes on.
        let rules = if number == SWAPS { "deny all" } else { "allow udp" };
        // To and fro between one thread and two.
        let threads = Some(1 + (number % 2) as u16);
        lab.set("web", ChainSpec { threads, ..spec(cable(rules, number)) });
        if number.is_multiple_of(KILL) {
            lab.declare();
            std::thread::sleep(Duration::from_millis(u64::from(number) * 2));
            lab.kill();
            lab.begin(Some(&network.middle));
            lab.keeper().answer();
        }
        lab.converge();
        assert_eq!(lab.is_up("web"), pid, "swap {number}");
        let class = Client::unix(&lab.socket("web")).read(&format!("swap{number}.class"));
        assert_eq!(class, "Script");
        let threads = Client::unix(&lab.socket("web")).read("threads");
        assert_eq!(threads, (1 + number % 2).to_string());
    }
}

#[test]
fn swaps_under_traffic_lose_no_packet_and_no_session_even_if_the_manager_dies() {
    if !privileged("swaps_under_traffic_lose_no_packet_and_no_session_even_if_the_manager_dies") {
        return;
    }
    let network = Network::new(&LAN, &WAN);
    let mut lab = Lab::new(Some(&network.middle));
    lab.set("web", spec(cable("allow udp", 0)));
    lab.converge();
    let pid = lab.is_up("web");
    let counts = under_traffic(&network, (LIMIT, ask), || swap_on(&mut lab, &network, pid));
    println!("{SWAPS} swaps, {counts:?} datagrams of each flow");
    assert!(counts.iter().all(|count| *count > u64::from(5 * SWAPS)), "{counts:?}");
    let late = client(&network, Duration::from_millis(300));
    late.send(b"new").expect("it is up");
    assert!(late.recv(&mut [0; 8]).is_err(), "the last rules let nobody new in");
}
