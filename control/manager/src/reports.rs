//! What the program `thruway` finds out about a chain that runs, or about this host.
//!
//! Each question is a process of its own: one that hangs or dies takes nobody with it, and one that
//! takes long does not hold up what the manager does.

use std::io::{Read, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::{ChainSpec, PlaneError};

/// How long a process may take. It watches a chain for a second; the rest is for a busy host.
const TIME_MAX: Duration = Duration::from_secs(15);

/// Longest answer, in bytes: a decision structure of thousands of classes.
const ANSWER_LEN_MAX: u64 = 32 << 20;

/// Between two looks at whether a process has ended.
const LOOK: Duration = Duration::from_millis(10);

/// What elements of a chain take, as predicted and as observed.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Comparison {
    /// By element, in the order of the configuration.
    pub elements: Vec<ElementComparison>,
    /// Cycles per packet of all elements, as predicted.
    pub predicted_cycles: f64,
    /// The same, as observed.
    pub observed_cycles: f64,
    /// Packets that were observed.
    pub packets: u64,
    /// Where most of the difference is, and which assumption is behind it.
    pub remark: Option<String>,
    /// Operations that the description of the host lacks, so that they are not in the prediction.
    pub unknown: Vec<String>,
}

/// What an element takes, as predicted and as observed.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct ElementComparison {
    /// Its name.
    pub element: String,
    /// Its class.
    pub class: String,
    /// Part of all packets that came to it.
    pub share: f64,
    /// Packets in a batch, on average.
    pub batch: f64,
    /// Cycles per packet, as predicted from what it did.
    pub predicted_cycles: f64,
    /// Cycles per packet, as observed; null where too few packets came.
    pub observed_cycles: Option<f64>,
}

/// What a host lacks for Thruway, or could have better.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Checkup {
    /// One for each thing that was looked at.
    pub findings: Vec<Finding>,
}

/// What was found of one thing.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Finding {
    /// What was looked at: `huge pages`.
    pub what: String,
    /// `good`, `better` (it could be), or `missing`.
    pub state: String,
    /// What was found.
    #[serde(alias = "told")]
    pub found: String,
    /// What can be done about it.
    pub remedy: Option<String>,
}

/// Compares what a chain's elements take with what was to be expected of what they do, for a
/// second. `socket` is the data plane's.
pub fn compare(program: &Path, socket: &Path) -> Result<Comparison, PlaneError> {
    let mut command = Command::new(program);
    command.args(["estimate", "--json", "--interval", "1", "--live"]).arg(socket);
    answer(&mut command, "")
}

/// What packets of a chain would cost.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Forecast {
    /// The packets that it is for: a description as `thruway estimate --traffic` takes it.
    pub traffic: String,
    /// What `thruway estimate --json` computes; null if it cannot.
    #[schema(value_type = Option<Object>)]
    pub estimate: Option<serde_json::Value>,
    /// Why there is none.
    pub reason: Option<String>,
}

/// Packets that ports receive, for an estimate: large ones, of a thousand connections.
const USUAL_TRAFFIC: &str = "[[flows]]\npacket_bytes = 512\nsessions = 1000\nsrc = \
    \"10.0.0.0/8\"\ndst = \"203.0.113.0/24\"\nprotocol = \"tcp\"\nport = 80\n";

/// Estimates what packets of a chain would cost. Its functions are started for that, as they would
/// be in the chain.
/// `state` is where the description of packets is kept.
pub fn forecast(program: &Path, state: &Path, spec: &ChainSpec) -> Forecast {
    let (estimate, reason) = match estimate(program, state, spec) {
        Ok(estimate) => (Some(estimate), None),
        Err(error) => (None, Some(error.to_string())),
    };
    Forecast { traffic: USUAL_TRAFFIC.to_owned(), estimate, reason }
}

fn estimate(
    program: &Path,
    state: &Path,
    spec: &ChainSpec,
) -> Result<serde_json::Value, PlaneError> {
    let traffic = usual_traffic(state);
    let traffic = traffic.map_err(|error| PlaneError::NoReport(error.to_string()))?;
    let mut command = Command::new(program);
    command.args(["estimate", "--json", "--traffic"]).arg(traffic);
    if let Some(threads) = spec.threads {
        command.arg(format!("--threads={threads}"));
    }
    command.args(["--", "-"]);
    command.args(spec.variables.iter().map(|(name, value)| format!("{name}={value}")));
    answer(&mut command, &spec.configuration)
}

