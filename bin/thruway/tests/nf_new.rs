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

/// As from a program whose checkout is gone: the project has all that it needs but cargo, its
/// registry and a compiler.
#[test]
fn with_its_own_library() {
    let into = tempfile::tempdir().expect("a directory");
    let make = |name: &str, lang: &str| {
        let args = ["nf", "new", name, "--lang", lang, "--own-library"];
        let said = run(thruway(into.path()).args(args));
        assert!(said.contains("its own copy of the library"), "{said}");
        into.path().join(name)
    };
    let folder = make("own_c", "c");
    let script = fs::read_to_string(folder.join("build.sh")).expect("a script");
    assert!(!script.contains(env!("CARGO_MANIFEST_DIR")), "{script}");
    let script = script.replace("--release ", "--quiet ").replace("/release/", "/debug/");
    fs::write(folder.join("build.sh"), script).expect("a script");
    run(&mut build("./build.sh", &folder));
    // The first 500 packets of the capture.
    run(thruway(&folder).args(["run", "own_c.click"]));
    let counted = run(thruway(&folder).args(["click", "own_c.click", "-h", "nf.counters"]));
    let dropped = counted.lines().find_map(|line| line.strip_prefix("dropped "));
    assert!(dropped.is_some_and(|count| count != "0"), "{counted}");
    // In Rust cargo finds every package of the project and of the library.
    let folder = make("own-rust", "rust");
    let found = run(build(env!("CARGO"), &folder).args(["tree", "--offline"]));
    assert!(found.contains("own-rust/sdk/nf/sdk)"), "{found}");
    assert!(!found.contains("loom") && !found.contains("proptest"), "{found}");
}

/// A program that notes its arguments.
fn noting(folder: &Path, name: &str) -> PathBuf {
    use std::os::unix::fs::PermissionsExt as _;
    let (program, notes) = (folder.join(name), folder.join(format!("{name}.args")));
    let text = format!("#!/bin/sh\nprintf '%s\\n' \"$@\" >'{}'\n", notes.display());
    fs::write(&program, text).expect("a script");
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).expect("its mode");
    notes
}

#[test]
fn a_project_in_c_builds_in_its_own_folder() {
    let (into, folder) = project("own", "c");
    let (cargo, cc) = (noting(into.path(), "cargo"), noting(into.path(), "cc"));
    let path = format!("{}:{}", into.path().display(), std::env::var("PATH").unwrap_or_default());
    let mut build = Command::new("./build.sh");
    build.current_dir(&folder).env("PATH", path).env_remove("CARGO_TARGET_DIR").env_remove("CC");
    run(&mut build);
    let folder = fs::canonicalize(&folder).expect("a folder");
    let target = folder.join("target").display().to_string();
    let args = fs::read_to_string(cargo).expect("it was called");
    assert!(args.contains(&format!("--target-dir\n{target}\n")), "{args}");
    let args = fs::read_to_string(cc).expect("it was called");
    assert!(args.contains(&format!("{target}/release/libthruway_nf_c.a")), "{args}");
    // A checkout that has gone is named, with the remedy.
    let mut build = Command::new("./build.sh");
    let output = build.current_dir(&folder).env("THRUWAY", "/nowhere").output().expect("it starts");
    let said = String::from_utf8_lossy(&output.stderr);
    let remedy = "'/nowhere' is no checkout of Thruway; name one: THRUWAY=PATH ./build.sh";
    assert!(!output.status.success() && said.contains(remedy), "{said}");
}
