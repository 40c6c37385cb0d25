//! What `thruway` finds out about a chain that runs, or about this host: a process for each
//! question.

use std::path::PathBuf;
use std::sync::Arc;

use axum::Json;
use axum::extract::State;

use super::body::{NamePath, Params, PathParts};
use super::context::Context;
use super::hosts;
use super::problem::{Kind, Problem};
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
    declared(&context, &name).await?;
    let compare = move |planes: &dyn DataPlanes| {
        let control = planes.status(name.as_str()).and_then(|status| status.control);
        let socket = control.ok_or_else(|| PlaneError::NotRunning(name.as_str().to_owned()))?;
        reports::compare(&program(planes)?, socket.as_ref())
    };
    ask(&context, compare).await
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
    declared(&context, &name).await?;
    let explain = move |planes: &dyn DataPlanes| {
        let configuration = planes.read(name.as_str(), "config")?;
        reports::explain(&program(planes)?, &configuration)
    };
    ask(&context, explain).await
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
    ask(&context, |planes| reports::check_up(&program(planes)?)).await
}

/// Whether a chain is asked for; if it is not, the error lists those that are.
async fn declared(context: &Context, name: &ChainName) -> Result<(), Problem> {
    let name = name.clone();
    let find = move |manager: &Manager| manager.store().get(&name).map(drop).map_err(Problem::from);
    context.call(find).await
}

/// Has a question answered outside of the thread that serves; as many at a time as there may be
/// searches.
async fn ask<T: Send + 'static>(
    context: &Context,
    question: impl FnOnce(&dyn DataPlanes) -> Result<T, PlaneError> + Send + 'static,
) -> Result<Json<T>, Problem> {
    let place = Arc::clone(&context.searches).try_acquire_owned().map_err(|_| {
        Problem::new(
            Kind::Busy,
            "other questions of this kind are asked; try again in a few seconds",
        )
    })?;
    let answered = context.call(move |manager| {
        // Goes with the call, not with the reader, who may be gone before it is done.
        let _place = place;
        question(manager.planes()).map_err(Problem::from)
    });
    answered.await.map(Json)
}

fn program(planes: &dyn DataPlanes) -> Result<PathBuf, PlaneError> {
    let none = || {
        let why = "no program `thruway` stands beside thruway-manager, which would find it out";
        PlaneError::NoReport(why.to_owned())
    };
    planes.program().map(PathBuf::from).ok_or_else(none)
}
