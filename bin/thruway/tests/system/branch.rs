//! examples/branch.click between a network that gives it an address and hosts that want theirs.

use std::path::Path;

use crate::network::{HostConfig, Namespace, Network};
use crate::process::{Running, need, privileged, root, run, wait_for};
use crate::traffic::fetch;

/// A host that knows nothing.
const LAN: HostConfig = HostConfig { addresses: &[], routers: &[] };
/// The provider: a router, a DHCP server, a resolver. It knows no way to the LAN's IPv4 network.
const WAN: HostConfig =
    HostConfig { addresses: &["192.0.2.1/24", "2001:db8:2::1/64"], routers: &["2001:db8:2::2"] };

/// The addresses that the provider gives: one.
const GIVEN: &str = "192.0.2.50";
/// The gateway's Ethernet address outside.
const WAN_MAC: &str = "02:00:00:00:00:01";

/// What udhcpc runs: it sets the host up.
const HOST_SETUP: &str = r#"#!/bin/sh
[ "$1" = bound ] || exit 0
ip address add "$ip/$mask" dev "$interface"
ip route add default via "$router"
echo "$ip $mask $router $dns $lease" > "$(dirname "$0")/host"
"#;

/// The provider's server.
fn provider(host: &Namespace, dir: &Path) -> Running {
    let mut command = host.command("dnsmasq");
    command.args(["--keep-in-foreground", "--conf-file=/dev/null", "--no-resolv", "--no-hosts"]);
    command.args(["--user=root", "--pid-file=", "--interface=eth0", "--bind-interfaces"]);
    command.args(["--log-queries", "--log-dhcp", "--log-facility=-", "--no-ping"]);
    command.arg(format!("--dhcp-range={GIVEN},{GIVEN},255.255.255.0,2m"));
    command.args(["--dhcp-option=3,192.0.2.1", "--dhcp-option=6,192.0.2.1"]);
    command.args(["--address=/www.example.test/192.0.2.1"]);
    command.args(["--address=/www.example.test/2001:db8:2::1"]);
    // Leases are renewed after 5 s.
    command.args(["--dhcp-option=58,5s", "--dhcp-option=59,50s"]);
    Running::start(command.arg(format!("--dhcp-leasefile={}", dir.join("leases").display())))
}

/// A branch office whose host has been set up by the gateway.
struct Branch {
    network: Network,
    provider: Running,
    dir: tempfile::TempDir,
}

impl Branch {
    /// The gateway with these arguments besides its ports.
    fn new(arguments: &[&str]) -> Branch {
        for (tool, package) in [
            ("dnsmasq", "dnsmasq-base"),
            ("udhcpc", "udhcpc"),
            ("dig", "bind9-dnsutils"),
            ("ping", "iputils-ping"),
            ("curl", "curl"),
        ] {
            need(tool, package);
        }
        let mut network = Network::new(&LAN, &WAN);
        let dir = tempfile::tempdir().expect("a directory");
        let provider = provider(&network.wan, dir.path());
        let mut command = network.middle.thruway();
        command.arg("run").arg(root().join("examples/branch.click"));
        network.start(command.args(["LAN=lan0", "WAN=wan0"]).args(arguments));
        let branch = Branch { network, provider, dir };
        branch.wait_for_lease();
        branch.set_host_up();
        branch
    }

    fn wait_for_lease(&self) {
        wait_for("the provider's address", || {
            let leases = std::fs::read_to_string(self.dir.path().join("leases")).ok()?;
            leases.contains(&format!("{WAN_MAC} {GIVEN}")).then_some(())
        });
    }

    /// Runs the host's DHCP client to its end.
    fn set_host_up(&self) {
        use std::os::unix::fs::PermissionsExt as _;
        let script = self.dir.path().join("setup");
        std::fs::write(&script, HOST_SETUP).expect("a script");
        let mode = std::fs::Permissions::from_mode(0o755);
        std::fs::set_permissions(&script, mode).expect("a program");
        let lan = &self.network.lan;
        let mut command = lan.command("udhcpc");
        command.args(["-f", "-q", "-n", "-i", "eth0", "-t", "10", "-T", "1", "-s"]);
        run(command.arg(&script)).expect(0);
    }

    /// What the DHCP client was told.
    fn dhcp_log(&self) -> String {
        std::fs::read_to_string(self.dir.path().join("host")).expect("what it was told")
    }

    /// The host's own IPv6 address.
    fn address6(&self) -> String {
        wait_for("an address by router advertisement", || {
            let shown = self.network.lan.succeed("ip -6 -o address show dev eth0 scope global");
            let mut words = shown.split_whitespace().skip_while(|word| *word != "inet6");
            let address = words.nth(1)?.split('/').next()?.to_owned();
            (!shown.contains("tentative")).then_some(address)
        })
    }
}

