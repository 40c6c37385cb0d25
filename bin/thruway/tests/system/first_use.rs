//! What somebody meets who has just installed it: pipes that end early, full disks, misspelt
//! commands, `help`, `q`, NO_COLOR, SIGHUP.

use std::fs::File;
use std::io::Write as _;
use std::path::Path;
use std::process::Stdio;

use rustix::process::Signal;

use crate::control::Client;
use crate::process::{Running, root, run, thruway, wait_for};

/// Commands that print more than a pipe's buffer holds, or a table.
fn printing() -> Vec<Vec<String>> {
    let lan = root().join("examples/captures/lan.pcap");
    let text = format!("FromDump({}, STOP true) -> Counter -> Discard", lan.display());
    let words = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect();
    vec![
        words(&["elements"]),
        words(&["elements", "FromDevice"]),
        words(&["run", "-e", &text]),
        words(&["check", "-e", &text]),
        words(&["graph", "-e", &text]),
        words(&["doctor"]),
        words(&["click", "-e", &text, "-h", "*.handlers"]),
        words(&["--help"]),
        words(&["bench", "--repeat", "1", "--time", "1"]),
    ]
}

#[test]
fn a_reader_that_has_gone_ends_a_command_quietly() {
    for words in printing() {
        let (reader, writer) = std::io::pipe().expect("a pipe");
        drop(reader);
        let mut command = thruway();
        command.args(&words).stdin(Stdio::null()).stdout(writer).stderr(Stdio::piped());
        let output = command.output().expect("it starts");
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(0), "{words:?}: {said}");
        assert!(!said.contains("panicked") && !said.contains("roken pipe"), "{words:?}: {said}");
    }
}

#[test]
fn a_full_disk_is_a_plain_error() {
    for words in printing() {
        let full = File::options().write(true).open("/dev/full").expect("it is there");
        let mut command = thruway();
        command.args(&words).stdin(Stdio::null()).stdout(full).stderr(Stdio::piped());
        let output = command.output().expect("it starts");
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{words:?}: {said}");
        let plain = "thruway: cannot write to standard output: No space left on device";
        assert!(said.contains(plain) && !said.contains("panicked"), "{words:?}: {said}");
    }
}

#[test]
fn help_and_misspelt_commands() {
    let help = run(thruway().arg("help")).expect(0);
    assert_eq!(help.stdout, run(thruway().arg("--help")).expect(0).stdout);
    run(thruway().args(["help", "run"])).expect(0).prints(&["--placement"]);
    for (word, meant) in [("chekc", "check"), ("rnu", "run"), ("elemnts", "elements")] {
        run(thruway().arg(word)).expect(2).says(&[&format!("'{word}'"), &format!("'{meant}'")]);
    }
    run(thruway().arg("frobnicate")).expect(2).says(&["unrecognized subcommand"]);
}

/// A configuration whose file changes, and a client of its control socket.
struct Reloading {
    driver: Running,
    client: Client,
    file: std::path::PathBuf,
    socket: String,
    _dir: tempfile::TempDir,
}

impl Reloading {
    fn start() -> Reloading {
        let dir = tempfile::tempdir().expect("a directory");
        let (file, socket) = (dir.path().join("a.click"), dir.path().join("control"));
        let socket = socket.to_str().expect("plain text").to_owned();
        Reloading::write(&file, "first");
        let words = [file.to_str().expect("plain text"), &format!("SOCKET={socket}")];
        let driver = Running::start(thruway().args(["run", "-q"]).args(words));
        let client = Client::unix(Path::new(&socket));
        Reloading { driver, client, file, socket, _dir: dir }
    }

    /// `name`: that of a Null, so that one can see which configuration runs.
    fn write(file: &Path, name: &str) {
        let text = format!(
            "ControlSocket(UNIX, $SOCKET); RatedSource(RATE 1000) -> c :: Counter -> {name} :: Null
             -> Discard"
        );
        File::create(file).and_then(|mut file| file.write_all(text.as_bytes())).expect("a file");
    }

    fn runs(&mut self, name: &str) -> bool {
        self.client.ask(&format!("CHECKREAD {name}.name")).0 == 200
    }

    /// `CHECKREAD` in a new connection: a swap may close the former ones.
    fn wait_for(&mut self, name: &str) {
        wait_for("the reload", || {
            self.client = Client::unix(Path::new(&self.socket));
            self.runs(name).then_some(())
        });
    }
}

#[test]
fn sighup_reloads_the_file_and_a_wrong_one_changes_nothing() {
    let mut it = Reloading::start();
    assert!(it.runs("first"));
    wait_for("packets", || (it.client.number("c.count") > 100).then_some(()));
    Reloading::write(&it.file, "second");
    it.driver.signal(Signal::HUP);
    it.wait_for("second");
    assert!(it.client.number("c.count") > 100, "the counter goes on");
    std::fs::write(&it.file, "Idle -> Nosuch -> Discard").expect("a file");
    it.driver.signal(Signal::HUP);
    wait_for("the refusal", || it.driver.stderr().contains("reload refused").then_some(()));
    assert!(it.runs("second"), "the former configuration goes on");
    let said = it.driver.stderr();
    for word in ["INFO configuration read again", "ERROR reload refused", "Nosuch", "a.click"] {
        assert!(said.contains(word), "no '{word}' in {said}");
    }
    it.driver.interrupt().expect(0);
}

