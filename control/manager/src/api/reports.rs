//! What `thruway` finds out about a chain that runs, or about this host: a process for each
//! question.

use std::path::Path;

use axum::Json;
use axum::extract::State;

use super::body::{NamePath, Params, PathParts};
use super::context::Context;
use super::hosts;
use super::problem::Problem;
use super::views::NoParams;
use crate::reports::{self, Checkup, Comparison};
use crate::{ChainName, DataPlanes, Manager, PlaneError};

/// Compares what a chain's elements take with what they should
///
/// The chain is watched for a second. The prediction is made of what its elements did meanwhile and
/// of what operations cost on this host, which `thruway calibrate` measures. So a difference is one
/// of costs: tables that lie further away than assumed, or more work for each operation.
#[utoipa::path(get, path = "/v1/chains/{name}/estimate", tag = "monitoring",
    params(("name" = String, Path, description = "name of the chain")), responses(
    (status = 200, description = "predicted and observed cycles", body = Comparison),
    (status = 404, description = "no such chain; `known` lists those that there are",
     body = Problem, content_type = "application/problem+json"),
    (status = 409, description = "the chain does not run, or the host is not calibrated",
     body = Problem, content_type = "application/problem+json"),
    (status = 503, description = "too many such questions are asked", body = Problem,
     content_type = "application/problem+json"),
))]
pub async fn estimate(
    State(context): State<Context>,
    NamePath(name): NamePath<ChainName>,
    Params(NoParams {}): Params<NoParams>,
) -> Result<Json<Comparison>, Problem> {
    let place = context.search_permit()?;
    let compare = move |planes: &dyn DataPlanes, chain: &str| {
        let _place = place;
        let control = planes.status(chain).and_then(|status| status.control);
        let socket = control.ok_or_else(|| PlaneError::NotRunning(chain.to_owned()))?;
        reports::compare(program(planes)?, socket.as_ref())
    };
    context.ask_of(name, compare).await.map(Json)
}

/// Explains how a chain's packets are classified
///
/// Classes, what functions each of them meets, where they keep their sessions, and all paths
/// through the chain: what `thruway check --explain --paths --json` prints of the configuration
/// that runs.
#[utoipa::path(get, path = "/v1/chains/{name}/explanation", tag = "monitoring",
    params(("name" = String, Path, description = "name of the chain")), responses(
    (status = 200, description = "the explanation", body = Object),
    (status = 404, description = "no such chain; `known` lists those that there are",
     body = Problem, content_type = "application/problem+json"),
    (status = 409, description = "the chain does not run", body = Problem,
     content_type = "application/problem+json"),
    (status = 502, description = "the data plane refused or did not answer", body = Problem,
     content_type = "application/problem+json"),
    (status = 503, description = "too many such questions are asked", body = Problem,
     content_type = "application/problem+json"),
))]
pub async fn explanation(
    State(context): State<Context>,
    NamePath(name): NamePath<ChainName>,
    Params(NoParams {}): Params<NoParams>,
) -> Result<Json<serde_json::Value>, Problem> {
    let place = context.search_permit()?;
    let explain = move |planes: &dyn DataPlanes, chain: &str| {
        let _place = place;
        let configuration = planes.read(chain, "config")?;
        reports::explain(program(planes)?, &configuration)
    };
    context.ask_of(name, explain).await.map(Json)
}

/// Looks at a host
///
/// What it lacks for Thruway, and what could be better, each with a remedy: what `thruway doctor
/// --json` prints.
#[utoipa::path(get, path = "/v1/hosts/{name}/checkup", tag = "hosts",
    params(("name" = String, Path, description = "name of the host")), responses(
    (status = 200, description = "what was found", body = Checkup),
    (status = 404, description = "no such host; `known` lists those that there are",
     body = Problem, content_type = "application/problem+json"),
    (status = 409, description = "no program `thruway` stands beside the manager", body = Problem,
     content_type = "application/problem+json"),
    (status = 503, description = "too many such questions are asked", body = Problem,
     content_type = "application/problem+json"),
))]
pub async fn checkup(
    State(context): State<Context>,
    PathParts(name): PathParts<String>,
    Params(NoParams {}): Params<NoParams>,
) -> Result<Json<Checkup>, Problem> {
    hosts::named(&context, &name).await?;
    let place = context.search_permit()?;
    let look = move |manager: &Manager| {
        let _place = place;
        reports::check_up(program(manager.planes())?)
    };
    context.call(look).await.map(Json)
}

fn program(planes: &dyn DataPlanes) -> Result<&Path, PlaneError> {
    let why = "no program `thruway` stands beside thruway-manager, which would find it out";
    planes.program().ok_or_else(|| PlaneError::NoReport(why.to_owned()))
}
