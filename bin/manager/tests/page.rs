//! docs/manager.md: its commands are run, and print what the page shows.

use std::fs;
use std::os::unix::fs::symlink;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;
use tempfile::TempDir;

const PROGRAM: &str = env!("CARGO_BIN_EXE_thruway-manager");
const DEADLINE: Duration = Duration::from_secs(60);
/// Stands between the outputs of blocks.
const MARK: &str = "=== end of block ===";

/// Ends with the test.
struct Daemon(Child);

impl Drop for Daemon {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Kind and text of each block of the page.
fn blocks(page: &str) -> Vec<(&str, &str)> {
    let parts = page.split("```").skip(1).step_by(2);
    parts.map(|block| block.split_once('\n').expect("a kind")).collect()
}

/// Whether a text is as shown; `...` stands for any text.
fn is_shown(shown: &str, text: &str) -> bool {
    let mut parts = shown.split("...");
    let first = parts.next().unwrap_or_default();
    let Some(mut rest) = text.strip_prefix(first) else { return false };
    let mut ends = shown == first;
    for part in parts {
        let Some(at) = rest.find(part) else { return false };
        rest = &rest[at + part.len()..];
        ends = part.is_empty();
    }
    ends || rest.is_empty()
}

/// Whether values are as shown; `...` in a text stands for any text.
fn is_same(shown: &Value, value: &Value) -> bool {
    match (shown, value) {
        (Value::String(shown), Value::String(text)) => is_shown(shown, text),
        (Value::Object(shown), Value::Object(found)) => {
            shown.len() == found.len()
                && shown.iter().all(|(key, one)| found.get(key).is_some_and(|it| is_same(one, it)))
        }
        _ => shown == value,
    }
}

/// A manager that runs no chains: what it prints does not depend on when it is asked.
fn start(dir: &Path) -> Daemon {
    let mut command = Command::new(PROGRAM);
    let child = environment(command.args(["daemon", "--program", "none"]), dir)
        .stderr(Stdio::null())
        .spawn();
    let daemon = Daemon(child.expect("started"));
    let begun = Instant::now();
    while UnixStream::connect(dir.join("run/manager/api.sock")).is_err() {
        assert!(begun.elapsed() < DEADLINE, "it does not listen");
        std::thread::sleep(Duration::from_millis(5));
    }
    daemon
}

fn environment<'a>(command: &'a mut Command, dir: &Path) -> &'a mut Command {
    let path = format!("{}:{}", dir.join("bin").display(), std::env::var("PATH").expect("a path"));
    command
        .env("PATH", path)
        .env("THRUWAY_RUN_DIR", dir.join("run"))
        .env("THRUWAY_STATE_DIR", dir.join("state"))
        .current_dir(dir)
}

#[test]
fn commands_of_the_page_print_what_it_shows() {
    let dir = TempDir::new().expect("a directory");
    fs::create_dir(dir.path().join("bin")).expect("made");
    // The first is what `thruway` becomes when it is given these commands.
    for name in ["thruway", "thruway-manager"] {
        symlink(PROGRAM, dir.path().join("bin").join(name)).expect("a link");
    }
    let _daemon = start(dir.path());
    let page = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/manager.md");
    let page = fs::read_to_string(page).expect("the page");
    let blocks = blocks(&page);
    let (mut script, mut shown) = (String::from("set -e\n"), Vec::new());
    for (at, (kind, text)) in blocks.iter().enumerate() {
        if *kind != "sh" || text.starts_with("cargo ") {
            continue;
        }
        // The one that runs stands for it: it listens already.
        script += &text.replace("thruway daemon &\n", "");
        script += &format!("\necho; echo '{MARK}'\n");
        shown.push(blocks.get(at + 1).filter(|(kind, _)| *kind != "sh"));
    }
    let mut bash = Command::new("bash");
    let output = environment(bash.arg("-c").arg(&script), dir.path()).output().expect("bash");
    assert!(output.status.success(), "{output:?}");
    let printed = String::from_utf8(output.stdout).expect("text");
    let printed: Vec<&str> = printed.split(MARK).collect();
    assert_eq!(printed.len(), shown.len() + 1);
    let mut compared = 0;
    for (shown, text) in shown.into_iter().zip(printed) {
        let Some((kind, shown)) = shown else { continue };
        let same = match *kind {
            "json" => {
                let value = |text: &str| serde_json::from_str(text.trim()).expect("JSON");
                is_same(&value(shown), &value(text))
            }
            _ => is_shown(shown.trim(), text.trim()),
        };
        assert!(same, "the page shows\n{shown}\nbut it is\n{text}");
        compared += 1;
    }
    assert!(compared >= 5, "{compared} outputs: is the page read?");
}
