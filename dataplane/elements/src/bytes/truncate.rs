//! Truncate: a limit to length.

use thruway_element::{
    Arg, ArgErrors, Args, Changes, Cx, Element, Entry, Handler, HandlerError, Operation, Replicas,
    Spec, Topic, Ty,
};
use thruway_packet::{Anno, Batch, Packet};

/// See the spec.
pub static ENTRY: Entry = Entry::new(
    Spec {
        name: "Truncate",
        topic: Topic::Bytes,
        summary: "cuts packets to a length",
        docs: "Cuts packets of more than LENGTH bytes to that length. With EXTRA_LENGTH, the bytes \
               cut off are added to the annotation of that name, at most 65,535 in all: ToDump and \
               counters may then count them, and Pad gives them back as zeros.",
        example: "InfiniteSource(LENGTH 100, LIMIT 1, STOP true) -> Truncate(64) -> Print -> Discard",
        straight: true,
        args: &[
            Arg::required("LENGTH", Ty::UInt, "most bytes a packet keeps"),
            Arg::keyword("EXTRA_LENGTH", Ty::Bool, "whether the annotation tells what was cut")
                .or("true"),
        ],
        handlers: &[Handler::read("length", "most bytes a packet keeps")],
        changes: Changes::Headers,
        cost: &[Operation::Visit.once()],
        replicas: Replicas::Alike,
        ..Spec::DEFAULT
    },
    build,
);

struct Truncate {
    length: usize,
    note: bool,
}

fn build(args: &Args<'_>) -> Result<Box<dyn Element>, ArgErrors> {
    let length = args.get::<u32>("LENGTH")? as usize;
    Ok(Box::new(Truncate { length, note: args.get("EXTRA_LENGTH")? }))
}

impl Truncate {
    #[inline]
    fn truncate(&self, packet: &mut Packet) {
        let cut = packet.len().saturating_sub(self.length);
        if cut == 0 {
            return;
        }
        packet.truncate(self.length);
        if self.note {
            let all = cut + packet.anno_number(Anno::EXTRA_LENGTH) as usize;
            packet.set_anno_number(Anno::EXTRA_LENGTH, all.min(usize::from(u16::MAX)) as u32);
        }
    }
}

impl Element for Truncate {
    fn process(&mut self, _cx: &mut Cx<'_>, _port: usize, batch: &mut Batch) {
        for packet in batch {
            self.truncate(packet);
        }
    }

    fn read(&mut self, _cx: &mut Cx<'_>, name: &str, _param: &str) -> Result<String, HandlerError> {
        match name {
            "length" => Ok(self.length.to_string()),
            _ => Err(HandlerError::no_read(name)),
        }
    }
}
