//! Metrics and events, pushed to a collector.

use std::sync::Arc;
use std::time::{Duration, Instant};

use hyper::Method;
use parking_lot::Mutex;
use serde_json::Value;
use thruway_manager::client::Content;
use thruway_manager::otlp::{Collector, Pace, push};
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::{TcpListener, TcpStream};

use crate::graph::report;
use crate::{DEADLINE, Served, event, samples, start};

const PACE: Pace =
    Pace { period: Duration::from_millis(50), answer_max: Duration::from_millis(500) };

/// A collector that records what it is sent.
#[derive(Default)]
struct Recorder {
    /// Path and body of each request.
    requests: Mutex<Vec<(String, Value)>>,
    /// Status with which it answers; 0: never.
    status: Mutex<u16>,
    /// Whether the manager closed a connection without an answer.
    is_abandoned: Mutex<bool>,
}

impl Recorder {
    async fn serve(self: Arc<Recorder>, listener: TcpListener) {
        loop {
            let (stream, _) = listener.accept().await.expect("a connection");
            tokio::spawn(Arc::clone(&self).answer(stream));
        }
    }

    async fn answer(self: Arc<Recorder>, stream: TcpStream) {
        let mut stream = BufReader::new(stream);
        let (mut head, mut len) = (String::new(), 0);
        loop {
            let mut line = String::new();
            stream.read_line(&mut line).await.expect("a line");
            if let Some(value) = line.to_ascii_lowercase().strip_prefix("content-length:") {
                len = value.trim().parse().expect("a length");
            }
            if line == "\r\n" {
                break;
            }
            head += &line;
        }
        assert!(head.to_ascii_lowercase().contains("content-type: application/json"), "{head}");
        let mut body = vec![0; len];
        stream.read_exact(&mut body).await.expect("a body");
        let body = serde_json::from_slice(&body).expect("JSON");
        let path = head.split(' ').nth(1).expect("a path").to_owned();
        self.requests.lock().push((path, body));
        let status = *self.status.lock();
        if status == 0 {
            let rest = stream.read_u8().await;
            assert!(rest.is_err(), "nothing follows the body");
            *self.is_abandoned.lock() = true;
            return;
        }
        let answer = format!("HTTP/1.1 {status} x\r\ncontent-length: 2\r\n\r\n{{}}");
        let _ = stream.write_all(answer.as_bytes()).await;
    }

    /// Events that came in requests so far: messages' reasons, in order.
    fn events(&self) -> Vec<String> {
        let mut reasons = Vec::new();
        for (path, body) in self.requests.lock().iter().filter(|(path, _)| path.ends_with("logs")) {
            assert_eq!(path, "/in/v1/logs");
            let records = &body["resourceLogs"][0]["scopeLogs"][0]["logRecords"];
            for record in records.as_array().expect("records") {
                assert!(record["timeUnixNano"].is_string(), "{record}");
                let attributes = record["attributes"].as_array().expect("attributes");
                let of = |key: &str| attributes.iter().find(|one| one["key"] == key);
                let text = |key: &str| of(key).expect(key)["value"]["stringValue"].clone();
                assert_eq!(text("thruway.chain"), "web");
                reasons.push(text("thruway.reason").as_str().expect("text").to_owned());
            }
        }
        reasons
    }

    /// The last metric of this name.
    fn metric(&self, name: &str) -> Option<Value> {
        let requests = self.requests.lock();
        let mut metrics = requests.iter().rev().filter(|(path, _)| path == "/in/v1/metrics");
        metrics.find_map(|(_, body)| {
            let metrics = &body["resourceMetrics"][0]["scopeMetrics"][0]["metrics"];
            metrics.as_array()?.iter().find(|one| one["name"] == name).cloned()
        })
    }
}

type Lines = Arc<Mutex<Vec<String>>>;

/// A manager that pushes to a recorder, which answers with this status.
async fn pushing(served: &Served, status: u16) -> (Arc<Recorder>, Lines) {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let url = format!("http://{}/in/", listener.local_addr().expect("an address"));
    let recorder = Arc::new(Recorder { status: Mutex::new(status), ..Recorder::default() });
    tokio::spawn(Arc::clone(&recorder).serve(listener));
    let lines = Lines::default();
    let log = Arc::clone(&lines);
    let collector = Collector::new(&url).expect("a URL");
    let context = served.context.clone();
    tokio::spawn(push(context, collector, PACE, move |line| log.lock().push(line.to_owned())));
    (recorder, lines)
}

