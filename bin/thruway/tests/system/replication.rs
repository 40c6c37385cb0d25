//! Two middleboxes that share two networks: one serves, the other has its sessions and takes over.
//!
//! ```text
//! inside -- lan bridge -- lan0 [a] wan0 -- wan bridge -- outside
//!                      \- lan0 [b] wan0 -/
//! 192.168.1.10     .1   a -- b: 10.9.0.1 -- 10.9.0.2     203.0.113.1
//! ```

use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::os::unix::fs::PermissionsExt as _;
use std::time::{Duration, Instant};

use rustix::process::Signal;

use thruway_sync::atomic::{AtomicBool, Ordering};

use crate::network::Namespace;
use crate::process::{Done, Ending, Running, privileged, root, run, wait_for};

/// Connections that go on across the loss of a host.
const CONNECTIONS: usize = 200;
/// Bytes of the download that goes on, too.
const DOWNLOAD: usize = 24 << 20;
/// Longest gap that a connection may see: retransmission timers of the ends double.
const GAP_MAX: Duration = Duration::from_secs(5);
const SERVER: &str = "203.0.113.1:7000";

struct Pair {
    // In the order of going: processes before namespaces.
    a: Option<Running>,
    b: Option<Running>,
    inside: Namespace,
    outside: Namespace,
    middles: [Namespace; 2],
    _bridges: Namespace,
    files: tempfile::TempDir,
}

