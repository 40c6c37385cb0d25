//! Two hosts, and Thruway on the cable between them.
//!
//! ```text
//! client eth0 -- lan0 [faults - chain - faults] wan0 -- eth0 server
//! 10.0.0.1, fd00::1                                     10.0.0.2, fd00::2
//! ```
//!
//! Connections over TCP go through the chain; everything else passes by.

use std::fmt::Write as _;
use std::net::{IpAddr, SocketAddr};
use std::path::{Path as FilePath, PathBuf};
use std::process::Command;
use std::time::Duration;

use tempfile::TempDir;

use super::content::Edit;
use crate::control::Client;
use crate::network::{HostConfig, Namespace, Network};
use crate::process::{Done, resident_kib, root};

const CLIENT: HostConfig = HostConfig { addresses: &["10.0.0.1/24", "fd00::1/64"], routers: &[] };
const SERVER: HostConfig = HostConfig { addresses: &["10.0.0.2/24", "fd00::2/64"], routers: &[] };
/// The server's addresses.
pub const SERVERS: [&str; 2] = ["10.0.0.2", "fd00::2"];

/// Losses of the same segment again and again take this long to be repaired, where a busy machine
/// has hosts measure seconds from end to end: a kernel waits up to 120 s (`TCP_RTO_MAX`).
const PATIENCE: Duration = Duration::from_secs(120);

/// What packets meet on each side of the chain, in each direction: so each of them twice.
#[derive(Clone, Copy)]
pub struct Faults(&'static str);

impl Faults {
    /// Nothing.
    pub const NONE: Faults = Faults("Null");
    /// Losses, of some thousandths.
    pub const LOSS: Faults = Faults("loss :: Loss(0.2%)");
    /// Of everything a little.
    pub const ROUGH: Faults = Faults(
        "loss :: Loss(1%) -> late :: Reorder(5%, GAP 3, TIMEOUT 5ms) -> twice :: Repeat(1%)
            -> wait :: Delay(2ms, 1ms, CAPACITY 20000)",
    );
    /// Waits alone, which differ; packets overtake each other.
    pub const JITTER: Faults = Faults("Delay(3ms, 3ms, CAPACITY 20000)");
    /// Losses in runs. They are short, because what a sender sends again goes alone, later and
    /// later: it has to come through before anybody's patience is at its end.
    pub const BURSTS: Faults = Faults("Loss(2%, BURST 2) -> Delay(1ms, CAPACITY 20000)");
    /// Some packets met a queue that was about full (RFC 3168), where the sender may be told so;
    /// others were lost there.
    pub const CONGESTED: Faults = Faults(
        "Loss(1%) -> Reorder(5%, GAP 3, TIMEOUT 5ms) -> ect :: Classifier(12/0800 15/02%03, -) -> chosen :: RandomSample(2%)
            -> MarkIPHeader(14) -> ce :: SetIPECN(ce) -> all :: Null; ect[1], chosen[1] -> all",
    );
}

/// See the module.
pub struct Path {
    network: Network,
    /// What runs in the middle: its text, and how it is started.
    text: String,
    command: Command,
    /// What the chain does to the bytes of each direction.
    pub edits: Vec<Edit>,
    /// Longest time that nothing may happen on a connection, beyond pauses that were asked for.
    pub patience: Duration,
    control: PathBuf,
    /// Process id of the program in the middle.
    pid: u32,
    _dir: TempDir,
}

/// A chain between the hosts.
pub struct Chain<'a> {
    /// Its elements: packets of the client go from `input` to `output`, those of the server from
    /// `input[1]` to `output[1]`.
    pub text: &'a str,
    /// What it does.
    pub edits: &'a [Edit],
    pub faults: Faults,
    /// How interfaces are used: LINUX, by which hosts leave cutting segments to Thruway, or XDP.
    pub method: &'static str,
}

impl Chain<'_> {
    /// Nothing but a cable.
    pub const CABLE: Chain<'static> = Chain {
        text: "input -> output; input[1] -> [1]output",
        edits: &[],
        faults: Faults::NONE,
        method: "XDP",
    };
}

impl Path {
    /// Such a path, by which the hosts reach each other.
    pub fn new(chain: &Chain<'_>) -> Path {
        let text = configuration(chain);
        let start = |command: &mut Command, control: &FilePath| {
            let text = format!("ControlSocket(UNIX, {}); {text}", control.display());
            command.args(["run", "-R", "-e", &text]);
            text
        };
        Path::started(start, chain.edits)
    }

    /// A path through one of the examples, which has variables LAN, WAN and CONTROL besides these.
    pub fn example(name: &str, variables: &[&str], edits: &[Edit]) -> Path {
        let start = |command: &mut Command, control: &FilePath| {
            let file = root().join("examples").join(name);
            command.args(["run", "-R"]).arg(&file).args(["LAN=lan0", "WAN=wan0"]).args(variables);
            command.arg(format!("CONTROL={}", control.display()));
            std::fs::read_to_string(file).expect("the example")
        };
        Path::started(start, edits)
    }