async fn until(what: &str, holds: impl Fn() -> bool) {
    let begun = Instant::now();
    while !holds() {
        assert!(begun.elapsed() < DEADLINE, "{what}");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

async fn counts(served: &Served) -> [f64; 3] {
    let answer = served.call(Method::GET, "/metrics", Content::default()).await;
    let text = String::from_utf8(answer.body.to_vec()).expect("text");
    ["requests", "failures", "lost_events"]
        .map(|name| samples(&text, &format!("thruway_manager_otlp_{name}_total"))[""])
}

#[tokio::test]
async fn a_collector_gets_metrics_and_each_event_once() {
    let served = start();
    served.put("/v1/chains/web", r#"{"configuration":"a"}"#).await;
    report(&served, 9);
    served.events.emit(event("web", "Started"));
    let (recorder, lines) = pushing(&served, 200).await;
    until("an event", || !recorder.events().is_empty()).await;
    served.events.emit(event("web", "Exited"));
    until("another event", || recorder.events().contains(&"Exited".to_owned())).await;
    tokio::time::sleep(4 * PACE.period).await;
    assert_eq!(recorder.events(), ["Declared", "Started", "Exited"]);

    let packets = recorder.metric("thruway_chain_element_packets").expect("a counter");
    assert_eq!(packets["sum"]["aggregationTemporality"], 2, "{packets}");
    assert_eq!(packets["sum"]["isMonotonic"], true, "{packets}");
    let points = packets["sum"]["dataPoints"].as_array().expect("points");
    let of_nf = points.iter().find(|point| point["attributes"][1]["value"]["stringValue"] == "Nf");
    let of_nf = of_nf.expect("the function's");
    assert_eq!((&of_nf["asInt"], &of_nf["attributes"][0]["key"]), (&"4".into(), &"chain".into()));
    let queue = recorder.metric("thruway_chain_queue_packets").expect("a gauge");
    assert_eq!(queue["gauge"]["dataPoints"][0]["asInt"], "5", "{queue}");
    assert_eq!(counts(&served).await[1..], [0.0, 0.0]);
    assert!(lines.lock().is_empty());
}

#[tokio::test]
async fn a_collector_that_is_busy_gets_events_later_and_one_line_is_written() {
    let served = start();
    let (recorder, lines) = pushing(&served, 503).await;
    served.events.emit(event("web", "Started"));
    until("tries", || recorder.events().len() > 2).await;
    assert!(recorder.events().iter().all(|reason| reason == "Started"), "it is tried again");
    let [_, failures, lost] = counts(&served).await;
    assert!(failures > 2.0 && lost == 0.0);
    assert_eq!(lines.lock().len(), 1, "{lines:?}");
    assert!(lines.lock()[0].contains("503"), "{lines:?}");
    *recorder.status.lock() = 200;
    until("a line", || lines.lock().len() == 2).await;
    assert!(lines.lock()[1].contains("again"), "{lines:?}");
    let sent = recorder.events().len();
    tokio::time::sleep(4 * PACE.period).await;
    assert_eq!(recorder.events().len(), sent, "it has it");
}

#[tokio::test]
async fn events_that_are_refused_or_too_old_are_counted_as_lost() {
    let served = start();
    let (recorder, _) = pushing(&served, 400).await;
    served.events.emit(event("web", "Started"));
    until("an event", || !recorder.events().is_empty()).await;
    tokio::time::sleep(4 * PACE.period).await;
    assert_eq!(recorder.events(), ["Started"], "it would be refused again");
    assert_eq!(counts(&served).await[2], 1.0);
    *recorder.status.lock() = 503;
    for _ in 0..thruway_manager::events::EVENTS_KEPT + 7 {
        served.events.emit(event("web", "Exited"));
    }
    until("tries", || recorder.events().len() > 1).await;
    assert_eq!(counts(&served).await[2], 8.0);
}

#[tokio::test]
async fn a_collector_that_never_answers_holds_up_nothing() {
    let served = start();
    let (recorder, lines) = pushing(&served, 0).await;
    until("a request", || !recorder.requests.lock().is_empty()).await;
    let begun = Instant::now();
    assert_eq!(served.put("/v1/chains/web", r#"{"configuration":"a"}"#).await.0, 201);
    assert!(begun.elapsed() < Duration::from_secs(5), "{:?}", begun.elapsed());
    until("a line", || !lines.lock().is_empty()).await;
    assert!(lines.lock()[0].contains("no answer in 0.5 s"), "{lines:?}");
    until("its connection is closed", || *recorder.is_abandoned.lock()).await;
    served.end.send_replace(true);
    tokio::time::timeout(DEADLINE, served.server).await.expect("in time").expect("it ends");
}
