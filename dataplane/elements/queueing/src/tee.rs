//! Tee: a copy for every output.

use std::ops::Range;

use thruway_element::{
    ArgError, Args, Arguments, Changes, Cost, CostModel, Cx, Element, Entry, Handlers, Load,
    Operation, Purpose, Replicas, Spec, Topic,
};
use thruway_packet::{Batch, Packet};

/// See the spec.
pub static ENTRY: Entry = Entry::of::<Tee>(Spec {
    name: "Tee",
    topic: Topic::Queueing,
    summary: "copies packets to all outputs",
    docs: "Each packet leaves by every output: as a copy by all but the last. Tee has as many \
           outputs as are connected; N, if given, is the required number of outputs.",
    example: "InfiniteSource(LIMIT 1, STOP true) -> t :: Tee(2);\n\
              t[0] -> Print(a) -> Discard; t[1] -> Print(b) -> Discard",
    ports: "1/1-",
    processing: "h/h",
    changes: Changes::Nothing,
    cost: &[Operation::Clone.once()],
    replicas: Replicas::Alike,
    purpose: Purpose::CopyToAll,
    large_packets: true,
    ..Spec::DEFAULT
})
.with_cost_model::<Tee>();

/// See the spec.
pub static PULL: Entry = Entry::of::<Tee>(Spec {
    name: "PullTee",
    summary: "copies packets that are pulled to its other outputs",
    docs: "Packets are pulled through input 0 and output 0; of each, a copy is pushed out of \
           every other output. PullTee has as many outputs as are connected; N, if \
           given, says how many that should be.",
    example: "InfiniteSource(LIMIT 1) -> Queue -> t :: PullTee(2) -> Unqueue -> Discard;\n\
              t[1] -> Print(copy) -> Discard",
    processing: "l/lh",
    replicas: Replicas::Alike,
    ..ENTRY.spec
})
.with_cost_model::<Tee>();

#[derive(Arguments, Handlers)]
pub(super) struct Tee {
    #[arg(
        optional, name = "N", value = Option<usize>, "number of outputs there should be"
    )]
    #[new(as_many_as_connected(args, n)?)]
    outputs: usize,
    /// Whether output 0 is pulled.
    #[new(args.class() == "PullTee")]
    pull: bool,
}

fn as_many_as_connected(args: &Args<'_>, n: Option<usize>) -> Result<usize, ArgError> {
    let outputs = args.env().outputs;
    match n {
        Some(n) if n != outputs => {
            let message = format!("{n}, but {outputs} outputs are connected; write {outputs}");
            Err(args.error("N", message))
        }
        _ => Ok(outputs),
    }
}

/// Sends copies of a packet out of these outputs.
pub(super) fn copy_to_outputs(cx: &mut Cx<'_>, packet: &Packet, ports: Range<usize>) {
    for port in ports {
        if let Some(copy) = cx.duplicate(packet) {
            cx.emit(port, copy);
        }
    }
}

/// The cost of so many copies of a packet.
pub(super) fn copying(copies: usize, load: &Load) -> Vec<Cost> {
    let copies = copies as f64;
    let lines = copies * Load::lines(load.packet_bytes);
    vec![Operation::Clone.times(copies), Operation::CopyLine.times(lines)]
}

impl Element for Tee {
    fn process(&mut self, cx: &mut Cx<'_>, _port: usize, batch: &mut Batch) {
        let Some(last) = cx.outputs().checked_sub(1) else { return };
        let copied = if self.pull { 1..last + 1 } else { 0..last };
        for packet in batch.iter() {
            copy_to_outputs(cx, packet, copied.clone());
        }
        if !self.pull {
            cx.emit_all(last, batch);
        }
    }
}

impl CostModel for Tee {
    fn cost(&self, load: &Load) -> Option<Vec<Cost>> {
        Some(copying(self.outputs.saturating_sub(1), load))
    }
}
