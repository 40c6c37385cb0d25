//! `/openapi.json`: the API, told by its own types.

use axum::http::header;
use axum::response::{IntoResponse, Response};
use utoipa::openapi::extensions::ExtensionsBuilder;
use utoipa::openapi::path::PathItem;
use utoipa::openapi::security::{HttpAuthScheme, HttpBuilder, SecurityRequirement, SecurityScheme};
use utoipa::openapi::{Content, OpenApi as OpenApiDocument, Ref, ResponseBuilder};
use utoipa::{Modify, OpenApi};

use super::body::Params;
use super::problem::{Kind, Problem};
use super::roles::role_of;
use super::views::NoParams;
use super::{
    capture, examples, graph, handlers, history, hosts, log, metrics, reports, resources, stream,
    tokens, views,
};
use crate::{FunctionSpec, GroupSpec};

#[derive(OpenApi)]
#[openapi(
    info(
        title = "Thruway manager",
        version = "1",
        description = "Chains of network functions, functions and groups of trust that are declared, kept and watched.",
        license(name = "Apache-2.0 OR MIT")
    ),
    paths(
        resources::list,
        resources::get,
        resources::put,
        resources::delete,
        history::list,
        history::get,
        history::diff,
        history::rollback,
        handlers::get,
        handlers::put,
        log::get,
        graph::get,
        examples::find,
        capture::post,
        reports::estimate,
        reports::explanation,
        hosts::list,
        hosts::get,
        reports::checkup,
        stream::events,
        tokens::list,
        tokens::create,
        tokens::revoke,
        metrics::metrics
    ),
    components(schemas(
        views::EventView,
        FunctionSpec,
        GroupSpec,
        views::ResourceView<FunctionSpec>,
        views::ResourceView<GroupSpec>,
        views::List<views::ResourceView<FunctionSpec>>,
        views::GenerationList<FunctionSpec>,
        views::List<views::ResourceView<GroupSpec>>,
        views::GenerationList<GroupSpec>
    )),
    modifiers(&Kinds, &Access)
)]
struct Documentation;

/// Adds the operations of functions and groups: they are those of chains, in other words.
struct Kinds;

impl Modify for Kinds {
    fn modify(&self, api: &mut OpenApiDocument) {
        let chains = "/v1/chains";
        let of_chains = api.paths.paths.iter().filter(|(path, _)| path.starts_with(chains));
        // Only a chain runs.
        let only = |path: &str| {
            let last = ["/log", "/graph", "/examples", "/capture", "/estimate", "/explanation"];
            path.contains("/handlers/") || last.iter().any(|last| path.ends_with(last))
        };
        let all = of_chains.filter(|(path, _)| !only(path));
        let made: Vec<(String, PathItem)> = all
            .flat_map(|(path, item)| {
                [("Function", "function"), ("Group", "group")]
                    .into_iter()
                    .filter_map(move |kind| Some((path.replace("chain", kind.1), of(kind, item)?)))
            })
            .collect();
        api.paths.paths.extend(made);
    }
}

/// An operation of chains, for another kind of resource.
fn of((upper, lower): (&str, &str), item: &PathItem) -> Option<PathItem> {
    let text = serde_json::to_string(item).ok()?;
    let text = text.replace("ChainView", &format!("ResourceView_{upper}Spec"));
    serde_json::from_str(&text.replace("Chain", upper).replace("chain", lower)).ok()
}

/// Adds what each operation needs (a role, and on the network a proof of who calls), and that it
/// may be refused.
struct Access;

impl Modify for Access {
    fn modify(&self, api: &mut OpenApiDocument) {
        let components = api.components.get_or_insert_default();
        let bearer = HttpBuilder::new()
            .scheme(HttpAuthScheme::Bearer)
            .description(Some("a token, as `thruway token create` printed it"))
            .build();
        components.add_security_scheme("token", SecurityScheme::Http(bearer));
        let certificate = SecurityScheme::MutualTls {
            description: Some("a certificate that was let in".to_owned()),
            deprecated: None,
            extensions: None,
        };
        components.add_security_scheme("certificate", certificate);
        let none: [&str; 0] = [];
        let any = ["token", "certificate"].map(|name| SecurityRequirement::new(name, none));
        // On the Unix socket the kernel reports who calls.
        let all = [SecurityRequirement::default()].into_iter().chain(any);
        api.security = Some(all.collect());
        for (path, item) in &mut api.paths.paths {
            let operations = [
                ("GET", &mut item.get),
                ("PUT", &mut item.put),
                ("POST", &mut item.post),
                ("DELETE", &mut item.delete),
            ];
            for (method, operation) in operations {
                let role = role_of(method, path);
                if let (Some(operation), Some(role)) = (operation, role) {
                    let extension = ExtensionsBuilder::new().add("x-role", role.as_str()).build();
                    operation.extensions = Some(extension);
                    operation.responses.responses.insert("default".to_owned(), refused().into());
                }
            }
        }
    }
}

/// What any operation answers that is refused.
fn refused() -> utoipa::openapi::Response {
    let problem = Content::new(Some(Ref::from_schema_name("Problem")));
    let response = ResponseBuilder::new().description("refused");
    response.content("application/problem+json", problem).build()
}

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
