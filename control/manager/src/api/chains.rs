//! `/v1/chains`: what is asked for and what is observed.

use axum::Json;
use axum::extract::{FromRequestParts, State};
use axum::http::request::Parts;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};

use super::body::{ChainPath, JsonBody, Params, precondition};
use super::context::{Context, Peer};
use super::problem::{Kind, Problem};
use super::views::{
    ChainList, ChainView, ChangeParams, ChangeView, LIMIT_MAX, ListParams, NoParams, limit,
};
use crate::manager::Change;
use crate::store::{ChangeOptions, Precondition};
use crate::{ChainName, ChainSpec, Manager};

/// The limit of a page, as a problem.
pub(super) fn page_limit(asked: Option<u16>) -> Result<usize, Problem> {
    let detail = format!("a page has 1 to {LIMIT_MAX} items");
    limit(asked).ok_or_else(|| Problem::new(Kind::Invalid, detail).field("limit"))
}

/// Lists chains, without their specifications
#[utoipa::path(get, path = "/v1/chains", tag = "chains", params(ListParams), responses(
    (status = 200, description = "a page of chains, by name", body = ChainList),
    (status = "default", description = "refused", body = Problem,
     content_type = "application/problem+json"),
))]
pub async fn list(
    State(context): State<Context>,
    Params(params): Params<ListParams>,
) -> Result<Json<ChainList>, Problem> {
    let limit = page_limit(params.limit)?;
    let manager = &context.manager;
    let page = manager.store().list(params.after.as_deref(), limit)?;
    let view = |one| ChainView::of(one, manager.planes().status(&one.name));
    let items: Vec<ChainView> = page.items.iter().map(view).collect();
    let next = items.last().filter(|_| page.more).map(|last| last.name.clone());
    Ok(Json(ChainList { items, next }))
}

/// Reads a chain
#[utoipa::path(get, path = "/v1/chains/{name}", tag = "chains",
    params(("name" = String, Path, description = "name of the chain")), responses(
    (status = 200, description = "the chain", body = ChainView,
     headers(("ETag" = String, description = "the generation, in quotes"))),
    (status = 404, description = "no such chain; `known` lists those that there are",
     body = Problem, content_type = "application/problem+json"),
    (status = "default", description = "refused", body = Problem,
     content_type = "application/problem+json"),
))]
pub async fn get(
    State(context): State<Context>,
    ChainPath(name): ChainPath,
    Params(NoParams {}): Params<NoParams>,
) -> Result<Response, Problem> {
    let found = context.manager.store().get(&name)?;
    let mut view = ChainView::of(&found, context.manager.planes().status(name.as_str()));
    view.spec = found.spec;
    Ok(([(header::ETAG, tag(view.generation))], Json(view)).into_response())
}

/// Declares a chain
///
/// An equal specification changes nothing.
#[utoipa::path(put, path = "/v1/chains/{name}", tag = "chains",
    params(("name" = String, Path, description = "name of the chain: a DNS label"), ChangeParams,
        ("If-Match" = Option<String>, Header, description = "generation that the change is for"),
        ("If-None-Match" = Option<String>, Header, description = "* makes a new chain only")),
    request_body = ChainSpec, responses(
    (status = 200, description = "the chain is so, or would be", body = ChangeView),
    (status = 201, description = "the chain is new", body = ChangeView),
    (status = 412, description = "it is at another generation", body = Problem,
     content_type = "application/problem+json"),
    (status = 422, description = "a field, or the configuration, is wrong", body = Problem,
     content_type = "application/problem+json"),
    (status = "default", description = "refused", body = Problem,
     content_type = "application/problem+json"),
))]
pub async fn put(
    State(context): State<Context>,
    order: Order,
    JsonBody(spec): JsonBody<ChainSpec>,
) -> Result<Response, Problem> {
    change(&context, order, move |manager, name, options| manager.put(name, &spec, options)).await
}

/// Takes a chain back; its history stays
#[utoipa::path(delete, path = "/v1/chains/{name}", tag = "chains",
    params(("name" = String, Path, description = "name of the chain"), ChangeParams,
        ("If-Match" = Option<String>, Header, description = "generation that the change is for")),
    responses(
    (status = 200, description = "the chain is not asked for any more", body = ChangeView),
    (status = 404, description = "no such chain", body = Problem,
     content_type = "application/problem+json"),
    (status = 412, description = "it is at another generation", body = Problem,
     content_type = "application/problem+json"),
    (status = "default", description = "refused", body = Problem,
     content_type = "application/problem+json"),
))]
pub async fn delete(State(context): State<Context>, order: Order) -> Result<Response, Problem> {
    change(&context, order, move |manager, name, options| manager.delete(name, options)).await
}

/// Which chain is to be changed, by whom, and when not.
pub struct Order {
    name: ChainName,
    author: String,
    precondition: Precondition,
    dry_run: bool,
}

impl<S: Send + Sync> FromRequestParts<S> for Order {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Order, Problem> {
        let ChainPath(name) = ChainPath::from_request_parts(parts, state).await?;
        let Params(params) = Params::<ChangeParams>::from_request_parts(parts, state).await?;
        let unknown = || Problem::new(Kind::Internal, "the connection has no peer");
        Ok(Order {
            name,
            author: parts.extensions.get::<Peer>().ok_or_else(unknown)?.author(),
            precondition: precondition(&parts.headers)?,
            dry_run: params.dry_run,
        })
    }
}

/// Makes a change and answers with what it did.
pub(super) async fn change<F, E>(
    context: &Context,
    order: Order,
    change: F,
) -> Result<Response, Problem>
where
    F: FnOnce(&Manager, &ChainName, &ChangeOptions<'_>) -> Result<Change, E> + Send + 'static,
    E: Into<Problem> + Send + 'static,
{
    let Order { name, author, precondition, dry_run } = order;
    let chain = name.clone();
    let done = context.call(move |manager| {
        change(manager, &chain, &ChangeOptions { precondition, author: &author, dry_run })
    });
    let done = done.await?;
    let created = done.created && !dry_run;
    let status = if created { StatusCode::CREATED } else { StatusCode::OK };
    let view = ChangeView {
        name: name.to_string(),
        generation: done.put.generation,
        changed: done.put.changed,
        dry_run,
        warnings: done.warnings,
        diff: done.diff,
    };
    Ok((status, [(header::ETAG, tag(view.generation))], Json(view)).into_response())
}

/// The entity tag of a generation.
fn tag(generation: u64) -> String {
    format!("\"{generation}\"")
}
