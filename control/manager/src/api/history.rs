//! `/v1/chains/NAME/generations`, `diff` and `rollback`; of functions and groups, too.

use axum::Json;
use axum::extract::State;
use axum::response::Response;

use super::body::{JsonBody, NamePath, Params, PathParts};
use super::context::Context;
use super::problem::{Kind, Problem};
use super::resources::{Order, Served, change, page_limit};
use super::views::{
    ChangeParams, ChangeView, DiffParams, DiffView, GenerationList, GenerationView, HistoryParams,
    NoParams, RollbackRequest,
};
use crate::ChainSpec;
use crate::kind::Name as _;

/// Lists the generations of a chain, the last one first
#[utoipa::path(get, path = "/v1/chains/{name}/generations", tag = "history",
    params(("name" = String, Path, description = "name of the chain"), HistoryParams), responses(
    (status = 200, description = "a page of generations", body = GenerationList<ChainSpec>),
))]
pub async fn list<S: Served>(
    State(context): State<Context>,
    NamePath(name): NamePath<S::Name>,
    Params(params): Params<HistoryParams>,
) -> Result<Json<GenerationList<S>>, Problem> {
    let limit = page_limit(params.limit)?;
    let page = context.manager.store().generations(&name, params.before, limit)?;
    let items: Vec<GenerationView<S>> = page.items.iter().map(GenerationView::of).collect();
    let next = items.last().filter(|_| page.more).map(|last| last.generation);
    Ok(Json(GenerationList { items, next }))
}

/// Reads a generation of a chain
#[utoipa::path(get, path = "/v1/chains/{name}/generations/{generation}", tag = "history",
    params(("name" = String, Path, description = "name of the chain"),
        ("generation" = u64, Path, description = "number of the generation")), responses(
    (status = 200, description = "the generation", body = GenerationView<ChainSpec>),
))]
pub async fn get<S: Served>(
    State(context): State<Context>,
    PathParts((name, generation)): PathParts<(String, String)>,
    Params(NoParams {}): Params<NoParams>,
) -> Result<Json<GenerationView<S>>, Problem> {
    let name = S::Name::parse(&name)?;
    let number = generation.parse().map_err(|_| {
        let detail = format!("'{}' is no number of a generation", generation.escape_debug());
        Problem::new(Kind::Invalid, detail).field("generation")
    })?;
    let found = context.manager.store().generation(&name, number)?;
    let mut view = GenerationView::of(&found);
    view.spec = found.spec;
    Ok(Json(view))
}

/// Compares two generations of a chain
#[utoipa::path(get, path = "/v1/chains/{name}/diff", tag = "history",
    params(("name" = String, Path, description = "name of the chain"), DiffParams), responses(
    (status = 200, description = "how they differ", body = DiffView),
))]
pub async fn diff<S: Served>(
    State(context): State<Context>,
    NamePath(name): NamePath<S::Name>,
    Params(params): Params<DiffParams>,
) -> Result<Json<DiffView>, Problem> {
    let diff =
        context.call(move |manager| manager.store().diff(&name, params.from, params.to)).await?;
    Ok(Json(DiffView { diff }))
}

/// Declares an earlier generation again, as a new one
#[utoipa::path(post, path = "/v1/chains/{name}/rollback", tag = "history",
    params(("name" = String, Path, description = "name of the chain"), ChangeParams,
        ("If-Match" = Option<String>, Header, description = "generation that the change is for")),
    request_body = RollbackRequest, responses(
    (status = 200, description = "the chain is as it was, or would be", body = ChangeView),
    (status = 201, description = "the chain was deleted, and is there again", body = ChangeView),
))]
pub async fn rollback<S: Served>(
    State(context): State<Context>,
    order: Order<S::Name>,
    JsonBody(request): JsonBody<RollbackRequest>,
) -> Result<Response, Problem> {
    change(&context, order, move |manager, name, options| {
        manager.rollback(name, request.to, options)
    })
    .await
}
