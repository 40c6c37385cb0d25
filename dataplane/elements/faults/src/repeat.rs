//! Repeat: packets that arrive more than once.

use thruway_element::{
    Arg, ArgErrors, Args, Changes, Cx, Element, Entry, Handler, HandlerError, Handlers, Operation,
    Replicas, Spec, Topic, Ty,
};
use thruway_packet::Batch;

use super::dice::{self, Fault, ranged};

/// See the spec.
pub static ENTRY: Entry = Entry::new(
    Spec {
        name: "Repeat",
        topic: Topic::Faults,
        summary: "repeats packets at random",
        docs: "Every packet goes on; with probability P, COPIES copies of it follow right behind. \
               With SEED, two runs repeat the same packets (see Loss).",
        example: "InfiniteSource(LIMIT 100, STOP true) -> Repeat(10%, SEED 1) -> Counter \
                  -> Discard",
        processing: "h/h",
        args: &[
            dice::P,
            Arg::keyword("COPIES", Ty::UInt, "copies that follow, 1 to 255").or("1"),
            dice::SEED,
            dice::ACTIVE,
        ],
        handlers: &[
            dice::H_PROBABILITY,
            dice::H_ACTIVE,
            dice::H_COUNT,
            Handler::sum("repeated", "packets repeated"),
            dice::H_SEED,
            dice::H_RESET,
        ],
        changes: Changes::Nothing,
        cost: &[Operation::Random.once()],
        replicas: Replicas::Apart("each draws numbers of its own"),
        ..Spec::DEFAULT
    },
    build,
)
.with_handlers::<Repeat>();

struct Repeat {
    fault: Fault,
    copies: u8,
}

fn build(args: &Args<'_>) -> Result<Box<dyn Element>, ArgErrors> {
    let fault = Fault::from_args(args, "repeated")?;
    Ok(Box::new(Repeat { fault, copies: ranged(args, "COPIES", 1..=u8::MAX)? }))
}

impl Element for Repeat {
    fn process(&mut self, cx: &mut Cx<'_>, _port: usize, batch: &mut Batch) {
        if !self.fault.dice.see(batch.len()) {
            return;
        }
        for packet in batch.drain() {
            let copies = if self.fault.strikes() { self.copies } else { 0 };
            // The copies are made before the packet is given away, and sent behind it: they are
            // all alike, so the first copy may as well go first.
            for _ in 0..copies {
                if let Some(copy) = cx.duplicate(&packet) {
                    cx.emit(0, copy);
                }
            }
            cx.emit(0, packet);
        }
    }
}

impl Handlers for Repeat {
    fn read_handler(
        &mut self,
        _cx: &mut Cx<'_>,
        name: &str,
        _param: &str,
    ) -> Result<String, HandlerError> {
        self.fault.read(name)
    }

    fn write_handler(
        &mut self,
        _cx: &mut Cx<'_>,
        name: &str,
        value: &str,
    ) -> Result<(), HandlerError> {
        self.fault.write(name, value)
    }
}
