//! Two hosts that share two networks, with a client in one and a server in the other.

use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::net::UnixStream;
use std::time::Duration;

use anyhow::Context as _;
use tempfile::TempDir;
use thruway_client::Client;

use super::committing::committing;
use super::networks::{BACKUP, Networks, SERVER};
use super::options::Options;
use super::server::READY;
use crate::child::{Running, wait_for};
use crate::namespace::Namespace;

const PREFIX: &str = "thruway-bench";
const EXAMPLE: &str = include_str!("../../../examples/nat-pair.click");
/// What becomes of packets whose changes the backup does not have in time.
const LATE: &str = "DROP";
/// Longest wait for an answer of a control socket.
const PATIENCE: Duration = Duration::from_secs(5);

/// See the module. The fields are in the order of going.
pub struct Pair {
    a: Running,
    b: Running,
    _web: Running,
    pub client: Namespace,
    pub server: Namespace,
    _hosts: [Namespace; 2],
    _bridges: Namespace,
    dir: TempDir,
}

impl Pair {
    /// Starts both hosts, and the server.
    pub fn start(options: &Options) -> anyhow::Result<Pair> {
        let Networks { client, server, hosts, bridges } = Networks::new(PREFIX)?;
        client.set("ipv4/ip_local_port_range", "1024 65000")?;
        let dir = TempDir::new()?;
        let key = dir.path().join("key");
        std::fs::write(&key, "the secret of both hosts")?;
        std::fs::set_permissions(&key, std::fs::Permissions::from_mode(0o600))?;
        let mut web = server.command(&std::env::current_exe()?.display().to_string());
        web.args(["takeover-server", &options.connections.to_string()]);
        let mut web = Running::start(&mut web, "server", dir.path())?;
        wait_for("the server", || {
            web.check()?;
            Ok(web.has_printed(READY))
        })?;
        let run = |which: usize, peer: &str, after: u32| {
            start(&hosts[which], &dir, (which, peer, after, options.commit))
        };
        let b = run(1, &format!("LISTEN {BACKUP}"), options.after)?;
        let a = run(0, &format!("TO {BACKUP}"), 0)?;
        let mut pair =
            Pair { a, b, _web: web, client, server, _hosts: hosts, _bridges: bridges, dir };
        wait_for("the first ping", || {
            pair.check()?;
            let ping = pair.client.command("ping").args(["-n", "-c1", "-W1", SERVER]).output();
            Ok(ping.context("ping is missing")?.status.success())
        })?;
        Ok(pair)
    }

    fn check(&mut self) -> anyhow::Result<()> {
        self.a.check()?;
        self.b.check()
    }

    fn read(&self, which: usize, handler: &str) -> anyhow::Result<String> {
        let stream = UnixStream::connect(self.dir.path().join(socket(which)))?;
        stream.set_read_timeout(Some(PATIENCE))?;
        Ok(Client::greet(Box::new(stream), None)?.read(handler)?.trim().to_owned())
    }

    /// Waits until the backup has so many sessions, and all there are.
    pub fn wait_synchronized(&self, sessions: u32) -> anyhow::Result<()> {
        wait_for("the backup to have all sessions", || {
            let has_all = self.read(1, "pair.synchronized")? == "true"
                && self.read(0, "pair.synchronized")? == "true"
                && self.read(1, "firewall.open")?.parse::<u32>()? >= sessions;
            Ok(has_all)
        })
    }

    /// Kills the host that serves.
    pub fn kill(&self) -> anyhow::Result<()> {
        self.a.kill()
    }

    /// Whether the backup serves.
    pub fn has_taken_over(&self) -> bool {
        self.b.has_printed("serves the traffic now")
    }
}

fn socket(which: usize) -> &'static str {
    ["a.sock", "b.sock"][which]
}

fn start(
    host: &Namespace,
    dir: &TempDir,
    (which, peer, after, commits): (usize, &str, u32, bool),
) -> anyhow::Result<Running> {
    let name = ["a", "b"][which];
    let path = |name: &str| dir.path().join(name).display().to_string();
    let text = if commits { committing(EXAMPLE, LATE) } else { EXAMPLE.to_owned() };
    let file = path(&format!("{name}.click"));
    std::fs::write(&file, format!("{text}\nControlSocket(UNIX, {});\n", path(socket(which))))?;
    let mut command = host.command(&std::env::current_exe()?.display().to_string());
    command.args(["run", "--quiet", "--control", "none", &file, "LAN=lan0", "WAN=wan0"]);
    command.arg(format!("PEER={peer}")).arg(format!("AFTER={after}ms"));
    command.arg(format!("KEY={}", path("key")));
    let mut running = Running::start(&mut command, name, dir.path())?;
    wait_for("a host", || {
        running.check()?;
        Ok(dir.path().join(socket(which)).exists())
    })?;
    Ok(running)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_example_has_what_output_commit_changes() {
        let text = committing(EXAMPLE, LATE);
        for part in ["[2]pair", "[3]pair", "COMMIT_LATE DROP"] {
            assert_eq!(text.matches(part).count(), 1, "{part}");
        }
    }
}
