//! Error: keeps a configuration from running.

use thruway_element::{
    Arguments, Changes, Cx, Element, Entry, Handlers, NOTHING_MORE, Replicas, Spec, Topic, Ty,
};

/// See the spec.
pub static ENTRY: Entry = Entry::of::<Error>(Spec {
    name: "Error",
    topic: Topic::Control,
    summary: "keeps the configuration from running",
    docs: "Takes any arguments and connections and always fails: the configuration that it is \
           in is not run.",
    example: "Idle -> Error(not written yet) -> Discard",
    ports: "-/-",
    flow: "x/y",
    changes: Changes::Nothing,
    cost: NOTHING_MORE,
    replicas: Replicas::Alike,
    ..Spec::DEFAULT
});

#[derive(Arguments, Handlers)]
#[arg(rest, name = "ANYTHING", unread, ty = Ty::Any, "ignored")]
struct Error;

impl Element for Error {
    fn initialize(&mut self, _cx: &mut Cx<'_>) -> Result<(), String> {
        Err("this element always fails; take it out to run the configuration".to_owned())
    }
}
