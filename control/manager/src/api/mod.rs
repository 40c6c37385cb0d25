//! The manager's API: HTTP and JSON.
// Refusals are rare, and each is sent at once.
#![allow(clippy::result_large_err)]

mod body;
mod chains;
mod context;
mod counts;
mod documentation;
mod handlers;
mod history;
mod metrics;
mod problem;
mod server;
mod socket;
mod stream;
pub mod views;

use axum::Router;
use axum::extract::{MatchedPath, Request, State};
use axum::middleware::{Next, from_fn_with_state};
use axum::response::{IntoResponse as _, Response};
use axum::routing::{get, post};

pub use body::{BODY_LEN_MAX, parse_json};
pub use context::{Context, Peer, STREAMS_MAX};
pub use documentation::{operations, text as openapi_text};
pub use problem::{PROBLEM_JSON, Problem};
pub use server::{CONNECTIONS_MAX, serve};
pub use socket::{Listener, SocketError, default_path};

use context::REQUEST_TIME_MAX;
use problem::Kind;

/// The API over a manager.
pub fn router(context: Context) -> Router {
    Router::new()
        .route("/v1/chains", get(chains::list))
        .route("/v1/chains/{name}", get(chains::get).put(chains::put).delete(chains::delete))
        .route("/v1/chains/{name}/generations", get(history::list))
        .route("/v1/chains/{name}/generations/{generation}", get(history::get))
        .route("/v1/chains/{name}/diff", get(history::diff))
        .route("/v1/chains/{name}/rollback", post(history::rollback))
        // Names of elements have slashes: `lan/in.count`.
        .route("/v1/chains/{name}/handlers/{*handler}", get(handlers::get).put(handlers::put))
        .route("/v1/events", get(stream::events))
        .route("/openapi.json", get(documentation::openapi))
        .route("/metrics", get(metrics::metrics))
        .fallback(documentation::not_found)
        .method_not_allowed_fallback(documentation::no_method)
        .layer(from_fn_with_state(context.clone(), bounded))
        .with_state(context)
}

/// Bounds the time of a request, and counts it.
async fn bounded(State(context): State<Context>, request: Request, next: Next) -> Response {
    let method = request.method().clone();
    let route = request.extensions().get::<MatchedPath>().cloned();
    let response = match tokio::time::timeout(REQUEST_TIME_MAX, next.run(request)).await {
        Ok(response) => response,
        Err(_) => {
            let detail = format!("the request took more than {} s", REQUEST_TIME_MAX.as_secs());
            Problem::new(Kind::Timeout, detail).into_response()
        }
    };
    let route = route.as_ref().map_or("other", MatchedPath::as_str);
    context.counts.count(&method, route, response.status().as_u16());
    response
}
