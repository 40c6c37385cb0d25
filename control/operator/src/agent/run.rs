//! The agent's life.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use futures_util::FutureExt as _;
use hyper::StatusCode;
use kube::api::{ListParams, Patch};
use kube::runtime::reflector::Store;
use kube::runtime::watcher::Config;
use kube::{Api, Resource as _, ResourceExt as _};
use serde_json::json;
use thruway_manager::api::Problem;
use thruway_manager::client::{Client as ManagerClient, ClientError};
use thruway_manager::{ChainSpec, FunctionSpec, GroupSpec};
use tokio::sync::{Notify, watch};
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

use super::decide::{Act, Host, LocalChain, Refused, decide, unknown};
use super::heartbeat::Heart;
use super::local::{Local, listen};
use crate::calls::{applying, explain, release};
use crate::names::host_namespace;
use crate::resource::{
    AGENT, AGENT_FINALIZER, AgentReport, ChainHost, ChainPlacement, ChainPlacementStatus, now_text,
};
use crate::watching::{Log, follow};

/// How an agent runs.
#[derive(Clone)]
pub struct AgentConfig {
    /// Name of its ChainHost.
    pub host: String,
    /// The manager of the host.
    pub manager: ManagerClient,
    /// Description of its hardware (TOML), if there is one.
    pub hardware: Option<String>,
    /// Version of the program.
    pub version: String,
    /// How long its lease holds without renewal.
    pub lease: Duration,
}

/// All is looked at so often without a change, too.
const PERIOD: Duration = Duration::from_secs(1);

/// Time until what failed is tried again.
const RETRY: Duration = Duration::from_millis(250);

/// Longest time that looking and acting may take.
const ROUND_MAX: Duration = Duration::from_secs(60);

/// Longest message of a condition, in characters.
const MESSAGE_LEN_MAX: usize = 2000;

/// What a chain needs, as messages have it.
const FUNCTION: &str = "function";
const GROUP: &str = "group";

/// What the agent reports of a manager that answers.
const ANSWERS: &str = "answers";

/// An agent.
struct Agent {
    config: AgentConfig,
    client: kube::Client,
    placements: Api<ChainPlacement>,
    store: Store<ChainPlacement>,
    local: Local,
    refused: BTreeMap<String, Refused>,
    /// Since when placements are being taken back.
    ending: BTreeMap<String, Instant>,
    /// What the API server has of this host's report.
    reported: Option<AgentReport>,
    /// The last renewal of the lease.
    renewed: watch::Receiver<Option<Instant>>,
    /// Whether its copy of the placements is newer than the lease.
    has_caught_up: bool,
    begin: Instant,
    log: Log,
}

/// What came of looking and acting once.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Round {
    /// All is as it should be.
    Done,
    /// Something was done, or is not known yet: there may be more.
    Again,
    /// Something failed.
    Failed,
}

/// Whether the lease of the agent holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Leased {
    Yes,
    No,
    /// It just began, or does not know yet what was moved.
    Unknown,
}

/// What a manager keeps: chains, functions and groups.
type Kept =
    (BTreeMap<String, LocalChain>, BTreeMap<String, FunctionSpec>, BTreeMap<String, GroupSpec>);

/// Runs an agent until `ending` is true. The chains of its host run on.
pub async fn run(
    client: kube::Client,
    config: AgentConfig,
    mut ending: watch::Receiver<bool>,
    log: Log,
) {
    let changed = Arc::new(Notify::new());
    let mut tasks = JoinSet::new();
    let placements: Api<ChainPlacement> =
        Api::namespaced(client.clone(), &host_namespace(&config.host));
    let store = follow((placements.clone(), Config::default()), &changed, &log, &mut tasks);
    let renewed = beat(&client, &config, &log, &mut tasks);
    attend(&config.manager, &changed, &log, &mut tasks);
    let mut agent = Agent {
        local: Local::new(config.manager.clone()),
        config,
        client,
        placements,
        store,
        refused: BTreeMap::new(),
        ending: BTreeMap::new(),
        reported: None,
        renewed,
        has_caught_up: false,
        begin: Instant::now(),
        log,
    };
    while !*ending.borrow() {
        let round = timeout(ROUND_MAX, agent.round()).await.unwrap_or(Round::Failed);
        let wait = if round == Round::Done { PERIOD } else { RETRY };
        tokio::select! {
            _ = timeout(wait, changed.notified()) => {}
            _ = ending.changed() => {}
        }
        if round == Round::Failed {
            sleep(RETRY).await;
        }
    }
    tasks.shutdown().await;
}

