//! Block: turns away packets of flows that send too much.

use thruway_element::{
    Arg, ArgErrors, Args, Changes, Cx, Element, Entry, Handler, HandlerError, Operation, Replicas,
    Spec, Topic, Ty, Verdict, handler_value,
};
use thruway_packet::{Anno, Batch};

/// See the spec.
pub static ENTRY: Entry = Entry::new(
    Spec {
        name: "Block",
        topic: Topic::Moving,
        summary: "sorts packets by the rate that was noted on them",
        docs: "Packets whose FWD_RATE annotation (set by a monitor) is at most THRESH leave by \
               output 0, others by output 1. With THRESH 0 all leave by output 0.",
        example: "InfiniteSource(LIMIT 3, STOP true) -> b :: Block(500) -> Discard;\n\
                  b[1] -> Print(blocked) -> Discard",
        ports: "1/2",
        processing: "a/ah",
        args: &[Arg::required("THRESH", Ty::UInt, "highest rate that passes; 0 for any")],
        handlers: &[Handler::both("thresh", "highest rate that passes; 0 for any")],
        changes: Changes::Nothing,
        cost: &[Operation::Sort.once()],
        replicas: Replicas::Alike,
        ..Spec::DEFAULT
    },
    build,
);

struct Block {
    thresh: u32,
}

fn build(args: &Args<'_>) -> Result<Box<dyn Element>, ArgErrors> {
    Ok(Box::new(Block { thresh: args.get("THRESH")? }))
}

impl Element for Block {
    fn process(&mut self, cx: &mut Cx<'_>, _port: usize, batch: &mut Batch) {
        let thresh = self.thresh;
        if thresh > 0 {
            cx.sift(batch, |packet| match packet.anno_number(Anno::FWD_RATE) <= thresh {
                true => Verdict::Pass,
                false => Verdict::To(1),
            });
        }
    }

    fn read(&mut self, _cx: &mut Cx<'_>, name: &str, _param: &str) -> Result<String, HandlerError> {
        match name {
            "thresh" => Ok(self.thresh.to_string()),
            _ => Err(HandlerError::no_read(name)),
        }
    }

    fn write(&mut self, _cx: &mut Cx<'_>, name: &str, value: &str) -> Result<(), HandlerError> {
        match name {
            "thresh" => self.thresh = handler_value(name, value)?,
            _ => return Err(HandlerError::no_write(name)),
        }
        Ok(())
    }
}
