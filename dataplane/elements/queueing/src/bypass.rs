//! Bypass: a detour that can be switched on.

use thruway_element::{
    Arguments, Changes, Cx, Element, Entry, Handlers, NOTHING_MORE, Replicas, Spec, Topic,
};
use thruway_packet::Batch;

/// See the spec.
pub static ENTRY: Entry = Entry::of::<Bypass>(Spec {
    name: "Bypass",
    topic: Topic::Queueing,
    summary: "sends packets by a detour while it is active",
    docs: "While it is not active, packets go from input 0 to output 0. While it is, pushed \
           packets leave by output 1, and pulled ones come from input 1, where there is one: \
           that is the detour. Its end may be connected to the other port 1, which leads back \
           to the usual path: from input 1 to output 0 where packets are pushed, from input 0 \
           to output 1 where they are pulled. Packets pass through Bypass on both paths, so \
           INLINE changes nothing here.",
    example: "InfiniteSource(LIMIT 3, STOP true) -> b :: Bypass -> Discard;\n\
              b[1] -> Print(debug) -> [1] b",
    ports: "1-2/1-2",
    flow: "xy/[xy]x",
    changes: Changes::Nothing,
    cost: NOTHING_MORE,
    replicas: Replicas::Alike,
    ..Spec::DEFAULT
});

#[derive(Arguments, Handlers)]
struct Bypass {
    /// whether packets take the detour
    #[arg(optional, or = "false")]
    #[arg(keyword, name = "INLINE", checked = bool, or = "false", "accepted for Click's sake")]
    #[handler(both)]
    active: bool,
}

impl Element for Bypass {
    fn initialize(&mut self, cx: &mut Cx<'_>) -> Result<(), String> {
        // The detour's own pulls would come while this element is pulling.
        if cx.outputs() > 1 && cx.is_pull_input(0) {
            cx.shortcut_pull(1, 0);
        }
        Ok(())
    }

    fn process(&mut self, cx: &mut Cx<'_>, port: usize, batch: &mut Batch) {
        if self.active && port == 0 && cx.outputs() > 1 {
            cx.emit_all(1, batch);
        }
    }

    fn pull(&mut self, cx: &mut Cx<'_>, port: usize, max: usize, batch: &mut Batch) {
        let detour = self.active && port == 0 && cx.inputs() > 1;
        cx.pull(usize::from(detour), max, batch);
    }
}
