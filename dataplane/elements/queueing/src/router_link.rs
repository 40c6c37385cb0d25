//! RouterLink: stands between the configurations that click-combine joins.

use thruway_element::{
    Arguments, Changes, Cost, CostModel, Cx, Element, Entry, Handlers, Load, Operation, Purpose,
    Replicas, Run, Spec, Threading, Topic, Ty,
};
use thruway_packet::{Batch, MAX_BATCH};

use super::tee::{copy_to_outputs, copying};

/// See the spec.
pub static ENTRY: Entry = Entry::of::<RouterLink>(Spec {
    name: "RouterLink",
    topic: Topic::Queueing,
    summary: "passes packets between configurations that were combined",
    docs: "Takes the place of devices where `thruway combine` joins configurations: each input \
           was a ToDevice, each output a FromDevice. A packet of any input leaves by every \
           output, as on a wire; inputs push, or are pulled from. The arguments are two for \
           each input, then two for each output: ROUTER ELEMENT CLASS, and that element's own \
           arguments as one; `thruway uncombine` makes the devices of them again.",
    example: "InfiniteSource(LIMIT 3, STOP true) -> RouterLink(a to ToDevice, eth0,\n\
              b from FromDevice, eth1) -> Discard",
    ports: "1-/1-",
    processing: "a/h",
    threading: Threading::PullTask,
    changes: Changes::Nothing,
    cost: &[Operation::Clone.once()],
    replicas: Replicas::Alike,
    purpose: Purpose::LinkConfigurations,
    ..Spec::DEFAULT
})
.with_cost_model::<RouterLink>();

#[derive(Arguments, Handlers)]
struct RouterLink {
    #[arg(
        rest, name = "DEVICE", unread, ty = Ty::Any,
        "ROUTER ELEMENT CLASS, or that element's arguments"
    )]
    #[new(args.env().outputs)]
    outputs: usize,
    #[new(Batch::with_room())]
    batch: Batch,
}

/// Sends a batch to all outputs.
fn pass(cx: &mut Cx<'_>, batch: &mut Batch) {
    let Some(last) = cx.outputs().checked_sub(1) else { return };
    for packet in batch.iter() {
        copy_to_outputs(cx, packet, 0..last);
    }
    cx.emit_all(last, batch);
}

impl Element for RouterLink {
    fn process(&mut self, cx: &mut Cx<'_>, _port: usize, batch: &mut Batch) {
        pass(cx, batch);
    }

    fn run(&mut self, cx: &mut Cx<'_>) -> Run {
        let mut moved = false;
        for input in 0..cx.inputs() {
            if cx.is_pull_input(input) {
                cx.pull(input, MAX_BATCH, &mut self.batch);
                moved |= !self.batch.is_empty();
                pass(cx, &mut self.batch);
            }
        }
        if moved { Run::Again } else { Run::Idle }
    }
}

impl CostModel for RouterLink {
    fn cost(&self, load: &Load) -> Option<Vec<Cost>> {
        Some(copying(self.outputs.saturating_sub(1), load))
    }
}
