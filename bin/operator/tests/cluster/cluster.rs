//! A cluster: an API server, operators, and hosts with a manager and an agent each.

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use kube::api::{DeleteParams, Patch, PatchParams};
use kube::core::NamespaceResourceScope;
use kube::{Api, Client, Resource};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use thruway_operator::manifests;
use thruway_operator::names::host_user;
use thruway_operator::resource::{
    ChainHost, Condition, Conditions as _, ServiceChain, ServiceChainStatus,
};

use crate::namespace::Namespace;
use crate::process::{Process, kill_all, wait_for, wait_within};
use crate::server::Server;

/// Seconds of leases here.
const LEASE: u64 = 3;

/// The program under test.
pub const PROGRAM: &str = env!("CARGO_BIN_EXE_thruway-operator");

/// Another program of the workspace, beside that one.
pub fn beside(name: &str) -> PathBuf {
    let program = Path::new(PROGRAM).with_file_name(name);
    assert!(program.exists(), "there is no {}: build the workspace", program.display());
    program
}

/// A host. Everything of it ends with it.
pub struct Host {
    pub name: String,
    dir: PathBuf,
    pub netns: Option<Namespace>,
    manager: Option<Process>,
    agent: Option<Process>,
}

impl Drop for Host {
    fn drop(&mut self) {
        self.agent = None;
        self.manager = None;
        kill_all(self.planes());
    }
}

impl Host {
    /// Data planes of its manager.
    pub fn planes(&self) -> Vec<i32> {
        let state = self.dir.join("state/chains").display().to_string();
        let entries = fs::read_dir("/proc").expect("a system").flatten();
        let pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok());
        pids.filter(|pid| {
            let line = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
            let line = String::from_utf8_lossy(&line).into_owned();
            line.contains("\0run\0") && line.contains(&state)
        })
        .collect()
    }

    /// Starts its manager.
    pub fn start_manager(&mut self) {
        let program = beside("thruway-manager");
        let mut command = match &self.netns {
            Some(netns) => netns.command(program.to_str().expect("text")),
            None => Command::new(program),
        };
        command.args(["daemon", "--state"]).arg(self.dir.join("state"));
        command.arg("--socket").arg(self.socket());
        self.manager = Some(Process::start(&mut command, &self.dir, "manager"));
        wait_for("the manager", || self.socket().exists().then_some(()));
    }

    fn socket(&self) -> PathBuf {
        self.dir.join("run/api.sock")
    }

    /// Kills its manager; what runs goes on.
    pub fn kill_manager(&mut self) {
        self.manager = None;
        let _ = fs::remove_file(self.socket());
    }

    /// Starts its agent.
    pub fn start_agent(&mut self) {
        let mut command = Command::new(PROGRAM);
        command.args(["agent", "--host", &self.name, "--lease-seconds", &LEASE.to_string()]);
        command.arg("--manager-socket").arg(self.socket());
        command.arg("--kubeconfig").arg(self.dir.with_extension("kubeconfig"));
        self.agent = Some(Process::start(&mut command, &self.dir, "agent"));
    }

    /// Kills its agent.
    pub fn kill_agent(&mut self) {
        self.agent = None;
    }

    /// Runs a command of the manager's program; what it printed, or what it said.
    pub fn ask(&self, args: &[&str]) -> Result<String, String> {
        let mut command = Command::new(beside("thruway-manager"));
        let output = command.args(args).arg("--socket").arg(self.socket()).output().expect("run");
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        match output.status.success() {
            true => Ok(text(&output.stdout)),
            false => Err(text(&output.stderr)),
        }
    }

    /// Names of the chains that its manager keeps.
    pub fn chains(&self) -> Vec<String> {
        let text = self.ask(&["get", "--output", "json"]).expect("the manager answers");
        let list: Value = serde_json::from_str(&text).expect("JSON");
        let items = list.as_array().or(list["items"].as_array()).expect("a list");
        items.iter().map(|one| one["name"].as_str().expect("a name").to_owned()).collect()
    }
}

