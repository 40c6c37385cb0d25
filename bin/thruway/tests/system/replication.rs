//! Two middleboxes that share two networks: one serves, the other has its sessions and takes over.
//!
//! ```text
//! inside -- lan bridge -- lan0 [a] wan0 -- wan bridge -- outside
//!                      \- lan0 [b] wan0 -/
//! 192.168.1.10     .1   a -- b: 10.9.0.1 -- 10.9.0.2     203.0.113.1
//! fd00:1::10      ::1        fd00:9::1 -- fd00:9::2   ::2 2001:db8:2::1
//! ```

mod bgp;
mod commit;
#[path = "../../../../bench/src/takeover/committing.rs"]
mod committing;
mod drain;
pub mod functions;
mod load;
mod streams;
mod swap;
mod switchover;
mod v6;
mod witness;

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::time::{Duration, Instant};

use rustix::process::Signal;

use crate::network::Namespace;
use crate::process::{Done, Running, privileged, root, run, wait_for};

use load::{Between, CONNECTIONS, Ends, under_load};

const SERVER: &str = "203.0.113.1:7000";
const SERVER6: &str = "[2001:db8:2::1]:7000";

struct Pair {
    // In the order of going: processes before namespaces.
    a: Option<Running>,
    b: Option<Running>,
    inside: Namespace,
    outside: Namespace,
    middles: [Namespace; 2],
    _bridges: Namespace,
    files: tempfile::TempDir,
    /// Whether clients and the hosts' stream use IPv6.
    is_v6: bool,
    /// Whether packets wait for the backup, and what becomes of late ones.
    commits: Option<&'static str>,
    /// Silence after which each host takes over.
    after: &'static str,
    /// Whether both ask a witness for leases.
    has_witness: bool,
    /// Functions behind NAT.
    functions: Option<functions::Functions>,
    /// Where a function replaces words in TCP streams: what becomes of these, and what it puts in
    /// the place of "attack".
    streams: Option<[&'static str; 2]>,
}

impl Between for Pair {
    fn ends(&self) -> Ends<'_> {
        let address = if self.is_v6 { SERVER6 } else { SERVER };
        let address = address.parse().expect("an address");
        Ends { client: &self.inside, server: &self.outside, address }
    }
}

impl Pair {
    fn new() -> Pair {
        let (inside, outside) = (Namespace::new("inside"), Namespace::new("outside"));
        let (bridges, middles) =
            (Namespace::new("bridges"), [Namespace::new("a"), Namespace::new("b")]);
        for (bridge, host, address, address6) in [
            ("lan", &inside, "192.168.1.10/24", "fd00:1::10/64"),
            ("wan", &outside, "203.0.113.1/24", "2001:db8:2::1/64"),
        ] {
            bridges.ip(&format!("link add {bridge} type bridge"));
            bridges.ip(&format!("link set {bridge} addrgenmode none up"));
            bridges.cable(&format!("{bridge}host"), (host, "eth0"), "");
            host.ip(&format!("address add {address} dev eth0"));
            host.ip(&format!("address add {address6} dev eth0 nodad"));
            host.ip("link set eth0 up");
            let ports = ["host", "a", "b"];
            for (middle, port) in middles.iter().zip(&ports[1..]) {
                middle.cable(&format!("{bridge}0"), (&bridges, &format!("{bridge}{port}")), "");
            }
            for port in ports {
                bridges.ip(&format!("link set {bridge}{port} master {bridge} up"));
            }
        }
        inside.ip("route add default via 192.168.1.1");
        inside.ip("route add default via fd00:1::1");
        outside.ip("route add fd00:1::/64 via 2001:db8:2::2");
        middles[0].cable("pair0", (&middles[1], "pair0"), "");
        for (middle, last) in middles.iter().zip(1..) {
            middle.ip(&format!("address add 10.9.0.{last}/24 dev pair0"));
            middle.ip(&format!("address add fd00:9::{last}/64 dev pair0 nodad"));
            middle.ip("link set pair0 up");
        }
        let files = tempfile::tempdir().expect("a temporary folder");
        let pair = Pair {
            a: None,
            b: None,
            inside,
            outside,
            middles,
            _bridges: bridges,
            files,
            is_v6: false,
            commits: None,
            after: "150ms",
            has_witness: false,
            functions: None,
            streams: None,
        };
        pair.write_key("a", "the secret of both hosts");
        pair.write_key("b", "the secret of both hosts");
        pair
    }

