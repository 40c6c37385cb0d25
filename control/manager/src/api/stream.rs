//! `/v1/events`: events as they come, as server-sent events.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::time::Duration;

use axum::extract::State;
use axum::http::HeaderMap;
use axum::response::sse::{Event as Sent, KeepAlive, Sse};
use axum::response::{IntoResponse, Response};
use futures_util::stream::{self, Stream};
use tokio::sync::{OwnedSemaphorePermit, watch};

use super::body::Params;
use super::context::{Context, STREAMS_MAX};
use super::problem::{Kind, Problem};
use super::views::{EventParams, EventView};
use crate::events::EventId;
use crate::{ChainName, Event};

/// A comment is sent when nothing happened for this long, so that a reader that is gone is noticed.
const KEEP_ALIVE: Duration = Duration::from_secs(15);

/// Streams events: those that are kept, then each as it comes
///
/// With `Last-Event-ID` the stream goes on behind that event. An event of type `gap` says that some
/// between are not kept any more.
#[utoipa::path(get, path = "/v1/events", tag = "events", params(EventParams,
        ("Last-Event-ID" = Option<String>, Header, description = "the last event that was seen")),
    responses(
    (status = 200, description = "server-sent events; the data of each is an EventView",
     body = EventView, content_type = "text/event-stream"),
    (status = "default", description = "refused", body = Problem,
     content_type = "application/problem+json"),
))]
pub async fn events(
    State(context): State<Context>,
    Params(params): Params<EventParams>,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    if let Some(chain) = &params.chain {
        ChainName::new(chain).map_err(|error| Problem::from(error).field("chain"))?;
    }
    let seen = match headers.get("last-event-id").map(|value| value.to_str()) {
        None => context.manager.events().beginning(),
        Some(text) => text.ok().and_then(EventId::parse).ok_or_else(|| {
            let detail = "give the id of an event, as the stream told it";
            Problem::new(Kind::Malformed, detail).field("Last-Event-ID")
        })?,
    };
    let permit = context.streams.clone().try_acquire_owned().map_err(|_| {
        let detail = format!("{STREAMS_MAX} streams of events are open; end one");
        Problem::new(Kind::Busy, detail)
    })?;
    let resumed = headers.contains_key("last-event-id");
    let changes = context.manager.events().watch();
    let reader = Reader {
        context,
        changes,
        seen,
        // A new reader does not expect what was before it came.
        tell_gaps: resumed,
        chain: params.chain,
        follow: params.follow.unwrap_or(true),
        ready: VecDeque::new(),
        _permit: permit,
    };
    let keep_alive = KeepAlive::new().interval(KEEP_ALIVE);
    Ok(Sse::new(reader.stream()).keep_alive(keep_alive).into_response())
}

/// Who reads a stream, and how far.
struct Reader {
    context: Context,
    changes: watch::Receiver<u64>,
    seen: EventId,
    tell_gaps: bool,
    chain: Option<String>,
    follow: bool,
    ready: VecDeque<Sent>,
    _permit: OwnedSemaphorePermit,
}

impl Reader {
    fn stream(self) -> impl Stream<Item = Result<Sent, Infallible>> {
        stream::unfold(self, |mut reader| async move {
            let sent = reader.next().await?;
            Some((Ok(sent), reader))
        })
    }

    /// The next event; `None` when the program ends.
    async fn next(&mut self) -> Option<Sent> {
        loop {
            if let Some(sent) = self.ready.pop_front() {
                return Some(sent);
            }
            // Before it is looked: what comes after wakes.
            self.changes.borrow_and_update();
            self.look();
            if !self.ready.is_empty() {
                continue;
            }
            if !self.follow {
                return None;
            }
            tokio::select! {
                changed = self.changes.changed() => changed.ok()?,
                _ = self.context.ending.wait_for(|ending| *ending) => return None,
            }
        }
    }

    /// Makes ready what is behind the last event seen.
    fn look(&mut self) {
        let following = self.context.manager.events().following(self.seen);
        if following.missed && self.tell_gaps {
            self.ready.push_back(Sent::default().event("gap").data("{}"));
        }
        // From now on it reads what comes, and notices what it is too slow for.
        self.tell_gaps = true;
        self.seen = following.last;
        for (id, event) in following.events {
            if self.chain.as_ref().is_none_or(|chain| *chain == event.chain) {
                self.ready.push_back(message(id, event));
            }
        }
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