#[test]
fn the_command_reload_says_what_is_wrong() {
    let mut it = Reloading::start();
    Reloading::write(&it.file, "second");
    run(thruway().args(["reload", "--control", &it.socket])).expect(0);
    it.wait_for("second");
    std::fs::write(&it.file, "Idle -> Nosuch -> Discard").expect("a file");
    run(thruway().args(["reload", "--control", &it.socket]))
        .expect(1)
        .says(&["nothing changed", "Nosuch"]);
    // Another file is another configuration, which -R allows.
    let other = it.file.to_str().expect("plain text").to_owned();
    run(thruway().args(["reload", "--control", &it.socket, &other])).expect(1).says(&["run -R"]);
    assert!(it.runs("second"));
    // Threads move to other cores, those that there are.
    let own = rustix::thread::sched_getaffinity(None).expect("it is known");
    let core = (0..256).rev().find(|core| own.is_set(*core)).expect("a core").to_string();
    Reloading::write(&it.file, "third");
    run(thruway().args(["reload", "--control", &it.socket, "--cores", &core])).expect(0);
    it.wait_for("third");
    run(thruway().args(["reload", "--control", &it.socket, "--cores", "999"]))
        .expect(1)
        .says(&["nothing changed", "core 999 is not this process's"]);
    assert!(it.runs("third"));
    it.driver.interrupt().expect(0);
}

/// Runs a command at a terminal (by util-linux's `script`), with these keys typed.
fn at_terminal(command: &str, keys: &str, variables: &[(&str, &str)]) -> Running {
    crate::process::need("script", "util-linux");
    // The keys come when the view is there; end of input would end `script`.
    let typed = format!("(sleep 4; printf '{keys}'; sleep 25) | script -qec '{command}' /dev/null");
    let mut shell = std::process::Command::new("sh");
    shell.args(["-c", &typed]).envs(variables.iter().copied());
    Running::start(&mut shell)
}

#[test]
fn q_ends_top_and_no_color_is_heeded() {
    let it = Reloading::start();
    let command = format!("{} top {}; echo OVER", env!("CARGO_BIN_EXE_thruway"), it.socket);
    for (variables, bold) in [(vec![], true), (vec![("NO_COLOR", "1")], false)] {
        let top = at_terminal(&command, "xq", &variables);
        wait_for("the end of top", || top.stdout().contains("OVER").then_some(()));
        let shown = top.stdout();
        assert!(shown.contains("\x1b[?1049l"), "the former screen is back: {shown}");
        let (_, view) = shown.split_once("One moment").expect("a view");
        assert_eq!(view.contains("\x1b[1m"), bold, "{view}");
    }
    let wrong = format!("{} check -e Idel; echo OVER", env!("CARGO_BIN_EXE_thruway"));
    for (variables, coloured) in [(vec![], true), (vec![("NO_COLOR", "1")], false)] {
        let check = at_terminal(&wrong, "", &variables);
        wait_for("the end", || check.stdout().contains("OVER").then_some(()));
        assert_eq!(check.stdout().contains("\x1b["), coloured, "{}", check.stdout());
    }
    it.driver.interrupt().expect(0);
}

#[test]
fn a_run_at_a_terminal_is_as_any_other() {
    let run = "run -e \"RatedSource(LIMIT 5, STOP true) -> Discard\"";
    let command = format!("{} {run}; echo OVER $?", env!("CARGO_BIN_EXE_thruway"));
    for variables in [&[][..], &[("NO_COLOR", "1")]] {
        let ran = at_terminal(&command, "", variables);
        wait_for("the end", || ran.stdout().contains("OVER").then_some(()));
        let shown = ran.stdout();
        assert!(shown.contains("OVER 0") && !shown.contains("tracing"), "{shown}");
    }
}

/// A capture with frames of IPv4, ARP and IPv6 for examples/firewall.click's inside.
fn mixed(path: &Path) {
    let head = |kind: [u8; 2]| [&[2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 9][..], &kind].concat();
    let ip6 = [head([0x86, 0xdd]), vec![0x60, 0, 0, 0, 0, 0, 59, 64], vec![1; 32]].concat();
    // An ARP reply (RFC 826): Ethernet and IPv4, operation 2; its sender, its target.
    let mut reply = [head([8, 6]), vec![0, 1, 8, 0, 6, 4, 0, 2]].concat();
    reply.extend([2, 0, 0, 0, 0, 9, 192, 168, 1, 9, 2, 0, 0, 0, 0, 2, 192, 168, 1, 1]);
    crate::frames::write_capture(path, &[ip6.clone(), reply, ip6]);
}

