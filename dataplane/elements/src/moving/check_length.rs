//! CheckLength: lets short packets pass.

use crate::links::PortMtu;
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
               capture left out count too. With PORT, a packet longer than that interface's MTU now is \
               too long, too (for packets without a link-layer header).",
        example: "InfiniteSource(LENGTH 100, LIMIT 3, STOP true) -> c :: CheckLength(64) -> Discard;\n\
                  c[1] -> Print(long) -> Discard",
        ports: "1/1-2",
        processing: "a/ah",
        straight: true,
        args: &[
            Arg::required("LENGTH", Ty::UInt, "most bytes"),
            Arg::keyword("EXTRA_LENGTH", Ty::Bool, "whether bytes left out count").or("false"),
            Arg::keyword("PORT", Ty::Str, "an interface whose MTU counts where it is less"),
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
    port: PortMtu,
}

fn build(args: &Args<'_>) -> Result<Box<dyn Element>, ArgErrors> {
    Ok(Box::new(CheckLength {
        length: args.get("LENGTH")?,
        extra: args.get("EXTRA_LENGTH")?,
        port: PortMtu::of(args)?,
    }))
}

impl CheckLength {
    #[inline]
    fn passes(&self, packet: &Packet, limit: usize) -> bool {
        let extra = if self.extra { packet.anno_number(Anno::EXTRA_LENGTH) as usize } else { 0 };
        packet.len() + extra <= limit
    }
}

impl Element for CheckLength {
    fn initialize(&mut self, _cx: &mut Cx<'_>) -> Result<(), String> {
        self.port.open();
        Ok(())
    }

    fn process(&mut self, cx: &mut Cx<'_>, _port: usize, batch: &mut Batch) {
        let limit = (self.length as usize).min(self.port.get());
        cx.sift(batch, |packet| match self.passes(packet, limit) {
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
