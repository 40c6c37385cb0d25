//! `/v1/chains`, `/v1/functions`, `/v1/groups`: what is asked for and what is observed.
//!
//! The description here is of chains; those of the other kinds are made from it.

use std::future::Future;

use axum::Json;
use axum::extract::{FromRequestParts, State};
use axum::http::request::Parts;
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Response};

use super::body::{JsonBody, NamePath, Params, precondition};
use super::context::Context;
use super::problem::{Kind, Problem};
use super::views::{
    ChainView, ChangeParams, ChangeView, LIMIT_MAX, List, ListParams, NoParams, ResourceView, View,
    limit,
};
use crate::access::Caller;
use crate::kind::{Name, Spec};
use crate::manager::{Change, Declared};
use crate::reports::{self, Forecast};
use crate::store::{ChangeOptions, Generation, Precondition, StoreError};
use crate::{ChainSpec, FunctionSpec, GroupSpec, MANAGED_BY_HEADER, Manager, ResourceStatus};

/// A kind of resource that the API serves.
pub trait Served: Declared {
    /// How it is shown.
    type View: View<Spec = Self>;

    /// Estimates what packets of it would cost, if it has some.
    fn forecast(&self, _manager: &Manager) -> Option<Forecast> {
        None
    }

    /// Shows resources, with what is observed of them and without their specifications.
    fn show(
        found: Vec<Generation<Self>>,
        context: &Context,
    ) -> impl Future<Output = Result<Vec<Self::View>, Problem>> + Send;
}

impl Served for ChainSpec {
    type View = ChainView;

    fn forecast(&self, manager: &Manager) -> Option<Forecast> {
        let spec = manager.written_out(self).ok()?;
        let state = manager.store().path().parent()?;
        Some(reports::forecast(manager.planes().program()?, state, &spec))
    }

    /// What is observed of chains is at hand.
    async fn show(found: Vec<Generation>, context: &Context) -> Result<Vec<ChainView>, Problem> {
        let planes = context.manager.planes();
        Ok(found.iter().map(|one| ChainView::of(one, planes.status(&one.name))).collect())
    }
}

impl Served for FunctionSpec {
    type View = ResourceView<FunctionSpec>;

    async fn show(
        found: Vec<Generation<FunctionSpec>>,
        context: &Context,
    ) -> Result<Vec<ResourceView<FunctionSpec>>, Problem> {
        look(found, context, |manager, one| Ok(manager.function_status(one))).await
    }
}

impl Served for GroupSpec {
    type View = ResourceView<GroupSpec>;

    async fn show(
        found: Vec<Generation<GroupSpec>>,
        context: &Context,
    ) -> Result<Vec<ResourceView<GroupSpec>>, Problem> {
        look(found, context, Manager::group_status).await
    }
}

/// Shows resources of which `status` looks at files, outside of the thread that serves.
async fn look<S: Spec>(
    found: Vec<Generation<S>>,
    context: &Context,
    status: fn(&Manager, &Generation<S>) -> Result<ResourceStatus, StoreError>,
) -> Result<Vec<ResourceView<S>>, Problem> {
    let look = move |manager: &Manager| {
        let all = found.iter().map(|one| Ok(ResourceView::of(one, status(manager, one)?)));
        all.collect::<Result<Vec<_>, StoreError>>()
    };
    context.call(look).await
}

/// The limit of a page, as a problem.
pub(super) fn page_limit(asked: Option<u16>) -> Result<usize, Problem> {
    let detail = format!("a page has 1 to {LIMIT_MAX} items");
    limit(asked).ok_or_else(|| Problem::new(Kind::Invalid, detail).field("limit"))
}

/// Lists chains, without their specifications
#[utoipa::path(get, path = "/v1/chains", tag = "chains", params(ListParams), responses(
    (status = 200, description = "a page of chains, by name", body = List<ChainView>),
))]
pub async fn list<S: Served>(
    State(context): State<Context>,
    Params(params): Params<ListParams>,
) -> Result<Json<List<S::View>>, Problem> {
    let limit = page_limit(params.limit)?;
    let page = context.manager.store().list::<S>(params.after.as_deref(), limit)?;
    let next = page.items.last().filter(|_| page.more).map(|last| last.name.clone());
    Ok(Json(List { items: S::show(page.items, &context).await?, next }))
}

/// Reads a chain
#[utoipa::path(get, path = "/v1/chains/{name}", tag = "chains",
    params(("name" = String, Path, description = "name of the chain")), responses(
    (status = 200, description = "the chain", body = ChainView,
     headers(("ETag" = String, description = "the generation, in quotes"))),
    (status = 404, description = "no such chain; `known` lists those that there are",
     body = Problem, content_type = "application/problem+json"),
))]
pub async fn get<S: Served>(
    State(context): State<Context>,
    NamePath(name): NamePath<S::Name>,
    Params(NoParams {}): Params<NoParams>,
) -> Result<Response, Problem> {
    let found = context.manager.store().get(&name)?;
    let (generation, spec) = (found.number, found.spec.clone());
    let mut shown = S::show(vec![found], &context).await?;
    let view = shown.pop().map(|view| view.with(spec));
    Ok(([(header::ETAG, tag(generation))], Json(view)).into_response())
}

