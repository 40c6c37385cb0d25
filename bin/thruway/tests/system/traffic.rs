//! Real clients and servers: files by HTTP, streams by iperf3.

use std::process::Command;

use thruway_random::Random;

use crate::network::Namespace;
use crate::process::{Running, need, run, wait_for};

/// Fetches a file of random bytes with curl from a server at `address`; it must arrive unchanged.
#[track_caller]
pub fn fetch(client: &Namespace, server: &Namespace, address: &str, len: usize) {
    need("curl", "curl");
    let dir = tempfile::tempdir().expect("a directory");
    let (original, copy) = (dir.path().join("file"), dir.path().join("copy"));
    std::fs::write(&original, random_bytes(len)).expect("room for a file");
    let _server = serve(server, address, dir.path());
    let url = format!("http://{address}:8080/file");
    let mut command = client.command("curl");
    command.args(["-sS", "-g", "--connect-timeout", "5", "--max-time", "25"]);
    let done = run(command.args(["-o", copy.to_str().expect("plain text"), &url]));
    assert_eq!(done.code(), 0, "{done:#?}");
    assert_eq!(sha256(&copy), sha256(&original), "{address}");
}

/// A server of files, which listens.
pub fn serve(host: &Namespace, address: &str, dir: &std::path::Path) -> Running {
    need("python3", "python3");
    let bind = address.trim_matches(['[', ']']);
    let mut command = host.command("python3");
    command.args(["-m", "http.server", "8080", "--bind", bind]).current_dir(dir);
    let server = Running::start(&mut command);
    listening(host, "8080");
    server
}

/// Waits until something in `host` listens at a TCP port.
#[track_caller]
pub fn listening(host: &Namespace, port: &str) {
    wait_for("a server", || {
        let sockets = host.succeed(&format!("ss -Hltn sport = :{port}"));
        (!sockets.is_empty()).then_some(())
    });
}

/// The hash of a file.
#[track_caller]
pub fn sha256(file: &std::path::Path) -> String {
    let done = run(Command::new("sha256sum").arg(file)).expect(0);
    done.stdout.split_whitespace().next().expect("a hash").to_owned()
}

/// Bytes that do not repeat nor compress.
pub fn random_bytes(len: usize) -> Vec<u8> {
    Random::from_seed(1).bytes(len)
}

/// Two seconds of TCP and two of UDP, both of which must flow.
#[track_caller]
pub fn iperf(client: &Namespace, server: &Namespace, address: &str) {
    let _server = iperf_server(server, address);
    stream(client, &format!("-t 2 -c {address}"));
    datagrams(client, &format!("-t 2 -b 10M -c {address}"));
}

/// Some megabytes by TCP and by UDP, each way, on connections of the client.
#[track_caller]
pub fn iperf_both_directions(client: &Namespace, server: &Namespace, address: &str) {
    let _server = iperf_server(server, address);
    for way in ["", "-R"] {
        stream(client, &format!("-n 20M {way} -c {address}"));
        datagrams(client, &format!("-n 2M -b 20M {way} -c {address}"));
    }
}

/// Two seconds with what iperf3 does by itself: TCP each way and both at once, and UDP with
/// datagrams as long as the path's segments.
#[track_caller]
pub fn iperf_defaults(client: &Namespace, server: &Namespace, address: &str) {
    let _server = iperf_server(server, address);
    for way in ["", "-R", "--bidir"] {
        stream(client, &format!("-t 2 {way} -c {address}"));
    }
    for way in ["", "-R"] {
        // 1 Mbit/s: some 86 datagrams a second.
        delivered(client, &format!("-t 2 {way} -c {address}"), 100.0);
    }
}

fn iperf_server(host: &Namespace, address: &str) -> Running {
    need("iperf3", "iperf3");
    let mut command = host.command("iperf3");
    let server = Running::start(command.args(["-s", "-B", address]));
    listening(host, "5201");
    server
}

/// A stream of TCP with these arguments.
#[track_caller]
fn stream(client: &Namespace, arguments: &str) {
    let tcp = client.succeed(&format!("iperf3 -J {arguments}"));
    let rate = number(&tcp, "bits_per_second", "sum_received");
    assert!(rate.is_some_and(|rate| rate > 5e6), "TCP {arguments}: {rate:?} bit/s\n{tcp}");
}

/// A stream of UDP with these arguments.
#[track_caller]
fn datagrams(client: &Namespace, arguments: &str) {
    delivered(client, &format!("-l 1200 {arguments}"), 1000.0);
}

/// More datagrams than `least`, of which hardly any is lost.
#[track_caller]
fn delivered(client: &Namespace, arguments: &str, least: f64) {
    let mut said = String::new();
    // On a busy machine the server may sleep until its socket overflows, whoever forwards.
    for _ in 0..3 {
        let udp = client.succeed(&format!("iperf3 -J -u {arguments}"));
        let (sent, lost) = (number(&udp, "packets", "sum"), number(&udp, "lost_percent", "sum"));
        if sent.is_some_and(|sent| sent > least) && lost.is_some_and(|lost| lost < 5.0) {
            return;
        }
        said += &format!("UDP {arguments}: {lost:?}% of {sent:?} lost\n{udp}\n");
    }
    panic!("{said}");
}

/// The number of a field in the last object of this name of iperf3's report, if it has one.
fn number(report: &str, field: &str, object: &str) -> Option<f64> {
    let (_, rest) = report.rsplit_once(&format!("\"{object}\":"))?;
    let (_, rest) = rest.split_once(&format!("\"{field}\":"))?;
    rest.split([',', '\n', '}']).next()?.trim().parse().ok()
}
