//! `/metrics` (OpenMetrics 1.0).
//!
//! What the manager observes has names with `thruway_manager`, what data planes count such with
//! `thruway_chain`. Every family is described in each answer, whether it has samples or not.

mod families;
mod observed;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use axum::extract::State;
use axum::http::{HeaderValue, header};
use axum::response::{IntoResponse, Response};
use prometheus_client::encoding::text::encode;
use prometheus_client::registry::Registry;
use tokio::task::JoinSet;

use super::body::Params;
use super::context::Context;
use super::counts::Counts;
use super::graph;
use super::problem::{Kind, Problem};
use super::recent::Seen;
use super::views::NoParams;
use crate::store::StoreError;
use crate::{ChainName, ConditionKind, Manager};
use families::Families;
pub(crate) use families::Table;
use observed::Observed;

const OPENMETRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// How long the counters of a chain may take. Prometheus waits for ten seconds if it is not told
/// otherwise (`scrape_timeout`).
const COUNTERS_MAX: Duration = Duration::from_secs(5);

/// Metrics of the manager and its chains
///
/// A chain whose data plane does not give its counters in time has `thruway_chain_answers` 0, and
/// no other metric of its data plane.
#[utoipa::path(get, path = "/metrics", tag = "monitoring", responses(
    (status = 200, description = "OpenMetrics text", body = String,
     content_type = "application/openmetrics-text; version=1.0.0; charset=utf-8"),
))]
pub async fn metrics(
    State(context): State<Context>,
    Params(NoParams {}): Params<NoParams>,
) -> Result<Response, Problem> {
    let chains = observe(&context).await?;
    let text = render(&context.counts, chains)?;
    Ok(([(header::CONTENT_TYPE, HeaderValue::from_static(OPENMETRICS))], text).into_response())
}

/// What is known of all chains, as a collector gets it.
pub(crate) async fn tables(context: &Context) -> Result<Vec<Table>, Problem> {
    Ok(families::tables(&observe(context).await?))
}

/// What the manager knows of each chain, and what its data plane reports.
async fn observe(context: &Context) -> Result<Vec<Observed>, Problem> {
    let mut chains = context.call(chains).await?;
    let mut seen = counters(context, &chains).await;
    for chain in &mut chains {
        chain.seen = seen.remove(&chain.name);
    }
    Ok(chains)
}

/// What the manager knows of each chain.
fn chains(manager: &Manager) -> Result<Vec<Observed>, StoreError> {
    let of = |asked: crate::Asked| {
        let status = manager.planes().status(&asked.name).unwrap_or_default();
        Observed { name: asked.name, stopped: asked.run.spec.stopped, status, seen: None }
    };
    Ok(manager.store().all()?.into_iter().map(of).collect())
}

/// The counters of all chains that run. One that the manager knows to be mute is not asked: it
/// would keep others waiting.
async fn counters(context: &Context, chains: &[Observed]) -> BTreeMap<String, Arc<Seen>> {
    let mut reads = JoinSet::new();
    let ready = chains.iter().filter(|chain| chain.holds(ConditionKind::Ready));
    for name in ready.filter_map(|chain| ChainName::new(&chain.name).ok()) {
        let context = context.clone();
        reads.spawn(async move {
            let read = tokio::time::timeout(COUNTERS_MAX, graph::read(&context, &name)).await;
            Some((name.as_str().to_owned(), read.ok()?.ok()?))
        });
    }
    reads.join_all().await.into_iter().flatten().collect()
}

fn render(counts: &Counts, chains: Vec<Observed>) -> Result<String, Problem> {
    let mut registry = Registry::with_prefix("thruway");
    let manager = registry.sub_registry_with_prefix("manager");
    manager.register("api_calls", "Calls of the API", counts.calls.clone());
    let failures = counts.audit_failures.clone();
    manager.register("audit_failures", "Calls that the audit log does not have", failures);
    if let Some(otlp) = counts.otlp.get() {
        let manager = registry.sub_registry_with_prefix("manager");
        let requests = "Requests that the collector took";
        manager.register("otlp_requests", requests, otlp.requests.clone());
        let failures = "Requests that the collector did not take, or not all of it";
        manager.register("otlp_failures", failures, otlp.failures.clone());
        let lost = "Events that the collector will not get";
        manager.register("otlp_lost_events", lost, otlp.lost_events.clone());
    }
    registry.register_collector(Box::new(Families::of(chains)));
    let mut text = String::new();
    encode(&mut text, &registry)
        .map_err(|error| Problem::new(Kind::Internal, format!("no metrics: {error}")))?;
    Ok(text)
}