/// A cluster.
pub struct Cluster {
    // First: they end before what they talk to.
    pub operators: BTreeMap<String, Process>,
    pub hosts: BTreeMap<String, Host>,
    pub server: Server,
    pub client: Client,
}

impl Cluster {
    /// An API server alone: no definitions, no operator, no host.
    pub fn bare() -> Cluster {
        let server = Server::start();
        let client = server.client("admin");
        Cluster { operators: BTreeMap::new(), hosts: BTreeMap::new(), server, client }
    }

    /// With these hosts, each in a zone of its own, and one operator.
    pub fn start(hosts: &[&str]) -> Cluster {
        let mut cluster = Cluster::bare();
        let objects = manifests::all(manifests::NAMESPACE);
        // Definitions are there a moment before they can be used.
        wait_for("the manifests", || {
            cluster.server.runtime.block_on(manifests::apply(&cluster.client, &objects)).ok()
        });
        cluster.start_operator("one");
        for name in hosts {
            cluster.add_host(name, None);
        }
        for name in hosts {
            cluster.wait_host(name, "Ready");
        }
        cluster
    }

    /// Starts an operator.
    pub fn start_operator(&mut self, name: &str) {
        let config = self.server.write_identity(name, "thruway:operator", &[]);
        let mut command = Command::new(PROGRAM);
        command.args(["run", "--name", name, "--lease-seconds", &LEASE.to_string()]);
        command.arg("--kubeconfig").arg(config);
        let process = Process::start(&mut command, self.server.dir.path(), name);
        self.operators.insert(name.to_owned(), process);
    }

    /// Adds a host, whose data planes run in a namespace, if one is given.
    pub fn add_host(&mut self, name: &str, netns: Option<Namespace>) {
        self.server.write_identity(name, &host_user(name), &[]);
        self.put::<ChainHost>(name, &json!({"zone": format!("zone-{name}")}));
        let dir = self.server.dir.path().join(name);
        fs::create_dir(&dir).expect("a directory");
        let mut host = Host { name: name.into(), dir, netns, manager: None, agent: None };
        host.start_manager();
        host.start_agent();
        self.hosts.insert(name.to_owned(), host);
    }

    /// The processes of the cluster itself.
    pub fn pids(&self) -> Vec<(String, u32)> {
        let operators = self.operators.iter().map(|(name, one)| (name.clone(), one.pid()));
        operators.chain(self.server.pids()).collect()
    }

    pub fn host(&mut self, name: &str) -> &mut Host {
        self.hosts.get_mut(name).expect("a host")
    }

    /// Waits until a host's condition has this reason.
    #[track_caller]
    pub fn wait_host(&self, name: &str, reason: &str) {
        let api: Api<ChainHost> = Api::all(self.client.clone());
        let mut last = None;
        wait_for(&format!("host {name} is {reason}"), || {
            let host = self.server.runtime.block_on(api.get(name)).ok()?;
            let found = host.status?.conditions.of_type("Ready")?.clone();
            let is_so = found.reason == reason;
            last = Some(found);
            is_so.then_some(())
        });
    }

    fn namespaced<K>(&self) -> Api<K>
    where
        K: Resource<DynamicType = (), Scope = NamespaceResourceScope>,
    {
        Api::namespaced(self.client.clone(), "default")
    }

    /// Applies a resource of the whole cluster.
    #[track_caller]
    pub fn put<K>(&self, name: &str, spec: &Value)
    where
        K: Resource<DynamicType = ()> + Clone + Debug + DeserializeOwned,
    {
        self.apply::<K>(&Api::all(self.client.clone()), name, spec).expect("applied");
    }