impl Pair {
    fn new() -> Pair {
        let (inside, outside) = (Namespace::new("inside"), Namespace::new("outside"));
        let (bridges, middles) =
            (Namespace::new("bridges"), [Namespace::new("a"), Namespace::new("b")]);
        for (bridge, host, address) in
            [("lan", &inside, "192.168.1.10/24"), ("wan", &outside, "203.0.113.1/24")]
        {
            bridges.ip(&format!("link add {bridge} type bridge"));
            bridges.ip(&format!("link set {bridge} addrgenmode none up"));
            bridges.cable(&format!("{bridge}host"), (host, "eth0"), "");
            host.ip(&format!("address add {address} dev eth0"));
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
        middles[0].cable("pair0", (&middles[1], "pair0"), "");
        for (middle, address) in middles.iter().zip(["10.9.0.1/24", "10.9.0.2/24"]) {
            middle.ip(&format!("address add {address} dev pair0"));
            middle.ip("link set pair0 up");
        }
        let files = tempfile::tempdir().expect("a temporary folder");
        let pair = Pair { a: None, b: None, inside, outside, middles, _bridges: bridges, files };
        pair.write_key("a", "the secret of both hosts");
        pair.write_key("b", "the secret of both hosts");
        pair
    }

    fn path(&self, name: &str) -> String {
        self.files.path().join(name).to_str().expect("plain text").to_owned()
    }

    fn write_key(&self, name: &str, secret: &str) {
        let path = self.path(&format!("{name}.key"));
        std::fs::write(&path, secret).expect("room for a key");
        let mode = std::fs::Permissions::from_mode(0o600);
        std::fs::set_permissions(&path, mode).expect("a file of ours");
    }

    fn start(&self, which: usize, peer: &str) -> Running {
        let name = ["a", "b"][which];
        let socket = self.path(&format!("{name}.sock"));
        let example = root().join("examples/nat-pair.click");
        let text = std::fs::read_to_string(example).expect("the example");
        let config = self.path(&format!("{name}.click"));
        std::fs::write(&config, format!("{text}\nControlSocket(UNIX, {socket});\n")).expect("room");
        let after = if which == 1 { "AFTER=150ms" } else { "AFTER=0" };
        let mut command = self.middles[which].thruway();
        command.args(["run", &config, "LAN=lan0", "WAN=wan0", after]);
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

    fn start_active(&mut self) {
        self.a = Some(self.start(0, "TO 10.9.0.2:7070"));
        wait_for("the first ping", || {
            let ping = self.inside.run("ping -n -c 1 -W 1 203.0.113.1");
            (ping.code() == 0).then_some(())
        });
    }

    fn start_backup(&mut self) {
        self.b = Some(self.start(1, "LISTEN 10.9.0.2:7070"));
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

    /// Waits until the backup has all sessions.
    fn wait_synchronized(&self) {
        wait_for("the backup to have all sessions", || {
            let is = self.read(1, "pair.synchronized") == "true"
                && self.read(0, "pair.connected") == "true"
                && self.read(0, "pair.lag") == "0";
            is.then_some(())
        });
    }

    fn log(&self, which: usize) -> String {
        [&self.a, &self.b][which].as_ref().map_or_else(String::new, Running::stderr)
    }

    #[track_caller]
    fn wait_log(&self, which: usize, words: &str) {
        wait_for(words, || self.log(which).contains(words).then_some(()));
    }
}

/// Byte `at` of the download.
fn byte(at: usize) -> u8 {
    (at.wrapping_mul(2_654_435_761) >> 13) as u8
}

/// Answers what comes with the same bytes; to whoever begins with `D`, sends the download.
fn serve(listener: &TcpListener, stop: &AtomicBool) {
    listener.set_nonblocking(true).expect("a socket");
    std::thread::scope(|scope| {
        while !stop.load(Ordering::Relaxed) {
            let Ok((stream, _)) = listener.accept() else {
                std::thread::sleep(Duration::from_millis(5));
                continue;
            };
            scope.spawn(move || answer(stream));
        }
    });
}

fn answer(mut stream: TcpStream) {
    stream.set_nonblocking(false).expect("a socket");
    let mut bytes = [0; 8];
    while stream.read_exact(&mut bytes).is_ok() {
        if bytes[0] == b'D' {
            let all: Vec<u8> = (0..DOWNLOAD).map(byte).collect();
            // Paced, so that the loss of the host comes in its middle.
            for piece in all.chunks(64 << 10) {
                if stream.write_all(piece).is_err() {
                    return;
                }
                std::thread::sleep(Duration::from_millis(15));
            }
            let _ = stream.shutdown(Shutdown::Write);
        } else if stream.write_all(&bytes).is_err() {
            return;
        }
    }
}

fn connect(pair: &Pair) -> TcpStream {
    let address: SocketAddr = SERVER.parse().expect("an address");
    let connect = || TcpStream::connect_timeout(&address, Duration::from_secs(5));
    let stream = pair.inside.within(connect).expect("a connection through the middlebox");
    stream.set_nodelay(true).expect("a socket");
    stream.set_read_timeout(Some(Duration::from_secs(10))).expect("a socket");
    stream
}

/// Asks again and again until `stop`; the longest time without an answer, or how it failed.
fn talk(mut stream: TcpStream, number: usize, stop: &AtomicBool) -> Result<Duration, String> {
    let (mut gap, mut round) = (Duration::ZERO, 0u32);
    while !stop.load(Ordering::Relaxed) {
        let asked = Instant::now();
        let question = [b"Q".as_slice(), &[number as u8, 0, 0], &round.to_be_bytes()].concat();
        let mut answer = [0; 8];
        stream.write_all(&question).map_err(|error| format!("{number}: {error}"))?;
        stream.read_exact(&mut answer).map_err(|error| format!("{number}: {error}"))?;
        if answer[..] != question[..] {
            return Err(format!("{number}: {answer:?} for {question:?}"));
        }
        gap = gap.max(asked.elapsed());
        round += 1;
        std::thread::sleep(Duration::from_millis(40));
    }
    Ok(gap)
}

/// The download: whether its bytes are right.
fn download(mut stream: TcpStream) -> Result<Duration, String> {
    stream.write_all(b"Download").map_err(|error| error.to_string())?;
    let (mut bytes, mut at, mut gap) = (vec![0; 64 << 10], 0, Duration::ZERO);
    loop {
        let asked = Instant::now();
        let len = stream.read(&mut bytes).map_err(|error| format!("at byte {at}: {error}"))?;
        gap = gap.max(asked.elapsed());
        if let Some(wrong) = (0..len).find(|offset| bytes[*offset] != byte(at + offset)) {
            return Err(format!("byte {} is wrong", at + wrong));
        }
        at += len;
        if len == 0 {
            return (at == DOWNLOAD).then_some(gap).ok_or(format!("{at} bytes came"));
        }
    }
}

/// Runs connections and a download through the middlebox while `meanwhile` runs.
fn under_load(pair: &mut Pair, meanwhile: impl FnOnce(&mut Pair)) {
    let listener = pair.outside.within(|| TcpListener::bind(SERVER)).expect("a listener");
    let (stop, stop_server) = (AtomicBool::new(false), AtomicBool::new(false));
    let (talks, downloaded) = std::thread::scope(|scope| {
        scope.spawn(|| serve(&listener, &stop_server));
        let streams: Vec<TcpStream> = (0..CONNECTIONS).map(|_| connect(pair)).collect();
        let loading = connect(pair);
        let loading = scope.spawn(|| download(loading));
        let stop = &stop;
        let talks: Vec<_> = streams
            .into_iter()
            .enumerate()
            .map(|(number, stream)| scope.spawn(move || talk(stream, number, stop)))
            .collect();
        let ending = (Ending(&[stop]), Ending(&[&stop_server]));
        std::thread::sleep(Duration::from_millis(500));
        meanwhile(pair);
        std::thread::sleep(Duration::from_secs(3));
        drop(ending.0);
        let talks: Vec<_> = talks.into_iter().map(|talk| talk.join().expect("no panic")).collect();
        let downloaded = loading.join().expect("no panic");
        (talks, downloaded)
    });
    judge(&talks, downloaded);
}

fn judge(talks: &[Result<Duration, String>], downloaded: Result<Duration, String>) {
    let failed: Vec<&String> = talks.iter().filter_map(|talk| talk.as_ref().err()).collect();
    let mut gaps: Vec<Duration> = talks.iter().flatten().copied().collect();
    gaps.sort();
    let (half, longest) = (gaps[gaps.len() / 2], gaps[gaps.len() - 1]);
    println!(
        "{} of {} sessions went on; gap p50 {half:.0?}, longest {longest:.0?}; download: \
         {downloaded:.0?}",
        gaps.len(),
        talks.len()
    );
    assert!(gaps.len() * 1000 >= talks.len() * 999, "{failed:?}");
    assert!(longest < GAP_MAX, "a gap of {longest:?}");
    downloaded.expect("the download goes on");
}

#[test]
fn sessions_survive_the_loss_of_a_host() {
    if !privileged("sessions_survive_the_loss_of_a_host") {
        return;
    }
    let mut pair = Pair::new();
    pair.start_backup();
    pair.start_active();
    under_load(&mut pair, |pair| {
        pair.wait_synchronized();
        let open = pair.count(0, "firewall.open");
        assert!(open > CONNECTIONS as u64, "{open} sessions are open");
        wait_for("the backup to have as many", || {
            (pair.count(1, "firewall.open") > CONNECTIONS as u64).then_some(())
        });
        assert_eq!(pair.read(1, "pair.role"), "backup");
        assert_eq!(pair.count(1, "pair.unusable"), 0);
        let a = pair.a.take().expect("the active host runs");
        let killed = Instant::now();
        a.signal(Signal::KILL);
        a.wait(Duration::from_secs(5));
        wait_for("the takeover", || pair.log(1).contains("serves the traffic now").then_some(()));
        println!("taken over at most {:.0?} after the end of the active host", killed.elapsed());
        assert_eq!(pair.read(1, "pair.role"), "active");
    });
}

/// A backup that restarts gets all sessions again; whoever has taken over keeps the other one out.
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
        wait_for("the other host to retire", || {
            (pair.read(0, "pair.role") == "retired").then_some(())
        });
        pair.wait_log(0, "restart it as the other's backup");
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
    pair.wait_log(1, "speaks version 9 and this one 1");
    let forged = [&hello(1)[..], &60u32.to_be_bytes(), &[1; 60]].concat();
    send(&forged);
    let long = [&hello(1)[..], &[0xff; 64]].concat();
    send(&long);
    pair.wait_log(1, "a frame of 4294967299 bytes");
    assert_eq!(pair.count(1, "pair.refused"), before + 4);

    pair.write_key("a", "the secret of both hosts");
    pair.start_active();
    pair.wait_synchronized();
}
