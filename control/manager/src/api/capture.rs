//! `/v1/chains/NAME/capture`: packets of a chain that runs, as a file that grows.

use std::convert::Infallible;
use std::time::{Duration, Instant};

use axum::body::{Body, Bytes};
use axum::extract::State;
use axum::http::header;
use axum::response::{IntoResponse, Response};
use tokio::sync::OwnedSemaphorePermit;

use super::body::{JsonBody, NamePath, Params};
use super::context::Context;
use super::examples::trace_name;
use super::problem::{Kind, Problem};
use super::views::NoParams;
use crate::ChainName;
use crate::capture::{Capture, CaptureRequest};

/// How often the data plane is asked what came.
const LOOK: Duration = Duration::from_millis(50);
/// Between two parts of a capture without packets.
const PAUSE_MAX: Duration = Duration::from_secs(5);

/// Captures packets of a chain while it runs
///
/// The answer is a capture (pcapng) that grows as packets come: each packet once, as it came to the
/// element, at most its first 256 bytes. Packets are chosen one at a time, so that at high rates
/// some are missing. It ends with the last packet, when the time is over, or with the
/// configuration.
#[utoipa::path(post, path = "/v1/chains/{name}/capture", tag = "monitoring",
    params(("name" = String, Path, description = "name of the chain")),
    request_body = CaptureRequest, responses(
    (status = 200, description = "the capture", body = Vec<u8>,
     content_type = "application/x-pcapng"),
    (status = 404, description = "no such chain; `known` lists those that there are",
     body = Problem, content_type = "application/problem+json"),
    (status = 409, description = "the chain does not run", body = Problem,
     content_type = "application/problem+json"),
    (status = 422, description = "a field is wrong", body = Problem,
     content_type = "application/problem+json"),
    (status = 502, description = "the data plane refused, as it has no such element or does not \
     take the filter", body = Problem, content_type = "application/problem+json"),
    (status = 503, description = "too many such questions are asked", body = Problem,
     content_type = "application/problem+json"),
))]
pub async fn post(
    State(context): State<Context>,
    NamePath(name): NamePath<ChainName>,
    Params(NoParams {}): Params<NoParams>,
    JsonBody(asked): JsonBody<CaptureRequest>,
) -> Result<Response, Problem> {
    let (count, seconds) =
        asked.bounds().map_err(|(field, why)| Problem::new(Kind::Invalid, why).field(field))?;
    let permit = context.search_permit()?;
    let trace = trace_name();
    let start = asked.start(&trace, count);
    let begun =
        context.ask_of(name.clone(), move |planes, chain| planes.write(chain, "trace", &start));
    begun.await?;
    let capture = Capture::new().map_err(|why| Problem::new(Kind::Internal, why))?;
    let end = Instant::now() + Duration::from_secs(seconds.into());
    let source = Source { context, name, trace, capture, end, _permit: permit };
    let parts = futures_util::stream::unfold(Some(source), async |source| {
        let (part, source) = source?.part().await;
        Some((Ok::<_, Infallible>(Bytes::from(part)), source))
    });
    let kind = [(header::CONTENT_TYPE, "application/x-pcapng")];
    Ok((kind, Body::from_stream(parts)).into_response())
}

/// A capture that is being made.
struct Source {
    context: Context,
    name: ChainName,
    trace: String,
    capture: Capture,
    end: Instant,
    _permit: OwnedSemaphorePermit,
}

impl Source {
    /// The next bytes, and what goes on. Whoever is gone leaves a trace that the data plane ends by
    /// itself.
    async fn part(mut self) -> (Vec<u8>, Option<Source>) {
        let until = Instant::now() + PAUSE_MAX;
        loop {
            let (name, ask) = (self.name.clone(), format!("trace {}", self.trace));
            let read = self.context.ask_of(name, move |planes, chain| planes.read(chain, &ask));
            // With the configuration the trace ends, and the capture.
            let Ok(answer) = read.await else { return (Vec::new(), None) };
            let Ok(bytes) = self.capture.take(&answer) else { return (Vec::new(), None) };
            let ends = *self.context.ending.borrow() || Instant::now() >= self.end;
            if ends || self.capture.is_done() {
                stop(&self.context, &self.name, &self.trace).await;
                return (bytes, None);
            }
            if !bytes.is_empty() || Instant::now() >= until {
                return (bytes, Some(self));
            }
            tokio::time::sleep(LOOK).await;
        }
    }
}

async fn stop(context: &Context, name: &ChainName, trace: &str) {
    let stop = format!("stop {trace}");
    let write =
        move |planes: &dyn crate::DataPlanes, chain: &str| planes.write(chain, "trace", &stop);
    // It ends by itself where it cannot be asked to.
    let _ = context.ask_of(name.clone(), write).await;
}
