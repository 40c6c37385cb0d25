//! TestFlowSpace: unused session state.

use thruway_element::{
    Arguments, Changes, Cx, Element, Entry, Handlers, Opening, Operation, PerSession, Reason,
    Replicas, Session, Spec, Topic, Verdict, Wants,
};
use thruway_packet::{Batch, Packet};

/// See the spec.
pub static ENTRY: Entry = Entry::of::<TestFlowSpace>(Spec {
    name: "TestFlowSpace",
    topic: Topic::Sessions,
    summary: "asks for four bytes of state for each session, and leaves them alone",
    docs: "FastClick's, for tests of where the state of functions is placed: handler `scratch` \
           of the FlowClassifier has a line for it, and `thruway check --explain` shows the \
           place. Packets go through unchanged.",
    example: "FromDump(examples/captures/lan.pcap, STOP true) -> f :: FlowClassifier \
              ~> TestFlowSpace -> TestFlowSpace -> Discard",
    processing: "a/a",
    wants: Wants::session::<u32>("connection"),
    changes: Changes::Nothing,
    cost: &[Operation::SessionState.once()],
    replicas: Replicas::Apart("each has the state of its thread's sessions"),
    ..Spec::DEFAULT
});

#[derive(Arguments, Handlers)]
struct TestFlowSpace;

impl PerSession for TestFlowSpace {
    type State = u32;

    fn open(
        &mut self,
        _opening: &mut Opening<'_>,
        _packet: &mut Packet,
        _state: &mut u32,
    ) -> Result<(), Reason> {
        Ok(())
    }

    fn each(&mut self, _packet: &mut Packet, _session: &mut Session<'_, u32>) -> Verdict {
        Verdict::Pass
    }
}

impl Element for TestFlowSpace {
    fn process(&mut self, cx: &mut Cx<'_>, _port: usize, batch: &mut Batch) {
        cx.per_session(self, batch);
    }
}
