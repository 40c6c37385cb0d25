//! A container runtime: a host, pods, and calls of the plugin.

use std::fs;
use std::io::Write as _;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use serde_json::{Value, json};
use tempfile::TempDir;

use crate::namespace::Namespace;

/// The plugin under test.
pub const PROGRAM: &str = env!("CARGO_BIN_EXE_thruway-cni");

/// Where Debian has the plugins of others.
pub const PLUGINS: &str = "/usr/lib/cni";

/// A host, with a directory for its files.
pub struct Runtime {
    pub host: Namespace,
    pub dir: TempDir,
}

/// A pod.
pub struct Pod {
    pub netns: Namespace,
    pub id: String,
}

/// What a call gave.
#[derive(Debug)]
pub struct Answer {
    pub ok: bool,
    pub json: Value,
}

impl Answer {
    /// Asserts that the call succeeded; its result.
    #[track_caller]
    pub fn good(self) -> Value {
        assert!(self.ok, "{self:?}");
        self.json
    }

    /// Asserts that it failed by this code, with these words.
    #[track_caller]
    pub fn fails(self, code: u64, words: &[&str]) {
        assert!(!self.ok, "{self:?}");
        assert_eq!(self.json["code"], code, "{self:?}");
        let message = self.json["msg"].as_str().expect("a message");
        words.iter().for_each(|word| assert!(message.contains(word), "no '{word}': {message}"));
        assert!(self.json["cniVersion"].is_string(), "{self:?}");
    }

    /// The address that it gave, without its prefix.
    #[track_caller]
    pub fn ip(self) -> String {
        ip_of(&self.good())
    }
}

/// The first address of a result.
#[track_caller]
pub fn ip_of(result: &Value) -> String {
    let address = result["ips"][0]["address"].as_str().expect("an address");
    address.split('/').next().expect("one part").to_owned()
}

impl Runtime {
    pub fn new() -> Runtime {
        let host_local = Path::new(PLUGINS).join("host-local");
        let missing = "host-local is missing; install the package containernetworking-plugins";
        assert!(host_local.exists(), "{missing} (./check does it)");
        let host = Namespace::new("twcni", "host").expect("a namespace");
        Runtime { host, dir: tempfile::tempdir().expect("a directory") }
    }

    pub fn pod(&self, id: &str) -> Pod {
        Pod { netns: Namespace::new("twcni", "pod").expect("a namespace"), id: id.into() }
    }

    /// A network of this name at a port, with addresses of 10.9.N.0/24.
    pub fn network(&self, name: &str, port: &str, third: u8) -> Value {
        json!({
            "cniVersion": "1.0.0", "name": name, "type": "thruway-cni", "port": port,
            "ipam": {
                "type": "host-local",
                "dataDir": self.dir.path().join("ipam"),
                "ranges": [[{"subnet": format!("10.9.{third}.0/24")}]],
            },
        })
    }

    /// Addresses that are reserved in a network.
    pub fn reserved(&self, network: &str) -> Vec<String> {
        let files = fs::read_dir(self.dir.path().join("ipam").join(network));
        let names = files.into_iter().flatten().flatten();
        let names = names.filter_map(|file| file.file_name().into_string().ok());
        names.filter(|name| name.starts_with(|first: char| first.is_ascii_digit())).collect()
    }

    /// The command of a call, in the host's namespace.
    pub fn command(&self, verb: &str, pod: Option<&Pod>) -> Command {
        let mut command = self.host.command(PROGRAM);
        command.env("CNI_COMMAND", verb).env("CNI_PATH", PLUGINS);
        if let Some(pod) = pod {
            command.env("CNI_CONTAINERID", &pod.id).env("CNI_IFNAME", "net1");
            command.env("CNI_NETNS", pod.netns.path());
        }
        command
    }

    /// A call about a pod's interface `net1`.
    pub fn call(&self, verb: &str, pod: &Pod, network: &Value) -> Answer {
        talk(self.command(verb, Some(pod)), network.to_string().as_bytes())
    }

    /// A call about a network.
    pub fn call_for(&self, verb: &str, network: &Value) -> Answer {
        talk(self.command(verb, None), network.to_string().as_bytes())
    }

    /// Runs a command of the plugin for people; whether it succeeded, and all that it printed.
    pub fn tool(&self, line: &str) -> (bool, String) {
        let output = self.host.command(PROGRAM).args(line.split(' ')).output().expect("run");
        let printed = [output.stdout, output.stderr].concat();
        (output.status.success(), String::from_utf8_lossy(&printed).into_owned())
    }

    /// Names of the host's interfaces, but for its loopback.
    pub fn links(&self) -> Vec<String> {
        links_of(&self.host)
    }

    /// The host's filters.
    pub fn filters(&self) -> String {
        printed(&self.host, "nft list ruleset")
    }
}

impl Pod {
    /// Names of its interfaces, but for its loopback.
    pub fn links(&self) -> Vec<String> {
        links_of(&self.netns)
    }

    /// What a command in it printed.
    pub fn printed(&self, line: &str) -> String {
        printed(&self.netns, line)
    }
}

fn links_of(netns: &Namespace) -> Vec<String> {
    let text = printed(netns, "ip -br link");
    let names = text.lines().filter_map(|line| line.split([' ', '@']).next());
    names.filter(|name| *name != "lo").map(str::to_owned).collect()
}

/// What a command in a namespace printed; it must succeed.
#[track_caller]
pub fn printed(netns: &Namespace, line: &str) -> String {
    let mut words = line.split_whitespace();
    let mut command = netns.command(words.next().expect("a program"));
    let output = command.args(words).output().expect("run");
    assert!(output.status.success(), "{line}: {output:?}");
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// Whether a command in a namespace succeeds.
pub fn succeeds(netns: &Namespace, line: &str) -> bool {
    let mut words = line.split_whitespace();
    let mut command = netns.command(words.next().expect("a program"));
    command.args(words).output().expect("run").status.success()
}

/// Starts a call, and gives it its configuration.
pub fn begin(mut command: Command, configuration: &[u8]) -> Child {
    let (stdin, stdout) = (Stdio::piped(), Stdio::piped());
    let child = command.stdin(stdin).stdout(stdout).stderr(Stdio::inherit()).spawn();
    let mut child = child.expect("started");
    // A call that is refused by its environment does not read.
    let _ = child.stdin.take().expect("a pipe").write_all(configuration);
    child
}

/// Waits for the end of a call.
#[track_caller]
pub fn end(child: Child) -> Answer {
    let output = child.wait_with_output().expect("waited");
    let ok = output.status.success();
    assert_eq!(output.status.code(), Some(i32::from(!ok)), "{output:?}");
    let json = match output.stdout.as_slice() {
        b"" => Value::Null,
        text => serde_json::from_slice(text).expect("JSON"),
    };
    Answer { ok, json }
}

/// A whole call.
#[track_caller]
pub fn talk(command: Command, configuration: &[u8]) -> Answer {
    end(begin(command, configuration))
}
