//! `/v1/chains/NAME/handlers/HANDLER`: handlers of a chain that runs.

use axum::Json;
use axum::extract::State;

use super::body::{JsonBody, Params, PathParts};
use super::context::Context;
use super::problem::{Kind, Problem};
use super::views::{HandlerValue, NoParams};
use crate::{ChainName, DataPlanes, PlaneError};

/// Longest name of a handler, in bytes.
const HANDLER_LEN_MAX: usize = 1024;

/// Asks the data plane of a chain for a handler: `ask` gets the names of chain and handler.
async fn ask<T: Send + 'static>(
    context: &Context,
    path: (String, String),
    ask: impl FnOnce(&dyn DataPlanes, &str, &str) -> Result<T, PlaneError> + Send + 'static,
) -> Result<T, Problem> {
    let name = parse(&path)?;
    context.ask_of(name, move |planes, chain| ask(planes, chain, &path.1)).await
}

/// The chain and the handler that a path names.
fn parse((name, handler): &(String, String)) -> Result<ChainName, Problem> {
    let name = ChainName::new(name)?;
    // The protocol of data planes separates by spaces and lines.
    let bad = |letter: char| letter.is_control() || letter.is_whitespace();
    match handler.is_empty() || handler.len() > HANDLER_LEN_MAX || handler.contains(bad) {
        false => Ok(name),
        true => {
            let detail = "a handler is named ELEMENT.NAME or NAME, without spaces: c0.count";
            Err(Problem::new(Kind::Invalid, detail).field("handler"))
        }
    }
}

/// Reads a handler of a chain that runs
#[utoipa::path(get, path = "/v1/chains/{name}/handlers/{handler}", tag = "handlers",
    params(("name" = String, Path, description = "name of the chain"),
        ("handler" = String, Path, description = "`threads`, `c0.count`, `lan/in.count`")),
    responses(
    (status = 200, description = "its value", body = HandlerValue),
    (status = 409, description = "the chain does not run", body = Problem,
     content_type = "application/problem+json"),
    (status = 502, description = "the data plane refused or did not answer", body = Problem,
     content_type = "application/problem+json"),
))]
pub async fn get(
    State(context): State<Context>,
    PathParts(path): PathParts<(String, String)>,
    Params(NoParams {}): Params<NoParams>,
) -> Result<Json<HandlerValue>, Problem> {
    let read = ask(&context, path, |planes, chain, handler| planes.read(chain, handler));
    Ok(Json(HandlerValue { value: read.await? }))
}

/// Writes a handler of a chain that runs
///
/// The value is not kept: the chain has it until it is started again.
#[utoipa::path(put, path = "/v1/chains/{name}/handlers/{handler}", tag = "handlers",
    params(("name" = String, Path, description = "name of the chain"),
        ("handler" = String, Path, description = "`c0.reset`")),
    request_body = HandlerValue, responses(
    (status = 200, description = "written", body = HandlerValue),
    (status = 409, description = "the chain does not run", body = Problem,
     content_type = "application/problem+json"),
    (status = 502, description = "the data plane refused or did not answer", body = Problem,
     content_type = "application/problem+json"),
))]
pub async fn put(
    State(context): State<Context>,
    PathParts(path): PathParts<(String, String)>,
    Params(NoParams {}): Params<NoParams>,
    JsonBody(body): JsonBody<HandlerValue>,
) -> Result<Json<HandlerValue>, Problem> {
    let written = ask(&context, path, move |planes, chain, handler| {
        planes.write(chain, handler, &body.value).map(|()| body)
    });
    Ok(Json(written.await?))
}
