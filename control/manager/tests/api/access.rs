//! Who may do what: roles, tokens, their ends, and the record of calls.

use std::collections::BTreeSet;
use std::fs;
use std::time::{Duration, SystemTime};

use http_body_util::BodyExt as _;
use hyper::Method;
use serde_json::{Value, json};
use thruway_manager::access::Role;
use thruway_manager::api::{ROLES, WRITE_TIME_MAX, openapi_text, operations, role_of};
use thruway_manager::client::{Client, Content};
use thruway_manager::timestamp;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::UnixStream;

use crate::network::{Network, start_network};
use crate::{DEADLINE, event, start, target};

/// An operation as a request that would do something.
fn request(operation: &str) -> (Method, String, &'static str) {
    let (method, path) = operation.split_once(' ').expect("a method");
    let target = target(path).replace("/v1/events", "/v1/events?follow=false");
    let body = match (method, path) {
        ("PUT", "/v1/chains/{name}") => r#"{"configuration":"a"}"#,
        ("PUT", "/v1/functions/{name}") => r#"{"path":"/x","sha256":""}"#,
        ("PUT", "/v1/groups/{name}") => r#"{"functions":["name@1"]}"#,
        ("PUT", _) => r#"{"value":"1"}"#,
        ("POST", "/v1/tokens") => r#"{"name":"name","role":"view"}"#,
        ("POST", _) => r#"{"to":1}"#,
        _ => "",
    };
    (method.parse().expect("a method"), target, body)
}

