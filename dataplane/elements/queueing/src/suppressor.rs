//! Suppressor: ports that can be shut.

use thruway_element::{
    Arguments, Changes, Cx, Element, Entry, Handlers, NOTHING_MORE, Replicas, Spec, Topic, reasons,
};
use thruway_packet::Batch;

/// See the spec.
pub static ENTRY: Entry = Entry::of::<Suppressor>(Spec {
    name: "Suppressor",
    topic: Topic::Queueing,
    summary: "passes packets on, of each input to the same output, unless that is shut",
    docs: "Packets go from input N to output N. While activeN is false, packets that are pushed \
           into input N are dropped, and nothing can be pulled from output N. All ports are \
           active at first.",
    example: "InfiniteSource(LIMIT 3, STOP true) -> s :: Suppressor -> Discard",
    ports: "-/=",
    flow: "#/#",
    drops: Shut::DROPS,
    changes: Changes::Nothing,
    cost: NOTHING_MORE,
    replicas: Replicas::Alike,
    large_packets: true,
    ..Spec::DEFAULT
});

reasons! {
    /// Why a packet goes no further.
    enum Shut {
        Suppressed = "suppressed": "its port is not active",
    }
}

#[derive(Arguments, Handlers)]
struct Suppressor {
    #[new(vec![true; args.env().inputs])]
    #[handler(
        both,
        numbered,
        name = "active0",
        "whether port 0 is active; likewise active1 and so on"
    )]
    #[handler(write, name = "reset", "makes all ports active", run = self.active.fill(true))]
    active: Vec<bool>,
}

impl Element for Suppressor {
    fn process(&mut self, cx: &mut Cx<'_>, port: usize, batch: &mut Batch) {
        if self.active[port] {
            cx.emit_all(port, batch);
        } else {
            cx.drop_all(Shut::Suppressed, batch);
        }
    }

    fn pull(&mut self, cx: &mut Cx<'_>, port: usize, max: usize, batch: &mut Batch) {
        if self.active[port] {
            cx.pull(port, max, batch);
        }
    }
}