    /// Applies a resource of the namespace.
    pub fn try_put<K>(&self, name: &str, spec: &Value) -> Result<(), String>
    where
        K: Resource<DynamicType = (), Scope = NamespaceResourceScope>
            + Clone
            + Debug
            + DeserializeOwned,
    {
        self.apply::<K>(&self.namespaced(), name, spec)
    }

    fn apply<K>(&self, api: &Api<K>, name: &str, spec: &Value) -> Result<(), String>
    where
        K: Resource<DynamicType = ()> + Clone + Debug + DeserializeOwned,
    {
        let wanted = json!({
            "apiVersion": K::api_version(&()), "kind": K::kind(&()),
            "metadata": {"name": name}, "spec": spec,
        });
        let params = PatchParams::apply("test").force();
        let done = self.server.runtime.block_on(api.patch(name, &params, &Patch::Apply(&wanted)));
        done.map(|_| ()).map_err(|error| match error {
            kube::Error::Api(status) => status.message.clone(),
            error => error.to_string(),
        })
    }

    /// Applies a chain.
    #[track_caller]
    pub fn chain(&self, name: &str, spec: &Value) {
        self.try_put::<ServiceChain>(name, spec).expect("applied");
    }

    /// Deletes a resource of the namespace.
    #[track_caller]
    pub fn delete<K>(&self, name: &str)
    where
        K: Resource<DynamicType = (), Scope = NamespaceResourceScope>
            + Clone
            + Debug
            + DeserializeOwned,
    {
        let api = self.namespaced::<K>();
        let params = DeleteParams::default();
        self.server.runtime.block_on(api.delete(name, &params)).expect("deleted");
    }

    /// Whether a resource of the namespace is there.
    pub fn has<K>(&self, name: &str) -> bool
    where
        K: Resource<DynamicType = (), Scope = NamespaceResourceScope>
            + Clone
            + Debug
            + DeserializeOwned,
    {
        let api = self.namespaced::<K>();
        self.server.runtime.block_on(api.get_opt(name)).expect("an answer").is_some()
    }

    /// Whether a chain is there and is being deleted.
    pub fn is_ending(&self, name: &str) -> bool {
        let api = self.namespaced::<ServiceChain>();
        let chain = self.server.runtime.block_on(api.get_opt(name)).expect("an answer");
        chain.is_some_and(|chain| chain.metadata.deletion_timestamp.is_some())
    }

    /// The status of a chain; only one that is of its last generation.
    pub fn status(&self, name: &str) -> Option<ServiceChainStatus> {
        let api = self.namespaced::<ServiceChain>();
        let chain = self.server.runtime.block_on(api.get(name)).ok()?;
        chain.status.filter(|status| Some(status.observed_generation) == chain.metadata.generation)
    }

    /// Waits until a condition of a chain has this reason.
    #[track_caller]
    pub fn wait_reason(&self, name: &str, type_: &str, reason: &str) -> Condition {
        let mut last = String::new();
        let begin = std::time::Instant::now();
        loop {
            let status = self.status(name);
            let found = status.and_then(|status| status.conditions.of_type(type_).cloned());
            if let Some(found) = found {
                if found.reason == reason {
                    return found;
                }
                last = format!("{}: {}", found.reason, found.message);
            }
            let is_late = begin.elapsed() > crate::process::LIMIT;
            assert!(!is_late, "{name} never was {type_} {reason}, but {last}");
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    /// Waits until a chain runs as it is asked for, on as many hosts; these hosts.
    #[track_caller]
    pub fn wait_running(&self, name: &str) -> Vec<String> {
        self.wait_reason(name, "Ready", "Running");
        self.status(name).expect("a status").hosts
    }

    /// Waits until a chain runs on these hosts alone.
    #[track_caller]
    pub fn wait_on(&self, name: &str, hosts: &[&str]) {
        wait_within(crate::process::LIMIT, &format!("{name} on {hosts:?}"), || {
            let status = self.status(name)?;
            let is_so = status.hosts == hosts && status.conditions.holds("Ready");
            is_so.then_some(())
        });
    }
}
