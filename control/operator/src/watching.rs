//! Copies of what the API server has, kept up to date.

use std::fmt::Debug;
use std::hash::Hash;
use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt as _;
use kube::runtime::reflector::{self, Store};
use kube::runtime::utils::{Backoff, ResetTimerBackoff};
use kube::runtime::watcher::{self, Config};
use kube::runtime::{WatchStreamExt as _, watcher as watch};
use kube::{Api, Resource};
use serde::de::DeserializeOwned;
use tokio::sync::Notify;
use tokio::task::JoinSet;

use crate::calls::explain;

/// Where messages for people go.
pub type Log = Arc<dyn Fn(&str) + Send + Sync>;

/// Least and longest time between attempts to reach the API server.
const RETRY: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(5));

/// Times between attempts start again after so long without an error.
const RESET: Duration = Duration::from_secs(30);

/// Keeps a copy of what an API lists; `changed` is notified of each change.
pub fn follow<K>(
    (api, config): (Api<K>, Config),
    changed: &Arc<Notify>,
    log: &Log,
    tasks: &mut JoinSet<()>,
) -> Store<K>
where
    K: Resource<DynamicType = ()> + Clone + DeserializeOwned + Debug + Send + Sync + 'static,
    K::DynamicType: Hash + Eq + Clone + Default,
{
    let (store, writer) = reflector::store();
    let (changed, log) = (Arc::clone(changed), Arc::clone(log));
    tasks.spawn(async move {
        let stream = watch(api, config).backoff(backoff()).reflect(writer);
        let mut stream = std::pin::pin!(stream);
        let mut is_broken = false;
        while let Some(event) = stream.next().await {
            match event {
                Ok(_) => {
                    is_broken = false;
                    changed.notify_one();
                }
                Err(error) => report(&log, K::kind(&()).as_ref(), &error, &mut is_broken),
            }
        }
    });
    store
}

/// Reports the first of errors that follow one another.
fn report(log: &Log, kind: &str, error: &watcher::Error, is_broken: &mut bool) {
    if !std::mem::replace(is_broken, true) {
        let why = match error {
            watcher::Error::InitialListFailed(error)
            | watcher::Error::WatchStartFailed(error)
            | watcher::Error::WatchFailed(error) => explain(error),
            watcher::Error::WatchError(status) => status.message.clone(),
            other => other.to_string(),
        };
        log(&format!("watching {kind}: {why}; tries again"));
    }
}

fn backoff() -> impl Backoff {
    ResetTimerBackoff::new(Doubling { next: RETRY.0 }, RESET)
}

/// Times that double.
struct Doubling {
    next: Duration,
}

impl Iterator for Doubling {
    type Item = Duration;

    fn next(&mut self) -> Option<Duration> {
        let now = self.next;
        self.next = (now * 2).min(RETRY.1);
        Some(now)
    }
}

impl Backoff for Doubling {
    fn reset(&mut self) {
        self.next = RETRY.0;
    }
}
