//! SetAnnoByte: one byte of a packet's annotations.

use thruway_element::{
    AnnoArg, Arg, ArgErrors, Args, Changes, Cx, Element, Entry, Handler, HandlerError, Operation,
    Replicas, Spec, Topic, Ty,
};
use thruway_packet::{Anno, Batch};

/// See the spec.
pub static ENTRY: Entry = Entry::new(
    Spec {
        name: "SetAnnoByte",
        topic: Topic::Moving,
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
        handlers: &[
            Handler::read("offset", "number of the byte"),
            Handler::read("value", "what it is set to"),
        ],
        changes: Changes::Nothing,
        cost: &[Operation::Annotate.once()],
        replicas: Replicas::Alike,
        ..Spec::DEFAULT
    },
    build,
);

struct SetAnnoByte {
    anno: Anno,
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

    fn read(&mut self, _cx: &mut Cx<'_>, name: &str, _param: &str) -> Result<String, HandlerError> {
        match name {
            "offset" => Ok(self.anno.offset.to_string()),
            "value" => Ok(self.value.to_string()),
            _ => Err(HandlerError::no_read(name)),
        }
    }
}
