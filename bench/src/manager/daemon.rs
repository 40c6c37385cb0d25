//! A manager with a directory of its own, and its API over the socket there.

use std::io::{Read as _, Write as _};
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail};
use serde_json::Value;
use tempfile::TempDir;

use crate::child::{Running, beside, wait_for};

/// Longest wait for an answer.
const PATIENCE: Duration = Duration::from_secs(30);

/// The manager. Its chains and it end with this value.
pub struct Daemon {
    process: Running,
    dir: TempDir,
    chains: Vec<String>,
}

impl Daemon {
    /// Starts one and waits until it answers.
    pub fn start() -> anyhow::Result<Daemon> {
        let (manager, program) = (beside("thruway-manager")?, beside("thruway")?);
        let dir = TempDir::new()?;
        // A directory with a socket of the manager is its user's alone.
        std::fs::set_permissions(dir.path(), std::fs::Permissions::from_mode(0o700))?;
        // (The processes that this bench starts get no environment but its own.)
        let mut command = Command::new("env");
        command.arg(format!("THRUWAY_RUN_DIR={}", dir.path().join("run").display()));
        command.arg(manager).arg("daemon").arg("--state").arg(dir.path().join("state"));
        command.arg("--socket").arg(dir.path().join("api")).arg("--program").arg(program);
        let process = Running::start(&mut command, "manager", dir.path())?;
        let mut daemon = Daemon { process, dir, chains: Vec::new() };
        wait_for("the manager", || {
            daemon.process.check()?;
            Ok(daemon.call("GET", "/v1/hosts", "").is_ok())
        })?;
        Ok(daemon)
    }

    /// Declares a chain.
    pub fn declare(&mut self, name: &str, spec: &Value) -> anyhow::Result<()> {
        self.call("PUT", &format!("/v1/chains/{name}"), &spec.to_string())?;
        self.chains.push(name.to_owned());
        Ok(())
    }

    /// A number that a handler of a chain returns.
    pub fn number(&self, chain: &str, handler: &str) -> anyhow::Result<f64> {
        let answer = self.call("GET", &format!("/v1/chains/{chain}/handlers/{handler}"), "")?;
        let answer: Value = serde_json::from_str(&answer)?;
        let value = answer["value"].as_str().context("no value")?;
        value.trim().parse().with_context(|| format!("{handler}: '{value}'"))
    }

    /// How long an answer takes from the beginning of the connection, and its length.
    pub fn time(&self, path: &str) -> anyhow::Result<(Duration, usize)> {
        let begin = Instant::now();
        let answer = self.call("GET", path, "")?;
        Ok((begin.elapsed(), answer.len()))
    }

    fn socket(&self) -> PathBuf {
        self.dir.path().join("api")
    }

    /// One call: the body of its answer.
    fn call(&self, method: &str, path: &str, body: &str) -> anyhow::Result<String> {
        let mut stream = UnixStream::connect(self.socket())?;
        stream.set_read_timeout(Some(PATIENCE))?;
        let len = body.len();
        write!(
            stream,
            "{method} {path} HTTP/1.1\r\nHost: manager\r\nConnection: close\r\n\
             Content-Type: application/json\r\nContent-Length: {len}\r\n\r\n{body}"
        )?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer)?;
        let (head, body) = answer.split_once("\r\n\r\n").context("no answer")?;
        let status = head.split(' ').nth(1).unwrap_or_default();
        if !status.starts_with('2') {
            bail!("{method} {path}: {status} {}", body.trim());
        }
        Ok(body.to_owned())
    }
}

impl Drop for Daemon {
    /// Data planes outlive their manager: so chains end before it.
    fn drop(&mut self) {
        for name in &self.chains {
            let _ = self.call("DELETE", &format!("/v1/chains/{name}"), "");
        }
        let chains = self.dir.path().join("state/chains");
        let is_empty = || std::fs::read_dir(&chains).map_or(true, |mut dir| dir.next().is_none());
        // What stays is said by the manager's next start; here is nobody to tell.
        let _ = wait_for("the end of all chains", || Ok(is_empty()));
    }
}
