//! `thruway-bench kills` in short: nothing is lost but what the function had, and sessions go on.

use std::process::{Command, Stdio};

use serde_json::Value;

/// Kills; more than are restarted at once whatever happens (`nf/host`, Backoff).
const KILLS: u64 = 50;
/// Half of them are over after so long, milliseconds, in a debug build, without what threads waited
/// for a processor that others had; a start without a process that stands by takes longer.
const MEDIAN_MS: f64 = 25.0;
/// The function may be without a processor for half a minute: so long packets find room, none is
/// given up, and it is not taken for one that hangs.
const PATIENCE: [&str; 4] = ["--slots", "32768", "--nf", "HOLD 1min, HANG 1min"];

#[test]
fn a_function_that_is_killed_again_and_again_is_back_each_time() {
    let dir = tempfile::tempdir().expect("a directory");
    let file = dir.path().join("rows.json");
    let kills = KILLS.to_string();
    let options = ["--kills", &kills, "--rate", "1000", "--sessions", "500", "--pause", "200"];
    let mut bench = Command::new(env!("CARGO_BIN_EXE_thruway-bench"));
    bench.arg("kills").args(options).args(PATIENCE).arg("--json").arg(&file).stdin(Stdio::null());
    let output = bench.output().expect("it starts");
    let (stdout, stderr) = (&output.stdout, &output.stderr);
    let printed = [stdout, stderr].map(|bytes| String::from_utf8_lossy(bytes).into_owned());
    assert!(output.status.success() && !printed[1].contains("panicked"), "{printed:?}");
    let text = std::fs::read_to_string(&file).expect("rows");
    let rows: Value = serde_json::from_str(&text).expect("JSON");
    let number = |name: &str| rows[name].as_u64().expect("a number");
    let all = rows["back_ms"].as_array().expect("a row for each kill");
    assert_eq!(all.len() as u64, KILLS);
    let points = &rows["own_ms_p50_p90_p99_max"];
    println!("back after ms, and without waits: {}, {points}", rows["back_ms_p50_p90_p99_max"]);
    // What it had in its slots, each time, and nothing else.
    let (made, back, lost) =
        (number("packets_made"), number("packets_back"), number("lost_in_slots"));
    assert_eq!(number("lost_otherwise"), 0, "{rows}");
    assert!(number("lost_in_slots_max") <= number("slots"), "{rows}");
    assert_eq!(made, back + lost, "{rows}");
    assert_eq!(rows["sessions_before_after"], serde_json::json!([500, 500]));
    assert_eq!(number("sessions_forgotten"), 0, "{rows}");
    assert!(points[0].as_f64().expect("a time") < MEDIAN_MS, "{rows}");
}
