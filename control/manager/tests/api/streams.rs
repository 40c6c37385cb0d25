//! Streams of events.

use std::collections::VecDeque;

use http_body_util::BodyExt as _;
use hyper::Method;
use hyper::body::Incoming;
use serde_json::{Value, json};
use thruway_manager::api::STREAMS_MAX;
use thruway_manager::client::Content;
use thruway_manager::events::{EVENTS_KEPT, EventId};

use crate::{DEADLINE, Served, event, parts, start};

/// A stream of events.
pub struct Stream {
    body: Incoming,
    text: String,
    ready: VecDeque<(String, Value)>,
}

impl Stream {
    pub async fn open(served: &Served, target: &str, last: Option<&str>) -> Stream {
        let headers: Vec<_> = last.iter().map(|last| ("last-event-id", *last)).collect();
        let content = Content { headers: &headers, body: vec![] };
        let answer = served.client.open(Method::GET, target, content).await.expect("a stream");
        assert_eq!(answer.headers()["content-type"], "text/event-stream");
        Stream { body: answer.into_body(), text: String::new(), ready: VecDeque::new() }
    }

    /// Type (empty for most) and data of the next event; `None` at the end.
    pub async fn next(&mut self) -> Option<(String, Value)> {
        loop {
            if let Some(next) = self.ready.pop_front() {
                return Some(next);
            }
            let frame = tokio::time::timeout(DEADLINE, self.body.frame()).await.expect("in time");
            let data = frame?.expect("a frame").into_data().expect("data");
            self.text += std::str::from_utf8(&data).expect("text");
            while let Some((whole, rest)) = self.text.split_once("\n\n") {
                let field = |name| {
                    let value = whole.lines().find_map(|line| line.strip_prefix(name));
                    value.map(|value| value.trim_start().to_owned())
                };
                if let Some(data) = field("data:") {
                    let data: Value = serde_json::from_str(&data).expect("JSON");
                    let id = data.get("id").and_then(Value::as_str);
                    assert_eq!(id, field("id:").as_deref());
                    self.ready.push_back((field("event:").unwrap_or_default(), data));
                }
                self.text = rest.to_owned();
            }
        }
    }

    async fn reason(&mut self) -> Value {
        self.next().await.expect("an event").1["reason"].clone()
    }
}

#[tokio::test]
async fn a_stream_is_taken_up_where_it_broke_off() {
    let served = start();
    served.events.emit(event("web", "One"));
    let mut stream = Stream::open(&served, "/v1/events", None).await;
    let (kind, first) = stream.next().await.expect("an event");
    assert_eq!((kind.as_str(), &first["reason"]), ("", &json!("One")));
    assert_eq!(
        (&first["chain"], &first["time"]),
        (&json!("web"), &json!("1970-01-01T00:00:00.000Z"))
    );
    served.events.emit(event("web", "Two"));
    let (_, second) = stream.next().await.expect("an event");
    assert_eq!(second["reason"], "Two");
    drop(stream);
    served.events.emit(event("web", "Three"));
    let mut stream = Stream::open(&served, "/v1/events", first["id"].as_str()).await;
    assert_eq!((stream.reason().await, stream.reason().await), (json!("Two"), json!("Three")));
    served.put("/v1/chains/web", r#"{"configuration":"a"}"#).await;
    assert_eq!(stream.reason().await, "Declared");
}

#[tokio::test]
async fn a_reader_that_missed_events_gets_a_notice() {
    let served = start();
    served.events.emit(event("web", "First"));
    let mut stream = Stream::open(&served, "/v1/events", None).await;
    let (_, first) = stream.next().await.expect("an event");
    (0..=EVENTS_KEPT).for_each(|_| served.events.emit(event("web", "Next")));
    for last in [first["id"].as_str(), Some("1-1")] {
        let mut stream = Stream::open(&served, "/v1/events", last).await;
        assert_eq!(stream.next().await.expect("an event").0, "gap");
        assert_eq!(stream.reason().await, "Next");
    }
    let mut fresh = Stream::open(&served, "/v1/events", None).await;
    assert_eq!(fresh.reason().await, "Next");
    let content = Content { headers: &[("last-event-id", "x")], body: vec![] };
    let (status, problem) = parts(&served.call(Method::GET, "/v1/events", content).await);
    assert_eq!((status, &problem["field"]), (400, &json!("Last-Event-ID")));
}

#[tokio::test]
async fn a_reader_of_another_log_gets_each_event_once() {
    let served = start();
    let never = EventId { number: 9, ..served.events.beginning() }.to_string();
    let mut other = Stream::open(&served, "/v1/events", Some("1-1")).await;
    let mut future = Stream::open(&served, "/v1/events", Some(&never)).await;
    for stream in [&mut other, &mut future] {
        assert_eq!(stream.next().await.expect("an event").0, "gap");
    }
    served.events.emit(event("web", "One"));
    served.events.emit(event("web", "Two"));
    for stream in [&mut other, &mut future] {
        assert_eq!((stream.reason().await, stream.reason().await), (json!("One"), json!("Two")));
    }
}

#[tokio::test]
async fn a_stream_may_be_of_one_chain() {
    let served = start();
    let mut stream = Stream::open(&served, "/v1/events?chain=web", None).await;
    served.events.emit(event("dns", "One"));
    served.events.emit(event("web", "Two"));
    assert_eq!(stream.reason().await, "Two");
    let mut kept = Stream::open(&served, "/v1/events?chain=web&follow=false", None).await;
    assert_eq!(kept.reason().await, "Two");
    assert_eq!(kept.next().await, None);
}

#[tokio::test]
async fn streams_leave_room_for_calls_and_end_with_the_server() {
    let served = start();
    let mut streams = Vec::new();
    for _ in 0..STREAMS_MAX {
        streams.push(Stream::open(&served, "/v1/events", None).await);
    }
    assert_eq!(served.get("/v1/events").await.0, 503);
    assert_eq!(served.get("/v1/chains").await.0, 200);
    drop(streams.pop());
    let again = async {
        while served
            .client
            .open(Method::GET, "/v1/events", Content::default())
            .await
            .expect("an answer")
            .status()
            != 200
        {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(DEADLINE, again).await.expect("a place is free again");
    served.end.send_replace(true);
    for mut stream in streams {
        assert_eq!(stream.next().await, None);
    }
    tokio::time::timeout(DEADLINE, served.server).await.expect("in time").expect("ended");
    assert!(!served.dir.path().join("run/api.sock").exists());
}
