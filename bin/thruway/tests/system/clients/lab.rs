//! Hosts inside, hosts outside, and a middlebox between them.
//!
//! ```text
//! inside[0..3] -- bridge -- lan0 [middle] wan0 -- provider -- outside[0..3]
//! 192.168.1.10..12          .1        203.0.113.2  .1   .1     198.51.100.10..12
//! ```
//!
//! The middlebox is the kernel of the middle namespace, or Thruway in it.

use std::process::{Command, Stdio};

use crate::network::Namespace;
use crate::process::{Done, Running, need, root, wait_for};

/// The hosts inside.
pub const INSIDE: [&str; 3] = ["192.168.1.10", "192.168.1.11", "192.168.1.12"];
/// The hosts outside. The way to the last one has an MTU of [`NARROW_MTU`] beyond the provider.
pub const OUTSIDE: [&str; 3] = ["198.51.100.10", "198.51.100.11", "198.51.100.12"];
/// The outside host behind the narrow way.
pub const NARROW: usize = 2;
pub const NARROW_MTU: usize = 1300;
/// The middlebox, seen from inside.
pub const GATEWAY: &str = "192.168.1.1";
/// The middlebox, seen from outside.
pub const PUBLIC: &str = "203.0.113.2";
/// The router of the provider.
pub const PROVIDER: &str = "203.0.113.1";

/// See the module.
pub struct Lab {
    // In the order of going: the middlebox's process is to end before its namespace.
    middlebox: Option<Running>,
    pub middle: Namespace,
    pub inside: Vec<Namespace>,
    pub provider: Namespace,
    pub outside: Vec<Namespace>,
    bridge: Namespace,
}

impl Lab {
    /// Cables, addresses and routes; nothing is in the middle yet.
    pub fn new() -> Lab {
        Lab::with_queues(1)
    }

    /// Has the middle's own stack use its interfaces: then the middlebox takes packet sockets.
    pub fn for_packet_sockets(self) -> Lab {
        for port in ["lan0", "wan0"] {
            self.middle.ip(&format!("address add 169.254.77.1/32 dev {port}"));
        }
        self
    }

    /// Has the middle's interfaces take no packets of up to 64 kB: then the middlebox takes AF_XDP,
    /// where nothing else stands against it.
    pub fn for_af_xdp(self) -> Lab {
        self.middle.without_large_packets(&["lan0", "wan0"]);
        self
    }

    /// The same, with so many queues each way at the middlebox's interfaces.
    pub fn with_queues(count: u32) -> Lab {
        let queues = format!("numrxqueues {count} numtxqueues {count}");
        need("ping", "iputils-ping");
        let lab = Lab {
            middlebox: None,
            middle: Namespace::new("middle"),
            inside: INSIDE.map(|_| Namespace::new("inside")).into(),
            provider: Namespace::new("provider"),
            outside: OUTSIDE.map(|_| Namespace::new("outside")).into(),
            bridge: Namespace::new("bridge"),
        };
        lab.middle.cable("lan0", (&lab.bridge, "up0"), &queues);
        lab.middle.cable("wan0", (&lab.provider, "wan0"), &queues);
        segment(&lab.bridge, &lab.inside, &INSIDE, GATEWAY);
        lab.bridge.ip("link set up0 master br0 up");
        segment(&lab.provider, &lab.outside, &OUTSIDE, "198.51.100.1");
        let provider = &lab.provider;
        provider.ip("address add 198.51.100.1/24 dev br0");
        provider.ip(&format!("address add {PROVIDER}/24 dev wan0"));
        provider.ip("link set wan0 up");
        provider.ip(&format!("route add {} dev br0 mtu {NARROW_MTU}", OUTSIDE[NARROW]));
        provider.set("ipv4/ip_forward", "1");
        // Invented addresses pass, and what is sent to them goes no further.
        provider.ip("route add blackhole 192.0.2.0/24");
        for name in ["all", "br0"] {
            provider.set(&format!("ipv4/conf/{name}/rp_filter"), "0");
        }
        // Errors are wanted each time, not only the first of a second.
        let hosts = lab.inside.iter().chain(&lab.outside);
        hosts.chain([provider]).for_each(|host| host.set("ipv4/icmp_ratelimit", "0"));
        lab
    }

    /// The kernel forwards by these rules of nftables.
    pub fn kernel(&self, rules: &str) {
        need("nft", "nftables");
        let middle = &self.middle;
        middle.ip(&format!("address add {GATEWAY}/24 dev lan0"));
        middle.ip(&format!("address add {PUBLIC}/24 dev wan0"));
        middle.ip(&format!("route add default via {PROVIDER}"));
        middle.set("ipv4/ip_forward", "1");
        middle.set("ipv4/icmp_ratelimit", "0");
        let file = tempfile::NamedTempFile::new().expect("a temporary file");
        std::fs::write(file.path(), rules).expect("room for rules");
        middle.succeed(&format!("nft -f {}", file.path().display()));
        self.reach();
    }

    /// Starts one of the examples in the middle, with these options and variables; its process id.
    pub fn example(&mut self, options: &[&str], name: &str, variables: &[&str]) -> u32 {
        let mut command = self.middle.thruway();
        command.args(options).arg(root().join("examples").join(name));
        self.thruway(command.args(["LAN=lan0", "WAN=wan0"]).args(variables))
    }

    /// Starts Thruway in the middle.
    fn thruway(&mut self, command: &mut Command) -> u32 {
        let mut middlebox = Running::start(command.stdin(Stdio::null()));
        wait_for("the first ping through the middle", || {
            assert!(!middlebox.ended(), "{}{}", middlebox.stdout(), middlebox.stderr());
            self.pings().then_some(())
        });
        self.middlebox.insert(middlebox).pid()
    }

    /// Waits until a host inside reaches one outside.
    fn reach(&self) {
        wait_for("the first ping through the middle", || self.pings().then_some(()));
    }

    fn pings(&self) -> bool {
        let line = format!("ping -n -c 1 -W 1 {}", OUTSIDE[0]);
        self.inside[0].run(&line).code() == 0
    }

    /// Stops Thruway as Ctrl-C does.
    #[track_caller]
    pub fn stop(&mut self) -> Done {
        self.middlebox.take().expect("Thruway runs in the middle").interrupt()
    }

    /// A route of the provider to the hosts inside: where no addresses are translated.
    pub fn route_inside(&self) {
        self.provider.ip(&format!("route add 192.168.1.0/24 via {PUBLIC}"));
    }
}

/// Hosts with these addresses at a bridge `br0`, their default route by a router there.
fn segment(bridge: &Namespace, hosts: &[Namespace], addresses: &[&str], router: &str) {
    bridge.ip("link add br0 type bridge");
    bridge.ip("link set br0 addrgenmode none up");
    for (number, (host, address)) in hosts.iter().zip(addresses).enumerate() {
        bridge.cable(&format!("host{number}"), (host, "eth0"), "");
        bridge.ip(&format!("link set host{number} master br0"));
        host.ip(&format!("address add {address}/24 dev eth0"));
        host.ip("link set eth0 up");
        host.ip(&format!("route add default via {router} dev eth0"));
    }
}

/// What a middlebox must pass.
pub type Trial = crate::trials::Trial<Lab>;
