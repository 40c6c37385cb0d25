//! Open vSwitch, the one of the distribution, in a namespace of its own: its database, and its
//! switch in user space. Both end with the value.

use std::path::PathBuf;
use std::process::Command;

use tempfile::TempDir;

use crate::network::Namespace;
use crate::process::{Done, Running, need, run, wait_for};

/// What carries classes from the switch to the chain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tag {
    Vlan,
    Mpls,
    Geneve,
}

impl Tag {
    pub const ALL: [Tag; 3] = [Tag::Vlan, Tag::Mpls, Tag::Geneve];

    /// The word of `--tag`.
    pub fn word(self) -> &'static str {
        match self {
            Tag::Vlan => "vlan",
            Tag::Mpls => "mpls",
            Tag::Geneve => "geneve",
        }
    }

    /// The switch's port that leads to the chain.
    pub fn port(self) -> &'static str {
        if self == Tag::Geneve { "gnv0" } else { "host0" }
    }
}

/// A host, a switch, and another host.
pub struct Line {
    pub client: Namespace,
    pub host: Namespace,
    pub tag: Tag,
    dir: TempDir,
    switch: Namespace,
    _database: Running,
    /// The switch itself; none while it is down.
    daemon: Option<Running>,
}

const SCHEMA: &str = "/usr/share/openvswitch/vswitch.ovsschema";

impl Line {
    /// Cables, and a bridge that passes nothing yet. With Geneve another bridge has the cable to
    /// the host, and an address from which the first one's port of a tunnel sends.
    pub fn new(tag: Tag) -> Line {
        for program in ["ovs-vswitchd", "ovsdb-server", "ovs-ofctl"] {
            need(program, "openvswitch-switch");
        }
        need("ping", "iputils-ping");
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
        // Room for the switch's tag, or all headers of a tunnel.
        let mtu = if tag == Tag::Geneve { 1600 } else { 1504 };
        host.ip(&format!("link set eth0 mtu {mtu}"));
        switch.ip(&format!("link set host0 mtu {mtu}"));
        if tag == Tag::Geneve {
            host.ip("address add 192.0.2.2/24 dev eth0");
        }
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
        let mut line = Line { client, host, tag, dir, switch, _database: database, daemon: None };
        line.vsctl("--no-wait init");
        line.start();
        line.vsctl(
            "add-br br0 -- set bridge br0 datapath_type=netdev fail-mode=secure \
             protocols=OpenFlow10,OpenFlow13,OpenFlow14,OpenFlow15 -- add-port br0 in0",
        );
        match tag {
            Tag::Vlan | Tag::Mpls => line.vsctl("add-port br0 host0"),
            Tag::Geneve => line.vsctl(
                "add-br under0 -- set bridge under0 datapath_type=netdev -- add-port under0 host0 \
                 -- add-port br0 gnv0 -- set interface gnv0 type=geneve \
                 options:remote_ip=192.0.2.2 options:key=7",
            ),
        }
        line.address();
        line
    }

    /// Gives the switch the address of its end of a tunnel, which goes with the switch's process,
    /// and has it learn the other end's: it drops what it sends there before.
    fn address(&self) {
        if self.tag == Tag::Geneve {
            let address = "ip address replace 192.0.2.1/24 dev under0";
            wait_for("the other bridge", || (self.switch.run(address).code() == 0).then_some(()));
            self.switch.ip("link set under0 mtu 1600 up");
            let ping = "ping -n -c 1 -W 1 192.0.2.2";
            wait_for("the other end", || (self.switch.run(ping).code() == 0).then_some(()));
        }
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
    fn start(&mut self) {
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
        self.start();
        wait_for("the switch", || self.bridge().exists().then_some(()));
        self.address();
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

    /// Its fields for options of tunnels, a line each.
    pub fn options(&self) -> Vec<String> {
        let dump = self.ofctl(&["dump-tlv-map"]).expect(0).stdout;
        dump.lines().filter(|line| line.contains(" tun_metadata")).map(str::to_owned).collect()
    }

    /// Its rules, a line each.
    pub fn rules(&self) -> Vec<String> {
        let dump = self.ofctl(&["dump-flows"]).expect(0).stdout;
        dump.lines().filter(|line| line.contains("actions=")).map(str::to_owned).collect()
    }
}
