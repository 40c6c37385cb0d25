//! The output of chains.

use hyper::Method;
use serde_json::{Value, json};
use thruway_manager::api::{LOG_LINES_MAX, STREAMS_MAX};
use thruway_manager::client::Content;

use crate::network::start_network;
use crate::streams::Stream;
use crate::{DEADLINE, Served, start};

const LOG: &str = "/v1/chains/web/log";
const FOLLOW: &str = "/v1/chains/web/log?follow=true";

async fn started() -> Served {
    let served = start();
    served.put("/v1/chains/web", r#"{"configuration":"a"}"#).await;
    served
}

/// The next line of a stream; `gap` where lines are missing.
async fn line(stream: &mut Stream) -> Value {
    let (kind, data) = stream.next().await.expect("a line");
    if kind.is_empty() { data["line"].clone() } else { json!([kind]) }
}

#[tokio::test]
async fn the_last_lines_are_read() {
    let served = started().await;
    assert_eq!(served.get(LOG).await, (200, json!({"lines": []})));
    (0..200).for_each(|number| served.planes.output(format!("line {number}\n").as_bytes()));
    let (_, body) = served.get(LOG).await;
    let lines = body["lines"].as_array().expect("lines");
    assert_eq!((lines.len(), &lines[0], &lines[99]), (100, &json!("line 100"), &json!("line 199")));
    served.planes.output(b"\xff\x1b[2J\nno end");
    let (_, body) = served.get("/v1/chains/web/log?lines=2").await;
    assert_eq!(body, json!({"lines": ["\u{fffd}\u{1b}[2J", "no end"]}));
    assert_eq!(served.get("/v1/chains/web/log?lines=0").await.1, json!({"lines": []}));
    let most = format!("/v1/chains/web/log?lines={LOG_LINES_MAX}");
    assert_eq!(served.get(&most).await.1["lines"].as_array().map(Vec::len), Some(202));
    // What is given at once has a bound.
    served.planes.output(&b"x\n".repeat(2 << 20));
    let (_, body) = served.get(&most).await;
    assert_eq!(body["lines"].as_array().map(Vec::len), Some(LOG_LINES_MAX));
}

#[tokio::test]
async fn what_is_wrong_is_refused_by_its_field() {
    let served = started().await;
    for (target, status, field) in [
        ("/v1/chains/web/log?lines=10001", 422, "lines"),
        ("/v1/chains/web/log?lines=-1", 422, "lines"),
        ("/v1/chains/web/log?lines=all", 422, "lines"),
        ("/v1/chains/web/log?line=1", 422, "line"),
        ("/v1/chains/web/log?follow=yes", 422, "follow"),
        ("/v1/chains/Web/log", 422, "name"),
        ("/v1/chains/dns/log?follow=true", 404, "name"),
    ] {
        let (found, problem) = served.get(target).await;
        assert_eq!((found, &problem["field"]), (status, &json!(field)), "{target} {problem}");
    }
    served.planes.output(b"unreadable");
    let (status, problem) = served.get(LOG).await;
    assert_eq!((status, &problem["detail"]), (500, &json!("log: it is open to other users")));
}

#[tokio::test]
async fn what_is_written_follows_and_the_stream_ends_with_the_chain() {
    let served = started().await;
    served.planes.output(b"one\ntwo\nthr");
    let mut stream = Stream::open(&served, &format!("{FOLLOW}&lines=2"), None).await;
    assert_eq!(line(&mut stream).await, "two");
    served.planes.output(b"ee\n\nfour");
    assert_eq!((line(&mut stream).await, line(&mut stream).await), (json!("three"), json!("")));
    let mut fresh = Stream::open(&served, &format!("{FOLLOW}&lines=0"), None).await;
    // More than is read at once, and more lines than are given at once.
    served.planes.output(&b"\nx".repeat(1 << 20));
    for stream in [&mut stream, &mut fresh] {
        let mut seen = Vec::new();
        while seen.last() != Some(&json!(["gap"])) {
            seen.push(line(stream).await);
        }
        assert!(seen.len() <= 2, "{seen:?}");
        assert_eq!(line(stream).await, "x");
    }
    served.delete("/v1/chains/web").await;
    let end = async { while fresh.next().await.is_some() {} };
    tokio::time::timeout(DEADLINE, end).await.expect("it ends");
}

#[tokio::test]
async fn streams_of_logs_have_the_bound_of_streams_of_events() {
    let served = started().await;
    let mut streams = Vec::new();
    for _ in 0..STREAMS_MAX {
        streams.push(Stream::open(&served, FOLLOW, None).await);
    }
    assert_eq!(served.get(FOLLOW).await.0, 503);
    assert_eq!(served.get("/v1/events").await.0, 503);
    assert_eq!(served.get(LOG).await.0, 200);
    served.end.send_replace(true);
    for mut stream in streams {
        assert_eq!(stream.next().await, None);
    }
}

#[tokio::test]
async fn a_stream_ends_when_the_token_is_revoked() {
    let network = start_network().await;
    network.served.put("/v1/chains/web", r#"{"configuration":"a"}"#).await;
    network.served.planes.output(b"one\n");
    let token = network.token("ci", "view").await;
    let client = network.client("authority.pem", None, Some(&token));
    let answer = client.open(Method::GET, FOLLOW, Content::default()).await.expect("a stream");
    assert_eq!(answer.status(), 200);
    network.served.delete_empty("/v1/tokens/ci").await;
    let body = http_body_util::BodyExt::collect(answer.into_body());
    let body = tokio::time::timeout(DEADLINE, body).await.expect("it ends").expect("whole");
    let text = body.to_bytes();
    assert!(text.is_empty() || text.starts_with(b"data: {\"line\":\"one\"}"), "{text:?}");
}
