//! Network namespaces and cables between them, by iproute2 (as root). The system tests use them,
//! too.

use std::fs::File;
use std::os::fd::AsFd as _;
use std::process::{Command, Stdio};

use anyhow::{Context as _, bail};
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};
use thruway_sync::atomic::{AtomicU32, Ordering};

/// A network namespace; it goes with this value.
pub struct Namespace {
    name: String,
}

impl Namespace {
    /// A new one, with its loopback up. Its name begins with `prefix` and this process's number.
    pub fn new(prefix: &str, role: &str) -> anyhow::Result<Namespace> {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let name = format!("{prefix}-{}-{number}-{role}", std::process::id());
        ip(&format!("netns add {name}"))?;
        let namespace = Namespace { name };
        namespace.ip("link set lo up")?;
        Ok(namespace)
    }

    /// A command to be run in it.
    pub fn command(&self, program: &str) -> Command {
        let mut command = Command::new("ip");
        command.args(["netns", "exec", &self.name, program]);
        command
    }

    /// Configures its network.
    pub fn ip(&self, line: &str) -> anyhow::Result<()> {
        ip(&format!("-n {} {line}", self.name))
    }

    /// Lays a cable from an interface `port` here to `far_port` there, with these options of each
    /// end. This end is up; the kernel here has no address on it.
    pub fn cable(&self, port: &str, far: (&Namespace, &str), options: &str) -> anyhow::Result<()> {
        let peer = format!("peer name {} {options} netns {}", far.1, far.0.name);
        self.ip(&format!("link add {port} {options} type veth {peer}"))?;
        self.ip(&format!("link set {port} addrgenmode none"))?;
        self.ip(&format!("link set {port} up"))
    }

    /// What `work` gives, done by a thread in this namespace: sockets made there stay there.
    pub fn within<T: Send>(&self, work: impl FnOnce() -> T + Send) -> anyhow::Result<T> {
        let enter = || -> anyhow::Result<T> {
            let path = format!("/run/netns/{}", self.name);
            let file = File::open(&path).context(path)?;
            move_into_link_name_space(file.as_fd(), Some(LinkNameSpaceType::Network))?;
            Ok(work())
        };
        let done = std::thread::scope(|scope| scope.spawn(enter).join());
        done.unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    }

    /// Sets a parameter of its kernel, named as under `/proc/sys/net`.
    pub fn set(&self, name: &str, value: &str) -> anyhow::Result<()> {
        let path = format!("/proc/sys/net/{name}");
        self.within(|| std::fs::write(&path, value))?.context(path)
    }
}

impl Drop for Namespace {
    fn drop(&mut self) {
        // Also where something failed before, so nothing more is made of it.
        let _ = Command::new("ip").args(["netns", "del", &self.name]).status();
    }
}

/// Runs `ip` with these arguments.
fn ip(line: &str) -> anyhow::Result<()> {
    let mut command = Command::new("ip");
    let output = command.args(line.split_whitespace()).stdin(Stdio::null()).output();
    let output = output.context("'ip' is missing; install the package iproute2")?;
    if !output.status.success() {
        bail!("ip {line}: {}", String::from_utf8_lossy(&output.stderr).trim());
    }
    Ok(())
}
