//! StrideSched: inputs in proportion to their tickets.

use thruway_element::{
    ArgErrors, Args, Changes, Cx, Element, Entry, HandlerError, Handlers, Operation, Purpose,
    Replicas, Spec, Topic,
};
use thruway_packet::Batch;

use super::strides::{self, Strides};

/// See the spec.
pub static ENTRY: Entry = Entry::new(
    Spec {
        name: "StrideSched",
        topic: Topic::Queueing,
        summary: "pulls from its inputs in proportion to their tickets",
        docs: "Stride scheduling of packets: of what is pulled at its output, each input that has \
               packets gives a part in proportion to its TICKETS, one argument for each input (0 \
               to 32768). An input that has nothing when its turn comes is passed over until its \
               next turn. Inputs usually come from Queues.",
        example: "InfiniteSource -> Queue -> s :: StrideSched(3, 1) -> Unqueue -> Discard;\n\
                  InfiniteSource -> Queue -> [1] s",
        ports: "1-/1",
        processing: "l/l",
        args: strides::ARGS,
        handlers: strides::HANDLERS,
        changes: Changes::Nothing,
        cost: &[Operation::Visit.once()],
        replicas: Replicas::Apart("each keeps to the tickets by itself"),
        purpose: Purpose::ScheduleByArguments,
        ..Spec::DEFAULT
    },
    build,
)
.with_handlers::<StrideSched>();

struct StrideSched {
    strides: Strides,
    one: Batch,
}

fn build(args: &Args<'_>) -> Result<Box<dyn Element>, ArgErrors> {
    let strides = Strides::from_args(args, args.env().inputs)?;
    Ok(Box::new(StrideSched { strides, one: Batch::with_room() }))
}

impl Element for StrideSched {
    fn pull(&mut self, cx: &mut Cx<'_>, _port: usize, max: usize, batch: &mut Batch) {
        let one = &mut self.one;
        while batch.len() < max {
            let taken = self.strides.turn(|input| {
                cx.pull(input, 1, one);
                !one.is_empty()
            });
            if !taken {
                return;
            }
            batch.extend(one.drain());
        }
    }
}

impl Handlers for StrideSched {
    fn read_handler(
        &mut self,
        _cx: &mut Cx<'_>,
        name: &str,
        _param: &str,
    ) -> Result<String, HandlerError> {
        self.strides.read(name)
    }

    fn write_handler(
        &mut self,
        _cx: &mut Cx<'_>,
        name: &str,
        value: &str,
    ) -> Result<(), HandlerError> {
        self.strides.write(name, value)
    }
}
