//! Chains, their history and their handlers.

use hyper::Method;
use serde_json::json;
use thruway_manager::client::Content;

use crate::{field, parts, samples, start};

const IDLE: &str = r#"{"configuration":"Idle -> Discard;"}"#;

#[tokio::test]
async fn a_chain_is_declared_read_changed_and_taken_back() {
    let served = start();
    assert_eq!(served.get("/v1/chains").await, (200, json!({"items": [], "next": null})));
    let content = Content { body: IDLE.as_bytes().to_vec(), ..Content::default() };
    let answer = served.call(Method::PUT, "/v1/chains/web", content).await;
    assert_eq!(answer.headers["etag"], "\"1\"");
    let (status, body) = parts(&answer);
    assert_eq!((status, &body["generation"], &body["changed"]), (201, &json!(1), &json!(true)));
    assert_eq!(served.planes.last(), [("web".to_owned(), 1)]);

    let answer = served.call(Method::GET, "/v1/chains/web", Content::default()).await;
    assert_eq!(answer.headers["etag"], "\"1\"");
    let (status, body) = parts(&answer);
    assert_eq!((status, &body["spec"]["configuration"]), (200, &json!("Idle -> Discard;")));
    assert_eq!(body["status"]["conditions"][0]["since"], "1970-01-01T00:00:00.000Z");
    assert!(body["author"].as_str().expect("an author").starts_with("uid "));

    let calls = served.planes.calls();
    let (status, body) = served.put("/v1/chains/web", IDLE).await;
    assert_eq!((status, &body["generation"], &body["changed"]), (200, &json!(1), &json!(false)));
    assert_eq!(served.planes.calls(), calls, "nothing changed");

    let (status, body) = served.put("/v1/chains/web", r#"{"configuration":"a","threads":2}"#).await;
    assert_eq!((status, &body["generation"]), (200, &json!(2)));
    assert!(body["diff"].as_str().expect("a diff").contains("+threads: 2"), "{body}");
    assert_eq!(served.planes.last(), [("web".to_owned(), 2)]);

    let (status, body) = served.delete("/v1/chains/web").await;
    assert_eq!((status, &body["generation"]), (200, &json!(3)));
    assert_eq!(served.planes.last(), []);
    let (status, body) = served.get("/v1/chains/web").await;
    assert_eq!((status, &body["field"]), (404, &json!("name")));
}

#[tokio::test]
async fn what_does_not_exist_is_answered_with_what_does() {
    let served = start();
    served.put("/v1/chains/b", IDLE).await;
    served.put("/v1/chains/a", IDLE).await;
    for target in [
        "/v1/chains/web",
        "/v1/chains/web/generations",
        "/v1/chains/web/generations/1",
        "/v1/chains/web/diff",
        "/v1/chains/web/handlers/x",
    ] {
        let (status, body) = served.get(target).await;
        assert_eq!((status, &body["known"]), (404, &json!(["a", "b"])), "{target}");
    }
    let (status, body) = served.get("/v1/chain").await;
    assert_eq!(status, 404);
    assert!(body["known"].as_array().expect("a list").contains(&json!("GET /v1/chains")));
    let (status, body) = served.get("/v1/chains/a/generations/7").await;
    assert_eq!((status, &body["field"]), (404, &json!("generation")));
    assert_eq!(body["detail"], "chain 'a' has no generation 7; it has 1 to 1");
    let answer = served.call(Method::POST, "/v1/chains/a", Content::default()).await;
    assert_eq!(parts(&answer).0, 405);
    assert!(answer.headers["allow"].to_str().expect("text").contains("PUT"));
}

#[tokio::test]
async fn a_change_is_made_for_the_generation_that_it_names() {
    let served = start();
    let web = "/v1/chains/web";
    let new = [("if-none-match", "*")];
    assert_eq!(served.put_if(web, IDLE, &new).await.0, 201);
    let (status, body) = served.put_if(web, r#"{"configuration":"b"}"#, &new).await;
    assert_eq!((status, &body["current_generation"]), (412, &json!(1)));
    let first = [("if-match", "\"1\"")];
    assert_eq!(served.put_if(web, r#"{"configuration":"b"}"#, &first).await.0, 200);
    let (status, body) = served.put_if(web, r#"{"configuration":"c"}"#, &first).await;
    assert_eq!((status, &body["current_generation"]), (412, &json!(2)));
    assert_eq!(body["field"], "If-Match");
    let headers = &[("if-match", "\"1\"")];
    let answer = served.call(Method::DELETE, web, Content { headers, body: vec![] }).await;
    assert_eq!(answer.status, 412);
    let (status, body) = served.put_if(web, IDLE, &[("if-match", "W/\"2\"")]).await;
    assert_eq!((status, &body["field"]), (400, &json!("If-Match")));
}

#[tokio::test]
async fn a_dry_run_checks_and_changes_nothing() {
    let served = start();
    let calls = served.planes.calls();
    let dry = "/v1/chains/web?dry_run=true";
    let (status, body) = served.put(dry, r#"{"configuration":"odd"}"#).await;
    assert_eq!((status, &body["dry_run"], &body["generation"]), (200, &json!(true), &json!(1)));
    assert_eq!(body["warnings"], "warning: odd");
    assert!(body["diff"].as_str().expect("a diff").contains("+  odd"));
    assert_eq!(served.put(dry, r#"{"configuration":"bad"}"#).await.0, 422);
    assert_eq!(served.get("/v1/chains/web").await.0, 404);
    served.put("/v1/chains/web", IDLE).await;
    assert_eq!(served.delete(dry).await.0, 200);
    assert_eq!(served.get("/v1/chains/web").await.0, 200);
    assert_eq!(served.planes.calls(), calls + 1);
    let plan = |body: &serde_json::Value| body["plan"][0]["action"].clone();
    let (_, body) = served.put(dry, r#"{"configuration":"Idle -> Idle;"}"#).await;
    assert_eq!((plan(&body), &body["estimate"]), (json!("HotSwap"), &serde_json::Value::Null));
    // No program stands beside this manager that would find it out.
    let estimate = format!("{dry}&estimate=true");
    let (status, body) = served.put(&estimate, IDLE).await;
    assert_eq!((status, &body["estimate"]), (200, &serde_json::Value::Null), "{body}");
    let (status, body) = served.put("/v1/chains/web?estimate=true", IDLE).await;
    assert_eq!((status, &body["field"]), (422, &json!("estimate")));
}

#[tokio::test]
async fn what_is_wrong_is_refused_by_its_field() {
    let served = start();
    for (target, body, status, field) in [
        ("/v1/chains/web", r#"{"configuration":"bad"}"#, 422, "configuration"),
        ("/v1/chains/web", r#"{"configuration":3}"#, 422, "configuration"),
        ("/v1/chains/web", "{}", 422, "configuration"),
        ("/v1/chains/web", r#"{"configuration":"a","core":"1"}"#, 422, "core"),
        ("/v1/chains/web", r#"{"configuration":"a","threads":-1}"#, 422, "threads"),
        ("/v1/chains/Web", IDLE, 422, "name"),
        ("/v1/chains/a%2Fb", IDLE, 422, "name"),
        ("/v1/chains/web?dryrun=true", IDLE, 422, "dryrun"),
        ("/v1/chains/web?dry_run=yes", IDLE, 422, "dry_run"),
    ] {
        let (found, problem) = served.put(target, body).await;
        assert_eq!(
            (found, &problem["field"]),
            (status, &json!(field)),
            "{target} {body} {problem}"
        );
    }
    let (_, problem) = served.put("/v1/chains/web", r#"{"configuration":"bad"}"#).await;
    assert_eq!(problem["detail"], "config:1: bad");
    let (_, problem) = served.put("/v1/chains/web?dryrun=true", IDLE).await;
    assert_eq!(problem["suggestion"], "dry_run");
    for (target, field) in [
        ("/v1/chains?limit=0", "limit"),
        ("/v1/chains?limit=501", "limit"),
        ("/v1/chains?limit=x", "limit"),
        ("/v1/chains?limt=1", "limt"),
        ("/v1/chains/web/generations/x", "generation"),
        ("/v1/chains/web/handlers/a%20b", "handler"),
        ("/v1/events?chain=a.b", "chain"),
    ] {
        let (status, problem) = served.get(target).await;
        assert_eq!((status, &problem["field"]), (422, &json!(field)), "{target} {problem}");
    }
    assert_eq!(served.put("/v1/chains/web", "{").await.0, 400);
    assert_eq!(served.put("/v1/chains/web", "").await.0, 400);
    let headers = [("content-type", "text/html")];
    let content = Content { headers: &headers, body: vec![] };
    assert_eq!(served.call(Method::PUT, "/v1/chains/web", content).await.status, 415);
    assert_eq!(served.get("/v1/chains").await.1["items"], json!([]));
}

#[tokio::test]
async fn lists_come_in_pages() {
    let served = start();
    for number in 0..7 {
        served.put(&format!("/v1/chains/c{number}"), IDLE).await;
    }
    let (_, page) = served.get("/v1/chains?limit=4").await;
    assert_eq!(field(&page["items"], "name"), ["c0", "c1", "c2", "c3"]);
    assert_eq!((&page["next"], &page["items"][0]["spec"]), (&json!("c3"), &json!(null)));
    let (_, page) = served.get("/v1/chains?limit=4&after=c3").await;
    assert_eq!(field(&page["items"], "name"), ["c4", "c5", "c6"]);
    assert_eq!(page["next"], json!(null));
}

#[tokio::test]
async fn history_is_listed_compared_and_taken_back() {
    let served = start();
    for text in ["a", "b", "c"] {
        served.put("/v1/chains/web", &format!(r#"{{"configuration":"{text}"}}"#)).await;
    }
    let (_, page) = served.get("/v1/chains/web/generations?limit=2").await;
    assert_eq!(field(&page["items"], "generation"), [&json!(3), &json!(2)]);
    assert_eq!(page["next"], 2);
    let (_, page) = served.get("/v1/chains/web/generations?before=2").await;
    assert_eq!(field(&page["items"], "generation"), [&json!(1)]);
    let (_, one) = served.get("/v1/chains/web/generations/1").await;
    assert_eq!((&one["spec"]["configuration"], &one["deleted"]), (&json!("a"), &json!(false)));
    let (_, diff) = served.get("/v1/chains/web/diff?from=1&to=3").await;
    let diff = diff["diff"].as_str().expect("a diff");
    assert!(diff.contains("-  a\n") && diff.contains("+  c\n"), "{diff}");
    let rollback = "/v1/chains/web/rollback";
    let (status, _) = served.post(&format!("{rollback}?dry_run=true"), r#"{"to":1}"#).await;
    assert_eq!((status, served.planes.last()), (200, vec![("web".to_owned(), 3)]));
    let (status, body) = served.post(rollback, r#"{"to":1}"#).await;
    assert_eq!((status, &body["generation"]), (200, &json!(4)));
    assert_eq!(served.planes.last(), [("web".to_owned(), 4)]);
    served.delete("/v1/chains/web").await;
    assert_eq!(served.post(rollback, r#"{"to":5}"#).await.0, 409);
    assert_eq!(served.post(rollback, r#"{"to":9}"#).await.0, 404);
    assert_eq!(served.post(rollback, r#"{"two":9}"#).await.1["field"], "two");
    assert_eq!(served.post(rollback, r#"{"to":2}"#).await.0, 201);
    let (_, web) = served.get("/v1/chains/web").await;
    assert_eq!((&web["spec"]["configuration"], &web["generation"]), (&json!("b"), &json!(6)));
}

#[tokio::test]
async fn handlers_go_through_to_the_data_plane() {
    let served = start();
    served.put("/v1/chains/web", IDLE).await;
    let at = |handler: &str| format!("/v1/chains/web/handlers/{handler}");
    for (handler, name) in [
        ("c0.count", "c0.count"),
        ("lan/in.count", "lan/in.count"),
        ("lan%2Fin.count", "lan/in.count"),
    ] {
        let answer = served.get(&at(handler)).await;
        assert_eq!(answer, (200, json!({"value": format!("web {name}")})));
    }
    let (status, _) = served.put(&at("lan/c.reset"), r#"{"value":"1 2\n3"}"#).await;
    let written = served.planes.written.lock().clone();
    assert_eq!(status, 200);
    assert_eq!(written, [["web", "lan/c.reset", "1 2\n3"].map(str::to_owned).into()]);
    assert_eq!(served.get(&at("stopped")).await.0, 409);
    let (status, problem) = served.get(&at("refused")).await;
    assert_eq!((status, &problem["detail"]), (502, &json!("no such handler")));
    assert_eq!(served.get(&at(&"x".repeat(2000))).await.1["field"], "handler");
}

#[tokio::test]
async fn metrics_count_chains_conditions_restarts_and_calls() {
    let served = start();
    served.put("/v1/chains/web", IDLE).await;
    served.put("/v1/chains/dns", IDLE).await;
    served.get("/v1/chains/none").await;
    let answer = served.call(Method::GET, "/metrics", Content::default()).await;
    assert!(answer.headers["content-type"].to_str().expect("text").contains("openmetrics-text"));
    let text = std::str::from_utf8(&answer.body).expect("text");
    assert!(text.ends_with("# EOF\n"), "{text}");
    let values = |metric| samples(text, metric);
    assert_eq!(values("thruway_manager_chains")[""], 2.0);
    let ready = r#"{chain="web",condition="Ready"}"#;
    assert_eq!(values("thruway_manager_chain_condition")[ready], 1.0, "{text}");
    assert_eq!(values("thruway_manager_chain_restarts_total")[r#"{chain="dns"}"#], 2.0);
    let calls = values("thruway_manager_api_calls_total");
    let put = r#"{method="PUT",route="/v1/chains/{name}",code="201"}"#;
    let get = r#"{method="GET",route="/v1/chains/{name}",code="404"}"#;
    assert_eq!((calls[put], calls[get]), (2.0, 1.0), "{text}");
}
