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
