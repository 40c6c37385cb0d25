//! The unit for systemd is one that systemd understands. (Nothing is started here.)

use std::path::{Path, PathBuf};
use std::process::Command;

/// The unit, with this build's program.
fn unit() -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("systemd/thruway-manager.service");
    let text = std::fs::read_to_string(path).expect("the unit");
    let installed = "ExecStart=/usr/bin/thruway-manager ";
    assert!(text.contains(installed), "{text}");
    text.replace(installed, &format!("ExecStart={} ", env!("CARGO_BIN_EXE_thruway-manager")))
}

/// What systemd objects to.
fn objections(dir: &Path, text: &str) -> String {
    let path: PathBuf = dir.join("thruway-manager.service");
    std::fs::write(&path, text).expect("room");
    let output = Command::new("systemd-analyze")
        .args(["verify", "--man=no"])
        .arg(&path)
        .output()
        .expect("systemd-analyze is there: install the package systemd (./check does)");
    let printed = String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned();
    // It may object to units of the machine, too.
    printed.lines().filter(|line| line.contains("thruway")).collect::<Vec<_>>().join("\n")
}

#[test]
fn systemd_understands_the_unit() {
    let dir = tempfile::tempdir().expect("a directory");
    assert_eq!(objections(dir.path(), &unit()), "");
    // It finds what is wrong.
    for (right, wrong) in [
        ("KillMode=process", "KillMode=proces"),
        ("OOMPolicy=continue", "OOMPolcy=continue"),
        ("/thruway-manager daemon", "/thruway-nothing daemon"),
    ] {
        let damaged = unit().replace(right, wrong);
        assert_ne!(damaged, unit(), "{right}");
        assert_ne!(objections(dir.path(), &damaged), "", "{wrong}");
    }
}

/// What the manager promises needs these.
#[test]
fn the_unit_lets_data_planes_outlive_the_manager() {
    let unit = unit();
    for line in ["Type=notify", "KillMode=process", "OOMPolicy=continue", "StateDirectoryMode=0700"]
    {
        assert!(unit.lines().any(|one| one == line), "{line}");
    }
}
