//! StrideSwitch: outputs in proportion to their tickets.

use thruway_element::{
    Arguments, Changes, Cx, Element, Entry, Handlers, Operation, Replicas, Spec, Topic, Verdict,
    reasons,
};
use thruway_packet::Batch;

use super::strides::{Strides, TICKETS};

/// See the spec.
pub static ENTRY: Entry = Entry::of::<StrideSwitch>(Spec {
    name: "StrideSwitch",
    topic: Topic::Queueing,
    summary: "sends packets to its outputs in proportion to their tickets",
    docs: "Stride scheduling of outputs: each output gets a part of the packets in proportion to \
           its TICKETS, one argument for each output (0 to 32768). Where no output has tickets, \
           packets are dropped. Where several threads push into it, each keeps the proportion on \
           its own.",
    example: "InfiniteSource(LIMIT 8, STOP true) -> s :: StrideSwitch(3, 1);\n\
              s[0] -> Print(most) -> Discard; s[1] -> Print(few) -> Discard",
    ports: "1/1-",
    processing: "h/h",
    straight: true,
    drops: Homeless::DROPS,
    changes: Changes::Nothing,
    // By turns, which processors foresee.
    cost: &[Operation::Sort.once(), Operation::Surprise.times(0.0)],
    replicas: Replicas::Apart("each keeps to the tickets by itself"),
    ..Spec::DEFAULT
});

reasons! {
    /// Why a packet goes no further.
    enum Homeless {
        NoTickets = "no-tickets": "no output has tickets",
    }
}

#[derive(Arguments, Handlers)]
struct StrideSwitch {
    #[arg(like = TICKETS)]
    #[new(Strides::from_args(args, args.env().outputs)?)]
    #[part]
    strides: Strides,
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
