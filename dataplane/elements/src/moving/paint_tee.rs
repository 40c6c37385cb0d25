//! PaintTee: copies packets of one colour.

use thruway_element::{
    Arg, ArgErrors, Args, Changes, Cx, Element, Entry, Handler, HandlerError, Operation, Replicas,
    Spec, Topic, Ty, handler_value,
};
use thruway_packet::{Anno, Batch};

use super::paint::paint_anno;

/// See the spec.
pub static ENTRY: Entry = Entry::new(
    Spec {
        name: "PaintTee",
        topic: Topic::Moving,
        summary: "copies packets of one colour to a second output",
        docs: "Every packet goes on through output 0. Of a packet whose colour (set by Paint) is \
               COLOR, a copy leaves by output 1 before. Routers use it to notice packets that \
               leave by the interface they came in by, which call for an ICMP redirect. ANNO names \
               another one-byte annotation to look at.",
        example: "InfiniteSource(LIMIT 3, STOP true) -> Paint(1) -> t :: PaintTee(1) -> Discard;\n\
                  t[1] -> Print(copy) -> Discard",
        ports: "1/2",
        processing: "a/ah",
        args: &[
            Arg::required("COLOR", Ty::UInt, "0 to 255"),
            Arg::optional("ANNO", Ty::Anno, "the annotation to look at").or("PAINT"),
        ],
        handlers: &[Handler::both("color", "the colour")],
        changes: Changes::Nothing,
        cost: &[Operation::Annotate.once()],
        replicas: Replicas::Alike,
        ..Spec::DEFAULT
    },
    build,
);

struct PaintTee {
    color: u8,
    anno: Anno,
}

fn build(args: &Args<'_>) -> Result<Box<dyn Element>, ArgErrors> {
    Ok(Box::new(PaintTee { color: args.get("COLOR")?, anno: paint_anno(args)? }))
}

impl Element for PaintTee {
    fn process(&mut self, cx: &mut Cx<'_>, _port: usize, batch: &mut Batch) {
        for packet in batch.iter() {
            if packet.anno_number(self.anno) == u32::from(self.color)
                && let Some(copy) = cx.duplicate(packet)
            {
                cx.emit(1, copy);
            }
        }
    }

    fn read(&mut self, _cx: &mut Cx<'_>, name: &str, _param: &str) -> Result<String, HandlerError> {
        match name {
            "color" => Ok(self.color.to_string()),
            _ => Err(HandlerError::no_read(name)),
        }
    }

    fn write(&mut self, _cx: &mut Cx<'_>, name: &str, value: &str) -> Result<(), HandlerError> {
        match name {
            "color" => {
                self.color = handler_value(name, value)?;
                Ok(())
            }
            _ => Err(HandlerError::no_write(name)),
        }
    }
}
