//! CheckLength: lets short packets pass.

use thruway_element::{
    Arg, ArgErrors, Args, Changes, Cx, Element, Entry, Handler, HandlerError, Operation, Replicas,
    Spec, Topic, Ty, Verdict, handler_value, reasons,
};
use thruway_packet::{Anno, Batch, Packet};

/// See the spec.
pub static ENTRY: Entry = Entry::new(
    Spec {
        name: "CheckLength",
        topic: Topic::Moving,
        summary: "checks the length of packets",
        docs: "Packets of at most LENGTH bytes go on; longer ones leave by output 1, or are dropped \
               where there is none. With EXTRA_LENGTH, bytes that a packet had on the wire and the \
               capture left out count too.",
        example: "InfiniteSource(LENGTH 100, LIMIT 3, STOP true) -> c :: CheckLength(64) -> Discard;\n\
                  c[1] -> Print(long) -> Discard",
        ports: "1/1-2",
        processing: "a/ah",
        args: &[
            Arg::required("LENGTH", Ty::UInt, "most bytes"),
            Arg::keyword("EXTRA_LENGTH", Ty::Bool, "whether bytes left out count").or("false"),
        ],
        drops: Long::DROPS,
        handlers: &[Handler::both("length", "most bytes")],
        changes: Changes::Nothing,
        cost: &[Operation::Annotate.once()],
        replicas: Replicas::Alike,
        ..Spec::DEFAULT
    },
    build,
);

reasons! {
    /// Why a packet does not pass.
    enum Long {
        Long = "too-long": "it has more than LENGTH bytes",
    }
}

struct CheckLength {
    length: u32,
    extra: bool,
}

fn build(args: &Args<'_>) -> Result<Box<dyn Element>, ArgErrors> {
    Ok(Box::new(CheckLength { length: args.get("LENGTH")?, extra: args.get("EXTRA_LENGTH")? }))
}

impl CheckLength {
    #[inline]
    fn passes(&self, packet: &Packet) -> bool {
        let extra = if self.extra { packet.anno_number(Anno::EXTRA_LENGTH) as usize } else { 0 };
        packet.len() + extra <= self.length as usize
    }
}

impl Element for CheckLength {
    fn process(&mut self, cx: &mut Cx<'_>, _port: usize, batch: &mut Batch) {
        cx.sift(batch, |packet| match self.passes(packet) {
            true => Verdict::Pass,
            false => Verdict::reject(1, Long::Long),
        });
    }

    fn read(&mut self, _cx: &mut Cx<'_>, name: &str, _param: &str) -> Result<String, HandlerError> {
        match name {
            "length" => Ok(self.length.to_string()),
            _ => Err(HandlerError::no_read(name)),
        }
    }

    fn write(&mut self, _cx: &mut Cx<'_>, name: &str, value: &str) -> Result<(), HandlerError> {
        match name {
            "length" => self.length = handler_value(name, value)?,
            _ => return Err(HandlerError::no_write(name)),
        }
        Ok(())
    }
}
