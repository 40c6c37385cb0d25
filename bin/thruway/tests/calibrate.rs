//! `thruway calibrate`: measures, tells and writes; what it cannot do is said before it measures.

use std::collections::BTreeMap;
use std::process::{Command, Output};

use thruway_model::Hardware;
use thruway_model::hardware::OperationCost;

fn calibrate(args: &[&str], home: &std::path::Path) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_thruway"));
    command.arg("calibrate").args(args).env("HOME", home).env_remove("XDG_CONFIG_HOME");
    command.output().expect("it starts")
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[test]
fn a_quick_calibration_writes_the_hosts_own_file() {
    let home = tempfile::tempdir().unwrap();
    let output = calibrate(&["--quick", "--name", "bench"], home.path());
    let (told, said) = (text(&output.stdout), text(&output.stderr));
    assert!(output.status.success(), "{said}");
    let file = home.path().join(".config/thruway/hardware.toml");
    let hardware = Hardware::load(&file).unwrap();
    assert_eq!(hardware.name, "bench");
    assert!(hardware.levels.len() >= 2 && hardware.operations.contains_key("dispatch"));
    for what in ["bench: ", "DRAM", "packet-make", "not measured", "hardware.toml"] {
        assert!(told.contains(what), "no '{what}' in: {told}");
    }
    isolation_is_known(&hardware, &told);
    isolated_functions_cost_what_is_estimated(&file);
    assert!(said.contains("measuring the clock"), "{said}");
}

/// Everything of the path to isolated functions has a cost: on the thread's core, and on another
/// one where there is one.
fn isolation_is_known(hardware: &Hardware, told: &str) {
    for operation in ["ring-hop", "ring-serve", "part-serve", "group-pass", "process-turn"] {
        let of = |costs: &BTreeMap<String, OperationCost>| costs.contains_key(operation);
        assert!(of(&hardware.shared_core), "{operation}: {told}");
        assert!(hardware.cores < 2 || of(&hardware.operations), "{operation}: {told}");
    }
    let served = &hardware.shared_core["ring-serve"].each;
    assert!(served.value > 0.0, "a process takes time: {served:?}");
}

/// By far more than a quick calibration of a busy machine is off: that nothing is left out and
/// nothing is counted twice.
const OFF: f64 = 5.0;

fn isolated_functions_cost_what_is_estimated(file: &std::path::Path) {
    let program = env!("CARGO_BIN_EXE_thruway");
    let nf = format!(
        "Nf(EXEC \"{program} calibrate-function\", CONFIG keep, ISOLATION relaxed, STANDBY false)"
    );
    let source = "InfiniteSource(LENGTH 60, LIMIT -1, BURST 32)";
    let isolated = "Isolate(c, ISOLATION relaxed, STANDBY false)";
    for text in [
        format!("{source} -> {nf} -> Discard"),
        format!("{source} -> {nf} -> {nf} -> {nf} -> Discard"),
        format!("{isolated}; {source} -> c :: Counter -> Discard"),
    ] {
        let mut command = Command::new(program);
        command.args(["estimate", "--json", "--verify", "-e", &text, "--hardware"]).arg(file);
        let output = command.output().expect("it starts");
        assert!(output.status.success(), "{text}: {}", text_of(&output));
        let told: serde_json::Value = serde_json::from_slice(&output.stdout).expect("JSON");
        assert_eq!(told["unknown_operations"], serde_json::json!([]), "{told:#}");
        assert_eq!(told["remedy"], serde_json::Value::Null, "{told:#}");
        let number = |value: &serde_json::Value| value.as_f64().expect("a number");
        let pairs = [
            (number(&told["threads"][0]), number(&told["measured"]["cycles"])),
            (number(&told["process_cycles"]), number(&told["measured"]["process_cycles"])),
        ];
        for (estimated, measured) in pairs {
            assert!(
                estimated > measured / OFF && estimated < measured * OFF,
                "{text}: {estimated} estimated, {measured} measured: {told:#}"
            );
        }
    }
}

fn text_of(output: &Output) -> String {
    text(&output.stdout) + &text(&output.stderr)
}

#[test]
fn what_cannot_be_done_is_said_at_once() {
    let home = tempfile::tempdir().unwrap();
    let output = calibrate(&["--quick", "--core", "100000"], home.path());
    let said = text(&output.stderr);
    assert!(!output.status.success());
    assert!(said.contains("cannot be bound to core 100000") && said.contains("--core"), "{said}");
    assert!(!home.path().join(".config/thruway/hardware.toml").exists());
    let output = calibrate(&["--quick", "--out", "/proc/none/hardware.toml"], home.path());
    let said = text(&output.stderr);
    assert!(!output.status.success() && !said.contains("measuring"), "{said}");
    assert!(said.contains("/proc/none/hardware.toml") && said.contains("--out FILE"), "{said}");
}
