//! `thruway nf new`: the projects that it makes build, pass their tests and run.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use tempfile::TempDir;

/// Runs a command, and gives what it wrote to its output.
fn run(command: &mut Command) -> String {
    let output = command.output().expect("it starts");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{command:?}: {said}");
    assert!(!said.contains("warning"), "{command:?}: {said}");
    String::from_utf8(output.stdout).expect("text")
}

/// The build directory of this test: hardly anything is compiled twice.
fn target() -> PathBuf {
    let me = std::env::current_exe().expect("a path");
    // target/PROFILE/deps/this
    me.ancestors().nth(3).expect("a build directory").to_owned()
}

/// A command that builds something, with the profile of this test.
fn build(program: &str, folder: &Path) -> Command {
    let mut command = Command::new(program);
    command.current_dir(folder).env("CARGO_NET_OFFLINE", "true");
    command.env("CARGO_TARGET_DIR", target()).env("CARGO_PROFILE_DEV_DEBUG", "0");
    let rustc = Path::new(env!("CARGO")).with_file_name("rustc");
    if rustc.exists() {
        // Under sudo there may be none in the search path.
        command.env("RUSTC", rustc);
    }
    command
}

fn thruway(folder: &Path) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_thruway"));
    command.current_dir(folder);
    command
}

fn project(name: &str, lang: &str) -> (TempDir, PathBuf) {
    let into = tempfile::tempdir().expect("a directory");
    let said = run(thruway(into.path()).args(["nf", "new", name, "--lang", lang]));
    assert!(said.contains("thruway run") && said.contains("is built against"), "{said}");
    let folder = into.path().join(name);
    (into, folder)
}

/// The bundled capture goes through the function: what it dropped is missing from the output.
fn goes_through(folder: &Path, name: &str) {
    let click = format!("{name}.click");
    run(thruway(folder).args(["run", &click]));
    let counted = run(thruway(folder).args(["click", &click, "-h", "nf.counters"]));
    assert!(counted.contains("dropped 925"), "{counted}");
    // Of 10,182 frames with 2,589,958 bytes, those of at most 1,000 bytes, a head of 16 before
    // each and one of 24 before all.
    let len = fs::metadata(folder.join("out.pcap")).expect("a capture").len();
    assert_eq!(len, 24 + 9257 * 16 + 1_226_027);
}

#[test]
fn in_rust() {
    let (_into, folder) = project("short-only", "rust");
    run(build(env!("CARGO"), &folder).args(["test", "--quiet"]));
    run(build(env!("CARGO"), &folder).args(["build", "--quiet"]));
    let lock = fs::read_to_string(folder.join("Cargo.lock")).expect("a lock file");
    assert!(lock.contains("name = \"short-only\""));
    assert!(!lock.contains("name = \"clap\""), "what is not needed is left out");
    // An optimized build takes a minute; the path is that of one.
    fs::create_dir_all(folder.join("target/release")).expect("a directory");
    let program = target().join("debug/short-only");
    fs::copy(program, folder.join("target/release/short-only")).expect("the program");
    goes_through(&folder, "short-only");
}

#[test]
fn in_c() {
    let (_into, folder) = project("short_only", "c");
    let script = fs::read_to_string(folder.join("build.sh")).expect("a script");
    let script = script.replace("--release ", "--quiet ").replace("/release/", "/debug/");
    fs::write(folder.join("build.sh"), script.replace(" -Wall", " -Werror -Wall"))
        .expect("a script");
    run(&mut build("./build.sh", &folder));
    goes_through(&folder, "short_only");
}
