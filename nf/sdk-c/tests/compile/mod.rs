//! Programs in C and C++, compiled as their authors do.
#![allow(dead_code, reason = "not every test uses every compiler")]

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

use tempfile::TempDir;

/// The repository.
pub const ROOT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");
/// Compilers.
pub const C: &[&str] = &["gcc", "-std=c11"];
/// See `C`.
pub const CPP: &[&str] = &["g++", "-std=c++11", "-x", "c++"];

/// The static library, built as its user would.
fn library() -> &'static Path {
    static LIBRARY: OnceLock<PathBuf> = OnceLock::new();
    LIBRARY.get_or_init(|| {
        let me = std::env::current_exe().unwrap();
        // target/PROFILE/deps/this
        let target = me.ancestors().nth(3).unwrap();
        let mut cargo = Command::new(env!("CARGO"));
        cargo.args(["build", "--quiet", "--offline", "-p", "thruway-nf-c", "--target-dir"]);
        cargo.arg(target).current_dir(ROOT);
        let rustc = Path::new(env!("CARGO")).with_file_name("rustc");
        if rustc.exists() {
            // Under sudo there may be none in the search path.
            cargo.env("RUSTC", rustc);
        }
        assert!(cargo.status().unwrap().success(), "the static library is not built");
        target.join("debug/libthruway_nf_c.a")
    })
}

/// A program of one source, without a single warning.
pub fn compile(compiler: &[&str], source: impl AsRef<Path>) -> (TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let program = folder.path().join("function");
    let (name, options) = compiler.split_first().unwrap();
    let mut command = Command::new(name);
    command.args(options).args(["-Wall", "-Wextra", "-Wpedantic", "-Werror", "-O2", "-I"]);
    command.arg(format!("{ROOT}/nf/sdk-c/include")).arg(Path::new(ROOT).join(source));
    command.args(["-x", "none"]).arg(library()).arg("-o").arg(&program);
    let output = command.output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    (folder, program)
}