#[test]
fn a_branch_plugs_in_and_works() {
    if !privileged("a_branch_plugs_in_and_works") {
        return;
    }
    let branch = Branch::new(&[]);
    let (lan, wan) = (&branch.network.lan, &branch.network.wan);
    assert_eq!(branch.dhcp_log(), "192.168.1.100 24 192.168.1.1 192.168.1.1 3600\n");
    let six = branch.address6();
    assert!(six.starts_with("fd00:1::"), "{six}");
    let route = lan.succeed("ip -6 route show default");
    assert!(route.contains("via fe80::1") && route.contains("proto ra"), "{route}");
    for far in ["192.0.2.1", "2001:db8:2::1"] {
        let ping = lan.succeed(&format!("ping -n -c 3 -i 0.05 -W 10 {far}"));
        assert!(ping.contains("3 received") && ping.contains("ttl=63"), "{ping}");
    }
    // Names, by UDP and TCP; the resolver sees the gateway, and the host the gateway too.
    for way in ["+notcp", "+tcp"] {
        let dig = "dig +short +time=2 +tries=2 @192.168.1.1 www.example.test";
        assert_eq!(lan.succeed(&format!("{dig} A {way}")), "192.0.2.1\n");
        assert_eq!(lan.succeed(&format!("{dig} AAAA {way}")), "2001:db8:2::1\n");
    }
    let log = branch.provider.stderr();
    assert!(log.contains(&format!("query[A] www.example.test from {GIVEN}")), "{log}");
    fetch(lan, wan, "192.0.2.1", 10 << 20);
    fetch(lan, wan, "[2001:db8:2::1]", 10 << 20);
}

#[test]
fn a_branch_is_closed_from_outside() {
    if !privileged("a_branch_is_closed_from_outside") {
        return;
    }
    let branch = Branch::new(&[]);
    let (lan, wan) = (&branch.network.lan, &branch.network.wan);
    let six = branch.address6();
    // The gateway answers pings, as the address that it was given.
    assert!(wan.succeed(&format!("ping -n -c 1 -W 5 {GIVEN}")).contains("1 received"));
    // The host does not, even by who knows a way to it.
    wan.ip(&format!("route add 192.168.1.0/24 via {GIVEN}"));
    for host in ["192.168.1.100", &six] {
        assert_eq!(wan.run(&format!("ping -n -c 1 -W 1 {host}")).code(), 1, "{host}");
    }
    for host in [GIVEN, "192.168.1.100", &format!("[{six}]")] {
        let knock = wan.run(&format!("curl -sS -g --connect-timeout 1 http://{host}:80/"));
        assert_eq!(knock.code(), 28, "{knock:#?}");
    }
    // Datagrams that nobody asked for do not come in; the same by who was asked do.
    let script = "import socket, sys\n\
        s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); s.bind(('', 9999)); s.settimeout(3)\n\
        s.sendto(b'ask', ('192.0.2.1', 7777))\n\
        try:\n\
        \twhile True: print(s.recvfrom(99), flush=True)\n\
        except TimeoutError: pass\n";
    let answers = "import socket\n\
        s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); s.bind(('', 7777)); s.settimeout(20)\n\
        _, asker = s.recvfrom(99)\n\
        o = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); o.bind(('', 7778))\n\
        for to in (asker, ('192.168.1.100', 9999), (asker[0], 9999)): o.sendto(b'stranger', to)\n\
        s.sendto(b'answer', asker); print(asker)\n";
    let server = Running::start(wan.command("python3").args(["-c", answers]));
    wait_for("the server", || wan.succeed("ss -Hlun").contains(":7777").then_some(()));
    let heard = run(lan.command("python3").args(["-c", script])).expect(0).stdout;
    assert_eq!(heard, "(b'answer', ('192.0.2.1', 7777))\n");
    let asker = server.wait(std::time::Duration::from_secs(5)).expect(0).stdout;
    assert!(asker.contains(GIVEN), "{asker}");
}

#[test]
fn a_branch_renews_its_lease_and_its_threads_share_it() {
    if !privileged("a_branch_renews_its_lease_and_its_threads_share_it") {
        return;
    }
    let mut branch = Branch::new(&["-j", "2", "LEASE=20s"]);
    assert_eq!(branch.dhcp_log(), "192.168.1.100 24 192.168.1.1 192.168.1.1 20\n");
    let acks = || branch.provider.stderr().matches("DHCPACK(eth0)").count();
    let begun = std::time::Instant::now();
    while acks() < 2 {
        assert!(begun.elapsed().as_secs() < 20, "no renewal: {}", branch.provider.stderr());
        let ping = branch.network.lan.succeed("ping -n -c 1 -W 2 192.0.2.1");
        assert!(ping.contains("1 received"), "{ping}");
        std::thread::sleep(std::time::Duration::from_secs(1));
    }
    branch.network.stop().expect(0);
}
