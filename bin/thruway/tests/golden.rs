//! Runs the golden tests: every `*.clicktest` beside an element, and those in `tests` folders.
//!
//! `THRUWAY_CLICKTEST_DIR=DIR` runs the `.clicktest` and `.testie` files under DIR too (Click's own
//! published ones run unchanged); `THRUWAY_GOLDEN=TEXT` runs only files whose path contains TEXT.
#![forbid(unsafe_code)]

#[path = "golden/compare.rs"]
mod compare;
#[path = "golden/parse.rs"]
mod parse;
#[path = "golden/run.rs"]
mod run;

use std::path::{Path, PathBuf};

use parking_lot::Mutex;
use run::Outcome;

/// Scripts run at once.
const THREADS: usize = 2;

/// All test files under `dir`, sorted.
fn find(dir: &Path, extensions: &[&str], found: &mut Vec<PathBuf>) {
    let Ok(entries) = std::fs::read_dir(dir) else { return };
    let mut paths: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).collect();
    paths.sort();
    for path in paths {
        let extension = path.extension().and_then(|extension| extension.to_str());
        if path.is_dir() {
            find(&path, extensions, found);
        } else if extension.is_some_and(|extension| extensions.contains(&extension)) {
            found.push(path);
        }
    }
}

fn files() -> Vec<PathBuf> {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let root = here.join("../..");
    let mut files = Vec::new();
    for dir in ["dataplane/elements", "bin/thruway/tests", "tests"] {
        find(&root.join(dir), &["clicktest"], &mut files);
    }
    if let Some(dir) = std::env::var_os("THRUWAY_CLICKTEST_DIR") {
        find(Path::new(&dir), &["clicktest", "testie"], &mut files);
    }
    if let Ok(part) = std::env::var("THRUWAY_GOLDEN") {
        files.retain(|file| file.to_string_lossy().contains(&part));
    }
    files
}

/// Tests passed, and what there is to say of the others.
#[derive(Default)]
struct Report {
    passed: usize,
    skipped: Vec<String>,
    failed: Vec<String>,
}

fn run_file(file: &Path, report: &Mutex<Report>) {
    let testie = file.extension().is_some_and(|extension| extension == "testie");
    let name = std::fs::canonicalize(file).unwrap_or(file.to_owned()).display().to_string();
    let tests = match std::fs::read(file) {
        Ok(text) => parse::parse(&text, testie),
        Err(error) => {
            report.lock().failed.push(format!("{name}: {error}"));
            return;
        }
    };
    if tests.is_empty() {
        report.lock().failed.push(format!("{name}: holds no test (no %script)"));
    }
    for test in tests {
        let outcome = run::run(&test, Path::new(env!("CARGO_BIN_EXE_thruway")));
        let mut report = report.lock();
        match outcome {
            Outcome::Passed => report.passed += 1,
            Outcome::Skipped(why) => report.skipped.push(format!("{name}: needs: {why}")),
            Outcome::Failed(why) => report.failed.push(format!("{name}: {why}")),
        }
    }
}

#[test]
fn golden() {
    let queue = Mutex::new(files().into_iter());
    let report = Mutex::new(Report::default());
    std::thread::scope(|scope| {
        for _ in 0..THREADS {
            scope.spawn(|| {
                loop {
                    let Some(file) = queue.lock().next() else { return };
                    run_file(&file, &report);
                }
            });
        }
    });
    let Report { passed, skipped, mut failed } = report.into_inner();
    failed.sort();
    println!("golden tests: {passed} passed, {} failed, {} skipped", failed.len(), skipped.len());
    skipped.iter().for_each(|line| println!("skipped: {line}"));
    assert!(passed + failed.len() + skipped.len() > 0, "no golden test was found");
    assert!(failed.is_empty(), "{} failed:\n\n{}\n", failed.len(), failed.join("\n\n"));
}
