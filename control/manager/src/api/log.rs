//! `/v1/chains/NAME/log`: what the data plane of a chain wrote.

use std::time::Duration;

use axum::Json;
use axum::extract::{Extension, State};
use axum::response::sse::Event as Sent;
use axum::response::{IntoResponse, Response};

use super::body::{NamePath, Params};
use super::context::Context;
use super::problem::{Kind, Problem};
use super::reader::{self, Source};
use super::views::{LogLine, LogParams, LogView};
use crate::access::Caller;
use crate::{ChainName, LogPart, Manager};

/// Most lines that are given at once.
pub const LOG_LINES_MAX: usize = 10_000;

/// Lines that are given if not said otherwise.
const LINES_DEFAULT: usize = 100;

/// Most bytes that are read at once.
const READ_LEN_MAX: u64 = 1 << 20;

/// Longest line, in bytes; what is longer is given as several.
const LINE_LEN_MAX: usize = 64 << 10;

/// How often it is looked for more.
const LOOK: Duration = Duration::from_millis(250);

/// Reads the last lines that the data plane of a chain wrote, its output and its errors
///
/// With `follow` they are server-sent events, and more follow until the chain is deleted. An event
/// of type `gap` says that some between are not kept any more.
#[utoipa::path(get, path = "/v1/chains/{name}/log", tag = "chains",
    params(("name" = String, Path, description = "name of the chain"), LogParams), responses(
    (status = 200, description = "the lines; the data of each event is a LogLine",
     content((LogView = "application/json"), (LogLine = "text/event-stream"))),
    (status = 404, description = "no such chain; `known` lists those that there are",
     body = Problem, content_type = "application/problem+json"),
))]
pub async fn get(
    State(context): State<Context>,
    Extension(caller): Extension<Caller>,
    NamePath(name): NamePath<ChainName>,
    Params(params): Params<LogParams>,
) -> Result<Response, Problem> {
    let count = lines_max(params.lines)?;
    let chain = name.clone();
    let part = context.call(move |manager| {
        manager.store().get(&chain)?;
        read(manager, &chain, 0)
    });
    let part = part.await?;
    let mut lines = Lines::default();
    let mut ready = lines.split(last_lines(&part.text, count));
    if !params.follow {
        ready.extend(lines.rest());
        return Ok(Json(LogView { lines: ready }).into_response());
    }
    let ready = ready.into_iter().map(message).collect();
    let source = Log { context: context.clone(), name, next: part.next, lines, ready };
    reader::answer(context, caller, source)
}

/// The number of lines asked for.
fn lines_max(asked: Option<usize>) -> Result<usize, Problem> {
    let count = asked.unwrap_or(LINES_DEFAULT);
    match count {
        0..=LOG_LINES_MAX => Ok(count),
        _ => {
            let detail = format!("0 to {LOG_LINES_MAX} lines are given at once");
            Err(Problem::new(Kind::Invalid, detail).field("lines"))
        }
    }
}

/// What a chain wrote from a position on.
fn read(manager: &Manager, name: &ChainName, from: u64) -> Result<LogPart, Problem> {
    let part = manager.planes().log(name.as_str(), from, READ_LEN_MAX);
    part.map_err(|error| Problem::new(Kind::Internal, error.to_string()))
}

/// The output of a chain, and how far it was read.
struct Log {
    context: Context,
    name: ChainName,
    next: u64,
    lines: Lines,
    ready: Vec<Sent>,
}

impl Source for Log {
    async fn look(&mut self) -> Option<Vec<Sent>> {
        let mut ready = std::mem::take(&mut self.ready);
        let (name, from) = (self.name.clone(), self.next);
        let part = self.context.call(move |manager| {
            // Of a chain that is deleted there is nothing as soon as its data plane has ended.
            let is_there = manager.planes().status(name.as_str()).is_some();
            read(manager, &name, from).map(|part| is_there.then_some(part))
        });
        let part = part.await.ok()??;
        self.next = part.next;
        let text = last_lines(&part.text, LOG_LINES_MAX);
        if part.is_cut || text.len() < part.text.len() {
            ready.extend(self.lines.rest().map(message));
            ready.push(Sent::default().event("gap").data("{}"));
        }
        ready.extend(self.lines.split(text).into_iter().map(message));
        Some(ready)
    }

