//! `/v1/events`: events as they come, as server-sent events.

use std::sync::Arc;

use axum::extract::{Extension, State};
use axum::http::HeaderMap;
use axum::response::Response;
use axum::response::sse::Event as Sent;
use tokio::sync::watch;

use super::body::Params;
use super::context::Context;
use super::problem::{Kind, Problem};
use super::reader::{self, Source};
use super::views::{EventParams, EventView};
use crate::access::Caller;
use crate::events::EventId;
use crate::{ChainName, Event, Manager};

/// Streams events: those that are kept, then each as it comes
///
/// With `Last-Event-ID` the stream goes on behind that event. An event of type `gap` says that some
/// between are not kept any more.
#[utoipa::path(get, path = "/v1/events", tag = "events", params(EventParams,
        ("Last-Event-ID" = Option<String>, Header, description = "the last event that was seen")),
    responses(
    (status = 200, description = "server-sent events; the data of each is an EventView",
     body = EventView, content_type = "text/event-stream"),
))]
pub async fn events(
    State(context): State<Context>,
    Extension(caller): Extension<Caller>,
    Params(params): Params<EventParams>,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    if let Some(chain) = &params.chain {
        ChainName::new(chain).map_err(|error| Problem::from(error).field("chain"))?;
    }
    let seen = match headers.get("last-event-id").map(|value| value.to_str()) {
        None => context.manager.events().beginning(),
        Some(text) => text.ok().and_then(EventId::parse).ok_or_else(|| {
            let detail = "give the id of an event, as the stream gave it";
            Problem::new(Kind::Malformed, detail).field("Last-Event-ID")
        })?,
    };
    let resumed = headers.contains_key("last-event-id");
    let source = Events {
        changes: context.manager.events().watch(),
        manager: Arc::clone(&context.manager),
        seen,
        // A new reader does not expect what was before it came.
        report_gaps: resumed,
        chain: params.chain,
        follow: params.follow.unwrap_or(true),
    };
    reader::answer(context, caller, source)
}

/// Events, and how far they were read.
struct Events {
    manager: Arc<Manager>,
    changes: watch::Receiver<u64>,
    seen: EventId,
    report_gaps: bool,
    chain: Option<String>,
    follow: bool,
}

impl Source for Events {
    /// What is behind the last event seen.
    async fn look(&mut self) -> Option<Vec<Sent>> {
        // Before it is looked: what comes after wakes.
        self.changes.borrow_and_update();
        let following = self.manager.events().following(self.seen);
        let mut ready = Vec::new();
        if following.missed && self.report_gaps {
            ready.push(Sent::default().event("gap").data("{}"));
        }
        // From now on it reads what comes, and notices what it is too slow for.
        self.report_gaps = true;
        self.seen = following.last;
        for (id, event) in following.events {
            if self.chain.as_ref().is_none_or(|chain| *chain == event.chain) {
                ready.push(message(id, event));
            }
        }
        Some(ready)
    }

    async fn wait(&mut self) -> bool {
        self.follow && self.changes.changed().await.is_ok()
    }
}

/// An event as it is sent.
fn message(id: EventId, event: Event) -> Sent {
    let id = id.to_string();
    let view = EventView { id: id.clone(), event };
    // A struct of texts is always JSON, of one line.
    let data = serde_json::to_string(&view).unwrap_or_default();
    Sent::default().id(id).data(data)
}