/// Renews the lease for ever.
fn beat(
    client: &kube::Client,
    config: &AgentConfig,
    log: &Log,
    tasks: &mut JoinSet<()>,
) -> watch::Receiver<Option<Instant>> {
    let heart = Heart::new(client, &config.host, config.lease);
    let (sender, receiver) = watch::channel(None);
    let log = log.clone();
    tasks.spawn(async move {
        let mut is_broken = false;
        loop {
            let begin = Instant::now();
            match heart.beat().await {
                Ok(()) => {
                    is_broken = false;
                    sender.send_replace(Some(begin));
                }
                Err(why) if !std::mem::replace(&mut is_broken, true) => {
                    log(&format!("the lease of this host: {why}; tries again"));
                }
                Err(_) => {}
            }
            let period = if is_broken { RETRY.min(heart.period()) } else { heart.period() };
            sleep(period).await;
        }
    });
    receiver
}

/// Listens to the manager for ever.
fn attend(manager: &ManagerClient, changed: &Arc<Notify>, log: &Log, tasks: &mut JoinSet<()>) {
    let (manager, changed, log) = (manager.clone(), Arc::clone(changed), log.clone());
    tasks.spawn(async move {
        let mut is_broken = false;
        loop {
            match listen(&manager, &changed).await {
                Ok(()) => is_broken = false,
                Err(error) if !std::mem::replace(&mut is_broken, true) => {
                    log(&format!("the manager of this host: {error}; tries again"));
                }
                Err(_) => {}
            }
            sleep(RETRY).await;
        }
    });
}

impl Agent {
    /// Looks and acts once.
    async fn round(&mut self) -> Round {
        if self.store.wait_until_ready().now_or_never().is_none() {
            return Round::Failed;
        }
        let is_leased = match self.lease().await {
            Leased::Yes => true,
            Leased::No => false,
            Leased::Unknown => return Round::Again,
        };
        let (chains, functions, groups) = match self.look().await {
            Ok(found) => found,
            Err(error) => {
                self.report(error.to_string(), Vec::new()).await;
                return Round::Failed;
            }
        };
        let placements: BTreeMap<_, _> =
            self.store.state().into_iter().map(|one| (one.name_any(), one)).collect();
        self.note_ending(&placements);
        let host = Host {
            placements,
            chains,
            functions,
            groups,
            refused: self.refused.clone(),
            ending: self.ending.clone(),
            is_leased,
            now: Instant::now(),
            clock: now_text(),
        };
        let acts = decide(&host);
        let is_done = self.carry_out(&acts).await;
        self.refused.retain(|name, _| host.placements.contains_key(name));
        let is_reported = self.report(ANSWERS.to_owned(), unknown(&host)).await;
        match (is_done && is_reported, acts.iter().all(|act| matches!(act, Act::Report(..)))) {
            (false, _) => Round::Failed,
            // What was done is looked at: its report follows.
            (true, false) => Round::Again,
            (true, true) => Round::Done,
        }
    }

    /// Notes since when placements are being taken back.
    fn note_ending(&mut self, placements: &BTreeMap<String, Arc<ChainPlacement>>) {
        let is_ending = |one: &ChainPlacement| one.metadata.deletion_timestamp.is_some();
        self.ending.retain(|name, _| placements.get(name).is_some_and(|one| is_ending(one)));
        for (name, _) in placements.iter().filter(|(_, one)| is_ending(one)) {
            self.ending.entry(name.clone()).or_insert_with(Instant::now);
        }
    }