/// A file with the description of the packets.
fn usual_traffic(state: &Path) -> std::io::Result<PathBuf> {
    let path = state.join("usual-traffic.toml");
    if std::fs::read(&path).is_ok_and(|bytes| bytes == USUAL_TRAFFIC.as_bytes()) {
        return Ok(path);
    }
    // Whoever reads it finds all of it.
    let fresh = state.join("usual-traffic.new");
    std::fs::write(&fresh, USUAL_TRAFFIC)?;
    std::fs::rename(&fresh, &path)?;
    Ok(path)
}

/// How a configuration's packets are classified, what each class meets, and which paths there are.
pub fn explain(program: &Path, configuration: &str) -> Result<serde_json::Value, PlaneError> {
    let mut command = Command::new(program);
    answer(command.args(["check", "--json", "--explain", "--paths", "-"]), configuration)
}

/// Looks at this host.
pub fn check_up(program: &Path) -> Result<Checkup, PlaneError> {
    answer(Command::new(program).args(["doctor", "--json"]), "")
}

/// Runs a command and reads its answer, which is JSON; `input` is what it is given to read.
fn answer<T: DeserializeOwned>(command: &mut Command, input: &str) -> Result<T, PlaneError> {
    let program = command.get_program().to_string_lossy().into_owned();
    let failed = |why: String| PlaneError::NoReport(format!("{program}: {why}"));
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).current_dir("/");
    let mut child = command.spawn().map_err(|error| failed(error.to_string()))?;
    if let Some(mut stdin) = child.stdin.take() {
        // One that ends before it has read all says why.
        let _ = stdin.write_all(input.as_bytes());
    }
    let streams = (child.stdout.take(), child.stderr.take());
    let (status, output, errors) = std::thread::scope(|scope| {
        let output = scope.spawn(|| text(streams.0));
        let errors = scope.spawn(|| text(streams.1));
        let status = ending(&mut child);
        (status, output.join().unwrap_or_default(), errors.join().unwrap_or_default())
    });
    if let Ok(value) = serde_json::from_str(&output) {
        return Ok(value);
    }
    Err(match status {
        Some(status) if !status.success() && !errors.trim().is_empty() => {
            PlaneError::NoReport(errors.trim().trim_start_matches("thruway: ").to_owned())
        }
        Some(status) => failed(format!("no answer that can be read; {status}")),
        None => failed(format!("no answer within {} s", TIME_MAX.as_secs())),
    })
}

/// What a stream has, up to the longest answer.
fn text(stream: Option<impl Read>) -> String {
    let mut bytes = Vec::new();
    // What was read until it failed is read.
    let _ = stream.map(|stream| stream.take(ANSWER_LEN_MAX).read_to_end(&mut bytes));
    String::from_utf8_lossy(&bytes).into_owned()
}

/// Waits for the end of a process; ends one that takes too long, and gives nothing then.
fn ending(child: &mut Child) -> Option<ExitStatus> {
    let end = Instant::now() + TIME_MAX;
    while Instant::now() < end {
        if let Ok(Some(status)) = child.try_wait() {
            return Some(status);
        }
        std::thread::sleep(LOOK);
    }
    // It may have ended by now; either way it is waited for.
    let _ = child.kill();
    let _ = child.wait();
    None
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    /// A program that does so, instead of `thruway`.
    fn program(script: &str) -> (tempfile::TempDir, std::path::PathBuf) {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("thruway");
        std::fs::write(&path, format!("#!/bin/sh\n{script}\n")).unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
        (dir, path)
    }

    #[test]
    fn an_answer_is_read_and_what_a_program_says_instead_is_given_on() {
        let (_dir, path) = program("cat >/dev/null; echo '{\"findings\": []}'; exit 1");
        assert_eq!(check_up(&path).unwrap(), Checkup { findings: Vec::new() });
        let (_dir, path) = program("cat");
        let read = explain(&path, "{\"classes\": []}").unwrap();
        assert_eq!(read, serde_json::json!({"classes": []}));
        let (_dir, path) = program("echo 'thruway: this host is not calibrated' >&2; exit 1");
        let error = compare(&path, Path::new("/nowhere")).unwrap_err().to_string();
        assert_eq!(error, "this host is not calibrated");
        let (_dir, path) = program("echo nonsense");
        let error = check_up(&path).unwrap_err().to_string();
        assert!(error.contains("no answer that can be read"), "{error}");
        let error = check_up(Path::new("/nowhere/thruway")).unwrap_err().to_string();
        assert!(error.starts_with("/nowhere/thruway: "), "{error}");
    }
}