/// Declares a chain
///
/// An equal specification changes nothing.
#[utoipa::path(put, path = "/v1/chains/{name}", tag = "chains",
    params(("name" = String, Path, description = "name of the chain"), ChangeParams,
        ("If-Match" = Option<String>, Header, description = "generation that the change is for"),
        ("If-None-Match" = Option<String>, Header, description = "* makes a new chain only"),
        ("Thruway-Managed-By" = Option<String>, Header, description = "on whose behalf it is changed")),
    request_body = ChainSpec, responses(
    (status = 200, description = "the chain is so, or would be", body = ChangeView),
    (status = 201, description = "the chain is new", body = ChangeView),
    (status = 412, description = "it is at another generation", body = Problem,
     content_type = "application/problem+json"),
    (status = 422, description = "a field is wrong", body = Problem,
     content_type = "application/problem+json"),
))]
pub async fn put<S: Served>(
    State(context): State<Context>,
    order: Order<S::Name>,
    JsonBody(spec): JsonBody<S>,
) -> Result<Response, Problem> {
    if !order.estimate {
        let put = move |manager: &Manager, name: &S::Name, options: &ChangeOptions<'_>| {
            manager.put(name, &spec, options)
        };
        return change(&context, order, put).await;
    }
    if !order.dry_run {
        let detail = "an estimate is made by a dry run; add dry_run=true";
        return Err(Problem::new(Kind::Invalid, detail).field("estimate"));
    }
    let permit = context.search_permit()?;
    let asked = spec.clone();
    let (status, headers, view) =
        made(&context, order, move |manager, name, options| manager.put(name, &asked, options))
            .await?;
    let forecast = context.call(move |manager| {
        let _permit = permit;
        Ok::<_, Problem>(spec.forecast(manager))
    });
    let view = ChangeView { estimate: forecast.await?, ..view };
    Ok((status, headers, Json(view)).into_response())
}

/// Takes a chain back; its history stays
#[utoipa::path(delete, path = "/v1/chains/{name}", tag = "chains",
    params(("name" = String, Path, description = "name of the chain"), ChangeParams,
        ("If-Match" = Option<String>, Header, description = "generation that the change is for"),
        ("Thruway-Managed-By" = Option<String>, Header, description = "on whose behalf it is changed")),
    responses(
    (status = 200, description = "the chain is not asked for any more", body = ChangeView),
    (status = 404, description = "no such chain", body = Problem,
     content_type = "application/problem+json"),
    (status = 412, description = "it is at another generation", body = Problem,
     content_type = "application/problem+json"),
))]
pub async fn delete<S: Served>(
    State(context): State<Context>,
    order: Order<S::Name>,
) -> Result<Response, Problem> {
    change(&context, order, move |manager, name, options| manager.delete(name, options)).await
}

/// Which resource is to be changed, by whom, and when not.
pub struct Order<N> {
    name: N,
    author: String,
    managed_by: Option<String>,
    precondition: Precondition,
    dry_run: bool,
    estimate: bool,
}

impl<N: Name, S: Send + Sync> FromRequestParts<S> for Order<N> {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Order<N>, Problem> {
        let NamePath(name) = NamePath::from_request_parts(parts, state).await?;
        let Params(params) = Params::<ChangeParams>::from_request_parts(parts, state).await?;
        let unknown = || Problem::new(Kind::Internal, "who calls is not known");
        Ok(Order {
            name,
            author: parts.extensions.get::<Caller>().ok_or_else(unknown)?.author(),
            managed_by: managed_by(&parts.headers)?,
            precondition: precondition(&parts.headers)?,
            dry_run: params.dry_run,
            estimate: params.estimate,
        })
    }
}

/// Makes a change and answers with what it did.
pub(super) async fn change<N, F, E>(
    context: &Context,
    order: Order<N>,
    change: F,
) -> Result<Response, Problem>
where
    N: Name,
    F: FnOnce(&Manager, &N, &ChangeOptions<'_>) -> Result<Change, E> + Send + 'static,
    E: Into<Problem> + Send + 'static,
{
    let (status, headers, view) = made(context, order, change).await?;
    Ok((status, headers, Json(view)).into_response())
}

/// What an answer to a change begins with.
type Headers = [(header::HeaderName, String); 1];

/// Makes a change; what is answered.
async fn made<N, F, E>(
    context: &Context,
    order: Order<N>,
    change: F,
) -> Result<(StatusCode, Headers, ChangeView), Problem>
where
    N: Name,
    F: FnOnce(&Manager, &N, &ChangeOptions<'_>) -> Result<Change, E> + Send + 'static,
    E: Into<Problem> + Send + 'static,
{
    let Order { name, author, managed_by, precondition, dry_run, .. } = order;
    let named = name.clone();
    let done = context.call(move |manager| {
        let managed_by = managed_by.as_deref();
        change(
            manager,
            &named,
            &ChangeOptions { precondition, author: &author, managed_by, dry_run },
        )
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
        plan: if dry_run { done.plan } else { Vec::new() },
        estimate: None,
    };
    Ok((status, [(header::ETAG, tag(view.generation))], view))
}

/// On whose behalf a change is made.
fn managed_by(headers: &HeaderMap) -> Result<Option<String>, Problem> {
    let Some(value) = headers.get(MANAGED_BY_HEADER) else { return Ok(None) };
    let refused = || {
        let detail = "name who manages the resource, in ASCII: cluster";
        Problem::new(Kind::Malformed, detail).field(MANAGED_BY_HEADER)
    };
    value.to_str().map(|text| Some(text.to_owned())).map_err(|_| refused())
}

/// The entity tag of a generation.
fn tag(generation: u64) -> String {
    format!("\"{generation}\"")
}
