//! Open vSwitch, the one of the distribution, in a namespace of its own: its database, and its
//! switch in user space. Both end with the value.

use std::path::PathBuf;
use std::process::Command;

use tempfile::TempDir;

use crate::network::Namespace;
use crate::process::{Done, Running, need, run, wait_for};

/// A host, a switch, and another host.
pub struct Line {
    pub client: Namespace,
    pub host: Namespace,
    dir: TempDir,
    switch: Namespace,
    _database: Running,
    /// The switch itself; none while it is down.
    daemon: Option<Running>,
}

const SCHEMA: &str = "/usr/share/openvswitch/vswitch.ovsschema";

impl Line {
    /// Cables, and a bridge that passes nothing yet.
    pub fn new() -> Line {
        for program in ["ovs-vswitchd", "ovsdb-server", "ovs-ofctl"] {
            need(program, "openvswitch-switch");
        }
        let [client, switch, host] = ["cli", "sw", "host"].map(Namespace::new);
        for space in [&client, &switch, &host] {
            // Their kernels send nothing of their own.
            space.set("ipv6/conf/all/disable_ipv6", "1");
            space.set("ipv6/conf/default/disable_ipv6", "1");
        }
        for (end, port) in [(&client, "in0"), (&host, "host0")] {
            end.cable("eth0", (&switch, port), "");
            switch.ip(&format!("link set {port} up"));
        }
        // Room for the switch's tag.
        host.ip("link set eth0 mtu 1504");
        switch.ip("link set host0 mtu 1504");
        let dir = tempfile::tempdir().expect("a directory");
        let place = |name: &str| dir.path().join(name).to_str().expect("plain text").to_owned();
        let database = place("conf.db");
        run(Command::new("ovsdb-tool").args(["create", &database, SCHEMA])).expect(0);
        let socket = place("db.sock");
        let mut server = switch.command("ovsdb-server");
        server.arg(&database).arg(format!("--remote=punix:{socket}"));
        server.arg(format!("--unixctl={}", place("db.ctl")));
        let database = Running::start(&mut server);
        wait_for("the database", || dir.path().join("db.sock").exists().then_some(()));
        let mut line = Line { client, host, dir, switch, _database: database, daemon: None };
        line.vsctl("--no-wait init");
        line.begin();
        line.vsctl(
            "add-br br0 -- set bridge br0 datapath_type=netdev fail-mode=secure \
             protocols=OpenFlow10,OpenFlow13,OpenFlow14,OpenFlow15 \
             -- add-port br0 in0 -- add-port br0 host0",
        );
        line
    }

    fn command(&self, program: &str) -> Command {
        let mut command = self.switch.command(program);
        for name in ["OVS_RUNDIR", "OVS_LOGDIR", "OVS_DBDIR"] {
            command.env(name, self.dir.path());
        }
        command
    }

    fn vsctl(&self, line: &str) {
        let database = format!("--db=unix:{}", self.dir.path().join("db.sock").display());
        let mut command = self.command("ovs-vsctl");
        run(command.args([&database, "--timeout=20"]).args(line.split_whitespace())).expect(0);
    }

    /// Starts the switch, with the ports that its database names and no rules.
    pub fn begin(&mut self) {
        let database = format!("unix:{}", self.dir.path().join("db.sock").display());
        let control = self.dir.path().join("sw.ctl");
        let mut command = self.command("ovs-vswitchd");
        command.arg(&database).arg(format!("--unixctl={}", control.display()));
        self.daemon = Some(Running::start(&mut command));
    }

    /// Kills the switch, and starts it again.
    pub fn restart(&mut self) {
        self.daemon = None;
        // Its socket is there until the next one replaces it.
        let _ = std::fs::remove_file(self.bridge());
        self.begin();
        wait_for("the switch", || self.bridge().exists().then_some(()));
    }

    /// Where the bridge is managed.
    pub fn bridge(&self) -> PathBuf {
        self.dir.path().join("br0.mgmt")
    }

    /// `ovs-ofctl` on the bridge.
    pub fn ofctl(&self, words: &[&str]) -> Done {
        let mut command = Command::new("ovs-ofctl");
        command.args(["-O", "OpenFlow15", words[0]]).arg(self.bridge()).args(&words[1..]);
        run(&mut command)
    }

    /// Its rules, a line each.
    pub fn rules(&self) -> Vec<String> {
        let dump = self.ofctl(&["dump-flows"]).expect(0).stdout;
        dump.lines().filter(|line| line.contains("actions=")).map(str::to_owned).collect()
    }
}
