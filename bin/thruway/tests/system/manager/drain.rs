//! Chains are taken out of service without ending sessions.

use std::io::{ErrorKind, Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::time::Duration;

use thruway_manager::ChainSpec;

use super::keeper::{Lab, spec};
use super::swap::{LAN, WAN};
use crate::network::Network;
use crate::process::{LIMIT, privileged, wait_for};

const SERVER: &str = "10.4.0.2:7000";

/// A cable with sessions, which are forgotten a second after they were closed.
const CABLE: &str = "lan :: FromDevice(lan0) -> l :: Classifier(12/0800, -);
    wan :: FromDevice(wan0) -> w :: Classifier(12/0800, -);
    far :: Queue -> ToDevice(wan0); near :: Queue -> ToDevice(lan0);
    l[1] -> far; w[1] -> near;
    l[0] -> FlowClassifier(TCP_CLOSED 1) ~> fw :: StatefulFirewall(allow tcp) -> far;
    w[0] -> FlowClassifier(TCP_CLOSED 1) ~> [1] fw; fw[1] -> near;";

fn connect(network: &Network, patience: Duration) -> std::io::Result<TcpStream> {
    let server: SocketAddr = SERVER.parse().expect("an address");
    let stream = network.lan.within(|| TcpStream::connect_timeout(&server, patience))?;
    stream.set_read_timeout(Some(LIMIT))?;
    Ok(stream)
}

/// Whether one end's word comes to the other one.
#[track_caller]
fn ask(client: &mut TcpStream, server: &mut TcpStream) {
    let mut word = [0; 4];
    client.write_all(b"word").expect("it is open");
    server.read_exact(&mut word).expect("it comes");
    assert_eq!(&word, b"word");
}

#[test]
fn a_chain_drains_while_its_sessions_go_on_and_ends_with_the_last() {
    if !privileged("a_chain_drains_while_its_sessions_go_on_and_ends_with_the_last") {
        return;
    }
    let network = Network::new(&LAN, &WAN);
    let mut lab = Lab::new(Some(&network.middle));
    let drains = |drain| ChainSpec { drain, ..spec(CABLE) };
    lab.set("web", drains(false));
    lab.converge();
    let pid = lab.is_up("web");
    let listener = network.wan.within(|| TcpListener::bind(SERVER)).expect("a free port");
    let mut client = connect(&network, LIMIT).expect("a connection");
    let (mut server, _) = listener.accept().expect("it came");
    ask(&mut client, &mut server);

    lab.set("web", drains(true));
    lab.converge();
    let message = lab.wait_reason("web", "Drained", "Draining");
    assert_eq!(message, "1 sessions are left");
    ask(&mut client, &mut server);
    let refused = connect(&network, Duration::from_millis(1500)).expect_err("no new session");
    assert_eq!(refused.kind(), ErrorKind::TimedOut);
    assert!(lab.condition("web", "Ready").0, "it serves the session that it has");

    // A manager that begins now ends the drain as well as the one that began it.
    lab.kill();
    lab.begin(Some(&network.middle));
    lab.keeper().answer();
    lab.set("web", drains(false));
    lab.converge();
    let mut other = wait_for("another session", || connect(&network, LIMIT).ok());
    let (mut its_server, _) = listener.accept().expect("it came");
    ask(&mut other, &mut its_server);

    lab.set("web", drains(true));
    lab.converge();
    wait_for("two sessions", || {
        (lab.condition("web", "Drained").2 == "2 sessions are left").then_some(())
    });
    ask(&mut client, &mut server);
    assert_eq!(lab.status("web").pid, Some(pid), "it was the same process all the time");
    drop((client, server, other, its_server));
    lab.wait_reason("web", "Ready", "Drained");
    assert!(lab.condition("web", "Drained").0);
    assert!(lab.processes_of("web").is_empty());
    assert!(lab.events().iter().any(|event| event == "web Drained"));

    lab.set("web", drains(false));
    lab.converge();
    assert_ne!(lab.is_up("web"), pid);
    connect(&network, LIMIT).expect("a session");
}

#[test]
fn a_chain_without_sessions_ends_at_once_and_is_not_started() {
    let mut lab = Lab::new(None);
    let drains = |drain| ChainSpec { drain, ..spec("Idle -> Discard") };
    lab.set("web", drains(false));
    lab.set("other", drains(true));
    lab.converge();
    lab.is_up("web");
    lab.wait_reason("other", "Ready", "Drained");
    lab.set("web", drains(true));
    lab.converge();
    lab.wait_reason("web", "Ready", "Drained");
    assert!(lab.processes().is_empty());
    lab.set("web", drains(false));
    lab.converge();
    lab.is_up("web");
}
