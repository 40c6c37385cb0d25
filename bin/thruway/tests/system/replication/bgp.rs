//! A pair on a routed network: the host that serves has FRR announce the translated address by BGP.
//!
//! ```text
//! client -- lan bridge -- lan0 [a] wan0 -- wan bridge -- router -- server
//!                      \- lan0 [b] wan0 -/
//! 192.168.1.10    .1                   192.0.2.2, .3    .1    198.51.100.1, .10
//! ```

use std::time::{Duration, Instant};

use rustix::process::Signal;

use super::load::{Between, CONNECTIONS, Ends, under_load};
use super::write_key;
use crate::control::Client;
use crate::frr::Frr;
use crate::network::Namespace;
use crate::process::{Running, need, privileged, root, wait_for};

/// What is announced.
const SERVICE: &str = "203.0.113.2";
/// How BGP's sessions notice that the other end is gone: 150 ms.
const BFD: &str = "bfd\n profile fast\n  receive-interval 50\n  transmit-interval 50\n  \
                   detect-multiplier 3\n exit\nexit\n";

/// One of the two hosts: its data plane and its routing daemon.
struct Host {
    running: Running,
    client: Client,
    frr: Frr,
}

struct Routed {
    // In the order of going: processes before namespaces.
    hosts: [Option<Host>; 2],
    frr: Frr,
    middles: [Namespace; 2],
    client: Namespace,
    server: Namespace,
    router: Namespace,
    bridges: Namespace,
    files: tempfile::TempDir,
}

impl Between for Routed {
    fn ends(&self) -> Ends<'_> {
        let address = "198.51.100.10:7000".parse().expect("an address");
        Ends { client: &self.client, server: &self.server, address }
    }
}

/// What bgpd is told: its neighbours, and whether it announces routes of the kernel.
fn bgp(system: u32, own: u8, neighbors: &[(u8, u32)], announces: bool) -> String {
    let mut text = format!(
        "router bgp {system}\n bgp router-id 192.0.2.{own}\n no bgp ebgp-requires-policy\n"
    );
    for (last, system) in neighbors {
        let neighbor = format!(" neighbor 192.0.2.{last}");
        text += &format!(
            "{neighbor} remote-as {system}\n{neighbor} bfd profile fast\n{neighbor} timers connect 1\n\
             {neighbor} advertisement-interval 0\n"
        );
    }
    if announces {
        text += " address-family ipv4 unicast\n  redistribute kernel\n exit-address-family\n";
    }
    text + "exit\n"
}

impl Routed {
    fn new() -> Routed {
        let [client, server, router, bridges] =
            ["client", "server", "router", "bridges"].map(Namespace::new);
        let middles = ["a", "b"].map(Namespace::new);
        for (bridge, (end, port)) in [("lan", (&client, "eth0")), ("wan", (&router, "wan0"))] {
            bridges.ip(&format!("link add {bridge} type bridge"));
            bridges.ip(&format!("link set {bridge} addrgenmode none up"));
            bridges.cable(&format!("{bridge}end"), (end, port), "");
            for (middle, name) in middles.iter().zip(["a", "b"]) {
                middle.cable(&format!("{bridge}0"), (&bridges, &format!("{bridge}{name}")), "");
            }
            for port in ["end", "a", "b"] {
                bridges.ip(&format!("link set {bridge}{port} master {bridge} up"));
            }
        }
        router.cable("srv0", (&server, "eth0"), "");
        middles[0].cable("pair0", (&middles[1], "pair0"), "");
        for (middle, last) in middles.iter().zip(1..) {
            let (mac, address) = (mac(last), last + 1);
            middle.ip(&format!("link set wan0 address {mac}"));
            middle.ip(&format!("address add 192.0.2.{address}/24 dev wan0"));
            middle.ip(&format!("address add 10.9.0.{last}/24 dev pair0"));
            middle.ip("link set pair0 up");
        }
        for (host, port, address) in [
            (&client, "eth0", "192.168.1.10/24"),
            (&router, "wan0", "192.0.2.1/24"),
            (&router, "srv0", "198.51.100.1/24"),
            (&server, "eth0", "198.51.100.10/24"),
        ] {
            host.ip(&format!("address add {address} dev {port}"));
            host.ip(&format!("link set {port} up"));
        }
        client.ip("route add default via 192.168.1.1");
        server.ip("route add default via 198.51.100.1");
        router.set("ipv4/ip_forward", "1");
        let files = tempfile::tempdir().expect("a temporary folder");
        write_key(&files.path().join("key"), "the secret of both hosts");
        let daemons = [("bgpd", &*bgp(65000, 1, &[(2, 65001), (3, 65001)], false)), ("bfdd", BFD)];
        let frr = Frr::start(&router, &files.path().join("router"), &daemons);
        Routed { hosts: [None, None], frr, middles, client, server, router, bridges, files }
    }

