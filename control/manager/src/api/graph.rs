//! `/v1/chains/NAME/graph`: the graph of a chain that runs, with its counters.

use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::extract::{Extension, State};
use axum::http::header;
use axum::response::sse::Event as Sent;
use axum::response::{IntoResponse, Response};

use super::body::{NamePath, Params};
use super::context::Context;
use super::problem::Problem;
use super::reader::{self, Source};
use super::recent::Seen;
use super::views::GraphParams;
use crate::ChainName;
use crate::access::Caller;
use crate::graph::{self, ChainGraph};

/// Between two graphs of a stream.
const PERIOD: Duration = Duration::from_secs(1);

/// How old a graph may be that is given again.
const FRESH: Duration = Duration::from_millis(900);

/// Reads the graph of a chain that runs, with its counters
///
/// With `follow` it comes each second, as server-sent events, until the chain is deleted. An event
/// of type `problem` says why there is none at the moment; its data is a Problem.
#[utoipa::path(get, path = "/v1/chains/{name}/graph", tag = "monitoring",
    params(("name" = String, Path, description = "name of the chain"), GraphParams), responses(
    (status = 200, description = "the graph; the data of each event is a ChainGraph",
     content((ChainGraph = "application/json"), (ChainGraph = "text/event-stream"))),
    (status = 404, description = "no such chain; `known` lists those that there are",
     body = Problem, content_type = "application/problem+json"),
    (status = 409, description = "the chain does not run", body = Problem,
     content_type = "application/problem+json"),
    (status = 502, description = "the data plane refused or did not answer", body = Problem,
     content_type = "application/problem+json"),
))]
pub async fn get(
    State(context): State<Context>,
    Extension(caller): Extension<Caller>,
    NamePath(name): NamePath<ChainName>,
    Params(params): Params<GraphParams>,
) -> Result<Response, Problem> {
    if !params.follow {
        let json = read(&context, &name).await?.json.clone();
        return Ok(([(header::CONTENT_TYPE, "application/json")], json).into_response());
    }
    let named = name.clone();
    context.call(move |manager| manager.store().get(&named)).await?;
    let source = Graphs { context: context.clone(), name, due: Instant::now() };
    reader::answer(context, caller, source)
}

/// The graph of a chain, not older than [`FRESH`].
pub(super) async fn read(context: &Context, name: &ChainName) -> Result<Arc<Seen>, Problem> {
    let last = context.graphs.of(name.as_str());
    // Whoever else wants it waits here, and takes no place of a call.
    let mut last = last.lock().await;
    if let Some((when, known)) = &*last
        && when.elapsed() < FRESH
    {
        return known.clone();
    }
    // Never closed, so there is one in time.
    let place = Arc::clone(&context.graphs.permits).acquire_owned().await;
    let chain = name.clone();
    let found = context.call(move |manager| {
        // Goes with the call, not with the reader, who may be gone before it is done.
        let _place = place;
        manager.store().get(&chain)?;
        graph::read(manager.planes(), chain.as_str()).map_err(Problem::from)
    });
    let found = found.await.map(|graph| Arc::new(Seen { json: text(&graph), graph }));
    match &found {
        // What nobody asks to run is not kept in mind.
        Err(problem) if problem.status == 404 => context.graphs.forget(name.as_str()),
        _ => *last = Some((Instant::now(), found.clone())),
    }
    found
}

/// Graphs of a chain, one after the other.
struct Graphs {
    context: Context,
    name: ChainName,
    /// When the next one is to be sent.
    due: Instant,
}

impl Source for Graphs {
    async fn look(&mut self) -> Option<Vec<Sent>> {
        let now = Instant::now();
        if now < self.due {
            return Some(Vec::new());
        }
        self.due = now + PERIOD;
        let sent = match read(&self.context, &self.name).await {
            Ok(seen) => Sent::default().data(&seen.json),
            // It was deleted.
            Err(problem) if problem.status == 404 => return None,
            Err(problem) => Sent::default().event("problem").data(text(&problem)),
        };
        Some(vec![sent])
    }

    async fn wait(&mut self) -> bool {
        tokio::time::sleep_until(self.due.into()).await;
        true
    }
}

/// As JSON, of one line.
fn text(value: &impl serde::Serialize) -> String {
    // Structs of texts and numbers are always JSON.
    serde_json::to_string(value).unwrap_or_default()
}
