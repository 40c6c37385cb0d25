//! `/metrics` (OpenMetrics 1.0).

use std::fmt;
use std::sync::Arc;

use axum::extract::State;
use axum::http::{HeaderValue, header};
use axum::response::{IntoResponse, Response};
use prometheus_client::collector::Collector;
use prometheus_client::encoding::text::encode;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric as _};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;
use prometheus_client::registry::Registry;

use super::body::Params;
use super::context::Context;
use super::counts::Counts;
use super::problem::{Kind, Problem};
use super::views::NoParams;
use crate::{ChainStatus, Manager};

const OPENMETRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// Metrics of the manager and its chains
#[utoipa::path(get, path = "/metrics", tag = "monitoring", responses(
    (status = 200, description = "OpenMetrics text", body = String,
     content_type = "application/openmetrics-text; version=1.0.0; charset=utf-8"),
))]
pub async fn metrics(
    State(context): State<Context>,
    Params(NoParams {}): Params<NoParams>,
) -> Result<Response, Problem> {
    let counts = Arc::clone(&context.counts);
    let text = context.call(move |manager| render(manager, &counts)).await?;
    Ok(([(header::CONTENT_TYPE, HeaderValue::from_static(OPENMETRICS))], text).into_response())
}

fn render(manager: &Manager, counts: &Counts) -> Result<String, Problem> {
    let names: Vec<String> = manager.store().all()?.into_iter().map(|one| one.name).collect();
    let status = names.into_iter().map(|name| {
        let status = manager.planes().status(&name).unwrap_or_default();
        (name, status)
    });
    let mut registry = Registry::with_prefix("thruway_manager");
    registry.register("api_calls", "Calls of the API", counts.calls.clone());
    let failures = counts.audit_failures.clone();
    registry.register("audit_failures", "Calls that the audit log does not have", failures);
    registry.register_collector(Box::new(Chains(Arc::new(status.collect()))));
    let mut text = String::new();
    encode(&mut text, &registry)
        .map_err(|error| Problem::new(Kind::Internal, format!("no metrics: {error}")))?;
    Ok(text)
}

/// What is observed of each chain.
#[derive(Debug)]
struct Chains(Arc<Vec<(String, ChainStatus)>>);

impl Collector for Chains {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), fmt::Error> {
        let count = ConstGauge::new(i64::try_from(self.0.len()).unwrap_or(i64::MAX));
        let chains = encoder.encode_descriptor(
            "chains",
            "Chains that are asked for",
            None,
            MetricType::Gauge,
        )?;
        count.encode(chains)?;
        let mut conditions = encoder.encode_descriptor(
            "chain_condition",
            "Whether a condition of a chain holds",
            None,
            MetricType::Gauge,
        )?;
        for (chain, status) in self.0.iter() {
            for condition in &status.conditions {
                let kind = format!("{:?}", condition.kind);
                let labels = [("chain", chain.as_str()), ("condition", kind.as_str())];
                let holds = ConstGauge::new(i64::from(condition.holds));
                holds.encode(conditions.encode_family(&labels)?)?;
            }
        }
        let mut restarts = encoder.encode_descriptor(
            "chain_restarts",
            "Times that the data plane of a chain was started again after it ended by itself",
            None,
            MetricType::Counter,
        )?;
        for (chain, status) in self.0.iter() {
            let labels = [("chain", chain.as_str())];
            let count = ConstCounter::new(u64::from(status.restarts));
            count.encode(restarts.encode_family(&labels)?)?;
        }
        Ok(())
    }
}
