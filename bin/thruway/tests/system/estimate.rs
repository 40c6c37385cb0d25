//! `thruway estimate CONFIGURATION` as a user runs it, on a host of round numbers.

use std::path::Path;

use serde_json::Value;

use crate::process::{Done, Running, root, run, thruway, wait_for};

const EDGE: &str = "examples/plan/edge.toml";

/// Operations in round numbers, for the host of the examples.
const OPERATIONS: &str = r#"
[operations]
dispatch = { each = { value = 0, source = "round" }, batch = { value = 64, source = "round" } }
packet-make = { each = { value = 10, source = "round" }, batch = { value = 64, source = "round" } }
copy-line = { each = { value = 2, source = "round" } }
clock = { each = { value = 1, source = "round" } }
header-read = { each = { value = 3, source = "round" } }
"#;

/// A description with operations, in a directory.
fn host(dir: &Path) -> String {
    let text = std::fs::read_to_string(root().join(EDGE)).expect("the example's host");
    let path = dir.join("host.toml");
    std::fs::write(&path, text + OPERATIONS).expect("a file");
    path.display().to_string()
}

fn estimate(args: &[&str]) -> Done {
    run(thruway().current_dir(root()).arg("estimate").args(args))
}

const CHAIN: &str = "InfiniteSource(LENGTH 64, LIMIT -1, BURST 32, TIMESTAMP false) -> Null -> \
                     Discard";

#[test]
fn cycles_are_those_of_the_operations() {
    let dir = tempfile::tempdir().unwrap();
    let host = host(dir.path());
    let done = estimate(&["-e", CHAIN, "--hardware", &host, "--json"]).expect(0);
    let told: Value = serde_json::from_str(&done.stdout).unwrap();
    let cycles = |at: usize| told["elements"][at]["cycles"].as_f64().unwrap();
    // A packet of one line: 10 and a part of its batch of 32; three dispatches.
    assert_eq!((cycles(0), cycles(1), cycles(2)), (10.0 + 2.0 + 2.0 + 2.0, 2.0, 2.0), "{told}");
    assert_eq!(told["cycles"], 20.0);
    assert_eq!(told["packets_per_second"], 2.5e9 / 20.0);
    assert_eq!(told["unvisited"], serde_json::json!([]));
}

#[test]
fn what_limits_is_told_and_drawn() {
    let dir = tempfile::tempdir().unwrap();
    let (host, page) = (host(dir.path()), dir.path().join("page.html"));
    let page = page.display().to_string();
    let args = ["-e", CHAIN, "--hardware", &host, "--link", "10G", "--report", &page];
    estimate(&args).expect(0).prints(&["limited by the link", "By size of packet", "packet-make"]);
    let text = std::fs::read_to_string(&page).unwrap();
    assert!(text.contains("<svg") && !text.contains("NaN"), "{text}");
    // The truth is measured; by how much such numbers are off does not matter here.
    let told = estimate(&["-e", CHAIN, "--hardware", &host, "--verify"]).expect(0);
    told.prints(&["Measured from memory:", "error %"]);
}

#[test]
fn traffic_may_be_described() {
    let dir = tempfile::tempdir().unwrap();
    let (host, traffic) = (host(dir.path()), dir.path().join("traffic.toml"));
    let flows = "[[flows]]\nshare = 3\ndst = \"10.2.0.0/16\"\npacket_bytes = 128\n\
                 [[flows]]\ndst = \"10.3.0.0/16\"\n";
    std::fs::write(&traffic, flows).unwrap();
    let traffic = traffic.display().to_string();
    let config = "FromDevice(eth0) -> Strip(14) -> c :: IPClassifier(dst net 10.2.0.0/16, dst net \
                  10.3.0.0/16, -); c -> one :: Counter -> q :: Queue -> ToDevice(eth1); c[1] -> two \
                  :: Counter -> q; c[2] -> never :: Discard;";
    let unknown = estimate(&["-e", config, "--hardware", &host]);
    assert_eq!(unknown.code(), 1);
    assert!(unknown.stderr.contains("say which with --traffic FILE"), "{unknown:#?}");
    let args = ["-e", config, "--hardware", &host, "--traffic", &traffic, "--json"];
    let told: Value = serde_json::from_str(&estimate(&args).expect(0).stdout).unwrap();
    let visits = |name: &str| {
        let all = told["elements"].as_array().unwrap();
        all.iter().find(|it| it["element"] == name).unwrap()["visits"].as_f64().unwrap()
    };
    assert!((visits("one") - 0.75).abs() < 0.02 && (visits("two") - 0.25).abs() < 0.02, "{told}");
    // A device takes what comes, and so does what stands in for it.
    assert!(visits("ToDevice@6") > 0.8, "{told}");
    assert_eq!((&told["packet_bytes"], &told["sessions"]), (&112.0.into(), &2000.0.into()));
    assert_eq!(told["unvisited"], serde_json::json!(["never"]));
    let unknown = told["unknown_operations"].as_array().unwrap();
    assert!(unknown.contains(&"port-receive".into()), "{told}");
}

