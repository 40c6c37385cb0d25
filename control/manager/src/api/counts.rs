//! Counts of calls, and of what is pushed to a collector.

use std::sync::OnceLock;

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;

/// A call of the API.
#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub struct Call {
    method: &'static str,
    route: String,
    code: u16,
}

/// Counts of calls.
#[derive(Debug, Default)]
pub struct Counts {
    /// By call.
    pub calls: Family<Call, Counter>,
    /// Calls that could not be recorded in the audit log.
    pub audit_failures: Counter,
    /// What is pushed to a collector, where there is one.
    pub otlp: OnceLock<OtlpCounts>,
}

/// Counts of what is pushed to a collector.
#[derive(Debug, Default)]
pub struct OtlpCounts {
    /// Requests that it took.
    pub requests: Counter,
    /// Requests that it did not take, or not all of it.
    pub failures: Counter,
    /// Events that it will not get.
    pub lost_events: Counter,
}

impl Counts {
    /// Counts a call. The route is a template, so that there are few.
    pub fn count(&self, method: &axum::http::Method, route: &str, code: u16) {
        // Clients may send any word as a method.
        let known = ["GET", "PUT", "POST", "DELETE", "HEAD", "OPTIONS"];
        let method = known.into_iter().find(|one| *one == method.as_str()).unwrap_or("other");
        self.calls.get_or_create(&Call { method, route: route.to_owned(), code }).inc();
    }
}
