//! `/v1/chains/NAME/examples`: packets that did not go on, as they came.

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use axum::Json;
use axum::extract::State;

use super::body::{JsonBody, NamePath, Params};
use super::context::Context;
use super::graph;
use super::problem::{Kind, Problem};
use super::views::{ExamplesRequest, NoParams};
use crate::ChainName;
use crate::examples::{Examples, Search};
use crate::graph::ChainGraph;

/// How long packets are looked at for examples.
const SEARCH_MAX: Duration = Duration::from_secs(3);

/// Between two looks at what the data plane saw.
const LOOK: Duration = Duration::from_millis(50);

/// Most examples of one search.
const EXAMPLES_MAX: u8 = 20;

/// Examples where none are asked for.
const EXAMPLES: u8 = 3;

/// Finds examples of packets that did not go on
///
/// The data plane is traced for up to three seconds: at most the next 5,000 packets that come to
/// the element. What was dropped before is not found, nor packets that came to no input.
#[utoipa::path(post, path = "/v1/chains/{name}/examples", tag = "monitoring",
    params(("name" = String, Path, description = "name of the chain")),
    request_body = ExamplesRequest, responses(
    (status = 200, description = "what was found; maybe nothing", body = Examples),
    (status = 404, description = "no such chain; `known` lists those that there are",
     body = Problem, content_type = "application/problem+json"),
    (status = 409, description = "the chain does not run", body = Problem,
     content_type = "application/problem+json"),
    (status = 422, description = "the element counted no such reason; `known` lists what there is",
     body = Problem, content_type = "application/problem+json"),
    (status = 502, description = "the data plane refused or did not answer", body = Problem,
     content_type = "application/problem+json"),
    (status = 503, description = "too many searches are made", body = Problem,
     content_type = "application/problem+json"),
))]
pub async fn find(
    State(context): State<Context>,
    NamePath(name): NamePath<ChainName>,
    Params(NoParams {}): Params<NoParams>,
    JsonBody(asked): JsonBody<ExamplesRequest>,
) -> Result<Json<Examples>, Problem> {
    let count = asked.count.unwrap_or(EXAMPLES);
    if !(1..=EXAMPLES_MAX).contains(&count) {
        let detail = format!("a search is for 1 to {EXAMPLES_MAX} examples");
        return Err(Problem::new(Kind::Invalid, detail).field("count"));
    }
    let _place = context.search_permit()?;
    let seen = graph::read(&context, &name).await?;
    check(&seen.graph, &asked)?;
    let search = Search::new(&asked.element, &asked.reason, usize::from(count));
    run(&context, name, search).await.map(Json)
}

/// Whether the element is there and counted the reason: only then there may be an example.
fn check(graph: &ChainGraph, asked: &ExamplesRequest) -> Result<(), Problem> {
    let element = graph.elements.iter().find(|one| one.name == asked.element);
    let Some(element) = element else {
        let detail = format!("the chain has no element '{}'", asked.element);
        let names = graph.elements.iter().map(|one| one.name.clone()).collect();
        let problem = Problem::new(Kind::Invalid, detail).field("element");
        return Err(Problem { known: names, ..problem });
    };
    if element.drops.iter().any(|one| one.reason == asked.reason) {
        return Ok(());
    }
    let detail = format!("'{}' counted no packet for '{}'", asked.element, asked.reason);
    let reasons = element.drops.iter().map(|one| one.reason.clone()).collect();
    let problem = Problem::new(Kind::Invalid, detail).field("reason");
    Err(Problem { known: reasons, ..problem })
}

/// Traces until there are enough examples or the time is over. Whoever is gone meanwhile leaves a
/// trace that the data plane ends by itself.
async fn run(context: &Context, name: ChainName, mut search: Search) -> Result<Examples, Problem> {
    let trace = trace_name();
    let (chain, start) = (name.clone(), search.start(&trace));
    let write = |value: String| {
        let chain = chain.clone();
        context.call(move |manager| {
            manager.planes().write(chain.as_str(), "trace", &value).map_err(Problem::from)
        })
    };
    write(start).await?;
    let end = Instant::now() + SEARCH_MAX;
    let ended = loop {
        tokio::time::sleep(LOOK).await;
        let (chain, handler) = (name.clone(), format!("trace {trace}"));
        let answer = context.call(move |manager| {
            manager.planes().read(chain.as_str(), &handler).map_err(Problem::from)
        });
        let taken = match answer.await {
            Ok(answer) => search.take(&answer).map_err(|why| Problem::new(Kind::DataPlane, why)),
            Err(problem) => Err(problem),
        };
        if taken.is_err() || search.is_done() || Instant::now() >= end {
            break taken;
        }
    };
    // It ends by itself where it cannot be asked to.
    let stopped = write(format!("stop {trace}")).await;
    drop(stopped);
    ended.map(|()| search.found())
}

/// A name that no other trace has.
pub(super) fn trace_name() -> String {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    format!("manager-{}-{}", std::process::id(), now.as_nanos())
}
