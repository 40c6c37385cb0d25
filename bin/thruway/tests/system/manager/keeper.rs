//! A manager in a process of its own, which a test may kill: a copy of the test program.

use std::collections::BTreeMap;
use std::io::{BufRead as _, BufReader, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::mpsc::channel;

use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};
use tempfile::TempDir;
use thruway_manager::planes::{Supervisor, SupervisorConfig};
use thruway_manager::{
    Asked, ChainSpec, ChainStatus, DataPlanes as _, FunctionName, FunctionSpec, Run,
};

use crate::network::Namespace;
use crate::process::{LIMIT, wait_for};

/// What marks the word that names the state: as an option of the test harness it does nothing.
const MARK: &str = "state=";
/// What every answer begins with; the test harness prints lines of its own.
const ANSWER: &str = "@ ";

/// Not a test of its own: where a copy of this program becomes the manager.
#[test]
fn keeps_chains() {
    let state = std::env::args().find_map(|word| word.strip_prefix(MARK).map(str::to_owned));
    if let Some(state) = state {
        keep(&state);
        std::process::exit(0);
    }
}

/// Chains that are asked for, with their generations.
type AskedFor = BTreeMap<String, (u64, ChainSpec)>;
/// Functions that are declared.
type Functions = BTreeMap<FunctionName, FunctionSpec>;

/// The functions that a chain uses.
fn used(spec: &ChainSpec, functions: &Functions) -> Functions {
    let names = spec.functions.values().map(|used| &used.name);
    names.map(|name| (name.clone(), functions[name].clone())).collect()
}

/// Answers each line of standard input with one: an object of chains to converge to, or a word.
fn keep(state: &str) {
    let (sender, events) = channel();
    let config = SupervisorConfig::new(state, env!("CARGO_BIN_EXE_thruway"));
    let supervisor = Supervisor::start(config, sender).expect("a free state");
    println!("\n{ANSWER}begins");
    let mut names: Vec<String> = Vec::new();
    for line in std::io::stdin().lines() {
        let answer = match line.expect("text").as_str() {
            "status" => {
                let status = names.iter().map(|name| (name.clone(), supervisor.status(name)));
                json!(status.collect::<BTreeMap<_, _>>())
            }
            "unknown" => {
                json!(supervisor.unknown().iter().map(|one| one.pid).collect::<Vec<_>>())
            }
            "events" => json!(events.try_iter().collect::<Vec<_>>()),
            text => {
                let (asked, functions): (AskedFor, Functions) =
                    serde_json::from_str(text).expect("chains and functions");
                names = asked.keys().cloned().collect();
                let asked = asked.into_iter();
                let asked = asked.map(|(name, (generation, spec))| Asked {
                    name,
                    generation,
                    run: Run { functions: used(&spec, &functions), spec, ..Run::default() },
                });
                supervisor.converge(asked.collect());
                Value::Null
            }
        };
        println!("{ANSWER}{answer}");
    }
}

/// A manager that runs.
pub struct Keeper {
    child: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
}

impl Keeper {
    fn start(mut command: Command, state: &Path) -> Keeper {
        let test = "manager::keeper::keeps_chains";
        let options = ["--exact", "--nocapture", "--test-threads=1", "--skip"];
        command.arg(test).args(options).arg(format!("{MARK}{}", state.display()));
        let child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn();
        let mut child = child.expect("this program runs again");
        let input = child.stdin.take().expect("a pipe");
        let output = BufReader::new(child.stdout.take().expect("a pipe"));
        Keeper { child, input, output }
    }

    /// Says a line, and waits for no answer.
    pub fn send(&mut self, line: &str) {
        writeln!(self.input, "{line}").expect("it listens");
    }

    /// The next answer.
    #[track_caller]
    pub fn answer(&mut self) -> Value {
        let mut line = String::new();
        loop {
            line.clear();
            let len = self.output.read_line(&mut line).expect("text");
            assert!(len > 0, "the manager ended");
            if let Some(answer) = line.strip_prefix(ANSWER) {
                return serde_json::from_str(answer).unwrap_or(Value::Null);
            }
        }
    }

    /// Kills it as `kill -9` does.
    pub fn kill(mut self) {
        self.child.kill().expect("a child");
        self.child.wait().expect("a child");
    }

    /// Its process id.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }
}

/// A specification.
pub fn spec(configuration: impl Into<String>) -> ChainSpec {
    ChainSpec { configuration: configuration.into(), ..ChainSpec::default() }
}

/// Chains that are asked for, and their manager.
pub struct Lab {
    pub dir: TempDir,
    keeper: Option<Keeper>,
    asked: AskedFor,
    /// Functions that chains use.
    pub functions: Functions,
}

impl Lab {
    /// With a manager in this namespace, if one is given.
    pub fn new(place: Option<&Namespace>) -> Lab {
        let dir = tempfile::tempdir().expect("a directory");
        let mut lab =
            Lab { dir, keeper: None, asked: AskedFor::new(), functions: Functions::new() };
        lab.begin(place);
        lab.keeper().answer();
        lab
    }