#[test]
fn what_is_missing_is_said() {
    let dir = tempfile::tempdir().unwrap();
    let nothing = run(thruway().env("XDG_CONFIG_HOME", dir.path()).args([
        "estimate",
        "-e",
        "InfiniteSource -> Discard",
    ]));
    assert_eq!(nothing.code(), 1);
    assert!(nothing.stderr.contains("run `thruway calibrate`"), "{nothing:#?}");
    let host = host(dir.path());
    let wrong = estimate(&["-e", "InfiniteSource -> Strip(x) -> Discard", "--hardware", &host]);
    assert!(wrong.code() == 1 && wrong.stderr.contains("'x'"), "{wrong:#?}");
    let still = estimate(&["-e", "InfiniteSource(ACTIVE false) -> Discard", "--hardware", &host]);
    assert!(still.code() == 1 && still.stderr.contains("no packet moved"), "{still:#?}");
    let paper = estimate(&["-e", CHAIN, "--hardware", EDGE]);
    assert!(paper.code() == 1 && paper.stderr.contains("none of the operations"), "{paper:#?}");
    let link = estimate(&["-e", CHAIN, "--hardware", &host, "--link", "fast"]);
    assert!(link.code() == 1 && link.stderr.contains("give bits a second"), "{link:#?}");
}

#[test]
fn plans_take_the_costs_of_configurations() {
    let dir = tempfile::tempdir().unwrap();
    let host = host(dir.path());
    std::fs::write(dir.path().join("chain.click"), CHAIN).unwrap();
    let plan = dir.path().join("plan.toml");
    let text = format!(
        "[[chain]]\nname = \"short\"\nconfiguration = \"chain.click\"\nrate = 1e6\npacket = 64\n\
         [[host]]\nname = \"edge\"\nhardware = \"{host}\"\n"
    );
    std::fs::write(&plan, text).unwrap();
    let done = run(thruway().current_dir(dir.path()).args(["plan", "plan.toml", "--json"]));
    let answer: Value = serde_json::from_str(&done.expect(0).stdout).unwrap();
    // 20 cycles a packet of 2.5 thousand million a second.
    let load = answer["hosts"][0]["cores"][0]["load"].as_f64().unwrap();
    assert!((load - 20.0 * 1e6 / 2.5e9).abs() < 1e-3, "{answer}");
}

#[test]
fn what_runs_is_held_against_the_prediction() {
    let dir = tempfile::tempdir().unwrap();
    let (host, socket) = (host(dir.path()), dir.path().join("sock"));
    let socket = socket.display().to_string();
    let text = format!("source :: {CHAIN}; ControlSocket(UNIX, {socket})");
    let chain = Running::start(thruway().args(["run", "--quiet", "-e", &text]));
    wait_for("the control socket", || std::os::unix::net::UnixStream::connect(&socket).ok());
    let done = estimate(&["--live", &socket, "--hardware", &host, "--interval", "0.3"]).expect(0);
    let row = done.stdout.lines().find(|line| line.contains("InfiniteSource")).expect("its row");
    let words: Vec<&str> = row.split_whitespace().collect();
    // Share, batch and prediction as in the estimate; and cycles that were really observed.
    assert_eq!(words[2..5], ["1.000", "32.0", "16.0"], "{done:#?}");
    assert!(words[5].parse::<f64>().unwrap() > 1.0, "{done:#?}");
    done.prints(&["20.0 cycles a packet predicted", "Most of the difference is at"]);
    drop(chain);
    let gone = estimate(&["--live", "/nonexistent/sock", "--hardware", &host]);
    assert!(gone.code() == 1 && gone.stderr.contains("/nonexistent/sock"), "{gone:#?}");
}

#[test]
fn what_no_packet_came_to_is_said_first() {
    let dir = tempfile::tempdir().unwrap();
    let host = host(dir.path());
    let config = "InfiniteSource(LENGTH 64, LIMIT -1) -> c :: Classifier(12/0800, -) \
                  -> dear :: Null -> Discard; c[1] -> Discard";
    let told = estimate(&["-e", config, "--hardware", &host]).expect(0).stdout;
    let first = told.lines().next().unwrap_or_default();
    assert!(first.starts_with("Caution: no packet of this traffic came to dear"), "{told}");
}