#[tokio::test]
async fn every_operation_has_one_role_and_refuses_those_below_it() {
    let network = start_network().await;
    let mut all: Vec<String> = operations();
    all.push("GET /openapi.json".to_owned());
    let listed: Vec<String> =
        ROLES.iter().map(|(method, path, _)| format!("{method} {path}")).collect();
    let (one, other): (BTreeSet<_>, BTreeSet<_>) = (all.iter().collect(), listed.iter().collect());
    assert_eq!(one, other, "the description and the list of roles");
    assert_eq!(listed.len(), other.len(), "each once");
    let described: Value = serde_json::from_str(&openapi_text()).expect("JSON");
    let roles = [Role::View, Role::Operate, Role::Administer];
    for role in roles {
        let token = network.token(role.as_str(), role.as_str()).await;
        let client = network.client("authority.pem", None, Some(&token));
        for operation in &all {
            // One of the operations deletes it.
            network.served.put("/v1/chains/name", r#"{"configuration":"a"}"#).await;
            let (method, path) = operation.split_once(' ').expect("a method");
            let needed = role_of(method, path).expect("it is listed");
            if path != "/openapi.json" {
                let said = &described["paths"][path][method.to_lowercase()]["x-role"];
                assert_eq!(said, needed.as_str(), "{operation}");
            }
            let (method, target, body) = request(operation);
            let content = Content { body: body.into(), ..Content::default() };
            let answer = client.call(method, &target, content).await.expect("an answer");
            let text = String::from_utf8_lossy(&answer.body);
            match role >= needed {
                true => assert!(
                    ![401, 403, 405, 429, 500].contains(&answer.status),
                    "{operation}: {text}"
                ),
                false => {
                    assert_eq!(answer.status, 403, "{operation} by {role}");
                    assert!(text.contains(&format!("needs {needed}")), "{text}");
                }
            }
        }
    }
}

#[tokio::test]
async fn methods_that_read_need_no_more_than_a_view() {
    for (method, path, role) in ROLES {
        let secret = *path == "/v1/tokens";
        assert_eq!(*role == Role::View, *method == "GET" && !secret, "{method} {path}");
    }
}

#[tokio::test]
async fn a_token_is_shown_once_and_kept_as_a_hash() {
    let network = start_network().await;
    let token = network.token("ci", "administer").await;
    let secret = token.split_once('.').expect("a secret").1;
    let (_, list) = network.call(&token, Method::GET, "/v1/tokens").await;
    assert_eq!(list["items"][0]["name"], "ci");
    assert!(!list.to_string().contains(secret));
    let (status, problem) =
        network.served.post("/v1/tokens", r#"{"name":"ci","role":"view"}"#).await;
    assert_eq!((status, &problem["field"]), (409, &json!("name")));
    for (body, field) in [
        (r#"{"name":"Ci","role":"view"}"#, "name"),
        (r#"{"name":"a","role":"root"}"#, "role"),
        (r#"{"name":"a","role":"view","expires":"2020-01-01T00:00:00Z"}"#, "expires"),
        (r#"{"name":"a","role":"view","expires":"soon"}"#, "expires"),
        (r#"{"name":"a","role":"view","certificate":"x"}"#, "certificate"),
    ] {
        let (status, problem) = network.served.post("/v1/tokens", body).await;
        assert_eq!((status, &problem["field"]), (422, &json!(field)), "{problem}");
    }
    // Nothing of it is in any file.
    for entry in fs::read_dir(network.served.dir.path()).expect("a directory") {
        let path = entry.expect("an entry").path();
        if path.is_file() {
            let bytes = fs::read(&path).expect("read");
            let found = bytes.windows(secret.len()).any(|part| part == secret.as_bytes());
            assert!(!found, "{}", path.display());
        }
    }
}

#[tokio::test]
async fn wrong_tokens_are_distinguished_where_no_secret_leaks() {
    let network = start_network().await;
    let token = network.token("ci", "view").await;
    let refused = async |token: &str| {
        let (status, problem) = network.call(token, Method::GET, "/v1/chains").await;
        assert_eq!(status, 401);
        problem["detail"].as_str().expect("a detail").to_owned()
    };
    assert!(refused("x").await.contains("this is no token"));
    let flip = |digit: char| if digit == '0' { '1' } else { '0' };
    let last = token.chars().last().expect("a digit");
    let wrong = format!("{}{}", &token[..token.len() - 1], flip(last));
    let unknown = refused(&wrong).await;
    assert!(unknown.contains("is not known"), "{unknown}");
    assert_eq!(refused(&token.replace("thruway_ci", "thruway_no")).await, unknown);
    let end = timestamp::text(SystemTime::now() + Duration::from_secs(2));
    let body = json!({"name": "short", "role": "view", "expires": end}).to_string();
    let (_, made) = network.served.post("/v1/tokens", &body).await;
    let short = made["token"].as_str().expect("a token");
    tokio::time::sleep(Duration::from_millis(2100)).await;
    assert!(refused(short).await.contains("token 'short' expired at"));
    let content = Content { headers: &[("authorization", "Basic Y2k6eA==")], body: vec![] };
    let client = network.client("authority.pem", None, None);
    let answer = client.call(Method::GET, "/v1/chains", content).await.expect("an answer");
    assert_eq!(answer.status, 401);
    // The one that it is for is let in all the same.
    assert_eq!(network.call(&token, Method::GET, "/v1/chains").await.0, 200);
}

/// Reads a stream of events until its end; what came.
async fn until_end(client: &Client) -> tokio::task::JoinHandle<String> {
    let answer =
        client.open(Method::GET, "/v1/events", Content::default()).await.expect("a stream");
    assert_eq!(answer.status(), 200);
    tokio::spawn(async move {
        let mut body = answer.into_body();
        let mut text = String::new();
        while let Some(frame) = body.frame().await {
            let data = frame.expect("no error").into_data().expect("data");
            text += &String::from_utf8_lossy(&data);
        }
        text
    })
}

#[tokio::test]
async fn a_revoked_token_ends_at_the_next_call_and_its_streams_end_now() {
    let network = start_network().await;
    let [gone, stays] = [network.token("gone", "view").await, network.token("stays", "view").await];
    let client = |token: &str| network.client("authority.pem", None, Some(token));
    network.served.events.emit(event("web", "Before"));
    let (ends, goes_on) = (until_end(&client(&gone)).await, until_end(&client(&stays)).await);
    assert_eq!(network.served.delete_empty("/v1/tokens/gone").await.0, 204);
    network.served.events.emit(event("web", "After"));
    let seen = tokio::time::timeout(DEADLINE, ends).await.expect("it ends").expect("read");
    assert!(!seen.contains("After"), "{seen}");
    assert_eq!(network.call(&gone, Method::GET, "/v1/chains").await.0, 401);
    assert_eq!(network.call(&stays, Method::GET, "/v1/chains").await.0, 200);
    assert_eq!(network.served.delete_empty("/v1/tokens/gone").await.0, 404);
    assert!(!goes_on.is_finished());
    network.served.end.send_replace(true);
    let seen = tokio::time::timeout(DEADLINE, goes_on).await.expect("it ends").expect("read");
    assert!(seen.contains("After"), "{seen}");
}

#[tokio::test]
async fn an_expired_token_ends_its_streams() {
    let network = start_network().await;
    let end = timestamp::text(SystemTime::now() + Duration::from_secs(3));
    let body = json!({"name": "short", "role": "view", "expires": end}).to_string();
    let (_, made) = network.served.post("/v1/tokens", &body).await;
    let token = made["token"].as_str().expect("a token");
    let stream = until_end(&network.client("authority.pem", None, Some(token))).await;
    tokio::time::timeout(DEADLINE, stream).await.expect("it ends").expect("read");
}

fn lines(network: &Network, name: &str) -> Vec<Value> {
    let text = fs::read_to_string(network.served.dir.path().join(name)).expect("a log");
    text.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect()
}

#[tokio::test]
async fn each_call_is_recorded_without_its_token() {
    let network = start_network().await;
    let token = network.token("ci", "operate").await;
    let client = network.client("authority.pem", None, Some(&token));
    let content = Content { body: br#"{"configuration":"a"}"#.to_vec(), ..Content::default() };
    client.call(Method::PUT, "/v1/chains/web?dry_run=false", content).await.expect("an answer");
    network.call(&token, Method::POST, "/v1/tokens").await;
    network.call(&token.replace("_ci", "_no"), Method::GET, "/v1/chains").await;
    let called = lines(&network, "audit.log");
    let user = format!("uid {}", rustix::process::geteuid().as_raw());
    assert_eq!((&called[0]["caller"], &called[0]["role"]), (&json!(user), &json!("administer")));
    let mut put = called[1].clone();
    let map = put.as_object_mut().expect("an object");
    let time = map.remove("time").expect("a time");
    assert!(time.as_str().expect("text").ends_with('Z'));
    assert!(map.remove("took_ms").is_some());
    let expected = json!({"caller": "token ci", "role": "operate", "address": "127.0.0.1",
        "method": "PUT", "path": "/v1/chains/web", "generation": 1, "status": 201});
    assert_eq!(put, expected);
    assert_eq!((&called[2]["status"], called.len()), (&json!(403), 3));
    let refused = lines(&network, "refused.log");
    assert_eq!((&refused[0]["status"], refused.len()), (&json!(401), 1));
    assert_eq!(refused[0].get("caller"), None);
    let text = format!("{called:?}{refused:?}");
    assert!(!text.contains(&token[20..]), "{text}");
}

#[tokio::test]
async fn tokens_outlive_the_manager() {
    let network = start_network().await;
    let token = network.token("ci", "operate").await;
    let kept = network.served.context.manager.store().credentials().expect("read");
    let known = network.served.context.manager.access().list();
    assert_eq!(kept, known);
    let again = thruway_manager::access::Registry::new(kept);
    let caller = again.admit_token(&token, SystemTime::now()).expect("known");
    assert_eq!((caller.author(), caller.role()), ("token ci".to_owned(), Role::Operate));
}

/// The clock of this test jumps to the next timer when nothing else is to be done.
#[tokio::test(start_paused = true)]
async fn a_reader_that_never_reads_is_ended() {
    let served = start();
    let path = served.dir.path().join("run/api.sock");
    let mut stream = UnixStream::connect(path).await.expect("a connection");
    let begun = tokio::time::Instant::now();
    let ask = b"GET /openapi.json HTTP/1.1\r\nHost: -\r\n\r\n";
    // Answers pile up until nothing more can be sent in either direction, and then it ends.
    let sent = async { while stream.write_all(ask).await.is_ok() {} };
    tokio::time::timeout(WRITE_TIME_MAX * 3, sent).await.expect("the connection was ended");
    assert!(begun.elapsed() >= WRITE_TIME_MAX);
    let mut rest = Vec::new();
    let _ = stream.read_to_end(&mut rest).await;
    assert!(rest.starts_with(b"HTTP/1.1 200"));
}
