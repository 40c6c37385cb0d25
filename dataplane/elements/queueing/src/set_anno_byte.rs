//! SetAnnoByte: one byte of a packet's annotations.

use thruway_element::{
    AnnoArg, Arg, ArgErrors, Args, Changes, Cx, Element, Entry, Handlers, Operation, Replicas,
    Spec, Topic, Ty,
};
use thruway_packet::{Anno, Batch};

/// See the spec.
pub static ENTRY: Entry = Entry::built::<SetAnnoByte>(
    Spec {
        name: "SetAnnoByte",
        topic: Topic::Queueing,
        summary: "sets a byte of the annotations",
        docs: "Sets the byte at OFFSET of each packet's annotations to VALUE. Paint does the same, \
               with its arguments the other way round.",
        example: "InfiniteSource(LIMIT 3, STOP true) -> SetAnnoByte(PAINT, 1) -> CheckPaint(1) \
                  -> Print(OK) -> Discard",
        straight: true,
        args: &[
            Arg::required("OFFSET", Ty::Anno, "the byte: a number, or the name of an annotation"),
            Arg::required("VALUE", Ty::UInt, "0 to 255"),
        ],
        changes: Changes::Nothing,
        cost: &[Operation::Annotate.once()],
        replicas: Replicas::Alike,
        ..Spec::DEFAULT
    },
    build,
);

#[derive(Handlers)]
#[handler(read, name = "offset", "number of the byte", get = self.anno.offset)]
struct SetAnnoByte {
    anno: Anno,
    /// what it is set to
    #[handler(read)]
    value: u8,
}

fn build(args: &Args<'_>) -> Result<Box<dyn Element>, ArgErrors> {
    let AnnoArg(anno) = args.get("OFFSET")?;
    Ok(Box::new(SetAnnoByte { anno: Anno { size: 1, ..anno }, value: args.get("VALUE")? }))
}

impl Element for SetAnnoByte {
    fn process(&mut self, _cx: &mut Cx<'_>, _port: usize, batch: &mut Batch) {
        for packet in batch {
            packet.set_anno_number(self.anno, u32::from(self.value));
        }
    }
}