/// Operations of isolated functions in round numbers, on cores of their own and on the thread's.
const ISOLATION: &str = r#"
count = { each = { value = 5, source = "round" } }
ring-hop = { each = { value = 50, source = "round" }, batch = { value = 320, source = "round" } }
ring-copy = { each = { value = 4, source = "round" } }
ring-return = { each = { value = 15, source = "round" } }
ring-serve = { each = { value = 40, source = "round" } }
part-hop = { each = { value = 70, source = "round" } }
part-copy = { each = { value = 3, source = "round" } }
part-serve = { each = { value = 100, source = "round" } }
worker-wake = { each = { value = 0, source = "round" } }
worker-sleep = { each = { value = 0, source = "round" } }
process-turn = { each = { value = 9, source = "round" } }
[shared_core]
ring-hop = { each = { value = 30, source = "round" } }
ring-copy = { each = { value = 2, source = "round" } }
ring-serve = { each = { value = 20, source = "round" } }
worker-wake = { each = { value = 0, source = "round" } }
worker-sleep = { each = { value = 0, source = "round" } }
process-turn = { each = { value = 6, source = "round" } }
"#;

/// A function that lets packets pass, with more arguments.
fn passing(more: &str) -> String {
    let program = env!("CARGO_BIN_EXE_thruway");
    format!(
        "Nf(EXEC \"{program} calibrate-function\", CONFIG keep, ISOLATION relaxed, STANDBY false{more})"
    )
}

/// A host that knows isolated functions, with so many cores.
fn isolating_host(dir: &Path, cores: u32) -> String {
    let path = host(dir);
    let text = std::fs::read_to_string(&path).unwrap() + ISOLATION;
    let lines = text.lines().map(|line| match line.starts_with("cores = ") {
        true => format!("cores = {cores}"),
        false => line.to_owned(),
    });
    std::fs::write(&path, lines.collect::<Vec<_>>().join("\n")).unwrap();
    path
}

fn reported(text: &str, host: &str) -> Value {
    let done = estimate(&["-e", text, "--hardware", host, "--json"]).expect(0);
    serde_json::from_str(&done.stdout).unwrap()
}

const SOURCE: &str = "InfiniteSource(LENGTH 60, LIMIT -1, BURST 32, TIMESTAMP false)";

#[test]
fn isolated_functions_cost_their_thread_and_a_process() {
    let dir = tempfile::tempdir().unwrap();
    let host = isolating_host(dir.path(), 2);
    let text = format!("{SOURCE} -> f :: {} -> Discard", passing(""));
    let alone = reported(&text, &host);
    assert_eq!(alone["unknown_operations"], serde_json::json!([]), "{alone:#}");
    let function = &alone["elements"][1];
    // 50 and a part of the batch's 320, a line of 4, a dispatch: batches are of up to 32.
    let cycles = function["cycles"].as_f64().unwrap();
    assert!((66.0..70.0).contains(&cycles), "{function}");
    assert_eq!(function["process_cycles"], 40.0, "{function}");
    // On one core with the thread.
    let one = isolating_host(dir.path(), 1);
    let together = reported(&text, &one);
    let function = &together["elements"][1];
    assert_eq!(function["process_cycles"], 20.0, "{function}");
    assert_eq!(together["limit"], "the core", "{together:#}");
    // Three that share a core which the thread has not.
    let host = isolating_host(dir.path(), 2);
    let nf = passing(", CPUS 0");
    let three = reported(&format!("{SOURCE} -> {nf} -> f :: {nf} -> {nf} -> Discard"), &host);
    assert_eq!(processes(&three), [49.0; 3], "{three:#}");
    // The thread has 216 cycles; packets under way have not visited all of it.
    let rate = three["packets_per_second"].as_f64().unwrap();
    assert!((0.99..2.0).contains(&(rate / (2.5e9 / 216.0))), "{three:#}");
}

/// Cycles that the processes of functions take for a packet that visits them.
fn processes(answer: &Value) -> Vec<f64> {
    let elements = answer["elements"].as_array().unwrap();
    elements.iter().filter_map(|element| element["process_cycles"].as_f64()).collect()
}

#[test]
fn isolated_elements_cost_their_process_what_they_cost() {
    let dir = tempfile::tempdir().unwrap();
    let host = isolating_host(dir.path(), 2);
    let text = format!(
        "{SOURCE} -> c :: Counter -> Discard; Isolate(c, ISOLATION relaxed, STANDBY false)"
    );
    let told = reported(&text, &host);
    let process = processes(&told)[0];
    // 100, three lines of 3, a count of 5 and a dispatch of 64 / 31.
    assert!((process - (100.0 + 9.0 + 5.0 + 64.0 / 31.0)).abs() < 1e-6, "{told:#}");
}

