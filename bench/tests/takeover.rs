//! A short run of `thruway-bench takeover`.

use std::process::{Command, Stdio};

use serde_json::Value;

#[test]
fn connections_go_on_when_the_host_that_serves_is_killed() {
    if !rustix::process::geteuid().is_root() {
        let required = std::env::var_os("THRUWAY_REQUIRE_PRIVILEGES").is_some();
        assert!(!required, "it makes network namespaces, which needs root");
        eprintln!("SKIPPED: thruway-bench takeover: needs root");
        return;
    }
    let dir = tempfile::tempdir().expect("a directory");
    for commit in [false, true] {
        let rows = dir.path().join("rows.json");
        let mut command = Command::new(env!("CARGO_BIN_EXE_thruway-bench"));
        command.args(["takeover", "--repeats", "1", "--connections", "100", "--rate", "500"]);
        // The machine has other work: a backup that gets no processor must not take over too soon.
        command.args(["--after", "500", "--rows"]).arg(&rows).stdin(Stdio::null());
        command.args(commit.then_some("--commit"));
        let output = command.output().expect("it starts");
        assert!(output.status.success(), "{output:?}");
        let text = std::fs::read_to_string(&rows).expect("rows");
        let row: Value = serde_json::from_str(&text).expect("JSON");
        assert_eq!(row["connections_that_went_on"], 100, "{row}");
        let [detection, gap] = ["detection_ms", "gap_ms"].map(|name| row[name][0].as_f64());
        assert!(detection > Some(400.0) && gap > Some(400.0), "{row}");
    }
}
