//! A short run of `thruway-bench manager`, with a real manager and a real data plane.

use std::process::{Command, Stdio};

use serde_json::Value;

#[test]
fn answers_and_rates_are_measured_and_no_data_plane_stays() {
    let dir = tempfile::tempdir().expect("a directory");
    let rows = dir.path().join("rows.json");
    let mut command = Command::new(env!("CARGO_BIN_EXE_thruway-bench"));
    command.args([
        "manager",
        "--elements",
        "50",
        "--chains",
        "3",
        "--rounds",
        "2",
        "--time",
        "200",
    ]);
    command.arg("--rows").arg(&rows).env("TMPDIR", dir.path()).stdin(Stdio::null());
    let output = command.output().expect("it starts");
    assert!(output.status.success(), "{output:?}");
    let text = std::fs::read_to_string(rows).expect("rows");
    let row: Value = serde_json::from_str(&text).expect("JSON");
    let first = |field: &str| row[field][0].as_f64().expect("a number");
    for field in ["scrape_ms_p50_p99_max", "read_ms_p50_p99_max", "list_ms_p50_p99_max"] {
        assert!(first(field) > 0.0, "{field}: {row}");
    }
    for rates in row["mpps_without_with"].as_array().expect("rounds") {
        let rates = rates.as_array().expect("two rates");
        assert!(rates.iter().all(|rate| rate.as_f64() > Some(0.0)), "{row}");
    }
    // The 50 elements are in a scrape, all by their number alone.
    assert!(row["scrape_bytes"].as_u64() > Some(1000), "{row}");
    // Whatever it started had its directory.
    let mine = dir.path().display().to_string();
    for entry in std::fs::read_dir("/proc").expect("proc").flatten() {
        let line = std::fs::read(entry.path().join("cmdline")).unwrap_or_default();
        let line = String::from_utf8_lossy(&line).into_owned();
        assert!(!line.contains(&mine), "{line}");
    }
}
