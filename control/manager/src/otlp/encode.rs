//! Metrics and events as OTLP's JSON (opentelemetry-proto 1, `MetricsData` and `LogsData`): names
//! in lowerCamelCase, 64-bit numbers as text.

use std::time::{SystemTime, UNIX_EPOCH};

use serde_json::{Value, json};

use crate::Event;
use crate::api::Table;
use crate::events::EventId;

/// Samples of one request, at most: some megabytes.
const SAMPLES_MAX: usize = 5_000;

/// `AGGREGATION_TEMPORALITY_CUMULATIVE`: counters since their process began.
const CUMULATIVE: u32 = 2;

/// `SEVERITY_NUMBER_INFO`: the manager does not grade its events.
const INFO: u32 = 9;

/// Nanoseconds since 1970, as JSON has them.
fn nanoseconds(time: SystemTime) -> String {
    time.duration_since(UNIX_EPOCH).unwrap_or_default().as_nanos().to_string()
}

fn attribute(key: &str, value: &str) -> Value {
    json!({"key": key, "value": {"stringValue": value}})
}

/// What everything comes from: the manager of this host.
fn resource(host: &str) -> Value {
    let service = attribute("service.name", "thruway-manager");
    let version = attribute("service.version", env!("CARGO_PKG_VERSION"));
    json!({"attributes": [service, version, attribute("host.name", host)]})
}

fn scope() -> Value {
    json!({"name": "thruway", "version": env!("CARGO_PKG_VERSION")})
}

/// The bodies of requests for `/v1/metrics`.
pub(super) fn metrics(tables: &[Table], host: &str, now: SystemTime) -> Vec<Value> {
    let now = nanoseconds(now);
    let mut requests = Vec::new();
    let (mut metrics, mut count) = (Vec::new(), 0);
    for table in tables {
        for samples in table.samples.chunks(SAMPLES_MAX) {
            if count + samples.len() > SAMPLES_MAX {
                requests.push(request(std::mem::take(&mut metrics), host));
                count = 0;
            }
            count += samples.len();
            metrics.push(metric(table, samples, &now));
        }
    }
    if !metrics.is_empty() {
        requests.push(request(metrics, host));
    }
    requests
}

fn request(metrics: Vec<Value>, host: &str) -> Value {
    let scopes = json!([{"scope": scope(), "metrics": metrics}]);
    json!({"resourceMetrics": [{"resource": resource(host), "scopeMetrics": scopes}]})
}

fn metric(table: &Table, samples: &[(Vec<(&'static str, String)>, u64)], now: &str) -> Value {
    let point = |(labels, value): &(Vec<(&'static str, String)>, u64)| {
        let labels: Vec<Value> = labels.iter().map(|(key, value)| attribute(key, value)).collect();
        // Signed in OTLP.
        let value = i64::try_from(*value).unwrap_or(i64::MAX).to_string();
        json!({"attributes": labels, "timeUnixNano": now, "asInt": value})
    };
    let points: Vec<Value> = samples.iter().map(point).collect();
    let (name, about) = (format!("thruway_{}", table.name), table.help);
    match table.is_counter {
        true => json!({"name": name, "description": about, "sum": {
            "aggregationTemporality": CUMULATIVE, "isMonotonic": true, "dataPoints": points,
        }}),
        false => json!({"name": name, "description": about, "gauge": {"dataPoints": points}}),
    }
}

/// The body of a request for `/v1/logs`.
pub(super) fn logs(events: &[(EventId, Event)], host: &str) -> Value {
    let record = |(id, event): &(EventId, Event)| {
        let attributes = [
            attribute("thruway.chain", &event.chain),
            attribute("thruway.reason", &event.reason),
            attribute("thruway.event.id", &id.to_string()),
        ];
        json!({
            "timeUnixNano": nanoseconds(event.time),
            "severityNumber": INFO,
            "severityText": "INFO",
            "eventName": format!("thruway.{}", event.reason),
            "body": {"stringValue": event.message},
            "attributes": attributes,
        })
    };
    let records: Vec<Value> = events.iter().map(record).collect();
    let scopes = json!([{"scope": scope(), "logRecords": records}]);
    json!({"resourceLogs": [{"resource": resource(host), "scopeLogs": scopes}]})
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn many_samples_are_several_requests() {
        let samples = |count| (0..count).map(|n| (vec![("chain", "a".to_owned())], n)).collect();
        let of = |name, count| Table { name, help: "", is_counter: true, samples: samples(count) };
        let tables = [of("a", 4_000), of("b", 4_000), of("c", 12_000), of("d", 0), of("e", 1)];
        let requests = metrics(&tables, "h", UNIX_EPOCH);
        let points = |request: &Value| -> usize {
            let metrics = &request["resourceMetrics"][0]["scopeMetrics"][0]["metrics"];
            let of = |metric: &Value| metric["sum"]["dataPoints"].as_array().map_or(0, Vec::len);
            metrics.as_array().expect("metrics").iter().map(of).sum()
        };
        let counts: Vec<usize> = requests.iter().map(points).collect();
        assert_eq!(counts.iter().sum::<usize>(), 20_001);
        assert!(counts.iter().all(|count| *count <= SAMPLES_MAX), "{counts:?}");
    }
}
