//! The page's files, and requests that a browser makes for other sites.

use hyper::Method;
use serde_json::json;
use thruway_manager::client::Content;

use crate::network::start_network;
use crate::start;

#[tokio::test]
async fn files_are_for_everybody_and_data_is_not() {
    let network = start_network().await;
    let stranger = network.client("authority.pem", None, None);
    let get = async |target: &str| {
        stranger.call(Method::GET, target, Content::default()).await.expect("an answer")
    };
    for (target, kind, begins) in [
        ("/", "text/html; charset=utf-8", "<!doctype html>"),
        ("/page/main.js", "text/javascript; charset=utf-8", "//"),
        ("/page/style.css", "text/css; charset=utf-8", ":root"),
        ("/page/icon.svg", "image/svg+xml", "<svg"),
    ] {
        let answer = get(target).await;
        let text = std::str::from_utf8(&answer.body).expect("text");
        assert_eq!(
            (answer.status, &answer.headers["content-type"]),
            (200, &kind.parse().expect("a type"))
        );
        assert!(text.starts_with(begins), "{target}: {text:.40}");
        let policy = answer.headers["content-security-policy"].to_str().expect("text");
        for rule in ["default-src 'none'", "script-src 'self'", "frame-ancestors 'none'"] {
            assert!(policy.contains(rule), "{policy}");
        }
        assert!(!policy.contains("unsafe"), "{policy}");
        assert_eq!(answer.headers["x-content-type-options"], "nosniff");
    }
    for target in ["/page/none.js", "/page/", "/v1/chains", "/v1/chains/web/graph"] {
        assert_eq!(get(target).await.status, 401, "{target}");
    }
    let posted = stranger.call(Method::POST, "/", Content::default()).await.expect("an answer");
    assert_eq!(posted.status, 405);
    // This host gets them by its socket, too.
    let answer = network.served.call(Method::GET, "/", Content::default()).await;
    assert_eq!(answer.status, 200);
}

#[tokio::test]
async fn a_client_that_calls_too_often_gets_no_files_either() {
    let network = start_network().await;
    // One connection, many requests.
    let (printed, _) = network.curl(&[], "/page/icon.svg?[1-2000]").await;
    assert!(printed.contains(" 200") && printed.contains("calls too often"), "{printed:.300}");
}

#[tokio::test]
async fn pages_of_other_sites_change_nothing() {
    let served = start();
    let put = async |headers: &[(&'static str, &str)]| {
        served.put_if("/v1/chains/web", r#"{"configuration":"a"}"#, headers).await
    };
    for site in ["cross-site", "same-site"] {
        let (status, problem) = put(&[("sec-fetch-site", site)]).await;
        assert_eq!((status, &problem["field"]), (403, &json!("Sec-Fetch-Site")), "{site}");
    }
    // A page that gave its own name this host's address.
    let (status, problem) = put(&[("host", "attacker.example:8080")]).await;
    assert_eq!((status, &problem["field"]), (403, &json!("Host")));
    assert_eq!(served.planes.calls(), 1, "only what the manager began with");
    for headers in [&[("sec-fetch-site", "same-origin")][..], &[("host", "localhost:8080")], &[]] {
        assert!(put(headers).await.0 < 300, "{headers:?}");
    }
}
