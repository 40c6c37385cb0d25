//! Null: does nothing.

use thruway_element::{
    Alias, Arguments, Changes, Element, Entry, Handlers, NOTHING_MORE, Purpose, Replicas, ShortCut,
    Spec, Topic,
};

const SPEC: Spec = Spec {
    name: "Null",
    topic: Topic::Sources,
    summary: "passes packets on unchanged",
    docs: "Passes packets on unchanged. Useful as a named place to connect to and to count at.",
    example: "InfiniteSource(LIMIT 3, STOP true) -> Null -> Discard",
    straight: true,
    changes: Changes::Nothing,
    cost: NOTHING_MORE,
    replicas: Replicas::Alike,
    large_packets: true,
    ..Spec::DEFAULT
};

/// See the spec.
pub static ENTRY: Entry = Entry::of::<Null>(Spec {
    aliases: &[Alias {
        name: "FlowLock",
        summary: "FastClick's; one thread serves a session, so there is nothing to lock",
    }],
    purpose: Purpose::PassOn,
    short_cut: ShortCut::Passes,
    ..SPEC
});

/// See the spec.
pub static PULL: Entry = Entry::of::<Null>(Spec {
    name: "PullNull",
    summary: "passes packets on unchanged, where packets are pulled",
    docs: "Null, but for connections where packets are pulled.",
    example: "InfiniteSource(LIMIT 3, STOP true) -> Queue -> PullNull -> Discard",
    processing: "l/l",
    replicas: Replicas::Alike,
    ..SPEC
});

/// See the spec.
pub static PUSH: Entry = Entry::of::<Null>(Spec {
    name: "PushNull",
    summary: "passes packets on unchanged, where packets are pushed",
    docs: "Null, but for connections where packets are pushed.",
    example: "InfiniteSource(LIMIT 3, STOP true) -> PushNull -> Discard",
    processing: "h/h",
    straight: true,
    replicas: Replicas::Alike,
    ..SPEC
});

#[derive(Arguments, Handlers)]
struct Null;

impl Element for Null {}
