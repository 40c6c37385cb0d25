//! The program itself: a manager in the foreground, and the commands over its socket.

mod functions;
mod monitoring;
mod resources;

use std::fs;
use std::io::{BufRead as _, BufReader};
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::net::UnixDatagram;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Output, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};
use tempfile::TempDir;
use thruway_manager::ChainName;
use thruway_manager::store::{ChangeOptions, Store};

const PROGRAM: &str = env!("CARGO_BIN_EXE_thruway-manager");
const DEADLINE: Duration = Duration::from_secs(60);

/// A manager that runs.
struct Manager {
    child: Child,
    dir: PathBuf,
}

impl Manager {
    /// Starts one that runs no chains, and waits until it is ready.
    fn start(dir: &Path) -> Manager {
        Manager::start_with(dir, &dir.join("no-such-program"))
    }

    /// Starts one that runs chains by a program, and waits until it says by NOTIFY_SOCKET that it
    /// is ready.
    fn start_with(dir: &Path, program: &Path) -> Manager {
        let notify = dir.join("notify");
        let _ = fs::remove_file(&notify);
        let socket = UnixDatagram::bind(&notify).expect("a socket");
        socket.set_read_timeout(Some(DEADLINE)).expect("set");
        let child = command(dir, &["daemon", "--state"])
            .arg(dir.join("state"))
            .arg("--program")
            .arg(program)
            .env("NOTIFY_SOCKET", &notify)
            .stderr(Stdio::piped())
            .spawn()
            .expect("started");
        let mut message = [0; 64];
        let len = socket.recv(&mut message).expect("it is ready in time");
        assert_eq!(&message[..len], b"READY=1\n");
        Manager { child, dir: dir.to_owned() }
    }

    /// Runs a command that succeeds; returns what it prints.
    fn run(&self, args: &[&str]) -> String {
        let output = command(&self.dir, args).output().expect("run");
        assert!(output.status.success(), "{args:?}: {output:?}");
        String::from_utf8(output.stdout).expect("text")
    }

    /// Runs a command that fails; returns what it says.
    fn fail(&self, args: &[&str]) -> String {
        failed(command(&self.dir, args).output().expect("run"))
    }

    fn signal(&self, signal: Signal) {
        let pid = i32::try_from(self.child.id()).ok().and_then(Pid::from_raw).expect("a process");
        kill_process(pid, signal).expect("sent");
    }

