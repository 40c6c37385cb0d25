//! A hop over WireGuard: in its program for user space, as the kernel's module need not be there.
//!
//! ```text
//! [first] hop0 -- first [guard] outer -- outer [guard] second -- hop0 [second]
//! 192.0.2.1                 198.51.100.1   .2                    192.0.2.2
//! ```

use super::{Between, Hosts, SERVER, capture, dissected};
use crate::network::Namespace;
use crate::process::{Running, need, privileged, run, wait_for};
use crate::traffic::{fetch, iperf_both_directions};

/// Bytes that a hop over WireGuard leaves: 1420 of its interface less 60 of headers.
const MTU: &str = "1360";

/// A pair of keys: the private one in a file, and the public one.
fn keys(host: &Namespace, file: &std::path::Path) -> String {
    let private = host.succeed("wg genkey");
    std::fs::write(file, &private).expect("room for a key");
    let line = format!("wg pubkey < {}", file.display());
    let done = run(host.command("sh").args(["-c", &line])).expect(0);
    done.stdout.trim().to_owned()
}

/// Two gateways that encrypt what the hosts send each other.
fn guards(hosts: &[Namespace; 2]) -> Between {
    let names = ["first", "second"];
    let guards = names.map(|name| Namespace::new(&format!("guard-{name}")));
    guards[0].cable("outer", (&guards[1], "outer"), "");
    let dir = tempfile::tempdir().expect("a directory");
    let files = names.map(|name| dir.path().join(name));
    let public = [0, 1].map(|at| keys(&guards[at], &files[at]));
    let mut running = Vec::new();
    for (at, guard) in guards.iter().enumerate() {
        let (name, own, other) = (names[at], at + 1, 2 - at);
        hosts[at].cable("hop0", (guard, name), "");
        guard.set("ipv4/ip_forward", "1");
        guard.ip(&format!("link set {name} addrgenmode none up"));
        guard.ip(&format!("address add 198.51.100.{own}/24 dev outer"));
        guard.ip("link set outer up");
        // The name is that of a socket, too, which all namespaces share.
        let interface = format!("wg{name}{}", std::process::id());
        let mut command = guard.command("wireguard-go");
        running.push(Running::start(command.args(["-f", &interface])));
        let show = format!("wg show {interface}");
        wait_for("WireGuard", || (guard.run(&show).code() == 0).then_some(()));
        guard.succeed(&format!(
            "wg set {interface} listen-port 51820 private-key {} peer {} allowed-ips 192.0.2.{other}/32 \
             endpoint 198.51.100.{other}:51820",
            files[at].display(),
            public[1 - at]
        ));
        guard.ip(&format!("address add 10.77.0.{own}/32 dev {interface}"));
        guard.ip(&format!("link set {interface} up"));
        guard.ip(&format!("route add 192.0.2.{other}/32 dev {interface}"));
        guard.ip(&format!("route add 192.0.2.{own}/32 dev {name}"));
        guard.set(&format!("ipv4/conf/{name}/proxy_arp"), "1");
    }
    (running, Vec::from(guards))
}

#[test]
fn a_hop_over_wireguard() {
    if !privileged("a_hop_over_wireguard") {
        return;
    }
    need("wireguard-go", "wireguard-go");
    need("wg", "wireguard-tools");
    let mut hosts = Hosts::across(guards);
    let file = hosts.path("outer.pcap");
    let capturing = capture(&hosts.between.1[0], "outer", &file);
    let mtus = [format!("MTU={MTU}"), format!("SEGMENTS_MTU={MTU}")];
    let [mut first, mut second] = hosts.start(&mtus.each_ref().map(String::as_str));
    fetch(&hosts.client, &hosts.server, SERVER, 2 << 20);
    iperf_both_directions(&hosts.client, &hosts.server, SERVER);
    assert!(second.number("web.count") > 20);
    // The gateways are routers, so the other host is further away than a link.
    assert_eq!(first.read("bfd.state"), "down");
    capturing.interrupt().expect(0);
    let sealed = dissected(&file, "udp.port==51820 && wg", &["udp.length"]);
    assert!(sealed.len() > 1000, "{} packets", sealed.len());
    let open = dissected(&file, "ip && !(udp.port==51820)", &["ip.proto"]);
    assert!(open.is_empty(), "{open:?}");
    hosts.stop();
}
