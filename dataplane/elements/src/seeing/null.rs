//! Null: does nothing.

use thruway_element::{Alias, ArgErrors, Args, Element, Entry, Spec, Topic};

/// See the spec.
pub static ENTRY: Entry = Entry::new(
    Spec {
        name: "Null",
        aliases: &[
            Alias { name: "PushNull", summary: "the same, where packets are pushed" },
            Alias { name: "PullNull", summary: "the same, where packets are pulled" },
        ],
        topic: Topic::Seeing,
        summary: "passes packets on unchanged",
        docs: "Passes packets on unchanged. Useful as a named place to connect to and to count at.",
        example: "InfiniteSource(LIMIT 3, STOP true) -> Null -> Discard",
        ..Spec::DEFAULT
    },
    build,
);

struct Null;

fn build(_args: &Args<'_>) -> Result<Box<dyn Element>, ArgErrors> {
    Ok(Box::new(Null))
}

impl Element for Null {}