    /// Starts a manager, and does not wait for it.
    pub fn begin(&mut self, place: Option<&Namespace>) {
        let program = std::env::current_exe().expect("a program");
        let command = match place {
            Some(place) => place.command(program.to_str().expect("plain text")),
            None => Command::new(program),
        };
        self.keeper = Some(Keeper::start(command, &self.dir.path().join("state")));
    }

    pub fn keeper(&mut self) -> &mut Keeper {
        self.keeper.as_mut().expect("it was started")
    }

    /// Kills the manager.
    pub fn kill(&mut self) {
        self.keeper.take().expect("it was started").kill();
    }

    /// Asks for a chain beside those that were asked for; a changed one is of the next generation.
    pub fn set(&mut self, name: &str, spec: ChainSpec) {
        let generation = self.asked.get(name).map_or(0, |(generation, _)| *generation);
        self.asked.insert(name.to_owned(), (generation + 1, spec));
    }

    /// Asks for a chain no more.
    pub fn unset(&mut self, name: &str) {
        self.asked.remove(name);
    }

    /// Shows the manager what is asked for; it may be killed meanwhile.
    pub fn declare(&mut self) {
        let line = json!((&self.asked, &self.functions)).to_string();
        self.keeper().send(&line);
    }

    /// The same, and waits for its word.
    pub fn converge(&mut self) {
        self.declare();
        self.keeper().answer();
    }

    /// The status of a chain.
    pub fn status(&mut self, name: &str) -> ChainStatus {
        self.keeper().send("status");
        let all = self.keeper().answer();
        serde_json::from_value(all[name].clone()).unwrap_or_default()
    }

    /// Unknown processes.
    pub fn unknown(&mut self) -> Vec<u64> {
        self.keeper().send("unknown");
        let pids = self.keeper().answer();
        pids.as_array().expect("a list").iter().filter_map(Value::as_u64).collect()
    }

    /// What happened since the last call, as `CHAIN REASON`.
    pub fn events(&mut self) -> Vec<String> {
        self.events_with_messages().into_iter().map(|(what, _)| what).collect()
    }

    /// The same, each with its message.
    pub fn events_with_messages(&mut self) -> Vec<(String, String)> {
        self.keeper().send("events");
        let events = self.keeper().answer();
        let text = |event: &Value, name: &str| event[name].as_str().unwrap_or("").to_owned();
        let event = |one: &Value| {
            (format!("{} {}", text(one, "chain"), text(one, "reason")), text(one, "message"))
        };
        events.as_array().expect("a list").iter().map(event).collect()
    }

    /// The condition of a kind: whether it holds, its reason and its message.
    pub fn condition(&mut self, name: &str, kind: &str) -> (bool, String, String) {
        let status = self.status(name);
        let found = status.conditions.into_iter().find(|one| format!("{:?}", one.kind) == kind);
        found.map_or_else(Default::default, |one| (one.holds, one.reason, one.message))
    }

    /// Waits until a condition has this reason; its message.
    #[track_caller]
    pub fn wait_reason(&mut self, name: &str, kind: &str, reason: &str) -> String {
        let mut last = String::new();
        let begin = std::time::Instant::now();
        loop {
            let (_, now, message) = self.condition(name, kind);
            if now == reason {
                return message;
            }
            last.replace_range(.., &format!("{now}: {message}"));
            assert!(begin.elapsed() < LIMIT, "{name} never was {reason}, but {last}");
            std::thread::sleep(std::time::Duration::from_millis(5));
        }
    }

    /// Waits until a chain answers and runs what is asked for; its process.
    #[track_caller]
    pub fn is_up(&mut self, name: &str) -> u32 {
        wait_for("the chain", || {
            let status = self.status(name);
            let asked = self.asked.get(name).map_or(0, |(generation, _)| *generation);
            let all = status.conditions.len() == 2 && status.conditions.iter().all(|one| one.holds);
            let now = all && status.observed_generation == asked;
            if now { status.pid } else { None }
        })
    }

    /// The control socket of a chain.
    pub fn socket(&self, name: &str) -> PathBuf {
        self.dir.path().join("state/chains").join(name).join("control.sock")
    }

    /// Processes of data planes below this state, found without the manager.
    pub fn processes(&self) -> Vec<u32> {
        self.processes_of("")
    }

    /// Those of one chain.
    pub fn processes_of(&self, name: &str) -> Vec<u32> {
        processes_below(&self.dir.path().join("state/chains").join(name))
    }
}

/// Processes of data planes whose files are below a directory.
pub fn processes_below(state: &Path) -> Vec<u32> {
    let state = state.display().to_string();
    let entries = std::fs::read_dir("/proc").expect("a system").flatten();
    let pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    pids.filter(|pid| {
        let line = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        let line = String::from_utf8_lossy(&line).into_owned();
        line.contains("\0run\0") && line.contains(&state)
    })
    .collect()
}

impl Drop for Lab {
    /// No process stays.
    fn drop(&mut self) {
        if let Some(keeper) = self.keeper.take() {
            keeper.kill();
        }
        self.processes().into_iter().for_each(|pid| signal(pid, Signal::KILL));
    }
}

/// Sends a signal to a process that this test started; it may have ended.
pub fn signal(pid: u32, signal: Signal) {
    let pid = i32::try_from(pid).ok().and_then(Pid::from_raw).expect("a process id");
    let _ = kill_process(pid, signal);
}
