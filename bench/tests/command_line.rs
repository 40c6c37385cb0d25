//! The command line of `thruway-bench`.

use std::fs::File;
use std::process::{Command, Output, Stdio};

fn bench(words: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_thruway-bench"));
    command.args(words).stdin(Stdio::null());
    command
}

fn outcome(output: &Output) -> (Option<i32>, String, String) {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (output.status.code(), text(&output.stdout), text(&output.stderr))
}

#[test]
fn every_bench_is_listed_and_has_a_help() {
    let (code, suites, _) = outcome(&bench(&["--list"]).output().expect("it starts"));
    assert_eq!(code, Some(0));
    for suite in ["path", "flow", "stream"] {
        assert!(suites.contains(&format!("\n  {suite} ")), "{suites}");
        let (code, cases, _) = outcome(&bench(&[suite, "--list"]).output().expect("it starts"));
        assert_eq!((code, cases.lines().count() > 5), (Some(0), true), "{cases}");
    }
    let (_, help, _) = outcome(&bench(&["--help"]).output().expect("it starts"));
    for own in [
        "exchange", "sync", "threads", "idle", "clock", "model", "manager", "takeover", "dpdk",
        "ends", "io", "kills",
    ] {
        assert!(help.contains(&format!("\n  {own} ")), "{help}");
        let (code, own_help, _) = outcome(&bench(&[own, "--help"]).output().expect("it starts"));
        assert_eq!(code, Some(0));
        assert!(own_help.contains(&format!("Usage: thruway-bench {own}")), "{own_help}");
    }
}

#[test]
fn an_unknown_bench_or_case_is_refused_with_those_that_exist() {
    let (code, _, error) = outcome(&bench(&["pth"]).output().expect("it starts"));
    assert_eq!(code, Some(1));
    assert!(error.contains("no bench 'pth'") && error.contains("\n  path "), "{error}");
    let (code, _, error) =
        outcome(&bench(&["path", "--case", "nothing"]).output().expect("it starts"));
    assert_eq!(code, Some(1));
    assert!(error.contains("no case matches 'nothing'"), "{error}");
}

/// The smoke form: this host is calibrated in a hurry, so errors are large; that rows have an
/// estimate and a measurement of the same order is what counts.
#[test]
fn estimates_of_isolated_functions_are_held_against_what_they_take() {
    let dir = tempfile::tempdir().expect("a directory");
    let path = |name: &str| dir.path().join(name).display().to_string();
    let (host, rows) = (path("host.toml"), path("rows.json"));
    let calibrated = bench(&["calibrate", "--quick", "--out", &host]).output();
    let (code, _, error) = outcome(&calibrated.expect("it starts"));
    assert_eq!(code, Some(0), "{error}");
    let words =
        ["model", "--quick", "--case", "isolated/*/1/60", "--hardware", &host, "--rows", &rows];
    let (code, text, error) = outcome(&bench(&words).output().expect("it starts"));
    assert_eq!(code, Some(0), "{error}");
    assert!(text.contains("median error"), "{text}");
    let told = std::fs::read_to_string(&rows).expect("its rows");
    let told: serde_json::Value = serde_json::from_str(&told).expect("JSON");
    let rows = told["rows"].as_array().expect("rows");
    let names: Vec<_> = rows.iter().filter_map(|row| row["case"].as_str()).collect();
    assert_eq!(names, ["nf", "isolate", "group"].map(|mode| format!("isolated/{mode}/1/60")));
    for row in rows {
        let [estimated, measured] =
            ["estimated_cycles", "measured_cycles"].map(|it| row[it].as_f64().unwrap_or(0.0));
        assert!(measured > 0.0 && estimated > measured / 10.0, "{row}");
        assert!(estimated < measured * 10.0, "{row}");
    }
}

#[test]
fn every_recorded_report_gives_results() {
    let record = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("record");
    // The fields by which rows differ.
    let reports = [
        ("exchange-2026-11-22/exchange-5d.csv", "series,workers", "RESULT-64_B-2-MPPS "),
        ("flow-2026-11-22.json", "case", "RESULT-CHAIN_3-NS_PER_PACKET "),
        ("ends-2026-11-22.json", "load,box", "RESULT-1KB_KEPT-HAPROXY-OWN_US_0 "),
        ("io-2026-11-22.json", "case", "RESULT-KERNEL_ROUTE-MPPS_PER_CORE_0 "),
        ("model-2026-11-22.json", "case", "RESULT-MEDIAN_ERROR_PERCENT "),
        ("offload-2026-11-26.json", "case", "RESULT-HOST_1000-NS_PER_PACKET "),
        ("dpdk-2026-11-22.json", "burst,contestant", "RESULT-32-TESTPMD-MPPS "),
    ];
    for (report, by, line) in reports {
        let file = record.join(report);
        let file = file.to_str().expect("a name in UTF-8");
        let (code, lines, error) =
            outcome(&bench(&["results", file, "--by", by]).output().expect("it starts"));
        assert_eq!(code, Some(0), "{report}: {error}");
        assert!(lines.contains(line), "{report}: no '{line}' in\n{lines}");
    }
    let (code, _, error) =
        outcome(&bench(&["results", "/nonexistent"]).output().expect("it starts"));
    assert_eq!(code, Some(1));
    assert!(error.contains("/nonexistent"), "{error}");
}

#[test]
fn a_full_disk_and_a_reader_that_has_gone_are_no_panic() {
    let full = File::options().write(true).open("/dev/full").expect("it is there");
    let (code, _, error) = outcome(&bench(&["--list"]).stdout(full).output().expect("it starts"));
    assert_eq!(code, Some(1));
    assert!(error.contains("cannot write to standard output"), "{error}");
    let (reader, writer) = std::io::pipe().expect("a pipe");
    drop(reader);
    let (code, _, error) = outcome(&bench(&["--list"]).stdout(writer).output().expect("it starts"));
    assert_eq!((code, error.as_str()), (Some(0), ""));
}

/// Isolated parts of a configuration run `worker` of the program that they are started from.
#[test]
fn it_is_thruway_where_it_is_started_as_such() {
    let text = "InfiniteSource(LIMIT 10, STOP true) -> c :: Counter -> Discard";
    let (code, printed, error) =
        outcome(&bench(&["click", "-e", text, "-h", "c.count"]).output().expect("it starts"));
    assert_eq!((code, printed.as_str()), (Some(0), "10\n"), "{error}");
    let (code, _, error) = outcome(&bench(&["worker"]).output().expect("it starts"));
    assert_eq!(code, Some(1));
    assert!(error.starts_with("thruway worker: "), "{error}");
}
