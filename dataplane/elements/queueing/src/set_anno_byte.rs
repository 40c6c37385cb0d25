//! SetAnnoByte: one byte of a packet's annotations.

use thruway_element::{
    AnnoArg, Arguments, Changes, Cx, Element, Entry, Handlers, Operation, Replicas, Spec, Topic,
};
use thruway_packet::{Anno, Batch};

/// See the spec.
pub static ENTRY: Entry = Entry::of::<SetAnnoByte>(Spec {
    name: "SetAnnoByte",
    topic: Topic::Queueing,
    summary: "sets a byte of the annotations",
    docs: "Sets the byte at OFFSET of each packet's annotations to VALUE. Paint does the same, \
           with its arguments in the reverse order.",
    example: "InfiniteSource(LIMIT 3, STOP true) -> SetAnnoByte(PAINT, 1) -> CheckPaint(1) \
              -> Print(OK) -> Discard",
    straight: true,
    changes: Changes::Nothing,
    cost: &[Operation::Annotate.once()],
    replicas: Replicas::Alike,
    ..Spec::DEFAULT
});

#[derive(Arguments, Handlers)]
#[handler(read, name = "offset", "number of the byte", get = self.anno.offset)]
struct SetAnnoByte {
    #[arg(
        required, name = "OFFSET", value = AnnoArg,
        "the byte: a number, or the name of an annotation"
    )]
    #[new(Anno { size: 1, ..offset.0 })]
    anno: Anno,
    /// 0 to 255
    #[arg(required)]
    #[handler(read, "the value")]
    value: u8,
}

impl Element for SetAnnoByte {
    fn process(&mut self, _cx: &mut Cx<'_>, _port: usize, batch: &mut Batch) {
        for packet in batch {
            packet.set_anno_number(self.anno, u32::from(self.value));
        }
    }
}
