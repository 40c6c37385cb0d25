//! The storm, briefly. `cargo run --release -p thruway-hostile -- storm` runs it for long.

use std::path::Path;

#[test]
fn a_hostile_worker_harms_nobody() {
    let program = Path::new(env!("CARGO_BIN_EXE_thruway-hostile"));
    let report = thruway_hostile::storm::storm(program, 150_000).expect("both start");
    println!("{report}");
    assert!(report.neighbour > 1_000, "the neighbour went on: {report}");
    assert!(report.returned > 0 && report.restarts > 0, "it came back each time: {report}");
    assert!(report.faults.values().sum::<u64>() > 0, "it lied: {report}");
}
