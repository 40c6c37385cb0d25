//! The API over a real socket; the data planes are a double that records what it is asked.

mod access;
mod bounds;
mod chains;
mod examples;
mod functions;
mod graph;
mod log;
mod managed;
mod network;
mod otlp;
mod page;
mod server;
mod streams;
mod uses;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use hyper::Method;
use parking_lot::Mutex;
use serde_json::Value;
use tempfile::TempDir;
use thruway_manager::api::{Context, Listener, router, serve};
use thruway_manager::audit::{Audit, AuditLimits};
use thruway_manager::client::{Answer, Client, Content};
use thruway_manager::events::EventLog;
use thruway_manager::store::Store;
use thruway_manager::{
    Asked, ChainName, ChainSpec, ChainStatus, CheckError, Checker, Condition, ConditionKind,
    DataPlanes, Event, LogPart, Manager, PlaneError,
};
use tokio::sync::watch;
use tokio::task::JoinHandle;

/// How long a test waits for what must come.
const DEADLINE: Duration = Duration::from_secs(60);

/// Data planes that record what they are asked.
#[derive(Default)]
struct Double {
    asked: Mutex<Vec<Vec<Asked>>>,
    written: Mutex<Vec<(String, String, String)>>,
    /// What every chain wrote.
    output: Mutex<Vec<u8>>,
    /// What every chain publishes; none if its data plane is of an earlier version.
    figures: Mutex<Option<String>>,
    /// The handlers `graph` and `statistics` of every chain that runs; none if none does.
    graph: Mutex<Option<(String, String)>>,
    /// Hashes of executables that run.
    runs: Mutex<BTreeSet<String>>,
    /// What the handler `trace` answers.
    trace: Mutex<String>,
    /// How often several handlers were asked for at once.
    looks: Mutex<usize>,
}

impl Double {
    /// Names and generations of the last list.
    fn last(&self) -> Vec<(String, u64)> {
        let asked = self.asked.lock();
        let last = asked.last().cloned().unwrap_or_default();
        last.into_iter().map(|one| (one.name, one.generation)).collect()
    }

    /// Every chain writes this.
    fn output(&self, text: &[u8]) {
        self.output.lock().extend_from_slice(text);
    }

    fn calls(&self) -> usize {
        self.asked.lock().len()
    }
}

impl DataPlanes for Double {
    fn converge(&self, asked: Vec<Asked>) {
        self.asked.lock().push(asked);
    }

    fn status(&self, chain: &str) -> Option<ChainStatus> {
        let generation = self.last().iter().find(|(name, _)| name == chain)?.1;
        let ready = Condition {
            kind: ConditionKind::Ready,
            holds: true,
            reason: "Started".into(),
            message: "it runs".into(),
            since: SystemTime::UNIX_EPOCH,
        };
        Some(ChainStatus {
            observed_generation: generation,
            pid: Some(7),
            restarts: 2,
            conditions: vec![ready],
            ..ChainStatus::default()
        })
    }

    fn read(&self, chain: &str, handler: &str) -> Result<String, PlaneError> {
        match handler {
            "stopped" => Err(PlaneError::NotRunning(chain.to_owned())),
            trace if trace.starts_with("trace ") => Ok(self.trace.lock().clone()),
            "refused" => Err(PlaneError::Refused("no such handler".to_owned())),
            _ => Ok(format!("{chain} {handler}")),
        }
    }

    fn read_each(
        &self,
        chain: &str,
        handlers: &[String],
    ) -> Result<Vec<Option<String>>, PlaneError> {
        let graph = self.graph.lock();
        *self.looks.lock() += 1;
        let (graph, statistics) = graph.as_ref().ok_or(PlaneError::NotRunning(chain.into()))?;
        let answer = |handler: &String| match handler.as_str() {
            "graph" => Some(graph.clone()),
            "statistics" => Some(statistics.clone()),
            "figures" => self.figures.lock().clone(),
            "swaps" => Some("taken 3".to_owned()),
            "nf.state" => Some("running".to_owned()),
            "nf.last_error" | "nf.timed_batches" => None,
            _ => Some("5".to_owned()),
        };
        Ok(handlers.iter().map(answer).collect())
    }

    fn write(&self, chain: &str, handler: &str, value: &str) -> Result<(), PlaneError> {
        let texts = [chain, handler, value].map(str::to_owned);
        let [chain, handler, value] = texts;
        self.written.lock().push((chain, handler, value));
        Ok(())
    }

    fn hashes(&self) -> std::io::Result<BTreeSet<String>> {
        Ok(self.runs.lock().clone())
    }

    fn log(&self, _chain: &str, from: u64, len_max: u64) -> std::io::Result<LogPart> {
        let output = self.output.lock();
        if output.starts_with(b"unreadable") {
            return Err(std::io::Error::other("log: it is open to other users"));
        }
        let at = |position: u64| usize::try_from(position).expect("in the output");
        let begin = at(from).max(output.len().saturating_sub(at(len_max)));
        let text = output[begin..].to_vec();
        Ok(LogPart { text, next: output.len() as u64, is_cut: begin > at(from) })
    }
}

