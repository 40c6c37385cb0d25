//! StrideSwitch: outputs in proportion to their tickets.

use thruway_element::{
    ArgErrors, Args, Changes, Cx, Element, Entry, HandlerError, Handlers, Operation, Replicas,
    Spec, Topic, Verdict, reasons,
};
use thruway_packet::Batch;

use super::strides::{self, Strides};

/// See the spec.
pub static ENTRY: Entry = Entry::new(
    Spec {
        name: "StrideSwitch",
        topic: Topic::Queueing,
        summary: "sends packets to its outputs in proportion to their tickets",
        docs: "Stride scheduling of outputs: each output gets a part of the packets in proportion to \
               its TICKETS, one argument for each output (0 to 32768). Where no output has \
               tickets, packets are dropped. Where several threads push into it, each keeps to \
               the proportion by itself.",
        example: "InfiniteSource(LIMIT 8, STOP true) -> s :: StrideSwitch(3, 1);\n\
                  s[0] -> Print(most) -> Discard; s[1] -> Print(few) -> Discard",
        ports: "1/1-",
        processing: "h/h",
        straight: true,
        args: strides::ARGS,
        drops: Homeless::DROPS,
        handlers: strides::HANDLERS,
        changes: Changes::Nothing,
        // By turns, which processors foresee.
        cost: &[Operation::Sort.once(), Operation::Surprise.times(0.0)],
        replicas: Replicas::Apart("each keeps to the tickets by itself"),
        ..Spec::DEFAULT
    },
    build,
)
.with_handlers::<StrideSwitch>();

reasons! {
    /// Why a packet goes no further.
    enum Homeless {
        NoTickets = "no-tickets": "no output has tickets",
    }
}

struct StrideSwitch {
    strides: Strides,
}

fn build(args: &Args<'_>) -> Result<Box<dyn Element>, ArgErrors> {
    Ok(Box::new(StrideSwitch { strides: Strides::from_args(args, args.env().outputs)? }))
}

impl Element for StrideSwitch {
    fn process(&mut self, cx: &mut Cx<'_>, _port: usize, batch: &mut Batch) {
        cx.filter(batch, |_| {
            let mut verdict = Verdict::drop(Homeless::NoTickets);
            self.strides.turn(|output| {
                verdict = if output == 0 { Verdict::Pass } else { Verdict::To(output) };
                true
            });
            verdict
        });
    }
}

impl Handlers for StrideSwitch {
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
