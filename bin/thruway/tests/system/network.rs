//! Two hosts and a router between them, each in a network namespace of its own.

use std::fs::File;
use std::os::fd::AsFd as _;
use std::process::Command;

use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};
use thruway_sync::atomic::{AtomicU32, Ordering};

use crate::process::{Done, Running, run, wait_for};

/// A network namespace; it goes with this value.
pub struct Namespace {
    name: String,
}

impl Namespace {
    /// A new one, with its loopback up.
    pub fn new(role: &str) -> Namespace {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let name = format!("twt-{}-{number}-{role}", std::process::id());
        ip(&format!("netns add {name}"));
        let namespace = Namespace { name };
        namespace.ip("link set lo up");
        namespace
    }

    /// A command to be run in it.
    pub fn command(&self, program: &str) -> Command {
        let mut command = Command::new("ip");
        command.args(["netns", "exec", &self.name, program]);
        command
    }

    /// The program under test, to be run in it.
    pub fn thruway(&self) -> Command {
        self.command(env!("CARGO_BIN_EXE_thruway"))
    }

    /// Runs a command line in it, to its end.
    #[track_caller]
    pub fn run(&self, line: &str) -> Done {
        let mut words = line.split_whitespace();
        let mut command = self.command(words.next().expect("a program"));
        run(command.args(words))
    }

    /// Runs a command line that must succeed; its output.
    #[track_caller]
    pub fn succeed(&self, line: &str) -> String {
        let done = self.run(line);
        assert_eq!(done.code(), 0, "{line}: {done:#?}");
        done.stdout
    }

    /// Configures its network.
    #[track_caller]
    pub fn ip(&self, line: &str) {
        ip(&format!("-n {} {line}", self.name));
    }

    /// Lays a cable from an interface `port` here to `far_port` there, with these options of each
    /// end. This end is up; the kernel here has no address on it.
    pub fn cable(&self, port: &str, far: (&Namespace, &str), options: &str) {
        let peer = format!("peer name {} {options} netns {}", far.1, far.0.name);
        self.ip(&format!("link add {port} {options} type veth {peer}"));
        self.ip(&format!("link set {port} addrgenmode none"));
        self.ip(&format!("link set {port} up"));
    }

    /// What `work` gives, done by a thread in this namespace: sockets made there stay there.
    pub fn within<T: Send>(&self, work: impl FnOnce() -> T + Send) -> T {
        let enter = || {
            let file = File::open(format!("/run/netns/{}", self.name)).expect("it is there");
            let network = Some(LinkNameSpaceType::Network);
            move_into_link_name_space(file.as_fd(), network).expect("root may enter");
            work()
        };
        let done = std::thread::scope(|scope| scope.spawn(enter).join());
        done.unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    }

    /// Sets a parameter of its kernel, named as under `/proc/sys/net`.
    pub fn set(&self, name: &str, value: &str) {
        let path = format!("/proc/sys/net/{name}");
        self.within(|| std::fs::write(&path, value)).unwrap_or_else(|e| panic!("{path}: {e}"));
    }
}

impl Drop for Namespace {
    fn drop(&mut self) {
        // Also where a test panics, so nothing is asserted here.
        let _ = Command::new("ip").args(["netns", "del", &self.name]).status();
    }
}

/// Runs `ip` with these arguments.
#[track_caller]
fn ip(line: &str) {
    let output = Command::new("ip").args(line.split_whitespace()).output();
    let output = output.expect("'ip' is missing; install the package iproute2");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "ip {line}: {said}");
}

/// Where a host stands.
pub struct Site {
    /// Its own addresses, with their prefixes.
    pub addresses: &'static [&'static str],
    /// Its routers.
    pub routers: &'static [&'static str],
}

/// Host `lan`, interface `eth0`; the router with `lan0` and `wan0`; host `wan`, `eth0`.
pub struct Network {
    // In the order of going: a router's process is to end before its namespace.
    router: Option<Running>,
    pub lan: Namespace,
    pub middle: Namespace,
    pub wan: Namespace,
}

impl Network {
    /// Cables and addresses; the router does not run yet.
    pub fn new(lan_site: &Site, wan_site: &Site) -> Network {
        Network::with_queues(lan_site, wan_site, 1)
    }

    /// The same, with so many queues each way at every interface.
    pub fn with_queues(lan_site: &Site, wan_site: &Site, count: u32) -> Network {
        let queues = format!("numrxqueues {count} numtxqueues {count}");
        let (lan, middle, wan) =
            (Namespace::new("lan"), Namespace::new("router"), Namespace::new("wan"));
        let network = Network { router: None, lan, middle, wan };
        network.cable("lan0", &network.lan, lan_site, &queues);
        network.cable("wan0", &network.wan, wan_site, &queues);
        network
    }

    /// Another cable to host `wan`, in the place of one that was taken off.
    pub fn cable_wan(&self, site: &Site) {
        self.cable("wan0", &self.wan, site, "");
    }

    fn cable(&self, port: &str, host: &Namespace, site: &Site, queues: &str) {
        // The kernel of the router's namespace keeps out of it: no address, no forwarding.
        self.middle.cable(port, (host, "eth0"), queues);
        for address in site.addresses {
            let nodad = if address.contains(':') { "nodad" } else { "" };
            host.ip(&format!("address add {address} dev eth0 {nodad}"));
        }
        host.ip("link set eth0 up");
        for router in site.routers {
            host.ip(&format!("route add default via {router} dev eth0"));
        }
    }

    /// Starts the router and waits until host `lan` reaches `far` through it.
    pub fn route(&mut self, command: &mut Command, far: &str) {
        let mut router = Running::start(command);
        wait_for("the first ping through the router", || {
            assert!(!router.ended(), "{}{}", router.stdout(), router.stderr());
            let ping = self.lan.run(&format!("ping -n -c 1 -W 1 {far}"));
            (ping.code() == 0).then_some(())
        });
        self.router = Some(router);
    }

    /// Stops the router as Ctrl-C does.
    #[track_caller]
    pub fn stop(&mut self) -> Done {
        self.router.take().expect("the router was started").interrupt()
    }
}
