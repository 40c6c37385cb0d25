//! Runs one golden test in a directory of its own.

use std::fs::{self, File};
use std::os::unix::fs::symlink;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use crate::compare;
use crate::parse::Test;

/// How long a script may take.
const LIMIT: Duration = Duration::from_secs(120);
/// Lines of output shown of a test that failed.
const SHOWN: usize = 40;

/// How a test ended.
pub enum Outcome {
    Passed,
    /// Its `%require` did not hold.
    Skipped(String),
    /// Why, in several lines.
    Failed(String),
}

/// Runs `test` with a command `click` that is `program`.
pub fn run(test: &Test, program: &Path) -> Outcome {
    if !test.problems.is_empty() {
        return Outcome::Failed(test.problems.join("\n"));
    }
    match try_run(test, program) {
        Ok(outcome) => outcome,
        Err(error) => Outcome::Failed(format!("cannot run: {error}")),
    }
}

fn try_run(test: &Test, program: &Path) -> std::io::Result<Outcome> {
    let outer = tempfile::tempdir()?;
    let (bin, dir) = (outer.path().join("bin"), outer.path().join("test"));
    fs::create_dir(&bin)?;
    fs::create_dir(&dir)?;
    symlink(program, bin.join("click"))?;
    symlink(program, bin.join("thruway"))?;
    if !test.require.trim().is_empty() {
        let status = shell(&test.require, &dir, &bin)?;
        if !status.is_some_and(|status| status.success()) {
            return Ok(Outcome::Skipped(test.require.trim().replace('\n', "; ")));
        }
    }
    for (name, text) in &test.files {
        let Some(path) = inside(&dir, name) else {
            return Ok(Outcome::Failed(format!("%file {name}: outside of the test's directory")));
        };
        fs::create_dir_all(path.parent().unwrap_or(&dir))?;
        fs::write(path, text)?;
    }
    let status = shell(&test.script, &dir, &bin)?;
    Ok(judge(test, &dir, status))
}

/// The path of a test's file; `None` for one that would lie elsewhere.
fn inside(dir: &Path, name: &str) -> Option<std::path::PathBuf> {
    let plain = |part| matches!(part, std::path::Component::Normal(_));
    Path::new(name).components().all(plain).then(|| dir.join(name))
}

/// Runs a script; `None` if it had to be killed.
fn shell(script: &str, dir: &Path, bin: &Path) -> std::io::Result<Option<ExitStatus>> {
    fs::write(dir.join("%script"), script)?;
    let stdin = match File::open(dir.join("stdin")) {
        Ok(file) => Stdio::from(file),
        Err(_) => Stdio::null(),
    };
    let path = std::env::var("PATH").unwrap_or_default();
    let child = Command::new("/bin/sh")
        .args(["-e", "./%script"])
        .current_dir(dir)
        .env("PATH", format!("{}:{path}", bin.display()))
        .env("LC_ALL", "C")
        .env("rundir", "..")
        .stdin(stdin)
        .stdout(File::create(dir.join("stdout"))?)
        .stderr(File::create(dir.join("stderr"))?)
        .process_group(0)
        .spawn()?;
    let group = i32::try_from(child.id()).ok().and_then(rustix::process::Pid::from_raw);
    let status = wait(child);
    // What the script left behind goes with its group; an error means that nothing was left.
    if let Some(group) = group {
        rustix::process::kill_process_group(group, rustix::process::Signal::KILL).ok();
    }
    status
}

fn wait(mut child: Child) -> std::io::Result<Option<ExitStatus>> {
    let end = Instant::now() + LIMIT;
    let mut pause = Duration::from_millis(1);
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok(Some(status));
        }
        if Instant::now() >= end {
            child.kill()?;
            child.wait()?;
            return Ok(None);
        }
        std::thread::sleep(pause);
        pause = (pause * 2).min(Duration::from_millis(20));
    }
}

fn judge(test: &Test, dir: &Path, status: Option<ExitStatus>) -> Outcome {
    let shown = |file: &str| {
        let text = fs::read(dir.join(file)).unwrap_or_default();
        let text = String::from_utf8_lossy(&text).into_owned();
        let lines: Vec<String> =
            text.lines().take(SHOWN).map(|line| format!("  | {line}")).collect();
        format!("{file} was:\n{}", lines.join("\n"))
    };
    match status {
        None => return Outcome::Failed(format!("took over {LIMIT:?}\n{}", shown("stderr"))),
        Some(status) if !status.success() => {
            let line = test.line;
            return Outcome::Failed(format!(
                "script (test at line {line}) failed: {status}\n{}\n{}",
                shown("stderr"),
                shown("stdout")
            ));
        }
        Some(_) => {}
    }
    let mut failures = Vec::new();
    let mut files: Vec<&str> = test.expects.iter().map(|expect| expect.file.as_str()).collect();
    files.sort_unstable();
    files.dedup();
    for file in files {
        let result = match fs::read(dir.join(file)) {
            Ok(text) => compare::check(test, file, &text)
                .map(|()| "")
                .map_err(|(line, why)| format!("line {line}: {file}: {why}\n{}", shown(file))),
            Err(error) => Err(format!("{file}: {error}")),
        };
        failures.extend(result.err());
    }
    if failures.is_empty() { Outcome::Passed } else { Outcome::Failed(failures.join("\n")) }
}
