//! Idle: nothing comes out of it.

use thruway_element::{
    Arguments, Changes, Cx, Element, Entry, Handlers, NOTHING_MORE, Purpose, Replicas, Spec, Topic,
    reasons,
};
use thruway_packet::Batch;

/// See the spec.
pub static ENTRY: Entry = Entry::of::<Idle>(Spec {
    name: "Idle",
    topic: Topic::Sources,
    summary: "never makes a packet, drops all it gets",
    docs: "Never pushes a packet nor pulls one; packets pushed into it are dropped. Takes the \
           place of a neighbour that must be connected.",
    example: "Idle -> Discard; InfiniteSource(LIMIT 1, STOP true) -> Idle",
    ports: "-/-",
    processing: "a/a",
    flow: "x/y",
    drops: Sink::DROPS,
    changes: Changes::Nothing,
    cost: NOTHING_MORE,
    replicas: Replicas::Alike,
    purpose: Purpose::FillPorts,
    large_packets: true,
    ..Spec::DEFAULT
});

reasons! {
    /// Why a packet is dropped.
    enum Sink {
        Idle = "idle": "it was pushed into an Idle",
    }
}

#[derive(Arguments, Handlers)]
struct Idle;

impl Element for Idle {
    fn process(&mut self, cx: &mut Cx<'_>, _port: usize, batch: &mut Batch) {
        cx.drop_all(Sink::Idle, batch);
    }

    fn pull(&mut self, _cx: &mut Cx<'_>, _port: usize, _max: usize, _batch: &mut Batch) {}
}
