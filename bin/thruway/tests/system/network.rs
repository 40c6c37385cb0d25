//! Two hosts and a router between them, each in a network namespace of its own.

use std::process::Command;

use crate::process::{Done, Running, need, run, wait_for};

#[path = "../../../../bench/src/namespace.rs"]
mod namespace;

/// A network namespace; it goes with this value. What fails in it is the test's failure.
pub struct Namespace(namespace::Namespace);

impl Namespace {
    /// A new one, with its loopback up.
    #[track_caller]
    pub fn new(role: &str) -> Namespace {
        Namespace(succeeded(namespace::Namespace::new("twt", role)))
    }

    /// A command to be run in it.
    pub fn command(&self, program: &str) -> Command {
        self.0.command(program)
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
        succeeded(self.0.ip(line));
    }

    /// Lays a cable from an interface `port` here to `far_port` there, with these options of each
    /// end. This end is up; the kernel here has no address on it.
    #[track_caller]
    pub fn cable(&self, port: &str, far: (&Namespace, &str), options: &str) {
        succeeded(self.0.cable(port, (&far.0.0, far.1), options));
    }

    /// What `work` gives, done by a thread in this namespace: sockets made there stay there.
    #[track_caller]
    pub fn within<T: Send>(&self, work: impl FnOnce() -> T + Send) -> T {
        succeeded(self.0.within(work))
    }

    /// Has these interfaces of it take no packets of up to 64 kB.
    pub fn without_large_packets(&self, ports: &[&str]) {
        need("ethtool", "ethtool");
        for port in ports {
            self.succeed(&format!("ethtool -K {port} tso off"));
        }
    }

    /// Sets a parameter of its kernel, named as under `/proc/sys/net`.
    #[track_caller]
    pub fn set(&self, name: &str, value: &str) {
        succeeded(self.0.set(name, value));
    }
}

#[track_caller]
fn succeeded<T>(result: anyhow::Result<T>) -> T {
    result.unwrap_or_else(|error| panic!("{error:#}"))
}

/// Where a host stands.
pub struct HostConfig {
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
    pub fn new(lan_site: &HostConfig, wan_site: &HostConfig) -> Network {
        Network::with_queues(lan_site, wan_site, 1)
    }

    /// The same, with so many queues each way at every interface.
    pub fn with_queues(lan_site: &HostConfig, wan_site: &HostConfig, count: u32) -> Network {
        let queues = format!("numrxqueues {count} numtxqueues {count}");
        let (lan, middle, wan) =
            (Namespace::new("lan"), Namespace::new("router"), Namespace::new("wan"));
        let network = Network { router: None, lan, middle, wan };
        network.cable("lan0", &network.lan, lan_site, &queues);
        network.cable("wan0", &network.wan, wan_site, &queues);
        network
    }

    /// Has the router's interfaces take no packets of up to 64 kB: then AF_XDP is the best that
    /// there is, where nothing else stands against it.
    pub fn for_af_xdp(self) -> Network {
        self.middle.without_large_packets(&["lan0", "wan0"]);
        self
    }

    /// Another cable to host `wan`, in the place of one that was taken off.
    pub fn cable_wan(&self, site: &HostConfig) {
        self.cable("wan0", &self.wan, site, "");
    }

    fn cable(&self, port: &str, host: &Namespace, site: &HostConfig, queues: &str) {
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

    /// Starts the router and waits until host `lan` reaches `far` through it; its process id.
    pub fn route(&mut self, command: &mut Command, far: &str) -> u32 {
        let mut router = Running::start(command);
        wait_for("the first ping through the router", || {
            assert!(!router.ended(), "{}{}", router.stdout(), router.stderr());
            let ping = self.lan.run(&format!("ping -n -c 1 -W 1 {far}"));
            (ping.code() == 0).then_some(())
        });
        self.router.insert(router).pid()
    }

    /// What the router said on standard error so far.
    pub fn router_log(&self) -> String {
        self.router.as_ref().expect("the router was started").stderr()
    }

    /// Starts the router, and waits for nothing.
    pub fn start(&mut self, command: &mut Command) {
        self.router = Some(Running::start(command));
    }

    /// Stops the router as Ctrl-C does.
    #[track_caller]
    pub fn stop(&mut self) -> Done {
        self.router.take().expect("the router was started").interrupt()
    }
}
