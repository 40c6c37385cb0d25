//! A manager on the host, and its chain.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

use crate::runtime::{PROGRAM, Runtime};
use crate::wait_for;

/// Another program of the workspace, beside the plugin.
fn beside(name: &str) -> PathBuf {
    let program = Path::new(PROGRAM).with_file_name(name);
    assert!(program.exists(), "there is no {}: build the workspace", program.display());
    program
}

/// A manager; its data planes end with it.
pub struct Manager {
    child: Child,
    dir: PathBuf,
}

impl Manager {
    /// Starts one on the host.
    pub fn start(runtime: &Runtime) -> Manager {
        beside("thruway");
        let dir = runtime.dir.path().join("manager");
        fs::create_dir(&dir).expect("a directory");
        let program = beside("thruway-manager");
        let mut command = runtime.host.command(program.to_str().expect("text"));
        command.args(["daemon", "--state"]).arg(dir.join("state"));
        command.arg("--socket").arg(dir.join("run/api.sock"));
        let log = fs::File::create(dir.join("log")).expect("a file");
        let child = command.stderr(log).stdout(Stdio::null()).spawn().expect("started");
        let manager = Manager { child, dir };
        wait_for("the manager", || manager.socket().exists().then_some(()));
        manager
    }

    /// Its socket.
    pub fn socket(&self) -> PathBuf {
        self.dir.join("run/api.sock")
    }

    /// Runs a command of it; what it printed, or said.
    pub fn ask(&self, args: &[&str]) -> String {
        let mut command = Command::new(beside("thruway-manager"));
        let output = command.args(args).arg("--socket").arg(self.socket()).output().expect("run");
        String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned()
    }

    /// Declares the chain `edge`.
    pub fn declare(&self, configuration: &str) {
        self.apply("edge", json!({"configuration": configuration}));
    }

    /// Declares a chain.
    #[track_caller]
    pub fn apply(&self, name: &str, spec: Value) {
        let file = self.dir.join("chain.json");
        fs::write(&file, json!({"chains": {name: spec}}).to_string()).expect("written");
        let printed = self.ask(&["apply", file.to_str().expect("text")]);
        assert!(printed.contains(&format!("chain/{name}")), "{printed}");
    }

    /// Waits until the chain `edge` runs its generation.
    #[track_caller]
    pub fn wait_running(&self, generation: u64) -> u64 {
        wait_for("the chain", || {
            let text = self.ask(&["get", "edge", "--output", "json"]);
            let chain: Value = serde_json::from_str(&text).ok()?;
            let chain = chain.as_array().map_or(&chain, |all| &all[0]);
            let status = &chain["status"];
            let conditions = status["conditions"].as_array()?;
            let holds =
                |kind| conditions.iter().any(|one| one["kind"] == kind && one["holds"] == true);
            let now = status["observed_generation"] == generation;
            if now && holds("Ready") && holds("UpToDate") { status["pid"].as_u64() } else { None }
        })
    }

    /// Processes of its data planes.
    fn planes(&self) -> Vec<Pid> {
        let state = self.dir.join("state/chains").display().to_string();
        let entries = fs::read_dir("/proc").expect("a system").flatten();
        let pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok());
        let of_it = pids.filter(|pid| {
            let line = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
            let line = String::from_utf8_lossy(&line).into_owned();
            line.contains("\0run\0") && line.contains(&state)
        });
        of_it.filter_map(Pid::from_raw).collect()
    }
}

/// Kills a process that this test started.
pub fn kill(pid: u64) {
    let pid = i32::try_from(pid).ok().and_then(Pid::from_raw).expect("a process");
    kill_process(pid, Signal::KILL).expect("it runs");
}

impl Drop for Manager {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        for pid in self.planes() {
            let _ = kill_process(pid, Signal::KILL);
        }
        if std::thread::panicking() {
            eprintln!("{}", fs::read_to_string(self.dir.join("log")).unwrap_or_default());
        }
    }
}
