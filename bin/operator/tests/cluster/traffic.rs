//! Real packets through a chain that the cluster asked for, and how soon a change reaches them.

use std::net::UdpSocket;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::cluster::Cluster;
use crate::namespace::Namespace;

/// A change reaches traffic within this.
const CHANGE_MAX: Duration = Duration::from_secs(1);

/// No packet came back for so long: none does any more.
const QUIET: Duration = Duration::from_millis(500);

/// A wire between two ports, or nothing.
fn wire(goes: bool) -> Value {
    let to = |port: &str| match goes {
        true => format!("Queue -> ToDevice({port})"),
        false => "Discard".to_owned(),
    };
    let text = format!("FromDevice(lan) -> {}; FromDevice(wan) -> {};", to("wan"), to("lan"));
    json!({"configuration": text})
}

fn namespace(role: &str) -> Namespace {
    Namespace::new("twc", role).expect("root makes a namespace")
}

#[test]
fn packets_pass_and_a_change_reaches_them_within_a_second() {
    let mut cluster = Cluster::start(&[]);
    let [host, client, server] = ["host", "client", "server"].map(namespace);
    for (far, port, address) in [(&client, "lan", "192.0.2.1"), (&server, "wan", "192.0.2.2")] {
        host.cable(port, (far, "eth"), "").expect("a cable");
        far.ip(&format!("address add {address}/24 dev eth")).expect("an address");
        far.ip("link set eth up").expect("up");
    }
    cluster.add_host("a", Some(host));
    cluster.wait_host("a", "Ready");
    cluster.chain("wire", &wire(true));
    cluster.wait_running("wire");
    let echo = server.within(|| UdpSocket::bind("192.0.2.2:7")).expect("it enters").expect("bound");
    let end = Instant::now() + Duration::from_secs(60);
    echo.set_read_timeout(Some(Duration::from_millis(200))).expect("set");
    let socket = client.within(|| UdpSocket::bind("192.0.2.1:0")).expect("it enters");
    let socket = socket.expect("bound");
    socket.connect("192.0.2.2:7").expect("connected");
    socket.set_read_timeout(Some(Duration::from_millis(10))).expect("set");
    let (stop, stopped) = std::sync::mpsc::channel::<()>();
    let answers = std::thread::spawn(move || {
        let mut bytes = [0; 64];
        while stopped.try_recv().is_err() && Instant::now() < end {
            if let Ok((len, from)) = echo.recv_from(&mut bytes) {
                let _ = echo.send_to(&bytes[..len], from);
            }
        }
    });
    // One datagram each 10 ms, with its number. How long until one passes that was sent after the
    // change, or until the last one that passed came back.
    let mut number = 0_u64;
    let mut until = |passes: bool| {
        let (begin, first) = (Instant::now(), number);
        let mut last = begin;
        loop {
            let mut bytes = [0; 8];
            socket.send(&number.to_be_bytes()).expect("sent");
            number += 1;
            let is_back = socket.recv(&mut bytes).is_ok();
            let is_new = is_back && u64::from_be_bytes(bytes) >= first;
            if passes && is_new {
                return begin.elapsed();
            }
            if is_back {
                last = Instant::now();
            }
            if !passes && last.elapsed() > QUIET {
                return last - begin;
            }
            assert!(begin.elapsed() < Duration::from_secs(30), "packets: {passes} never");
            std::thread::sleep(Duration::from_millis(1));
        }
    };
    until(true);
    let mut times = Vec::new();
    for goes in [false, true, false, true] {
        cluster.chain("wire", &wire(goes));
        times.push(until(goes));
        cluster.wait_running("wire");
    }
    stop.send(()).expect("it listens");
    answers.join().expect("no panic");
    println!("a change reached packets after {times:?}");
    assert!(times.iter().all(|time| *time < CHANGE_MAX), "{times:?}");
}
