//! Paint: marks packets with a colour.

use thruway_element::{
    AnnoArg, Arguments, Changes, Cx, Element, Entry, Handlers, Operation, Replicas, ShortCut, Spec,
    Topic,
};
use thruway_packet::{Anno, Batch};

/// See the spec.
pub static ENTRY: Entry = Entry::of::<Paint>(Spec {
    name: "Paint",
    topic: Topic::Queueing,
    summary: "sets the paint annotation",
    docs: "Sets each packet's paint annotation to COLOR. PaintSwitch and PaintTee look at it; a \
           unpainted packet has colour 0. ANNO names another one-byte annotation to \
           use instead.",
    example: "InfiniteSource(LIMIT 3, STOP true) -> Paint(1) -> Print(OK) -> Discard",
    straight: true,
    changes: Changes::Nothing,
    cost: &[Operation::Annotate.once()],
    replicas: Replicas::Alike,
    short_cut: ShortCut::Passes,
    large_packets: true,
    ..Spec::DEFAULT
});

#[derive(Arguments, Handlers)]
struct Paint {
    /// 0 to 255
    #[arg(required)]
    #[handler(both, "the colour")]
    color: u8,
    /// the annotation to set
    #[arg(optional, via = one_byte, or = "PAINT")]
    anno: Anno,
}

/// The annotation that holds the colour.
pub(super) fn one_byte(AnnoArg(anno): AnnoArg) -> Result<Anno, String> {
    if anno.size == 1 {
        return Ok(anno);
    }
    Err(format!("a colour needs one byte, this annotation has {}", anno.size))
}

impl Element for Paint {
    fn process(&mut self, _cx: &mut Cx<'_>, _port: usize, batch: &mut Batch) {
        for packet in batch {
            if let Some(byte) = packet.anno_mut(self.anno).first_mut() {
                *byte = self.color;
            }
        }
    }
}
