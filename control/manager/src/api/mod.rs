//! The manager's API: HTTP and JSON.
// Refusals are rare, and each is sent at once.
#![allow(clippy::result_large_err)]

mod body;
mod capture;
mod context;
mod counts;
mod documentation;
mod examples;
mod gate;
mod graph;
mod handlers;
mod history;
mod hosts;
mod log;
mod metrics;
mod network;
mod page;
mod patient;
mod problem;
mod rate;
mod reader;
mod recent;
mod reports;
mod resources;
mod roles;
mod server;
mod sites;
mod socket;
mod stream;
mod tokens;
pub mod views;

use axum::Router;
use axum::middleware::from_fn_with_state;
use axum::routing::{MethodRouter, delete, get, post, put};

pub use body::{BODY_LEN_MAX, parse_json};
pub use context::{Context, Peer, STREAMS_MAX};
pub use counts::OtlpCounts;
pub use documentation::{operations, text as openapi_text};
pub use log::LOG_LINES_MAX;
pub(crate) use metrics::{Table, tables};
pub use network::{NetworkListener, REMOTE_CONNECTIONS_MAX, serve_network};
pub use patient::WRITE_TIME_MAX;
pub use problem::{PROBLEM_JSON, Problem};
pub use rate::{BURST, PEER_CONNECTIONS_MAX};
use resources::Served;
pub use roles::{ROLES, role_of};
pub use server::{CONNECTIONS_MAX, serve};
pub use socket::{Listener, SocketError, default_path};

use crate::{ChainSpec, FunctionSpec, GroupSpec};

/// The API over a manager.
pub fn router(context: Context) -> Router {
    answers()
        .into_iter()
        .fold(Router::new(), |router, (method, path, operation)| {
            router.route(&path, guarded(method, &path, operation))
        })
        .fallback(documentation::not_found)
        .method_not_allowed_fallback(documentation::no_method)
        .layer(from_fn_with_state(context.clone(), gate::gate))
        // Behind the gate's layer, which so is not before it.
        .merge(page::router(&context))
        .with_state(context)
}

/// What answers an operation: method, path, answer.
type Operation = (&'static str, String, MethodRouter<Context>);

/// What answers each operation of [`ROLES`].
fn answers() -> Vec<Operation> {
    let others = [
        ("GET", "/v1/chains/{name}/log", get(log::get)),
        ("GET", "/v1/chains/{name}/graph", get(graph::get)),
        ("POST", "/v1/chains/{name}/examples", post(examples::find)),
        ("POST", "/v1/chains/{name}/capture", post(capture::post)),
        ("GET", "/v1/chains/{name}/estimate", get(reports::estimate)),
        ("GET", "/v1/chains/{name}/explanation", get(reports::explanation)),
        // Names of elements have slashes: `lan/in.count`.
        ("GET", "/v1/chains/{name}/handlers/{*handler}", get(handlers::get)),
        ("PUT", "/v1/chains/{name}/handlers/{*handler}", put(handlers::put)),
        ("GET", "/v1/hosts", get(hosts::list)),
        ("GET", "/v1/hosts/{name}", get(hosts::get)),
        ("GET", "/v1/hosts/{name}/checkup", get(reports::checkup)),
        ("GET", "/v1/events", get(stream::events)),
        ("GET", "/v1/tokens", get(tokens::list)),
        ("POST", "/v1/tokens", post(tokens::create)),
        ("DELETE", "/v1/tokens/{name}", delete(tokens::revoke)),
        ("GET", "/openapi.json", get(documentation::openapi)),
        ("GET", "/metrics", get(metrics::metrics)),
    ];
    let others = others.map(|(method, path, answer)| (method, path.to_owned(), answer));
    let declared = [of_kind::<ChainSpec>(), of_kind::<FunctionSpec>(), of_kind::<GroupSpec>()];
    declared.into_iter().flatten().chain(others).collect()
}

/// What answers the operations of a kind of resource.
fn of_kind<S: Served>() -> [Operation; 8] {
    let at = |rest: &str| format!("/v1/{}s{rest}", S::KIND);
    [
        ("GET", at(""), get(resources::list::<S>)),
        ("GET", at("/{name}"), get(resources::get::<S>)),
        ("PUT", at("/{name}"), put(resources::put::<S>)),
        ("DELETE", at("/{name}"), delete(resources::delete::<S>)),
        ("GET", at("/{name}/generations"), get(history::list::<S>)),
        ("GET", at("/{name}/generations/{generation}"), get(history::get::<S>)),
        ("GET", at("/{name}/diff"), get(history::diff::<S>)),
        ("POST", at("/{name}/rollback"), post(history::rollback::<S>)),
    ]
}

/// An operation for those whose role is enough; without a role there is no operation.
fn guarded(method: &str, path: &str, operation: MethodRouter<Context>) -> MethodRouter<Context> {
    match role_of(method, &path.replace("{*", "{")) {
        Some(role) => operation.route_layer(from_fn_with_state(role, gate::need)),
        None => MethodRouter::new(),
    }
}
