//! Serving: connections of this user and root, so many at a time, each with bounds.

use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::extract::Request;
use axum::response::IntoResponse as _;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use rustix::process::geteuid;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::UnixStream;
use tokio::sync::{Semaphore, watch};
use tokio::task::JoinSet;
use tower_service::Service as _;

use super::context::Peer;
use super::patient::Patient;
use super::problem::{Kind, Problem};
use super::socket::Listener;

/// Connections at a time; the next ones are refused.
pub const CONNECTIONS_MAX: usize = 256;

/// Connections beyond these that are told so at a time.
const REFUSALS_MAX: usize = 16;

/// How long a client may take to send the head of a request, and may be idle between two.
const HEAD_TIME_MAX: Duration = Duration::from_secs(30);

/// Longest head of a request, in bytes.
const HEAD_LEN_MAX: usize = 64 << 10;

/// How long requests may go on when the program ends.
const GRACE: Duration = Duration::from_secs(5);

/// How long accepting rests when the process has no files left.
pub(super) const REST: Duration = Duration::from_millis(100);

/// Serves until `ending` becomes true, then lets requests that are under way come to their end.
pub async fn serve(listener: Listener, router: Router, mut ending: watch::Receiver<bool>) {
    let permits = Arc::new(Semaphore::new(CONNECTIONS_MAX));
    let refusals = Arc::new(Semaphore::new(REFUSALS_MAX));
    let mut connections = JoinSet::new();
    loop {
        let accepted = tokio::select! {
            accepted = listener.socket().accept() => accepted,
            _ = ending.wait_for(|ending| *ending) => break,
        };
        while connections.try_join_next().is_some() {}
        let Ok((stream, _)) = accepted else {
            tokio::time::sleep(REST).await;
            continue;
        };
        let admitted = match (admit(&stream), Arc::clone(&permits).try_acquire_owned()) {
            (Ok(peer), Ok(place)) => Ok((peer, place)),
            (Err(problem), _) => Err(problem),
            (_, Err(_)) => {
                let detail = format!("{CONNECTIONS_MAX} connections are open; end one");
                Err(Problem::new(Kind::Busy, detail))
            }
        };
        match admitted {
            Ok((peer, place)) => {
                let (router, ending) = (router.clone(), ending.clone());
                connections.spawn(async move {
                    let _place = place;
                    connection(Patient::new(stream), Served::Router(router, peer), ending).await;
                });
            }
            Err(problem) => {
                // Without a place even for that, it is closed without a word.
                let Ok(place) = Arc::clone(&refusals).try_acquire_owned() else { continue };
                let ending = ending.clone();
                connections.spawn(async move {
                    let _place = place;
                    connection(Patient::new(stream), Served::Refusal(problem), ending).await;
                });
            }
        }
    }
    drop(listener);
    finish(connections).await;
}

/// This user and root, whoever can open the file.
fn admit(stream: &UnixStream) -> Result<Peer, Problem> {
    let refused = |why: String| Problem::new(Kind::Forbidden, why);
    let credentials = stream.peer_cred();
    let credentials = credentials.map_err(|error| refused(format!("who calls? {error}")))?;
    let (uid, own) = (credentials.uid(), geteuid().as_raw());
    match uid == own || uid == 0 {
        true => Ok(Peer::Local { uid }),
        false => Err(refused(format!(
            "user {uid} may not use the manager of user {own}; only that user and root may"
        ))),
    }
}

/// What a connection gets.
#[derive(Clone)]
pub(super) enum Served {
    Router(Router, Peer),
    /// The same answer to everything, and the end.
    Refusal(Problem),
}

/// Serves a connection until one of the two ends it.
pub(super) async fn connection(
    stream: impl AsyncRead + AsyncWrite + Unpin,
    served: Served,
    mut ending: watch::Receiver<bool>,
) {
    let once = matches!(served, Served::Refusal(_));
    let service = service_fn(move |request: Request<Incoming>| {
        let served = served.clone();
        async move {
            match served {
                Served::Router(mut router, peer) => {
                    let mut request = request.map(Body::new);
                    request.extensions_mut().insert(peer);
                    router.call(request).await
                }
                Served::Refusal(problem) => Ok(problem.into_response()),
            }
        }
    });
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD_TIME_MAX)
        .max_buf_size(HEAD_LEN_MAX)
        .keep_alive(!once)
        .serve_connection(TokioIo::new(stream), service);
    let mut connection = std::pin::pin!(connection);
    tokio::select! {
        // A broken connection is the client's affair.
        _ = connection.as_mut() => return,
        _ = ending.wait_for(|ending| *ending) => {}
    }
    connection.as_mut().graceful_shutdown();
    let _ = connection.await;
}

/// Lets connections that are under way come to their end; what is not done in time is cut off.
pub(super) async fn finish(mut connections: JoinSet<()>) {
    let all = async { while connections.join_next().await.is_some() {} };
    let _ = tokio::time::timeout(GRACE, all).await;
}
