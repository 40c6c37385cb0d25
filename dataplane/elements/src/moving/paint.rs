//! Paint: marks packets with a colour.

use thruway_element::{
    AnnoArg, Arg, ArgError, ArgErrors, Args, Changes, Cx, Element, Entry, Handler, HandlerError,
    Operation, Replicas, Spec, Topic, Ty, handler_value,
};
use thruway_packet::{Anno, Batch};

/// See the spec.
pub static ENTRY: Entry = Entry::new(
    Spec {
        name: "Paint",
        topic: Topic::Moving,
        summary: "sets the paint annotation",
        docs: "Sets each packet's paint annotation to COLOR. PaintSwitch and PaintTee look at it; a \
               packet that nobody painted has colour 0. ANNO names another one-byte annotation to \
               use instead.",
        example: "InfiniteSource(LIMIT 3, STOP true) -> Paint(1) -> Print(OK) -> Discard",
        straight: true,
        args: &[
            Arg::required("COLOR", Ty::UInt, "0 to 255"),
            Arg::optional("ANNO", Ty::Anno, "the annotation to set").or("PAINT"),
        ],
        handlers: &[Handler::both("color", "the colour")],
        changes: Changes::Nothing,
        cost: &[Operation::Annotate.once()],
        replicas: Replicas::Alike,
        ..Spec::DEFAULT
    },
    build,
);

struct Paint {
    color: u8,
    anno: Anno,
}

fn build(args: &Args<'_>) -> Result<Box<dyn Element>, ArgErrors> {
    Ok(Box::new(Paint { color: args.get("COLOR")?, anno: paint_anno(args)? }))
}

/// The annotation that holds the colour: argument ANNO.
pub(super) fn paint_anno(args: &Args<'_>) -> Result<Anno, ArgError> {
    let AnnoArg(anno) = args.get("ANNO")?;
    if anno.size == 1 {
        return Ok(anno);
    }
    Err(args.error("ANNO", format!("a colour needs one byte, this annotation has {}", anno.size)))
}

impl Element for Paint {
    fn process(&mut self, _cx: &mut Cx<'_>, _port: usize, batch: &mut Batch) {
        for packet in batch {
            packet.set_anno_number(self.anno, u32::from(self.color));
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