#[test]
fn an_older_description_is_said_to_lack_isolated_functions() {
    let dir = tempfile::tempdir().unwrap();
    let host = host(dir.path());
    let text = format!("{SOURCE} -> {} -> Discard", passing(""));
    let done = estimate(&["-e", &text, "--hardware", &host]).expect(0);
    let first = done.stdout.lines().next().unwrap_or_default();
    assert!(first.starts_with("Caution: the description of"), "{done:#?}");
    for what in ["ring-hop", "ring-serve", "too low", "run `thruway calibrate`"] {
        assert!(first.contains(what), "no {what}: {done:#?}");
    }
    let told = reported(&text, &host);
    assert!(told["remedy"].as_str().unwrap().contains("thruway calibrate"), "{told:#}");
    std::fs::write(dir.path().join("chain.click"), &text).unwrap();
    let plan = format!(
        "[[chain]]\nname = \"apart\"\nconfiguration = \"chain.click\"\nrate = 1e6\npacket = 60\n\
         [[host]]\nname = \"edge\"\nhardware = \"{host}\"\n"
    );
    std::fs::write(dir.path().join("plan.toml"), plan).unwrap();
    let done = run(thruway().current_dir(dir.path()).args(["plan", "plan.toml"])).expect(0);
    assert!(done.stderr.contains("run `thruway calibrate`"), "{done:#?}");
}

#[test]
fn what_was_observed_is_kept_used_and_forgotten() {
    let dir = tempfile::tempdir().unwrap();
    let (host, socket) = (host(dir.path()), dir.path().join("sock"));
    let socket = socket.display().to_string();
    let text = format!("source :: {CHAIN}; ControlSocket(UNIX, {socket})");
    let before = reported(CHAIN, &host);
    let chain = Running::start(thruway().args(["run", "--quiet", "-e", &text]));
    wait_for("the control socket", || std::os::unix::net::UnixStream::connect(&socket).ok());
    let live = ["--live", &socket, "--hardware", &host, "--interval", "0.5"];
    estimate(&live).expect(0);
    let file = dir.path().join("host.observed.toml");
    assert!(!file.exists(), "nothing is kept unless it is asked for");
    let done = estimate(&[&live[..], &["--refine"]].concat()).expect(0);
    assert!(done.stderr.contains("host.observed.toml") && file.exists(), "{done:#?}");
    drop(chain);
    // The source with the same arguments takes what it took, beside what it declares.
    let after = reported(CHAIN, &host);
    let source = |of: &Value, what: &str| of["elements"][0][what].as_f64().unwrap();
    assert_eq!(after["elements"][0]["is_observed"], true, "{after:#}");
    assert_eq!(source(&after, "declared_cycles"), source(&before, "cycles"), "{after:#}");
    assert_ne!(source(&after, "cycles"), source(&before, "cycles"), "{after:#}");
    let shown = estimate(&["-e", CHAIN, "--hardware", &host]).expect(0);
    shown.prints(&["declared", "as observed on", "--forget"]);
    // One with others takes what it declares.
    let other = reported(&CHAIN.replace("LENGTH 64", "LENGTH 63"), &host);
    assert_eq!(other["elements"][0]["is_observed"], false, "{other:#}");
    // A plan takes what was observed, too.
    std::fs::write(dir.path().join("chain.click"), CHAIN).unwrap();
    let plan = format!(
        "[[chain]]\nname = \"c\"\nconfiguration = \"chain.click\"\nrate = 1e3\npacket = 64\n\
         [[host]]\nname = \"edge\"\nhardware = \"{host}\"\n"
    );
    std::fs::write(dir.path().join("plan.toml"), plan).unwrap();
    let done = run(thruway().current_dir(dir.path()).args(["plan", "plan.toml", "--json"]));
    let answer: Value = serde_json::from_str(&done.expect(0).stdout).unwrap();
    let load = answer["hosts"][0]["cores"][0]["load"].as_f64().unwrap();
    let cycles = after["cycles"].as_f64().unwrap();
    assert!((load - cycles * 1e3 / 2.5e9).abs() < load / 100.0, "{answer:#} {after:#}");
    // A damaged file is an error with the remedy, which works.
    std::fs::write(&file, "version = 7").unwrap();
    let refused = estimate(&["-e", CHAIN, "--hardware", &host]);
    assert!(refused.code() == 1 && refused.stderr.contains("--forget"), "{refused:#?}");
    estimate(&["--forget", "--hardware", &host]).expect(0).prints(&["dropped: "]);
    assert_eq!(reported(CHAIN, &host), before);
}