    fn wait(&mut self) -> ExitStatus {
        let begun = Instant::now();
        loop {
            if let Some(status) = self.child.try_wait().expect("waited") {
                return status;
            }
            assert!(begun.elapsed() < DEADLINE, "it does not end");
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}

impl Drop for Manager {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn command(dir: &Path, args: &[&str]) -> Command {
    let mut command = Command::new(PROGRAM);
    command.args(args).env("THRUWAY_RUN_DIR", dir.join("run")).current_dir(dir);
    command
}

fn failed(output: Output) -> String {
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    String::from_utf8(output.stderr).expect("text")
}

fn fresh() -> TempDir {
    TempDir::new().expect("a directory")
}

const WEB: &str = "chains:\n  web:\n    configuration: |\n      Idle -> Discard;\n";

#[test]
fn chains_are_applied_shown_changed_and_taken_back() {
    let dir = fresh();
    let manager = Manager::start(dir.path());
    assert!(manager.run(&["get"]).contains("no chain is declared"));
    fs::write(dir.path().join("web.yaml"), WEB).expect("written");
    let dry = manager.run(&["apply", "--dry-run", "web.yaml"]);
    assert!(dry.contains("dry run") && dry.contains("+  Idle -> Discard;"), "{dry}");
    assert_eq!(manager.run(&["apply", "web.yaml"]), "chain/web created, generation 1\n");
    assert_eq!(manager.run(&["apply", "web.yaml"]), "chain/web unchanged, generation 1\n");
    fs::write(dir.path().join("web.yaml"), WEB.replace("Idle", "Idle -> Null")).expect("written");
    assert_eq!(manager.run(&["apply", "web.yaml"]), "chain/web changed, generation 2\n");
    let diff = manager.run(&["diff", "web"]);
    assert!(diff.contains("-  Idle -> Discard;\n+  Idle -> Null -> Discard;"), "{diff}");
    assert!(manager.run(&["get"]).contains("NotSupported"), "it does not pretend");
    let described = manager.run(&["describe", "web"]);
    for part in ["Idle -> Null", "Ready: no, NotSupported", "history", "process none"] {
        assert!(described.contains(part), "{part}: {described}");
    }
    assert!(manager.run(&["rollback", "web"]).contains("rolled back to generation 1"));
    let json = manager.run(&["get", "web", "-o", "json"]);
    assert!(
        json.contains("\"Idle -> Discard;\\n\"") && json.contains("\"generation\": 3"),
        "{json}"
    );
    assert!(manager.run(&["get", "-o", "yaml"]).contains("name: web"));
    assert!(manager.run(&["get", "-o", "wide"]).contains("uid "));
    let events = manager.run(&["events", "--chain", "web"]);
    let reasons = ["Declared", "NotSupported", "RolledBack"];
    assert!(reasons.iter().all(|reason| events.contains(reason)), "{events}");
    assert!(manager.run(&["delete", "web"]).starts_with("chain/web deleted, generation 4"));
    let error = manager.fail(&["describe", "web"]);
    assert_eq!(error, "thruway-manager: there is no chain 'web'; no chain is declared\n");
    assert!(manager.run(&["rollback", "web"]).contains("rolled back to generation 3"));
}

/// JSON that a command prints.
fn json(manager: &Manager, args: &[&str]) -> Value {
    let printed = manager.run(&[args, &["-o", "json"]].concat());
    serde_json::from_str(&printed).unwrap_or_else(|error| panic!("{args:?}: {error}: {printed}"))
}

#[test]
fn what_is_printed_as_data_is_one_value_and_can_be_applied() {
    let dir = fresh();
    let manager = Manager::start(dir.path());
    let two = format!("{WEB}  dns:\n    configuration: Idle -> Null -> Discard;\n");
    fs::write(dir.path().join("two.yaml"), two).expect("written");
    let tried = json(&manager, &["apply", "two.yaml", "--dry-run"]);
    assert_eq!((&tried[0]["name"], &tried[1]["dry_run"]), (&json!("dns"), &json!(true)));
    let wide = manager.run(&["apply", "two.yaml", "-o", "wide"]);
    let row = wide.lines().find(|line| line.contains(" web ")).expect("a row");
    let row: Vec<&str> = row.split_whitespace().collect();
    assert_eq!(row, ["chain", "web", "created", "1", "2", "0", "no", "-"], "{wide}");
    for (file, args) in [
        ("all.yaml", &["get", "-o", "yaml"][..]),
        ("all.json", &["get", "-o", "json"]),
        ("both.yaml", &["get", "web", "dns", "-o", "yaml"]),
        ("one.yaml", &["get", "web", "-o", "yaml"]),
        ("one.json", &["describe", "web", "-o", "json"]),
    ] {
        fs::write(dir.path().join(file), manager.run(args)).expect("written");
        let applied = manager.run(&["apply", file]);
        assert!(applied.contains("chain/web unchanged, generation 1\n"), "{file}: {applied}");
        let changed = applied.lines().filter(|line| !line.contains("unchanged"));
        assert_eq!(changed.count(), 0, "{file}: {applied}");
    }
    // A program changes what it was given, and gives it back.
    let mut web = json(&manager, &["get", "web"]);
    web["spec"]["threads"] = json!(2);
    fs::write(dir.path().join("one.json"), web.to_string()).expect("written");
    assert_eq!(json(&manager, &["apply", "one.json"])[0]["generation"], json!(2));
    let diff = json(&manager, &["diff", "web"]);
    assert!(diff["diff"].as_str().expect("text").contains("+threads: 2"), "{diff}");
    assert_eq!(json(&manager, &["rollback", "web"])["generation"], json!(3));
    let wide = manager.run(&["rollback", "web", "-o", "wide", "--dry-run"]);
    assert!(wide.contains("rolled back to generation 2") && wide.contains(" yes "), "{wide}");
    let shown = manager.run(&["describe", "web", "-o", "wide"]);
    assert!(shown.contains("history") && shown.contains("observed"), "{shown}");
    let gone = json(&manager, &["delete", "web", "dns"]);
    assert_eq!(gone.as_array().map(Vec::len), Some(2), "{gone}");
    fs::write(dir.path().join("list.json"), "[{\"name\": \"web\"}]").expect("written");
    assert!(manager.fail(&["apply", "list.json"]).contains("chain 'web' has no spec"));
}

#[test]
fn credentials_and_the_description_are_printed_as_data() {
    let dir = fresh();
    let manager = Manager::start(dir.path());
    let made = json(&manager, &["token", "create", "ci", "--role", "view"]);
    assert_eq!(made["token"].as_str().map(str::is_empty), Some(false), "{made}");
    assert_eq!(json(&manager, &["token", "list"])[0]["name"], "ci");
    assert!(manager.run(&["token", "list", "-o", "wide"]).contains("certificate"));
    let gone = json(&manager, &["token", "revoke", "ci"]);
    assert_eq!(gone, json!([{"name": "ci", "revoked": true}]));
    let all = command(dir.path(), &["token", "revoke", "ci", "-o", "json"]).output().expect("run");
    assert!(failed(all.clone()).contains("ci"));
    let gone: Value = serde_json::from_slice(&all.stdout).expect("JSON");
    assert_eq!(gone, json!([{"name": "ci", "revoked": false}]));
    let description: Value = serde_json::from_str(&manager.run(&["openapi"])).expect("JSON");
    assert_eq!(json(&manager, &["openapi"]), description);
    let yaml = manager.run(&["openapi", "-o", "yaml"]);
    assert!(yaml.contains("\nopenapi: ") && yaml.contains("\n  /v1/chains:\n"), "{yaml}");
    let wide = manager.run(&["openapi", "-o", "wide"]);
    assert!(wide.contains("/v1/chains/{name}/rollback"), "{wide}");
    let output = command(dir.path(), &["get", "-o", "xml"]).output().expect("run");
    let error = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(2));
    assert!(error.contains("json, yaml, wide"), "{error}");
}

#[test]
fn a_file_with_an_error_changes_nothing() {
    let dir = fresh();
    let manager = Manager::start(dir.path());
    let files = dir.path().join("chains");
    fs::create_dir(&files).expect("made");
    fs::write(files.join("a.yaml"), WEB).expect("written");
    fs::write(files.join("b.toml"), "[chains.dns]\nfile = 'dns.click'\n").expect("written");
    fs::write(files.join("dns.click"), "Idle -> Discrad;\n").expect("written");
    let error = manager.fail(&["apply", "chains"]);
    assert!(error.contains("chain/dns (configuration)") && error.contains("Discard"), "{error}");
    assert!(error.ends_with("nothing was changed\n"), "{error}");
    assert!(manager.run(&["get"]).contains("no chain is declared"));
    fs::write(files.join("dns.click"), "Idle -> Discard;\n").expect("written");
    let applied = manager.run(&["apply", "chains"]);
    assert_eq!(applied, "chain/dns created, generation 1\nchain/web created, generation 1\n");
    fs::write(files.join("c.yml"), WEB).expect("written");
    assert!(manager.fail(&["apply", "chains"]).contains("keep one"));
    assert!(manager.fail(&["apply", "chains/dns.click"]).contains("not a file of chains"));
}

#[test]
fn what_was_declared_survives_kills_and_the_end() {
    let dir = fresh();
    let mut manager = Manager::start(dir.path());
    fs::write(dir.path().join("web.yaml"), WEB).expect("written");
    manager.run(&["apply", "web.yaml"]);
    manager.signal(Signal::KILL);
    manager.wait();
    let mut manager = Manager::start(dir.path());
    assert!(manager.run(&["get"]).contains("web"), "a stale socket is replaced");
    manager.signal(Signal::TERM);
    assert!(manager.wait().success());
    assert!(!dir.path().join("run/manager/api.sock").exists());
    let error = manager.fail(&["get"]);
    assert!(error.contains("no manager answers at") && error.contains("thruway daemon"), "{error}");
    let manager = Manager::start(dir.path());
    assert!(manager.run(&["get"]).contains("web"));
}

#[test]
fn a_second_manager_and_a_damaged_store_are_refused() {
    let dir = fresh();
    let mut manager = Manager::start(dir.path());
    let state = dir.path().join("state");
    let path = state.to_str().expect("text");
    let error = manager.fail(&["daemon", "--state", path]);
    assert!(error.contains("in use by another manager"), "{error}");
    let other = dir.path().join("other");
    let error = manager.fail(&["daemon", "--state", other.to_str().expect("text")]);
    assert!(error.contains("a manager listens there already"), "{error}");
    manager.signal(Signal::TERM);
    manager.wait();
    fs::write(state.join("state.db"), "x".repeat(5000)).expect("written");
    let error = manager.fail(&["daemon", "--state", path]);
    assert!(error.contains("is damaged") && error.contains(".recover"), "{error}");
    assert_eq!(fs::read(state.join("state.db")).expect("read"), "x".repeat(5000).into_bytes());
}

/// The program `thruway`, which another crate builds into the same directory.
fn thruway() -> Option<PathBuf> {
    let program = Path::new(PROGRAM).with_file_name("thruway");
    if program.is_file() {
        return Some(program);
    }
    assert!(std::env::var_os("THRUWAY_REQUIRE_PRIVILEGES").is_none(), "no {}", program.display());
    eprintln!("SKIPPED: needs {}; cargo build -p thruway", program.display());
    None
}

/// Waits until a command prints something with this text.
fn until(manager: &Manager, args: &[&str], text: &str) -> String {
    let begun = Instant::now();
    loop {
        let printed = manager.run(args);
        if printed.contains(text) {
            return printed;
        }
        assert!(begun.elapsed() < DEADLINE, "no {text}: {printed}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

fn pid_of(json: &str) -> i32 {
    let line = json.lines().find(|line| line.contains("\"pid\":")).expect("a process");
    let digits: String = line.chars().filter(char::is_ascii_digit).collect();
    digits.parse().expect("a number")
}

/// The process of a chain; it does not outlive the test.
struct DataPlane(i32);

impl DataPlane {
    fn runs(&self) -> bool {
        let stat = fs::read_to_string(format!("/proc/{}/stat", self.0)).unwrap_or_default();
        let state = stat.rsplit_once(") ").map(|(_, rest)| &rest[..1]);
        state.is_some_and(|state| state != "Z")
    }

    fn ends(&self) {
        let begun = Instant::now();
        while self.runs() {
            assert!(begun.elapsed() < DEADLINE, "it ends with its chain");
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}

impl Drop for DataPlane {
    fn drop(&mut self) {
        if let Some(pid) = Pid::from_raw(self.0).filter(|_| self.runs()) {
            let _ = kill_process(pid, Signal::KILL);
        }
    }
}

#[test]
fn a_declared_chain_runs_and_outlives_the_manager() {
    let Some(thruway) = thruway() else { return };
    let dir = fresh();
    let mut manager = Manager::start_with(dir.path(), &thruway);
    let text = WEB.replace("Idle", "RatedSource(RATE 100) -> c0 :: Counter");
    fs::write(dir.path().join("web.yaml"), text).expect("written");
    manager.run(&["apply", "web.yaml"]);
    let show = ["get", "web", "-o", "json"];
    until(&manager, &["get"], "  yes  ");
    let plane = DataPlane(pid_of(&manager.run(&show)));
    manager.signal(Signal::TERM);
    assert!(manager.wait().success());
    assert!(plane.runs(), "it runs on");
    let manager = Manager::start_with(dir.path(), &thruway);
    until(&manager, &["get"], "  yes  ");
    assert_eq!(pid_of(&manager.run(&show)), plane.0, "it is adopted");
    until(&manager, &["events"], "Adopted");
    manager.run(&["delete", "web"]);
    plane.ends();
}

#[test]
fn a_deletion_that_was_kept_is_carried_out_after_a_kill() {
    let Some(thruway) = thruway() else { return };
    let dir = fresh();
    let mut manager = Manager::start_with(dir.path(), &thruway);
    let text = WEB.replace("Idle", "RatedSource(RATE 100)");
    fs::write(dir.path().join("web.yaml"), text).expect("written");
    manager.run(&["apply", "web.yaml"]);
    until(&manager, &["get"], "  yes  ");
    let plane = DataPlane(pid_of(&manager.run(&["get", "web", "-o", "json"])));
    manager.signal(Signal::KILL);
    manager.wait();
    // What the manager would have done when it was killed just after it kept the deletion.
    let store = Store::open(&dir.path().join("state")).expect("a store");
    let web = ChainName::new("web").expect("a name");
    store.delete(&web, &ChangeOptions::default()).expect("there");
    drop(store);
    let _manager = Manager::start_with(dir.path(), &thruway);
    plane.ends();
}

/// A program that stands for `thruway`: it writes, and answers nobody.
fn writer(dir: &Path, text: &str) -> PathBuf {
    let program = dir.join("writer");
    fs::write(&program, format!("#!/bin/sh\n{text}\nwhile :; do sleep 1; done\n"))
        .expect("written");
    fs::set_permissions(&program, fs::Permissions::from_mode(0o700)).expect("set");
    program
}

#[test]
fn what_a_chain_wrote_is_printed_and_does_nothing_to_a_terminal() {
    let dir = fresh();
    let text = "printf 'one\\ntwo\\033[2J\\n'; echo three >&2";
    let manager = Manager::start_with(dir.path(), &writer(dir.path(), text));
    fs::write(dir.path().join("web.yaml"), WEB).expect("written");
    manager.run(&["apply", "web.yaml"]);
    until(&manager, &["events"], "Started");
    let _plane = DataPlane(pid_of(&manager.run(&["get", "web", "-o", "json"])));
    until(&manager, &["logs", "web"], "three");
    assert_eq!(manager.run(&["logs", "web"]), "one\ntwo\\u{1b}[2J\nthree\n");
    assert_eq!(manager.run(&["logs", "web", "-n", "1"]), "three\n");
    assert_eq!(manager.run(&["logs", "web", "--lines", "1", "-o", "wide"]), "web  three\n");
    assert_eq!(json(&manager, &["logs", "web"])["lines"][1], "two\u{1b}[2J");
    assert_eq!(manager.run(&["logs", "web", "-n1", "-o", "yaml"]), "lines:\n- three\n");
    let error = manager.fail(&["logs", "dns"]);
    assert!(error.contains("there is no chain 'dns'"), "{error}");
    let output = command(dir.path(), &["logs", "web", "-n", "10001"]).output().expect("run");
    let error = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(2));
    assert!(error.contains("give a number from 0 to 10000"), "{error}");
}

#[test]
fn what_a_chain_writes_follows_until_it_is_deleted() {
    let dir = fresh();
    let text = "echo one; while [ ! -e \"$0.go\" ]; do sleep 0.02; done; echo two";
    let program = writer(dir.path(), text);
    let manager = Manager::start_with(dir.path(), &program);
    fs::write(dir.path().join("web.yaml"), WEB).expect("written");
    manager.run(&["apply", "web.yaml"]);
    until(&manager, &["events"], "Started");
    let _plane = DataPlane(pid_of(&manager.run(&["get", "web", "-o", "json"])));
    until(&manager, &["logs", "web"], "one");
    let mut follower = command(dir.path(), &["logs", "web", "--follow", "-o", "json"]);
    let mut follower = follower.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("run");
    let mut lines = BufReader::new(follower.stdout.take().expect("a pipe")).lines();
    let mut next = || lines.next().expect("a line").expect("text");
    assert_eq!(next(), "{\"line\":\"one\"}");
    fs::write(dir.path().join("writer.go"), "").expect("written");
    assert_eq!(next(), "{\"line\":\"two\"}");
    manager.run(&["delete", "web"]);
    let error = failed(follower.wait_with_output().expect("ended"));
    assert!(error.contains("the chain was deleted"), "{error}");
}

/// A manager with twenty chains that run has less than 30 MB.
#[test]
fn a_manager_with_many_chains_is_small() {
    let Some(thruway) = thruway() else { return };
    let dir = fresh();
    let manager = Manager::start_with(dir.path(), &thruway);
    let chain = |number| format!("  c{number}:\n    configuration: Idle -> Discard;\n");
    let text: String = (0..20).map(chain).collect();
    fs::write(dir.path().join("many.yaml"), format!("chains:\n{text}")).expect("written");
    assert_eq!(manager.run(&["apply", "many.yaml"]).lines().count(), 20);
    let planes: Vec<DataPlane> = (0..20)
        .map(|number| {
            let show = ["get", &format!("c{number}"), "-o", "json"];
            DataPlane(pid_of(&until(&manager, &show, "\"reason\": \"Answers\"")))
        })
        .collect();
    assert!(planes.iter().all(DataPlane::runs));
    let kib = |key| memory_kib(manager.child.id(), key);
    println!("{} KiB, of which {} are its own", kib("VmRSS:"), kib("RssAnon:"));
    // Without optimisation most of it are pages of the program's file, three times as long.
    match cfg!(debug_assertions) {
        true => assert!(kib("RssAnon:") < 8 << 10),
        false => assert!(kib("VmRSS:") < 30 << 10),
    }
}

/// Memory of a process, by a line of its status.
fn memory_kib(pid: u32, key: &str) -> u64 {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).expect("read");
    let value = status.lines().find_map(|line| line.strip_prefix(key)).expect("a line");
    value.trim().trim_end_matches(" kB").parse().expect("a number")
}
