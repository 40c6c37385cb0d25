//! What a client of a control socket must not be able to do: name files, get in without a token or
//! as another user, speak another protocol, change things by reading, keep others out.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use rustix::process::Uid;
use rustix::thread::set_thread_res_uid;
use tempfile::TempDir;

use crate::control::{Client, free_port};
use crate::process::{Done, LIMIT, Running, click, privileged, run, thruway, wait_for};

/// A running configuration, and the directory in which it may leave things.
pub struct Instance {
    pub running: Running,
    pub dir: TempDir,
}

impl Instance {
    /// Starts `thruway run` with a run directory of its own; `text` gets its place.
    pub fn start(text: impl Fn(&str) -> String, options: &[&str]) -> Instance {
        let dir = tempfile::tempdir().expect("a directory");
        let text = text(dir.path().to_str().expect("plain text"));
        let mut command = thruway();
        command.env("THRUWAY_RUN_DIR", dir.path().join("run"));
        let running = Running::start(command.args(["run", "--quiet", "-e", &text]).args(options));
        Instance { running, dir }
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    pub fn run_dir(&self) -> PathBuf {
        self.path("run")
    }

    /// A tool that looks where the instance is.
    pub fn tool(&self, words: &[&str]) -> Command {
        let mut command = thruway();
        command.env("THRUWAY_RUN_DIR", self.run_dir()).args(words);
        command
    }

    pub fn ctl(&self, words: &[&str]) -> Done {
        run(self.tool(&["ctl"]).args(words))
    }

    /// Waits until its own socket is there.
    pub fn ready(&self) -> &Instance {
        wait_for("the socket", || (self.ctl(&["version"]).code() == 0).then_some(()));
        self
    }
}

/// Sends bytes to a port and takes all that comes back.
fn exchange(port: u16, bytes: &[u8]) -> String {
    let mut stream = wait_for("a TCP socket", || TcpStream::connect(("127.0.0.1", port)).ok());
    stream.set_read_timeout(Some(LIMIT)).expect("a time above zero");
    // It may be closed before all was sent.
    let _ = stream.write_all(bytes);
    let mut said = Vec::new();
    let _ = stream.read_to_end(&mut said);
    String::from_utf8_lossy(&said).into_owned()
}

/// A source, a counter with a call, a counter that writes files, and scripts that pass values on.
fn writers(literal: &str) -> String {
    format!(
        "RatedSource(RATE 200) -> c :: Counter -> a :: AggregateCounter -> Discard;
         derived :: Script(TYPE PASSIVE, write a.write_text_file $1);
         later :: Script(TYPE PASSIVE, wait 50ms, write a.write_text_file $1);
         shows :: Script(TYPE PASSIVE, return $(cat $1));
         literal :: Script(TYPE PASSIVE, write a.write_text_file {literal})"
    )
}

#[test]
fn values_name_no_files() {
    let place = |dir: &str| writers(&format!("{dir}/literal"));
    let instance = Instance::start(place, &[]);
    instance.ready();
    let victim = instance.path("victim");
    std::fs::write(&victim, "keep").expect("a file");
    let name = victim.to_str().expect("plain text");
    for handler in ["a.write_file", "a.write_text_file", "a.write_ip_file", "derived.run"] {
        instance.ctl(&["write", handler, name]).expect(1).says(&["--files DIR"]);
    }
    instance.ctl(&["write", "a.write_file", "-"]).expect(1).says(&["standard output"]);
    instance.ctl(&["read", "derived.run", name]).expect(1).says(&["--files DIR"]);
    instance.ctl(&["read", "shows.run", name]).expect(1).says(&["--files DIR"]);
    // What is done only later has no more rights than who asked for it.
    instance.ctl(&["write", "later.run", name]).expect(0);
    let count: u64 = instance.ctl(&["c.count"]).expect(0).stdout.trim().parse().expect("a number");
    let call = format!("{} a.write_file {name}", count + 20);
    instance.ctl(&["write", "c.count_call", &call]).expect(0);
    for refusal in ["While calling 'a.write_file'", "While executing 'later"] {
        wait_for("the refusal", || instance.running.stderr().contains(refusal).then_some(()));
    }
    assert_eq!(std::fs::read_to_string(&victim).expect("there"), "keep");
    // What the configuration's own text names is the operator's word.
    instance.ctl(&["write", "literal.run"]).expect(0);
    assert!(instance.path("literal").exists());
    instance.running.interrupt().expect(0);
}

#[test]
fn values_name_files_of_the_directory_set_aside() {
    let files = tempfile::tempdir().expect("a directory");
    let dir = files.path().to_str().expect("plain text");
    let instance = Instance::start(|dir| writers(&format!("{dir}/x")), &["--files", dir]);
    instance.ready();
    let secret = instance.path("secret");
    std::fs::write(&secret, "keep").expect("a file");
    symlink(&secret, files.path().join("link")).expect("a link");
    symlink(instance.dir.path(), files.path().join("up")).expect("a link");
    std::fs::hard_link(&secret, files.path().join("hard")).expect("a link");
    instance.ctl(&["write", "a.write_text_file", "counts"]).expect(0);
    instance.ctl(&["write", "derived.run", "again"]).expect(0);
    let written = std::fs::read_to_string(files.path().join("counts")).expect("it was written");
    assert!(written.starts_with("!IPAggregate"), "{written}");
    instance.ctl(&["read", "shows.run", "counts"]).expect(0).prints(&["!IPAggregate"]);
    let absolute = secret.to_str().expect("plain text");
    for name in ["../secret", absolute, "link", "up/secret", "hard"] {
        instance.ctl(&["write", "a.write_text_file", name]).expect(1);
        instance.ctl(&["read", "shows.run", name]).expect(1);
    }
    assert_eq!(std::fs::read_to_string(&secret).expect("there"), "keep");
    instance.running.interrupt().expect(0);
}

#[test]
fn a_tcp_port_wants_its_token() {
    let port = free_port();
    let text =
        |_: &str| format!("RatedSource -> c :: Counter -> Discard; ControlSocket(TCP, {port})");
    let instance = Instance::start(text, &[]);
    for first in ["READ c.count", "WRITE stop", "HELP", "WRITEDATA c.reset 3000000"] {
        let said = exchange(port, format!("{first}\r\nWRITE stop\r\n").as_bytes());
        assert!(said.contains("530 Permission denied: AUTH TOKEN comes first"), "{said}");
        assert_eq!(said.lines().count(), 2, "{said}");
    }
    let said = exchange(port, b"AUTH guess\r\nREAD c.count\r\n");
    assert!(said.contains("530 Permission denied: that is not the token"), "{said}");
    let long = exchange(port, &[&b"AUTH "[..], &vec![b'x'; 1 << 20]].concat());
    assert!(long.len() < 200, "{long}");

    let token = instance.run_dir().join(format!("tcp-{port}.token"));
    let mode = |path: &Path| std::fs::metadata(path).expect("there").permissions().mode() & 0o777;
    assert_eq!((mode(&token), mode(&instance.run_dir())), (0o600, 0o700));
    // The tools find it by themselves.
    instance.ctl(&[&port.to_string(), "read", "c.class"]).expect(0).prints(&["Counter"]);
    let top = ["top", &port.to_string(), "--once", "--interval", "0.1"];
    run(&mut instance.tool(&top)).expect(0).prints(&["Counter"]);
    let elsewhere = tempfile::tempdir().expect("a directory");
    let mut without = instance.tool(&["ctl", &port.to_string(), "read", "c.class"]);
    run(without.env("THRUWAY_RUN_DIR", elsewhere.path())).expect(1).says(&["AUTH TOKEN"]);
    let mut named = instance.tool(&["ctl", &port.to_string(), "read", "c.class"]);
    named.env("THRUWAY_RUN_DIR", elsewhere.path()).env("THRUWAY_TOKEN_FILE", &token);
    run(&mut named).expect(0);

    // Who does not say it is not waited for long.
    let begin = Instant::now();
    let said = exchange(port, b"AUTH ");
    assert_eq!(said.lines().count(), 1, "{said}");
    assert!(begin.elapsed() < LIMIT);
    instance.running.interrupt().expect(0);
    assert!(!token.exists(), "the token goes with the port");
}

#[test]
fn other_protocols_are_sent_away() {
    let port = free_port();
    let driver = Running::start(&mut click(&[
        "-p",
        &port.to_string(),
        "-e",
        "RatedSource(RATE 100) -> c :: Counter -> Discard",
    ]));
    wait_for("the warning", || driver.stderr().contains("-p lets every user").then_some(()));
    let body = "\r\nHost: 127.0.0.1\r\nContent-Length: 30\r\n\r\nWRITE stop\r\nWRITE c.reset\r\n";
    for first in ["GET / HTTP/1.1", "POST /x HTTP/1.1", "PUT / HTTP/1.1", "OPTIONS * HTTP/1.1"] {
        let said = exchange(port, format!("{first}{body}").as_bytes());
        assert_eq!(said.trim_end(), "Click::ControlSocket/1.3", "{first}");
    }
    let said = exchange(port, b"EHLO x\r\nWRITE stop\r\n");
    assert!(said.ends_with("501 Command 'EHLO' unimplemented\r\n"), "{said}");
    // A value that only looks like it is a value.
    let said = exchange(port, b"READ c.class HTTP/1.1\r\nQUIT\r\n");
    assert!(said.contains("Counter"), "{said}");
    driver.interrupt().expect(0);
}

#[test]
fn reads_of_a_readonly_socket_change_nothing() {
    let text = |dir: &str| {
        format!(
            "ControlSocket(UNIX, {dir}/ro, READONLY true);
             ControlSocket(UNIX, {dir}/rw);
             s :: Script(TYPE PASSIVE, init n 0, set n $(add $n 1), export n, return $n);
             p :: Script(TYPE PROXY, write s.run, return done);
             Idle -> Discard"
        )
    };
    let instance = Instance::start(text, &[]);
    let mut reader = Client::unix(&instance.path("ro"));
    let before = reader.read("s.n");
    for call in ["s.run", "s.shift n", "s.random 5", "p.anything", "trace x"] {
        let (code, said) = reader.ask(&format!("READ {call}"));
        assert!([530, 590].contains(&code), "{call}: {code} {said}");
    }
    assert_eq!(reader.ask("CHECKREAD s.run").0, 530);
    for call in ["s.run", "s.set n 9", "stop", "p.x", "hotconfig x"] {
        assert!([511, 530].contains(&reader.ask(&format!("WRITE {call}")).0), "{call}");
    }
    assert_eq!(reader.read("s.n"), before);
    assert_eq!(Client::unix(&instance.path("rw")).read("s.run"), "1", "which is Click's way");
    instance.running.interrupt().expect(0);
}

#[test]
fn other_users_are_kept_out() {
    if !privileged("other_users_are_kept_out") {
        return;
    }
    const NOBODY: u32 = 65_534;
    let text = |dir: &str| {
        format!(
            "ControlSocket(UNIX, {dir}/own); ControlSocket(UNIX, {dir}/opened);
             ControlSocket(UNIX, {dir}/group, MODE 0660, GROUP {NOBODY});
             ControlSocket(UNIX, {dir}/all, MODE 0666);
             Idle -> c :: Counter -> Discard"
        )
    };
    let instance = Instance::start(text, &[]);
    instance.ready();
    std::fs::set_permissions(instance.dir.path(), std::fs::Permissions::from_mode(0o711))
        .expect("own");
    std::fs::set_permissions(instance.path("opened"), std::fs::Permissions::from_mode(0o666))
        .expect("own");
    let mode = |name| std::fs::metadata(instance.path(name)).expect("there").permissions().mode();
    assert_eq!(mode("own") & 0o777, 0o600);
    let as_nobody = |name: &str, gid: u32| {
        let socket = instance.path(name);
        let program = instance.path("thruway");
        let _ = std::fs::copy(env!("CARGO_BIN_EXE_thruway"), &program);
        let mut command = Command::new(program);
        command.args(["ctl", socket.to_str().expect("plain text"), "read", "c.class"]);
        run(command.uid(NOBODY).gid(gid).env("THRUWAY_RUN_DIR", "/nonexistent"))
    };
    as_nobody("own", NOBODY).expect(1).says(&["another user's"]);
    // The rights of a file are not all: the kernel says who connects.
    as_nobody("opened", NOBODY).expect(1).says(&["another user's socket"]);
    as_nobody("group", NOBODY).expect(0);
    as_nobody("group", 12_345).expect(1);
    as_nobody("all", 12_345).expect(0);
    instance.running.interrupt().expect(0);
}

#[test]
fn idle_clients_lock_nobody_out() {
    let text = |dir: &str| format!("ControlSocket(UNIX, {dir}/s); Idle -> c :: Counter -> Discard");
    let instance = Instance::start(text, &[]);
    let path = instance.path("s");
    let mut useful = Client::unix(&path);
    assert_eq!(useful.read("c.class"), "Counter");
    let mut idle: Vec<UnixStream> = Vec::new();
    for _ in 0..200 {
        let mut half = UnixStream::connect(&path).expect("it listens");
        // Half a command keeps no place either.
        half.write_all(b"READ c.cl").expect("it takes that");
        idle.push(half);
    }
    assert_eq!(Client::unix(&path).read("c.class"), "Counter", "a new one comes in");
    assert_eq!(useful.read("c.class"), "Counter", "and one that was of use stays");
    drop(idle);
    instance.running.interrupt().expect(0);
}

/// Another user's connections, each in the midst of a command, from a thread that is that user.
fn busy_connections_of(user: u32, path: &Path, count: usize) -> Vec<UnixStream> {
    let path = path.to_owned();
    let connect = move || {
        let uid = Uid::from_raw(user);
        // Of this thread alone: so the kernel tells the other end who connects.
        set_thread_res_uid(uid, uid, Uid::ROOT).expect("root");
        let opened = (0..count).map(|_| {
            let mut stream = UnixStream::connect(&path).expect("it may");
            // One command, and half of another: it is of use, and not idle.
            // One that is sent away is so at once, perhaps before it wrote.
            let _ = stream.write_all(b"READ c.class\r\n");
            let mut answer = [0; 1 << 10];
            let _ = stream.read(&mut answer);
            let _ = stream.write_all(b"READ c.cl");
            stream
        });
        opened.collect()
    };
    std::thread::spawn(connect).join().expect("no panic")
}

#[test]
fn a_busy_user_locks_nobody_else_out() {
    if !privileged("a_busy_user_locks_nobody_else_out") {
        return;
    }
    let text = |dir: &str| {
        format!(
            "ControlSocket(UNIX, {dir}/s, MODE 0666); ChatterSocket(UNIX, {dir}/chatter, MODE 0666);
             Idle -> c :: Counter -> Discard"
        )
    };
    let instance = Instance::start(text, &[]);
    instance.ready();
    let open = std::fs::Permissions::from_mode(0o711);
    std::fs::set_permissions(instance.dir.path(), open).expect("own");
    let path = instance.path("s");
    let mut useful = Client::unix(&path);
    assert_eq!(useful.read("c.class"), "Counter");
    let first = busy_connections_of(65_534, &path, 100);
    assert_eq!(Client::unix(&path).read("c.class"), "Counter", "beside one user");
    let second = busy_connections_of(12_345, &path, 100);
    assert_eq!(Client::unix(&path).read("c.class"), "Counter", "beside two");
    assert_eq!(useful.read("c.class"), "Counter", "and one that was there stays");
    // Who hears: the oldest of others is not sent away for another user's.
    let mut hears = UnixStream::connect(instance.path("chatter")).expect("it listens");
    let mut greeting = [0; 26];
    hears.read_exact(&mut greeting).expect("it is greeted");
    let third = busy_connections_of(65_534, &instance.path("chatter"), 100);
    hears.set_nonblocking(true).expect("open");
    let end = hears.read(&mut greeting).expect_err("it is still connected");
    assert_eq!(end.kind(), std::io::ErrorKind::WouldBlock);
    drop((first, second, third));
    instance.running.interrupt().expect(0);
}

#[test]
fn a_loop_of_packets_starves_nobody() {
    for source in ["InfiniteSource(LIMIT 1)", "InfiniteSource(LIMIT 64, BURST 64)"] {
        let text = |_: &str| format!("a :: Null; {source} -> a -> b :: Counter -> a");
        let instance = Instance::start(text, &[]);
        instance.ready();
        let count = || -> u64 {
            let done = instance.ctl(&["b.count"]).expect(0);
            done.stdout.trim().parse().expect("a number")
        };
        let before = count();
        wait_for("packets that go round", || (count() > before + 10_000).then_some(()));
        instance.ctl(&["write", "stop"]).expect(0);
        let done = instance.running.wait(LIMIT).expect(0);
        assert!(done.elapsed < LIMIT - Duration::from_secs(1));
    }
}

#[test]
fn what_is_shown_does_nothing_to_a_terminal() {
    let text = |_: &str| "s :: Script(TYPE PASSIVE, init x y); Idle -> Discard".to_owned();
    let instance = Instance::start(text, &[]);
    instance.ready();
    instance.ctl(&["write", "s.set", "x \x1b]0;owned\x07\u{9b}2J"]).expect(0);
    let shown = instance.ctl(&["read", "s.get", "x"]).expect(0).stdout;
    assert_eq!(shown, "\\u{1b}]0;owned\\u{7}\\u{9b}2J\n");
    let told = instance.ctl(&["read", "s.get", "\x1b[31m"]).expect(1).stderr;
    assert!(!told.contains('\x1b'), "{told:?}");
    instance.running.interrupt().expect(0);
}