    fn path(&self, name: &str) -> String {
        self.files.path().join(name).to_str().expect("plain text").to_owned()
    }

    /// The file with what a host runs.
    fn config(&self, which: usize) -> String {
        self.path(["a.click", "b.click"][which])
    }

    fn write_key(&self, name: &str, secret: &str) {
        write_key(self.path(&format!("{name}.key")).as_ref(), secret);
    }

    fn start(&self, which: usize, peer: &str) -> Running {
        let name = ["a", "b"][which];
        let socket = self.path(&format!("{name}.sock"));
        let example = root().join("examples/nat-pair.click");
        let text = std::fs::read_to_string(example).expect("the example");
        let text = self.commits.map_or(text.clone(), |late| committing::committing(&text, late));
        let text = if self.has_witness { witness::with_witness(&text) } else { text };
        let text = match &self.functions {
            Some(functions) => functions.within(&text),
            None => text,
        };
        let text = self.streams.map_or(text.clone(), |streams| streams::with_words(&text, streams));
        let config = self.config(which);
        std::fs::write(&config, format!("{text}\nControlSocket(UNIX, {socket});\n")).expect("room");
        let mut command = self.middles[which].thruway();
        command.args(["run", &config, "LAN=lan0", "WAN=wan0"]).arg(format!("AFTER={}", self.after));
        command
            .arg(format!("PEER={peer}"))
            .arg(format!("KEY={}", self.path(&format!("{name}.key"))));
        let mut running = Running::start(command.stdin(std::process::Stdio::null()));
        wait_for("the control socket", || {
            assert!(!running.ended(), "{}{}", running.stdout(), running.stderr());
            (self.ctl(which, &["read", "pair.role"]).code() == 0).then_some(())
        });
        running
    }

    /// Where the backup listens.
    fn backup(&self) -> &'static str {
        if self.is_v6 { "[fd00:9::2]:7070" } else { "10.9.0.2:7070" }
    }

    fn start_active(&mut self) {
        self.a = Some(self.start(0, &format!("TO {}", self.backup())));
        let server = self.ends().address.ip();
        wait_for("the first ping", || {
            let ping = self.inside.run(&format!("ping -n -c 1 -W 1 {server}"));
            (ping.code() == 0).then_some(())
        });
    }

    fn start_backup(&mut self) {
        self.b = Some(self.start(1, &format!("LISTEN {}", self.backup())));
    }

    /// Kills the data plane of a host.
    fn kill(&mut self, which: usize) {
        let host = [&mut self.a, &mut self.b][which].take().expect("it runs");
        host.signal(Signal::KILL);
        host.wait(Duration::from_secs(5));
    }

    /// Kills the data plane of host a, which serves, and waits until the other one does.
    fn kill_active(&mut self) {
        let killed = Instant::now();
        self.kill(0);
        self.wait_role(1, "active");
        println!("taken over at most {:.0?} after the end of the active host", killed.elapsed());
        self.wait_log(1, "this host serves the traffic now");
    }

    #[track_caller]
    fn wait_role(&self, which: usize, role: &str) {
        wait_for(role, || (self.read(which, "pair.role") == role).then_some(()));
    }

    fn ctl(&self, which: usize, words: &[&str]) -> Done {
        let mut command = self.middles[which].thruway();
        command.args(["ctl", &self.path(["a.sock", "b.sock"][which])]).args(words);
        run(&mut command)
    }

    #[track_caller]
    fn read(&self, which: usize, handler: &str) -> String {
        self.ctl(which, &["read", handler]).expect(0).stdout.trim().to_owned()
    }

    fn count(&self, which: usize, handler: &str) -> u64 {
        let text = self.read(which, handler);
        text.parse().unwrap_or_else(|_| panic!("{handler} is '{text}'"))
    }

    /// Waits until host b, the backup, has all sessions.
    fn wait_synchronized(&self) {
        self.wait_synchronized_at(1);
    }

    fn wait_synchronized_at(&self, backup: usize) {
        wait_for("the backup to have all sessions", || {
            [0, 1]
                .iter()
                .all(|which| self.read(*which, "pair.synchronized") == "true")
                .then_some(())
        });
        assert_eq!(self.read(backup, "pair.role"), "backup");
        // Longer than the last changes take.
        std::thread::sleep(Duration::from_millis(50));
    }

    fn log(&self, which: usize) -> String {
        [&self.a, &self.b][which].as_ref().map_or_else(String::new, Running::stderr)
    }

    #[track_caller]
    fn wait_log(&self, which: usize, words: &str) {
        wait_for(words, || self.log(which).contains(words).then_some(()));
    }
}

