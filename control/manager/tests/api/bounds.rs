//! What hostile clients send, and what too many of them get.

use std::time::Duration;

use hyper::Method;
use thruway_manager::api::{BODY_LEN_MAX, CONNECTIONS_MAX};
use thruway_manager::client::Content;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::UnixStream;

use crate::{DEADLINE, Served, start};

async fn connect(served: &Served) -> UnixStream {
    UnixStream::connect(served.dir.path().join("run/api.sock")).await.expect("a connection")
}

/// Sends bytes, and reads until the server ends the connection.
async fn exchange(served: &Served, bytes: &[u8]) -> String {
    let mut stream = connect(served).await;
    // It may be closed before all is sent.
    let _ = stream.write_all(bytes).await;
    read_all(stream).await
}

async fn read_all(mut stream: UnixStream) -> String {
    let mut answer = Vec::new();
    // A server that refuses a body closes the connection with bytes unread.
    let _ = tokio::time::timeout(DEADLINE, stream.read_to_end(&mut answer)).await.expect("in time");
    String::from_utf8_lossy(&answer).into_owned()
}

#[tokio::test]
async fn a_body_is_bounded() {
    let served = start();
    let fill = |len: usize| {
        let frame = r#"{"configuration":""}"#.len();
        format!(r#"{{"configuration":"{}"}}"#, "x".repeat(len - frame))
    };
    assert_eq!(served.put("/v1/chains/web", &fill(BODY_LEN_MAX)).await.0, 201);
    assert_eq!(served.put("/v1/chains/web", &fill(BODY_LEN_MAX + 1)).await.0, 413);
    let head = "PUT /v1/chains/web HTTP/1.1\r\nHost: -\r\nConnection: close\r\n";
    let lots = format!("{head}Content-Length: 1000000000\r\n\r\n{}", "x".repeat(BODY_LEN_MAX + 10));
    assert!(exchange(&served, lots.as_bytes()).await.starts_with("HTTP/1.1 413"));
    let chunk = format!("10000\r\n{}\r\n", "x".repeat(0x10000)).repeat(20);
    let chunked = format!("{head}Transfer-Encoding: chunked\r\n\r\n{chunk}");
    assert!(exchange(&served, chunked.as_bytes()).await.starts_with("HTTP/1.1 413"));
}

#[tokio::test]
async fn what_is_no_http_ends_the_connection() {
    let served = start();
    let long = format!("GET / HTTP/1.1\r\nX: {}\r\n\r\n", "x".repeat(200_000));
    let many = format!("GET / HTTP/1.1\r\n{}\r\n", "X: y\r\n".repeat(1000));
    let length = "PUT /v1/chains/a HTTP/1.1\r\nContent-Length: -1\r\n\r\n";
    let both = "PUT /v1/chains/a HTTP/1.1\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nab";
    for bytes in ["\0\0\0\0\r\n\r\n", "GET\r\n\r\n", &long, &many, length, both] {
        let answer = exchange(&served, bytes.as_bytes()).await;
        assert!(answer.is_empty() || answer.starts_with("HTTP/1.1 4"), "{answer}");
    }
    for target in ["/v1/chains/%ff", "/v1/chains/%00", "/v1/chains/..", "/v1//chains", "/%"] {
        let answer = served.client.call(Method::GET, target, Content::default()).await;
        let status = answer.expect("an answer").status;
        assert!([400, 404, 422].contains(&status), "{target}: {status}");
    }
    assert_eq!(served.get("/v1/chains").await.0, 200);
}

#[tokio::test]
async fn connections_are_bounded_and_become_free() {
    let served = start();
    let mut open = Vec::new();
    for _ in 0..CONNECTIONS_MAX {
        open.push(connect(&served).await);
    }
    let answer = exchange(&served, b"GET /v1/chains HTTP/1.1\r\nHost: -\r\n\r\n").await;
    assert!(answer.starts_with("HTTP/1.1 503") && answer.contains("problem:busy"), "{answer}");
    drop(open);
    let again = async {
        while served.get("/v1/chains").await.0 != 200 {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(DEADLINE, again).await.expect("places are free again");
}

/// The clock of this test jumps to the next timer when nothing else is to be done.
#[tokio::test(start_paused = true)]
async fn a_slow_client_is_ended() {
    let served = start();
    let begun = tokio::time::Instant::now();
    let mut head = connect(&served).await;
    head.write_all(b"GET /v1/chains HTTP/1.1\r\nHo").await.expect("sent");
    let answer = read_all(head).await;
    assert!(answer.is_empty() || answer.starts_with("HTTP/1.1 408"), "{answer}");
    let idle = read_all(connect(&served).await).await;
    assert_eq!(idle, "");
    let mut body = connect(&served).await;
    let part = b"PUT /v1/chains/web HTTP/1.1\r\nHost: -\r\nContent-Length: 100\r\n\r\n{";
    body.write_all(part).await.expect("sent");
    let answer = read_all(body).await;
    assert!(answer.starts_with("HTTP/1.1 408") && answer.contains("problem:timeout"), "{answer}");
    assert!(begun.elapsed() < Duration::from_secs(120));
}
