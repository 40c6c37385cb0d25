//! `thruway calibrate`: measures, tells and writes; what it cannot do is said before it measures.

use std::process::{Command, Output};

use thruway_model::Hardware;

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
    assert!(said.contains("measuring the clock"), "{said}");
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
