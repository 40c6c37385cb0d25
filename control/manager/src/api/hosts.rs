//! `/v1/hosts`: what the host is, read only.

use std::path::Path;

use axum::Json;
use axum::extract::State;

use super::body::{Params, PathParts};
use super::context::Context;
use super::problem::{Kind, Problem};
use super::resources::page_limit;
use super::views::{HostView, List, ListParams, NoParams};
use crate::host;

/// Where `/proc` and `/sys` are.
const ROOT: &str = "/";

/// Lists hosts: this one
#[utoipa::path(get, path = "/v1/hosts", tag = "hosts", params(ListParams), responses(
    (status = 200, description = "a page of hosts, by name", body = List<HostView>),
))]
pub async fn list(
    State(context): State<Context>,
    Params(params): Params<ListParams>,
) -> Result<Json<List<HostView>>, Problem> {
    page_limit(params.limit)?;
    let host = observe(&context).await?;
    let is_behind = params.after.is_none_or(|after| host.name > after);
    Ok(Json(List { items: Some(host).filter(|_| is_behind).into_iter().collect(), next: None }))
}

/// Reads a host
#[utoipa::path(get, path = "/v1/hosts/{name}", tag = "hosts",
    params(("name" = String, Path, description = "name of the host")), responses(
    (status = 200, description = "the host", body = HostView),
    (status = 404, description = "no such host; `known` lists those that there are",
     body = Problem, content_type = "application/problem+json"),
))]
pub async fn get(
    State(context): State<Context>,
    PathParts(name): PathParts<String>,
    Params(NoParams {}): Params<NoParams>,
) -> Result<Json<HostView>, Problem> {
    named(&context, &name).await.map(Json)
}

/// The host of that name.
pub(super) async fn named(context: &Context, name: &str) -> Result<HostView, Problem> {
    let host = observe(context).await?;
    if host.name == name {
        return Ok(host);
    }
    let detail = format!("there is no host '{}'; this one is {}", name.escape_debug(), host.name);
    Err(Problem::new(Kind::NotFound, detail).field("name").known(vec![host.name]))
}

/// Looks at this host, outside of the thread that serves.
async fn observe(context: &Context) -> Result<HostView, Problem> {
    let look = |_: &_| {
        let root = Path::new(ROOT);
        Ok::<_, Problem>(HostView { name: host::name(root), status: host::observe(root) })
    };
    context.call(look).await
}
