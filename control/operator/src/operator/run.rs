//! The operator's life: it waits for the lease, and acts while it has it.

use std::sync::Arc;
use std::time::Duration;

use kube::Client;
use tokio::sync::{Notify, watch};
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, sleep_until, timeout};

use super::carry_out::Hands;
use super::decide::decide;
use super::leader::Candidate;
use super::snapshot::{HeartWatch, Stores};
use crate::watching::Log;

/// How an operator runs.
#[derive(Clone)]
pub struct OperatorConfig {
    /// Namespace of its lease.
    pub namespace: String,
    /// Its name: no other operator has it.
    pub name: String,
    /// How long the lease holds without renewal.
    pub lease: Duration,
}

/// Time for changes that come together.
const GATHER: Duration = Duration::from_millis(10);

/// Decisions are made so often without a change, too: heartbeats age.
const PERIOD: Duration = Duration::from_secs(1);

/// Least and longest time until what failed is tried again.
const RETRY: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(10));

/// Longest time that a round of calls may take.
const ROUND_MAX: Duration = Duration::from_secs(60);

/// Runs an operator until `ending` is true.
pub async fn run(
    client: Client,
    config: OperatorConfig,
    mut ending: watch::Receiver<bool>,
    log: Log,
) {
    let name = config.name.clone();
    let lease = (config.namespace.as_str(), name.clone());
    let mut candidate = Candidate::new(&client, lease, config.lease, &log);
    while !*ending.borrow() {
        candidate.attempt().await;
        if candidate.holds() {
            log(&format!("{name} leads"));
            lead(&client, &name, &mut candidate, (&mut ending, &log)).await;
            log(&format!("{name} leads no more"));
            candidate.resign().await;
        } else {
            tokio::select! {
                () = sleep(candidate.period()) => {}
                _ = ending.changed() => {}
            }
        }
    }
}

/// Acts, and renews the lease, until it is lost or the program ends. All that acts ends with it.
async fn lead(
    client: &Client,
    name: &str,
    candidate: &mut Candidate,
    (ending, log): (&mut watch::Receiver<bool>, &Log),
) {
    let mut acting = JoinSet::new();
    acting.spawn(act(client.clone(), name.to_owned(), log.clone()));
    while candidate.holds() && !*ending.borrow() {
        let next = Instant::now() + candidate.period();
        tokio::select! {
            () = sleep_until(next) => candidate.attempt().await,
            _ = ending.changed() => break,
            // It never ends by itself.
            _ = acting.join_next() => break,
        }
    }
    acting.shutdown().await;
}

/// Makes what is observed what is asked for, for ever. Copies are begun here: they are newer than
/// all that an earlier leader wrote.
async fn act(client: Client, name: String, log: Log) {
    let changed = Arc::new(Notify::new());
    let mut tasks = JoinSet::new();
    let stores = Stores::follow(&client, &changed, &log, &mut tasks);
    if !stores.wait_until_whole().await {
        return;
    }
    let hands = Hands::new(client, &name, &log);
    let (mut watch, mut retry) = (HeartWatch::default(), RETRY.0);
    loop {
        let world = {
            let admitted = hands.admitted.lock().clone();
            let mut overlay = hands.overlay.lock();
            stores.world(&admitted, &mut overlay, &mut watch)
        };
        let actions = decide(&world);
        let done = timeout(ROUND_MAX, hands.carry_out(&actions, &world)).await;
        let wait = match done {
            Ok(0) => {
                retry = RETRY.0;
                PERIOD
            }
            _ => {
                let now = retry;
                retry = (retry * 2).min(RETRY.1);
                now
            }
        };
        let _ = timeout(wait, changed.notified()).await;
        sleep(GATHER).await;
    }
}