    /// What the manager keeps.
    async fn look(&mut self) -> Result<Kept, ClientError> {
        let chains = self.local.chains().await?;
        Ok((chains, self.local.functions().await?, self.local.groups().await?))
    }

    /// Whether the lease holds, and what is known of placements is newer than its renewal: an agent
    /// that had lost it learns first what was moved meanwhile. One that just began fences nothing
    /// that its predecessor's lease may still cover.
    async fn lease(&mut self) -> Leased {
        let duration = self.config.lease;
        let renewed = *self.renewed.borrow();
        if renewed.is_none() && self.begin.elapsed() < duration {
            return Leased::Unknown;
        }
        if renewed.is_none_or(|time| time.elapsed() >= duration) {
            self.has_caught_up = false;
            return Leased::No;
        }
        if !self.has_caught_up {
            self.has_caught_up = self.compare().await.unwrap_or(false);
        }
        if self.has_caught_up { Leased::Yes } else { Leased::Unknown }
    }

    /// Whether the copy of the placements is what the API server has now.
    async fn compare(&self) -> Result<bool, kube::Error> {
        let now = self.placements.list(&ListParams::default()).await?;
        let versions = |one: &ChainPlacement| (one.name_any(), one.resource_version());
        let known: BTreeMap<_, _> = self.store.state().iter().map(|one| versions(one)).collect();
        Ok(now.iter().map(versions).collect::<BTreeMap<_, _>>() == known)
    }

    /// Carries out; whether all came to something.
    async fn carry_out(&mut self, acts: &[Act]) -> bool {
        // Functions and groups that the manager refused, by kind and name.
        let mut failed: BTreeMap<(&str, &str), String> = BTreeMap::new();
        let mut is_done = true;
        for act in acts {
            match act {
                Act::DeclareFunction(name, spec) => {
                    let done = self.local.declare_function(name, spec).await;
                    is_done &= self.is_fine(name, note((FUNCTION, name), done, &mut failed));
                }
                Act::DeclareGroup(name, spec) => {
                    let done = self.local.declare_group(name, spec).await;
                    is_done &= self.is_fine(name, note((GROUP, name), done, &mut failed));
                }
                Act::Declare(name, spec, over) => {
                    if let Some(((kind, needed), why)) = missing(spec, &failed) {
                        let reason = if kind == GROUP { "GroupRefused" } else { "FunctionRefused" };
                        self.refuse(name, spec, (reason, format!("{kind} {needed}: {why}")));
                        continue;
                    }
                    let done = self.local.declare(name, spec, *over).await;
                    is_done &= self.declared(name, spec, done);
                }
                Act::TakeBack(name, at) => {
                    let done = self.local.take_back(name, *at).await;
                    is_done &= self.is_fine(name, done);
                }
                Act::TakeBackGroup(name) => {
                    let done = self.local.take_back_group(name).await;
                    is_done &= self.is_fine(name, done);
                }
                Act::TakeBackFunction(name) => {
                    let done = self.local.take_back_function(name).await;
                    is_done &= self.is_fine(name, done);
                }
                Act::Report(name, status) => is_done &= self.report_placement(name, status).await,
                Act::Release(name, version) => {
                    let done = release(&self.placements, name, AGENT_FINALIZER, version).await;
                    is_done &= done.is_ok();
                }
            }
        }
        is_done
    }

    /// What came of a declaration; whether it needs no other attempt.
    fn declared(&mut self, name: &str, spec: &ChainSpec, done: Result<(), ClientError>) -> bool {
        match done {
            Ok(()) => {
                self.refused.remove(name);
                true
            }
            // It changed since it was looked at.
            Err(ClientError::Refused(problem))
                if problem.status == StatusCode::PRECONDITION_FAILED =>
            {
                false
            }
            Err(ClientError::Refused(problem)) => {
                self.refuse(name, spec, (reason(&problem), refusal(&problem)));
                true
            }
            done => self.is_fine(name, done),
        }
    }