/// A checker that refuses what says `bad`, and warns of what says `odd`.
struct Words;

impl Checker for Words {
    fn check(&self, _name: &ChainName, spec: &ChainSpec) -> Result<String, CheckError> {
        let has = |word| spec.configuration.contains(word);
        match has("bad") {
            true => Err(CheckError::new("configuration", "config:1: bad")),
            false => Ok(if has("odd") { "warning: odd".into() } else { String::new() }),
        }
    }
}

/// A manager that serves.
struct Served {
    client: Client,
    planes: Arc<Double>,
    events: Arc<EventLog>,
    context: Context,
    end: watch::Sender<bool>,
    server: JoinHandle<()>,
    dir: TempDir,
}

fn start() -> Served {
    let dir = TempDir::new().expect("a directory");
    let store = Store::open(dir.path()).expect("a store");
    let (planes, events) = (Arc::<Double>::default(), Arc::<EventLog>::default());
    let manager =
        Manager::new(store, Arc::clone(&planes) as _, Arc::new(Words), Arc::clone(&events));
    let (end, ending) = watch::channel(false);
    let audit = Audit::open(dir.path(), AuditLimits::DEFAULT).expect("a log");
    let manager = Arc::new(manager.expect("a manager"));
    let context = Context::new(manager, ending.clone()).audited(audit);
    let path = dir.path().join("run").join("api.sock");
    let listener = Listener::bind(&path).expect("a socket");
    let server = tokio::spawn(serve(listener, router(context.clone()), ending));
    Served { client: Client::new(&path), planes, events, context, end, server, dir }
}

impl Served {
    async fn call(&self, method: Method, target: &str, content: Content<'_>) -> Answer {
        let answer = self.client.call(method, target, content);
        tokio::time::timeout(DEADLINE, answer).await.expect("in time").expect("an answer")
    }

    async fn get(&self, target: &str) -> (u16, Value) {
        parts(&self.call(Method::GET, target, Content::default()).await)
    }

    async fn put(&self, target: &str, body: &str) -> (u16, Value) {
        self.put_if(target, body, &[]).await
    }

    async fn put_if(
        &self,
        target: &str,
        body: &str,
        headers: &[(&'static str, &str)],
    ) -> (u16, Value) {
        let content = Content { headers, body: body.as_bytes().to_vec() };
        parts(&self.call(Method::PUT, target, content).await)
    }

    async fn delete(&self, target: &str) -> (u16, Value) {
        parts(&self.call(Method::DELETE, target, Content::default()).await)
    }

    /// A deletion whose answer may have no body.
    async fn delete_empty(&self, target: &str) -> (u16, Value) {
        let answer = self.call(Method::DELETE, target, Content::default()).await;
        match answer.status {
            204 => (204, Value::Null),
            _ => parts(&answer),
        }
    }

    async fn post(&self, target: &str, body: &str) -> (u16, Value) {
        let content = Content { body: body.as_bytes().to_vec(), ..Content::default() };
        parts(&self.call(Method::POST, target, content).await)
    }
}

/// The target that a path of the description stands for, with names that fit.
fn target(path: &str) -> String {
    let name = if path.starts_with("/v1/functions") { "name@1" } else { "name" };
    let target = path.replace("{name}", name).replace("{generation}", "1");
    target.replace("{handler}", "x")
}

/// Status and JSON of an answer; a refusal must be a whole problem.
fn parts(answer: &Answer) -> (u16, Value) {
    let body: Value = serde_json::from_slice(&answer.body)
        .unwrap_or_else(|error| panic!("{error}: {:?}", answer.body));
    if answer.status >= 400 {
        let kind = answer.headers.get("content-type").and_then(|kind| kind.to_str().ok());
        assert_eq!(kind, Some("application/problem+json"), "{body}");
        assert_eq!(body["status"], answer.status, "{body}");
        assert!(body["type"].as_str().expect("a type").starts_with("urn:thruway:problem:"));
        assert!(!body["detail"].as_str().expect("a detail").is_empty(), "{body}");
    }
    (answer.status, body)
}

fn event(chain: &str, reason: &str) -> Event {
    let [chain, reason] = [chain, reason].map(str::to_owned);
    Event { time: SystemTime::UNIX_EPOCH, chain, reason, message: "m".into() }
}

/// Items of a list by a field.
fn field<'a>(items: &'a Value, name: &str) -> Vec<&'a Value> {
    items.as_array().expect("a list").iter().map(|one| &one[name]).collect()
}

/// Labels and values of the samples of a metric.
fn samples(text: &str, metric: &str) -> BTreeMap<String, f64> {
    let lines = text.lines().filter(|line| !line.starts_with('#'));
    let parsed = lines.filter_map(|line| {
        let (series, value) = line.rsplit_once(' ')?;
        let labels = series.strip_prefix(metric)?;
        let whole = labels.is_empty() || labels.starts_with('{');
        whole.then(|| (labels.to_owned(), value.parse().expect("a number")))
    });
    parsed.collect()
}