    /// Starts host 0, which serves, or 1, its backup.
    fn start(&mut self, which: usize, peer: &str) {
        let last = which as u8 + 2;
        let path = |name: &str| self.files.path().join(format!("{name}{which}"));
        let daemons = [("bgpd", &*bgp(65001, last, &[(1, 65000)], true)), ("bfdd", BFD)];
        let frr = Frr::start(&self.middles[which], &path("frr"), &daemons);
        let example = root().join("examples/nat-pair-bgp.click");
        let text = std::fs::read_to_string(example).expect("the example");
        let (config, socket) = (path("config"), path("socket"));
        let text = format!("{text}\nControlSocket(UNIX, {});\n", socket.display());
        std::fs::write(&config, text).expect("room");
        let mut command = self.middles[which].thruway();
        command.arg("run").arg(&config).args(["LAN=lan0", "WAN=wan0"]);
        command.arg(format!("WAN_IP=192.0.2.{last}")).arg(format!("WAN_MAC={}", mac(last - 1)));
        command.arg(format!("KEY={}", self.files.path().join("key").display()));
        command.arg(format!("PEER={peer}"));
        command.arg("AFTER=150ms");
        let mut running = Running::start(command.stdin(std::process::Stdio::null()));
        wait_for("the control socket", || {
            assert!(!running.ended(), "{}{}", running.stdout(), running.stderr());
            socket.exists().then_some(())
        });
        self.hosts[which] = Some(Host { running, client: Client::unix(&socket), frr });
    }

    /// The host that the router's kernel sends packets for the service to, if there is one.
    fn next_hop(&self) -> Option<u8> {
        let route = self.router.succeed(&format!("ip route show {SERVICE}"));
        let (_, hop) = route.split_once("via 192.0.2.")?;
        hop.split_whitespace().next()?.parse().ok()
    }

    #[track_caller]
    fn wait_route(&self, last: u8) {
        wait_for(&format!("the route by 192.0.2.{last}"), || {
            (self.next_hop() == Some(last)).then_some(())
        });
    }

    /// Both hosts, the route, and a ping through the one that serves.
    fn begin() -> Routed {
        let mut routed = Routed::new();
        routed.start(0, "TO 10.9.0.2:7070");
        routed.start(1, "LISTEN 10.9.0.2:7070");
        routed.wait_route(2);
        wait_for("the first ping", || {
            let ping = routed.client.run("ping -n -c 1 -W 1 198.51.100.10");
            (ping.code() == 0).then_some(())
        });
        wait_for("both BFD sessions", || {
            let peers = routed.frr.show("bfd peers brief");
            (peers.matches(" up ").count() == 2).then_some(())
        });
        routed
    }

    #[track_caller]
    fn read(&mut self, which: usize, handler: &str) -> String {
        self.host(which).client.read(handler)
    }

    fn host(&mut self, which: usize) -> &mut Host {
        self.hosts[which].as_mut().expect("it runs")
    }

    /// Waits until the backup has all sessions of the load.
    fn wait_synchronized(&mut self) {
        wait_for("the backup to have all sessions", || {
            let open = self.host(1).client.number("firewall.open");
            (open > CONNECTIONS as u64).then_some(())
        });
        assert_eq!(self.read(1, "routes.active"), "false");
        assert_eq!(self.next_hop(), Some(2));
    }

    /// Waits for the takeover since `lost`, of sessions and of the route.
    fn wait_taken_over(&mut self, lost: Instant) {
        wait_for("the takeover", || (self.read(1, "pair.role") == "active").then_some(()));
        let served = lost.elapsed();
        self.wait_route(3);
        println!("served after {served:.0?}, routed there after {:.0?}", lost.elapsed());
        assert_eq!(self.read(1, "routes.active"), "true");
    }
}

fn mac(host: u8) -> String {
    format!("02:00:00:00:0a:0{host}")
}

/// Runs `lose` while connections go on, once the backup has all sessions; it gets the moment of the
/// loss.
fn lose_under_load(name: &str, lose: impl FnOnce(&mut Routed, Instant)) {
    if !privileged(name) {
        return;
    }
    need("vtysh", "frr");
    under_load(&mut Routed::begin(), |routed| {
        routed.wait_synchronized();
        lose(routed, Instant::now());
    });
}

#[test]
fn a_killed_data_plane_loses_its_route() {
    lose_under_load("a_killed_data_plane_loses_its_route", |routed, lost| {
        let Host { running, frr, .. } = routed.hosts[0].take().expect("it runs");
        running.signal(Signal::KILL);
        running.wait(Duration::from_secs(5));
        wait_for("its route to go", || (routed.next_hop() != Some(2)).then_some(()));
        println!("the dead data plane's route is gone after {:.0?}", lost.elapsed());
        // Its routing daemon lives, and announces nothing.
        assert!(!frr.show("bgp ipv4 unicast").contains(SERVICE), "{}", frr.show("bgp ipv4"));
        routed.wait_taken_over(lost);
    });
}

#[test]
fn a_lost_host_loses_its_route() {
    lose_under_load("a_lost_host_loses_its_route", |routed, lost| {
        // The bridges' ports: the router's own link stays up.
        for port in ["wana", "lana"] {
            routed.bridges.ip(&format!("link set {port} down"));
        }
        routed.middles[0].ip("link set pair0 down");
        routed.wait_taken_over(lost);
        // It lives, and nobody hears it.
        assert_eq!(routed.read(0, "pair.role"), "active");
    });
}