    fn refuse(&mut self, name: &str, spec: &ChainSpec, (reason, message): (&str, String)) {
        (self.log)(&format!("chain {name} is refused: {message}"));
        let (spec, reason, time) = (spec.clone(), reason.to_owned(), Instant::now());
        self.refused.insert(name.to_owned(), Refused { spec, reason, message, time });
    }

    fn is_fine(&self, name: &str, done: Result<(), ClientError>) -> bool {
        if let Err(error) = &done {
            (self.log)(&format!("{name}: {error}; tries again"));
        }
        done.is_ok()
    }

    async fn report_placement(&self, name: &str, status: &ChainPlacementStatus) -> bool {
        let wanted = json!({
            "apiVersion": ChainPlacement::api_version(&()),
            "kind": ChainPlacement::kind(&()),
            "metadata": {"name": name},
            "status": status,
        });
        let done =
            self.placements.patch_status(name, &applying(AGENT), &Patch::Apply(&wanted)).await;
        match done {
            Ok(_) => true,
            Err(kube::Error::Api(status)) if status.code == 404 => true,
            Err(error) => {
                (self.log)(&format!("status of {name}: {}; tries again", explain(&error)));
                false
            }
        }
    }

    /// Reports of the host, if there is something new.
    async fn report(&mut self, manager: String, unknown: Vec<String>) -> bool {
        let report = AgentReport {
            version: self.config.version.clone(),
            manager,
            unknown,
            hardware: self.config.hardware.clone(),
        };
        if self.reported.as_ref() == Some(&report) {
            return true;
        }
        let api: Api<ChainHost> = Api::all(self.client.clone());
        let wanted = json!({
            "apiVersion": ChainHost::api_version(&()),
            "kind": ChainHost::kind(&()),
            "metadata": {"name": self.config.host},
            "status": {"agent": report},
        });
        let done =
            api.patch_status(&self.config.host, &applying(AGENT), &Patch::Apply(&wanted)).await;
        if let Err(error) = &done {
            (self.log)(&format!("status of host {}: {}", self.config.host, explain(error)));
        }
        if done.is_ok() {
            self.reported = Some(report);
        }
        done.is_ok()
    }
}

/// Notes a refusal, which is no failure: the chains that need what was refused are refused, too.
fn note<'a>(
    resource: (&'a str, &'a str),
    done: Result<(), ClientError>,
    failed: &mut BTreeMap<(&'a str, &'a str), String>,
) -> Result<(), ClientError> {
    match done {
        Err(ClientError::Refused(problem)) => {
            failed.insert(resource, refusal(&problem));
            Ok(())
        }
        done => done,
    }
}

/// The first that a chain needs and the manager refused, and why.
fn missing<'a>(
    spec: &'a ChainSpec,
    failed: &'a BTreeMap<(&str, &str), String>,
) -> Option<((&'a str, &'a str), &'a str)> {
    let functions = spec.functions.values().map(|one| (FUNCTION, one.name.as_str()));
    let groups = spec.groups.iter().map(|one| (GROUP, one.as_str()));
    functions.chain(groups).find_map(|one| Some((one, failed.get(&one)?.as_str())))
}

/// A word for a refusal.
fn reason(problem: &Problem) -> &'static str {
    match problem.kind.rsplit(':').next() {
        Some("invalid") => "ConfigurationRefused",
        Some("conflict") => "Conflict",
        Some("full") => "DiskFull",
        _ => "Refused",
    }
}

/// What is wrong, with the field.
fn refusal(problem: &Problem) -> String {
    let field = problem.field.as_deref().map(|field| format!("{field}: ")).unwrap_or_default();
    let text = format!("{field}{}", problem.detail.trim_end());
    text.chars().take(MESSAGE_LEN_MAX).collect()
}