    /// Starts the program in the middle by a command that `start` completes; it gives the text of
    /// the configuration.
    fn started(start: impl FnOnce(&mut Command, &FilePath) -> String, edits: &[Edit]) -> Path {
        let mut network = Network::new(&CLIENT, &SERVER);
        for host in [&network.lan, &network.wan] {
            // Each connection is to begin like the first one.
            host.set("ipv4/tcp_no_metrics_save", "1");
        }
        let dir = tempfile::tempdir().expect("a directory");
        let control = dir.path().join("control");
        let mut command = network.middle.thruway();
        let text = start(&mut command, &control);
        let pid = network.route(&mut command, SERVERS[0]);
        let (edits, patience) = (edits.to_vec(), PATIENCE);
        Path { network, text, command, edits, patience, control, pid, _dir: dir }
    }

    /// The host that connects.
    pub fn client(&self) -> &Namespace {
        &self.network.lan
    }

    /// The host that listens.
    pub fn server(&self) -> &Namespace {
        &self.network.wan
    }

    /// Sets a parameter of both hosts' kernels, named as under `/proc/sys/net`.
    pub fn set(&self, name: &str, value: &str) {
        [self.client(), self.server()].iter().for_each(|host| host.set(name, value));
    }

    /// A conversation with the program in the middle.
    pub fn control(&self) -> Client {
        Client::unix(&self.control)
    }

    /// Puts the same configuration in the place of the one that runs.
    #[track_caller]
    pub fn swap(&self) {
        let (code, said) = self.control().write_data("hotconfig", &self.text);
        assert_eq!(code, 200, "{said}");
    }

    /// Ends the program in the middle and starts it again, which knows of no connection then.
    #[track_caller]
    pub fn restart(&mut self) {
        self.network.stop().expect(0);
        self.pid = self.network.route(&mut self.command, SERVERS[0]);
    }

    /// Memory of the program in the middle, in KiB.
    pub fn resident_kib(&self) -> u64 {
        resident_kib(self.pid)
    }

    /// Stops the program in the middle, which must have nothing to complain of.
    #[track_caller]
    pub fn stop(mut self) -> Done {
        self.network.stop().expect(0)
    }

    /// What the hosts know of connections with these clients' addresses, and all that the chain
    /// reports on itself.
    pub fn state(&self, connections: &[SocketAddr]) -> String {
        let mut state = String::new();
        for (name, host, end) in
            [("client", self.client(), "src"), ("server", self.server(), "dst")]
        {
            for address in connections {
                let at = match address.ip() {
                    IpAddr::V4(ip) => format!("{ip}:{}", address.port()),
                    IpAddr::V6(ip) => format!("[{ip}]:{}", address.port()),
                };
                let told = host.run(&format!("ss -Htinmoe {end} {at}")).stdout;
                writeln!(state, "{name}, {address}: {told}").expect("a string");
            }
        }
        state + &self.handlers()
    }

    /// All handlers that tell something short of what happened.
    fn handlers(&self) -> String {
        let (mut control, mut told) = (self.control(), String::new());
        for element in control.read("list").lines().skip(1) {
            let mut values = Vec::new();
            for handler in control.read(&format!("{element}.handlers")).lines() {
                let Some((name, paths)) = handler.split_once('\t') else { continue };
                if DULL.contains(&name) || !paths.contains('r') {
                    continue;
                }
                // Some have a value only with other arguments.
                let Ok(value) = control.try_read(&format!("{element}.{name}")) else { continue };
                let lines: Vec<&str> = value.lines().filter(|line| !is_zero(line)).collect();
                if !lines.is_empty() && value.len() < 1000 {
                    values.push(format!("{name} {}", lines.join(" | ")));
                }
            }
            writeln!(told, "{element}: {}", values.join(", ")).expect("a string");
        }
        told
    }
}

/// Handlers that tell nothing of what happened.
const DULL: [&str; 15] = [
    "handler",
    "name",
    "class",
    "config",
    "ports",
    "handlers",
    "cycles",
    "batches",
    "made",
    "scheduled",
    "home_thread",
    "drop_reasons",
    "method",
    "encap",
    "seed",
];

/// Whether a line of a handler's value tells that something did not happen.
fn is_zero(line: &str) -> bool {
    let line = line.trim();
    line.is_empty() || line == "0" || line.starts_with("0 ")
}

/// The whole configuration.
fn configuration(chain: &Chain<'_>) -> String {
    let (Chain { text, method, .. }, Faults(faults)) = (chain, chain.faults);
    format!(
        "elementclass Chain {{ {text} }}
        elementclass Faults {{ input -> {faults} -> output }}
        elementclass Side {{ $port |
            FromDevice($port, METHOD {method}, PROMISC true)
                -> kind :: Classifier(12/0800 23/06, 12/86dd 20/06, -);
            kind[0, 1] -> in :: Faults -> [0]output;
            kind[2] -> [1]output;
            send :: ToDevice($port, METHOD {method});
            input[0] -> out :: Faults -> send;
            input[1] -> send;
        }}
        client :: Side(lan0);
        server :: Side(wan0);
        client -> chain :: Chain -> server;
        server -> [1]chain[1] -> client;
        client[1] -> [1]server;
        server[1] -> [1]client;"
    )
}
