//! `/openapi.json`: the API, told by its own types.

use axum::http::header;
use axum::response::{IntoResponse, Response};
use utoipa::OpenApi;

use super::body::Params;
use super::problem::{Kind, Problem};
use super::views::NoParams;
use super::{chains, handlers, history, metrics, stream, views};

#[derive(OpenApi)]
#[openapi(
    info(
        title = "Thruway manager",
        version = "1",
        description = "Chains of network functions that are declared, kept and watched.",
        license(name = "Apache-2.0 OR MIT")
    ),
    paths(
        chains::list,
        chains::get,
        chains::put,
        chains::delete,
        history::list,
        history::get,
        history::diff,
        history::rollback,
        handlers::get,
        handlers::put,
        stream::events,
        metrics::metrics
    ),
    components(schemas(views::EventView))
)]
struct Documentation;

/// The API's description (OpenAPI 3.1), as text.
pub fn text() -> String {
    // Its own types are always JSON.
    Documentation::openapi().to_pretty_json().unwrap_or_default() + "\n"
}

/// Paths and methods of the description: `PUT /v1/chains/{name}`.
pub fn operations() -> Vec<String> {
    let value: serde_json::Value = serde_json::from_str(&text()).unwrap_or_default();
    let paths = value["paths"].as_object().into_iter().flatten();
    let methods = paths.flat_map(|(path, item)| {
        let methods = item.as_object().into_iter().flat_map(|methods| methods.keys());
        methods.map(move |method| format!("{} {path}", method.to_uppercase()))
    });
    methods.collect()
}

/// The description itself.
pub async fn openapi(Params(NoParams {}): Params<NoParams>) -> Result<Response, Problem> {
    Ok(([(header::CONTENT_TYPE, "application/json")], text()).into_response())
}

/// The answer to a path that does not exist.
pub async fn not_found(uri: axum::http::Uri) -> Problem {
    let known: Vec<String> =
        operations().into_iter().chain(["GET /openapi.json".to_owned()]).collect();
    let detail = format!("there is no {}; `known` lists what there is", uri.path());
    Problem::new(Kind::NotFound, detail).known(known)
}

/// The answer to a method that a path does not have.
pub async fn no_method(method: axum::http::Method, uri: axum::http::Uri) -> Problem {
    let path = uri.path();
    let detail = format!("{path} has no method {method}; the header `Allow` lists those it has");
    Problem::new(Kind::Method, detail)
}
