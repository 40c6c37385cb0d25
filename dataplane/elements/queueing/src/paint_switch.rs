//! PaintSwitch: sorts packets by colour.

use thruway_element::{
    Alias, Arguments, Changes, Cx, Element, Entry, Handlers, Operation, Replicas, Spec, Topic,
    Verdict, reasons,
};
use thruway_packet::{Anno, Batch};

use super::paint::one_byte;
use super::tee::copy_to_outputs;

/// See the spec.
pub static ENTRY: Entry = Entry::of::<PaintSwitch>(Spec {
    name: "PaintSwitch",
    aliases: &[Alias {
        name: "PaintRR",
        summary: "goes round: colour K leaves by output K modulo their number, 255 too",
    }],
    topic: Topic::Queueing,
    summary: "sends each packet to the output of its colour",
    docs: "A packet of colour K (set by Paint) leaves by output K. Colour 255 stands for all: \
           the packet is copied to every output. Packets of a colour that has no output are \
           dropped. ANNO names another one-byte annotation to look at.",
    example: "InfiniteSource(LIMIT 3, STOP true) -> Paint(1) -> s :: PaintSwitch;\n\
              s[0] -> Discard; s[1] -> Print(one) -> Discard",
    ports: "1/-",
    processing: "h/h",
    straight: true,
    drops: Homeless::DROPS,
    changes: Changes::Nothing,
    cost: &[Operation::ArrayLookup.once()],
    replicas: Replicas::Alike,
    ..Spec::DEFAULT
});

reasons! {
    /// Why a packet goes no further.
    enum Homeless {
        NoOutput = "no-such-output": "there is no output of its colour",
    }
}

/// The colour that means every output.
const ALL: usize = 255;

#[derive(Arguments, Handlers)]
struct PaintSwitch {
    /// the annotation to look at
    #[arg(optional, via = one_byte, or = "PAINT")]
    anno: Anno,
    #[new(args.class() == "PaintRR")]
    round: bool,
}

impl Element for PaintSwitch {
    fn process(&mut self, cx: &mut Cx<'_>, _port: usize, batch: &mut Batch) {
        let outputs = cx.outputs();
        for packet in batch.drain() {
            match packet.anno_number(self.anno) as usize {
                color if self.round && outputs > 0 => cx.emit(color % outputs, packet),
                ALL if outputs > 0 => {
                    copy_to_outputs(cx, &packet, 0..outputs - 1);
                    cx.emit(outputs - 1, packet);
                }
                color if color < outputs => cx.emit(color, packet),
                _ => cx.apply(packet, Verdict::drop(Homeless::NoOutput)),
            }
        }
    }
}
