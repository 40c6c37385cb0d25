//! Streams of server-sent events: a message as soon as there is one, while the reader may read.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use axum::response::sse::{Event as Sent, KeepAlive, Sse};
use axum::response::{IntoResponse, Response};
use futures_util::stream::{self, Stream};
use tokio::sync::{OwnedSemaphorePermit, watch};

use super::context::{Context, STREAMS_MAX};
use super::problem::{Kind, Problem};
use crate::access::{Caller, Credential};

/// A comment is sent when nothing happened for this long, so that a reader that is gone is noticed.
const KEEP_ALIVE: Duration = Duration::from_secs(15);

/// How often the system's clock is looked at for the end of a credential.
const CLOCK_LOOK: Duration = Duration::from_secs(10);

/// Where the messages of a stream come from.
pub(super) trait Source: Send + 'static {
    /// What came since the last look; `None` at the end.
    fn look(&mut self) -> impl Future<Output = Option<Vec<Sent>>> + Send;

    /// Waits until there may be more; false if there will be none.
    fn wait(&mut self) -> impl Future<Output = bool> + Send;
}

/// Answers with a stream.
///
/// # Errors
/// Too many are open.
pub(super) fn answer(
    context: Context,
    caller: Caller,
    source: impl Source,
) -> Result<Response, Problem> {
    let permits = match caller {
        Caller::Local { .. } => &context.streams,
        Caller::Remote(_) => &context.remote_streams,
    };
    let permit = Arc::clone(permits).try_acquire_owned().map_err(|_| {
        let detail = format!("{STREAMS_MAX} streams of events or logs are open; end one");
        Problem::new(Kind::Busy, detail)
    })?;
    let reader = Reader {
        access: context.manager.access().watch(),
        ending: context.ending.clone(),
        context,
        caller,
        source,
        ready: VecDeque::new(),
        _permit: permit,
    };
    let keep_alive = KeepAlive::new().interval(KEEP_ALIVE);
    Ok(Sse::new(reader.stream()).keep_alive(keep_alive).into_response())
}

/// Who reads a stream.
struct Reader<S> {
    context: Context,
    caller: Caller,
    access: watch::Receiver<u64>,
    ending: watch::Receiver<bool>,
    source: S,
    ready: VecDeque<Sent>,
    _permit: OwnedSemaphorePermit,
}

impl<S: Source> Reader<S> {
    fn stream(self) -> impl Stream<Item = Result<Sent, Infallible>> {
        stream::unfold(self, |mut reader| async move {
            let sent = reader.next().await?;
            Some((Ok(sent), reader))
        })
    }

    /// The next message; `None` when the program or the source ends, or the reader may not read any
    /// more.
    async fn next(&mut self) -> Option<Sent> {
        loop {
            // Before it is looked: what changes after wakes.
            self.access.borrow_and_update();
            if !self.context.manager.access().is_valid(&self.caller, SystemTime::now()) {
                return None;
            }
            if let Some(sent) = self.ready.pop_front() {
                return Some(sent);
            }
            self.ready.extend(self.source.look().await?);
            if !self.ready.is_empty() {
                continue;
            }
            tokio::select! {
                more = self.source.wait() => more.then_some(())?,
                changed = self.access.changed() => changed.ok()?,
                () = expiry(&self.caller) => {}
                _ = self.ending.wait_for(|ending| *ending) => return None,
            }
        }
    }
}

/// Waits until a caller's credential expires.
async fn expiry(caller: &Caller) {
    let end = match caller {
        Caller::Remote(Credential { expires: Some(end), .. }) => *end,
        _ => return std::future::pending().await,
    };
    // A clock that is set meanwhile is noticed at the next look.
    let left = end.duration_since(SystemTime::now()).unwrap_or_default();
    tokio::time::sleep(left.min(CLOCK_LOOK)).await;
}