#[test]
fn lost_diverted_and_consumed_packets_are_told_apart() {
    let dir = tempfile::tempdir().expect("a directory");
    let capture = dir.path().join("in.pcap");
    mixed(&capture);
    let ports = [format!("LAN=pcap:{}>", capture.display()), "WAN=none".to_owned()];
    let firewall = root().join("examples/firewall.click");
    let done = run(thruway().arg("run").arg(&firewall).args(&ports)).expect(0);
    let (_, lost) = done.stdout.split_once("Drops").expect("a table");
    let (lost, kept) = lost.split_once("Not lost").expect("another table");
    assert!(lost.contains("none") && !lost.contains("answer"), "{}", done.stdout);
    for words in [["lan/arp", "consumed", "answer", "1"], ["lan/other", "discarded", "-", "2"]] {
        let row = kept.lines().any(|line| {
            words.iter().zip(line.split_whitespace()).all(|(word, cell)| *word == cell)
        });
        assert!(row, "no {words:?} in {}", done.stdout);
    }
    // The same for programs, and what is diverted.
    let text = format!(
        "FromDump({}, STOP true) -> c :: CheckLength(50) -> Discard; c[1] -> Null -> Discard",
        capture.display()
    );
    let done = run(thruway().args(["run", "--json", "-e", &text])).expect(0);
    let told: serde_json::Value = serde_json::from_str(&done.stdout).expect("JSON");
    let row = told["reasons"].as_array().expect("rows").iter().find(|row| row["element"] == "c");
    let row = row.expect("a row");
    assert_eq!((&row["fate"], &row["packets"]), (&"diverted".into(), &2.into()), "{told}");
    assert_eq!(told["elements"][1]["lost"], 0, "{told}");
    assert_eq!(told["packets"], 3, "{told}");
}

/// What `check --explain` and `--paths` print besides.
fn check_prints_json(parsed: &impl Fn(crate::process::Done) -> serde_json::Value) {
    let text = "Idle -> FlowClassifier -> web :: FlowDispatcher(tcp port 80, -) -> TCPIn
                -> words :: WordMatcher(secret, MODE CLOSE) -> TCPOut -> Discard; web[1] -> Discard";
    let words = ["check", "--json", "--explain", "--paths", "-e", text];
    let told = parsed(run(thruway().args(words)).expect(0));
    assert!(told["decision"]["steps"].as_u64().expect("a number") > 0, "{told}");
    let class = told["classes"].as_array().expect("a list").iter();
    let web: Vec<_> = class.filter(|class| class["known"]["proto"] == "tcp").collect();
    assert!(!web.is_empty(), "{told}");
    let hop = serde_json::json!({ "element": "web", "output": 0 });
    assert!(web.iter().any(|class| class["next_hops"][0] == hop), "{told}");
    assert_eq!(told["sessions"][0]["key"][0], "src", "{told}");
    assert_eq!(told["sessions"][0]["state"][0]["offset"], 0, "{told}");
    assert_eq!(told["contexts"][0]["layer"], "Tcp", "{told}");
    let part = told["contexts"][0]["set_up"].as_array().expect("a list").iter();
    assert!(part.clone().any(|part| part["for"] == serde_json::json!(["words"])), "{told}");
    assert!(told["elements"][0]["paths"].is_string(), "{told}");
}

#[test]
fn tables_are_to_be_had_as_json() {
    let text = "Idle -> q :: Queue -> Unqueue -> Discard";
    let parsed = |done: crate::process::Done| -> serde_json::Value {
        serde_json::from_str(&done.stdout).unwrap_or_else(|error| panic!("{error}: {done:#?}"))
    };
    let checked = parsed(run(thruway().args(["check", "--json", "-e", text])).expect(0));
    assert_eq!(checked["connections"], 3, "{checked}");
    assert_eq!(checked["elements"][1]["element"], "q", "{checked}");
    assert_eq!(checked["elements"][1]["outputs"], serde_json::json!(["pull"]), "{checked}");
    check_prints_json(&parsed);
    let page = parsed(run(thruway().args(["elements", "--json", "Queue"])).expect(0));
    assert_eq!(page["arguments"][0]["name"], "CAPACITY", "{page}");
    let all = parsed(run(thruway().args(["elements", "--json"])).expect(0));
    assert!(all.as_array().expect("a list").iter().any(|one| one["name"] == "Queue"));
    let bench = ["bench", "--json", "--repeat", "1", "--time", "1"];
    let measured = parsed(run(thruway().args(bench)).expect(0));
    assert_eq!(measured["rows"][0]["configuration"], "replay", "{measured}");
    assert!(measured["rows"][0]["ns"].as_f64().expect("a number") > 0.0, "{measured}");
    let it = Reloading::start();
    let words = ["top", "--json", "--interval", "0.3", &it.socket];
    let seen = parsed(run(thruway().args(words)).expect(0));
    let made = |when: &str| seen[when]["threads"][0]["made"].as_u64().expect("a number");
    assert!(made("now") > made("before"), "{seen}");
    it.driver.interrupt().expect(0);
}
