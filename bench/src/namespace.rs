//! Network namespaces and cables between them, by iproute2 (as root). The system tests use them,
//! too.

use std::fs::File;
use std::os::fd::{AsFd as _, AsRawFd as _};
use std::process::{Command, Stdio};

use anyhow::{Context as _, bail};
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};
use thruway_sync::atomic::{AtomicU32, Ordering};

/// A network namespace. It ends with this value, and with the process however that ends: only a
/// descriptor, and processes that run in it, keep it.
pub struct Namespace {
    file: File,
}

impl Namespace {
    /// A new one, with its loopback up. While it is made it has a name, which begins with `prefix`
    /// and this process's number.
    pub fn new(prefix: &str, role: &str) -> anyhow::Result<Namespace> {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let name = format!("{prefix}-{}-{number}-{role}", std::process::id());
        ip(&format!("netns add {name}"))?;
        let path = format!("/run/netns/{name}");
        let file = File::open(&path).context(path);
        ip(&format!("netns del {name}"))?;
        let namespace = Namespace { file: file? };
        namespace.ip("link set lo up")?;
        Ok(namespace)
    }

    /// Where others find it, as long as this value is there.
    pub fn path(&self) -> String {
        format!("/proc/{}/fd/{}", std::process::id(), self.file.as_raw_fd())
    }

    /// A command to be run in it; `/sys` shows its interfaces.
    pub fn command(&self, program: &str) -> Command {
        let mut command = self.enter();
        let with_sys = "mount -t sysfs none /sys && exec \"$0\" \"$@\"";
        command.args(["unshare", "--mount", "sh", "-c", with_sys, program]);
        command
    }

    fn enter(&self) -> Command {
        let mut command = Command::new("nsenter");
        command.arg(format!("--net={}", self.path()));
        command
    }

    /// Configures its network.
    pub fn ip(&self, line: &str) -> anyhow::Result<()> {
        finish(self.enter().arg("ip"), line)
    }

    /// Lays a cable from an interface `port` here to `far_port` there, with these options of each
    /// end. This end is up; the kernel here has no address on it.
    pub fn cable(&self, port: &str, far: (&Namespace, &str), options: &str) -> anyhow::Result<()> {
        let peer = format!("peer name {} {options} netns {}", far.1, far.0.path());
        self.ip(&format!("link add {port} {options} type veth {peer}"))?;
        self.ip(&format!("link set {port} addrgenmode none"))?;
        self.ip(&format!("link set {port} up"))
    }

    /// What `work` gives, done by a thread in this namespace: sockets made there stay there.
    pub fn within<T: Send>(&self, work: impl FnOnce() -> T + Send) -> anyhow::Result<T> {
        let enter = || -> anyhow::Result<T> {
            move_into_link_name_space(self.file.as_fd(), Some(LinkNameSpaceType::Network))?;
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

/// Runs `ip` with these arguments.
fn ip(line: &str) -> anyhow::Result<()> {
    finish(&mut Command::new("ip"), line)
}

/// Runs a command that is or has `ip`, with these arguments more.
fn finish(command: &mut Command, line: &str) -> anyhow::Result<()> {
    let output = command.args(line.split_whitespace()).stdin(Stdio::null()).output();
    let output = output.context("'ip' or 'nsenter' is missing; install iproute2, util-linux")?;
    if !output.status.success() {
        bail!("ip {line}: {}", String::from_utf8_lossy(&output.stderr).trim());
    }
    Ok(())
}
