//! CheckPaint: lets one colour pass.

use thruway_element::{
    Arg, ArgErrors, Args, Changes, Cx, Element, Entry, Handler, HandlerError, Operation, Replicas,
    Spec, Topic, Ty, Verdict, handler_value, reasons,
};
use thruway_packet::{Anno, Batch};

use super::paint::paint_anno;

/// See the spec.
pub static ENTRY: Entry = Entry::new(
    Spec {
        name: "CheckPaint",
        topic: Topic::Moving,
        summary: "checks the paint annotation",
        docs: "Packets whose colour (set by Paint) is COLOR go on; others leave by output 1, or are \
               dropped where there is none. ANNO names another one-byte annotation to look at.",
        example: "InfiniteSource(LIMIT 3, STOP true) -> Paint(1) -> c :: CheckPaint(1) -> Discard;\n\
                  c[1] -> Print(other) -> Discard",
        ports: "1/1-2",
        processing: "a/ah",
        straight: true,
        args: &[
            Arg::required("COLOR", Ty::UInt, "0 to 255"),
            Arg::optional("ANNO", Ty::Anno, "the annotation to look at").or("PAINT"),
        ],
        drops: Other::DROPS,
        handlers: &[Handler::both("color", "the colour")],
        changes: Changes::Nothing,
        cost: &[Operation::Annotate.once()],
        replicas: Replicas::Alike,
        ..Spec::DEFAULT
    },
    build,
);

reasons! {
    /// Why a packet does not pass.
    enum Other {
        Color = "other-color": "its colour is not COLOR",
    }
}

struct CheckPaint {
    color: u8,
    anno: Anno,
}

fn build(args: &Args<'_>) -> Result<Box<dyn Element>, ArgErrors> {
    Ok(Box::new(CheckPaint { color: args.get("COLOR")?, anno: paint_anno(args)? }))
}

impl Element for CheckPaint {
    fn process(&mut self, cx: &mut Cx<'_>, _port: usize, batch: &mut Batch) {
        let (color, anno) = (u32::from(self.color), self.anno);
        cx.sift(batch, |packet| match packet.anno_number(anno) == color {
            true => Verdict::Pass,
            false => Verdict::reject(1, Other::Color),
        });
    }

    fn read(&mut self, _cx: &mut Cx<'_>, name: &str, _param: &str) -> Result<String, HandlerError> {
        match name {
            "color" => Ok(self.color.to_string()),
            _ => Err(HandlerError::no_read(name)),
        }
    }

    fn write(&mut self, _cx: &mut Cx<'_>, name: &str, value: &str) -> Result<(), HandlerError> {
        match name {
            "color" => self.color = handler_value(name, value)?,
            _ => return Err(HandlerError::no_write(name)),
        }
        Ok(())
    }
}