/// A file with the secret, which only its owner may read.
fn write_key(path: &Path, secret: &str) {
    std::fs::write(path, secret).expect("room for a key");
    let mode = std::fs::Permissions::from_mode(0o600);
    std::fs::set_permissions(path, mode).expect("a file of ours");
}

#[test]
fn sessions_survive_the_loss_of_a_host() {
    if !privileged("sessions_survive_the_loss_of_a_host") {
        return;
    }
    lose_active(&mut Pair::new(), "firewall.open", |_| {});
}

/// Kills the serving host's data plane under load, after `before`; the handler `open` is how many
/// sessions a firewall has.
fn lose_active(pair: &mut Pair, open: &str, before: impl FnOnce(&Pair)) {
    pair.start_backup();
    pair.start_active();
    under_load(pair, |pair| {
        pair.wait_synchronized();
        let opened = pair.count(0, open);
        assert!(opened > CONNECTIONS as u64, "{opened} sessions are open");
        wait_for("the backup to have as many", || {
            (pair.count(1, open) > CONNECTIONS as u64).then_some(())
        });
        assert_eq!(pair.read(1, "pair.role"), "backup");
        assert_eq!(pair.count(1, "pair.unusable"), 0);
        before(pair);
        pair.kill_active();
    });
}

/// A backup that restarts gets all sessions again; whoever is replaced is the backup from then on.
#[test]
fn a_backup_that_restarts_has_all_sessions_again() {
    if !privileged("a_backup_that_restarts_has_all_sessions_again") {
        return;
    }
    let mut pair = Pair::new();
    pair.start_active();
    under_load(&mut pair, |pair| {
        for _ in 0..2 {
            pair.b = None;
            pair.start_backup();
            pair.wait_synchronized();
            wait_for("the sessions", || {
                (pair.count(1, "firewall.open") > CONNECTIONS as u64).then_some(())
            });
        }
        assert!(pair.count(0, "pair.resyncs") >= 2);
        pair.ctl(1, &["write", "pair.takeover", "now"]).expect(0);
        pair.wait_role(0, "backup");
        pair.wait_log(0, "this one is its backup");
        pair.wait_synchronized_at(0);
    });
}

/// Who does not have the key is refused, and what the active host sends is not repeated by others.
#[test]
fn strangers_are_refused() {
    if !privileged("strangers_are_refused") {
        return;
    }
    let mut pair = Pair::new();
    pair.start_backup();
    pair.write_key("a", "another secret than the backup's");
    pair.start_active();
    pair.wait_log(1, "KEY files differ");
    pair.wait_log(0, "closed the stream");
    pair.a = None;

    let send = |bytes: &[u8]| {
        let connect = || TcpStream::connect("10.9.0.2:7070");
        let mut stream = pair.middles[0].within(connect).expect("the backup listens");
        let mut greeting = [0; 42];
        stream.read_exact(&mut greeting).expect("a greeting");
        stream.write_all(bytes).expect("a stream");
        let mut rest = Vec::new();
        // Closed with or without a reset: nothing comes.
        let _ = stream.read_to_end(&mut rest);
        assert!(rest.is_empty(), "nothing for strangers");
    };
    let before = pair.count(1, "pair.refused");
    send(b"GET / HTTP/1.1\r\nHost: example.org\r\nAccept: everything\r\n\r\n");
    pair.wait_log(1, "does not speak this protocol");
    let hello = |version: u16| [b"THRWSESS", &version.to_be_bytes()[..], &[7; 32]].concat();
    send(&hello(9));
    pair.wait_log(1, "speaks version 9 and this one 3");
    let forged = [&hello(3)[..], &60u32.to_be_bytes(), &[1; 60]].concat();
    send(&forged);
    let long = [&hello(3)[..], &[0xff; 64]].concat();
    send(&long);
    pair.wait_log(1, "a frame of 4294967299 bytes");
    assert_eq!(pair.count(1, "pair.refused"), before + 4);

    pair.write_key("a", "the secret of both hosts");
    pair.start_active();
    pair.wait_synchronized();
}