    async fn wait(&mut self) -> bool {
        tokio::time::sleep(LOOK).await;
        true
    }
}

/// A line as it is sent.
fn message(line: String) -> Sent {
    // A struct of a text is always JSON, of one line.
    Sent::default().data(serde_json::to_string(&LogLine { line }).unwrap_or_default())
}

/// The last lines of a text; one without an end is one, too.
fn last_lines(text: &[u8], count: usize) -> &[u8] {
    let ends = text.iter().enumerate().rev().filter(|(_, byte)| **byte == b'\n');
    let mut starts = ends.map(|(at, _)| at + 1).filter(|start| *start < text.len());
    match count.checked_sub(1) {
        None => &[],
        Some(before) => starts.nth(before).map_or(text, |start| &text[start..]),
    }
}

/// Makes lines of bytes that come in parts.
#[derive(Default)]
struct Lines {
    /// The begin of a line whose end did not come yet.
    begun: Vec<u8>,
}

impl Lines {
    /// The lines that end in the next bytes.
    fn split(&mut self, bytes: &[u8]) -> Vec<String> {
        let mut lines = Vec::new();
        for piece in bytes.split_inclusive(|byte| *byte == b'\n') {
            let (piece, has_end) =
                piece.strip_suffix(b"\n").map_or((piece, false), |one| (one, true));
            self.begun.extend_from_slice(piece);
            while self.begun.len() > LINE_LEN_MAX {
                let rest = self.begun.split_off(LINE_LEN_MAX);
                lines.extend(self.rest());
                self.begun = rest;
            }
            if has_end {
                lines.push(self.rest().unwrap_or_default());
            }
        }
        lines
    }

    /// The line that has no end yet, if there is one.
    fn rest(&mut self) -> Option<String> {
        let bytes = std::mem::take(&mut self.begun);
        (!bytes.is_empty()).then(|| String::from_utf8_lossy(&bytes).into_owned())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn the_last_lines_are_found() {
        let last = |text: &'static str, count| {
            std::str::from_utf8(last_lines(text.as_bytes(), count)).expect("text")
        };
        assert_eq!(last("a\nb\nc\n", 2), "b\nc\n");
        assert_eq!(last("a\nb\nc", 2), "b\nc");
        assert_eq!(last("a\nb\n", 3), "a\nb\n");
        assert_eq!(last("\n\n\n", 2), "\n\n");
        assert_eq!([last("a\nb", 0), last("", 3), last("\n", 1)], ["", "", "\n"]);
    }

    #[test]
    fn a_long_line_is_given_as_several() {
        let mut lines = Lines::default();
        let text = "x".repeat(2 * LINE_LEN_MAX + 1);
        let lens: Vec<usize> = lines.split(text.as_bytes()).iter().map(String::len).collect();
        assert_eq!(lens, [LINE_LEN_MAX, LINE_LEN_MAX]);
        assert_eq!(lines.split(b"\n"), ["x"]);
        assert_eq!(lines.rest(), None);
    }

    proptest! {
        /// However a text comes, its lines are the same.
        #[test]
        fn lines_do_not_depend_on_parts(
            text in "[ab\n]{0,40}",
            cuts in prop::collection::vec(1usize..8, 1..40),
        ) {
            let (mut lines, mut found) = (Lines::default(), Vec::new());
            let mut left = text.as_bytes();
            for cut in cuts {
                let (part, rest) = left.split_at(cut.min(left.len()));
                found.extend(lines.split(part));
                left = rest;
            }
            found.extend(lines.split(left));
            found.extend(lines.rest());
            prop_assert_eq!(found, text.lines().collect::<Vec<_>>());
        }

        #[test]
        fn the_last_lines_are_those_of_the_text(text in "[ab\n]{0,40}", count in 0usize..10) {
            let all: Vec<&str> = text.lines().collect();
            let last = String::from_utf8_lossy(last_lines(text.as_bytes(), count)).into_owned();
            let found: Vec<&str> = last.lines().collect();
            prop_assert_eq!(found, all[all.len().saturating_sub(count)..].to_vec());
        }
    }
}
