//! CheckPaint: lets one colour pass.

use thruway_element::{
    Arguments, Changes, Cx, Element, Entry, Handlers, Operation, Replicas, Spec, Topic, Verdict,
    reasons,
};
use thruway_packet::{Anno, Batch};

use super::paint::one_byte;

/// See the spec.
pub static ENTRY: Entry = Entry::of::<CheckPaint>(Spec {
    name: "CheckPaint",
    topic: Topic::Queueing,
    summary: "checks the paint annotation",
    docs: "Packets of colour COLOR (set by Paint) go on; others leave by output 1, or are \
           dropped if it is unconnected. ANNO names another one-byte annotation to look at.",
    example: "InfiniteSource(LIMIT 3, STOP true) -> Paint(1) -> c :: CheckPaint(1) -> Discard;\n\
              c[1] -> Print(other) -> Discard",
    ports: "1/1-2",
    processing: "a/ah",
    straight: true,
    drops: Other::DROPS,
    changes: Changes::Nothing,
    cost: &[Operation::Annotate.once()],
    replicas: Replicas::Alike,
    ..Spec::DEFAULT
});

reasons! {
    /// Why a packet does not pass.
    enum Other {
        Color = "other-color": "its colour is not COLOR",
    }
}

#[derive(Arguments, Handlers)]
struct CheckPaint {
    /// 0 to 255
    #[arg(required)]
    #[handler(both, "the colour")]
    color: u8,
    /// the annotation to look at
    #[arg(optional, via = one_byte, or = "PAINT")]
    anno: Anno,
}

impl Element for CheckPaint {
    fn process(&mut self, cx: &mut Cx<'_>, _port: usize, batch: &mut Batch) {
        let (color, anno) = (u32::from(self.color), self.anno);
        cx.filter(batch, |packet| match packet.anno_number(anno) == color {
            true => Verdict::Pass,
            false => Verdict::reject(1, Other::Color),
        });
    }
}
