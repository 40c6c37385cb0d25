//! CPUSwitch, ExactCPUSwitch: an output for each thread.

use thruway_element::{
    Args, Changes, Cx, Element, Entry, NOTHING_MORE, Purpose, Replicas, Spec, ThreadNumber, Topic,
};
use thruway_packet::Batch;

/// See the spec.
pub static ENTRY: Entry = Entry::new(
    Spec {
        name: "CPUSwitch",
        summary: "sends packets to the output of the thread that has them",
        docs: "Packets that thread N pushes leave by output N, or, with fewer outputs than \
               threads, by output N modulo their number.",
        example: "InfiniteSource(LIMIT 3, STOP true) -> s :: CPUSwitch;\n\
                  s[0] -> Print(first) -> Discard; s[1] -> Discard",
        purpose: Purpose::SwitchThreads(ThreadNumber::OfAll),
        ..SPEC
    },
    |args| Ok(CpuSwitch::leaving_by(args.env().thread, args)),
);

/// See the spec.
pub static EXACT: Entry = Entry::new(
    Spec {
        name: "ExactCPUSwitch",
        summary: "sends packets to the output of their thread, counting only those that bring some",
        docs: "As CPUSwitch, but only the threads that may bring it packets are counted: packets \
               of the first of them leave by output 0.",
        example: "InfiniteSource(LIMIT 3, STOP true) -> s :: ExactCPUSwitch;\n\
                  s[0] -> Print(first) -> Discard; s[1] -> Discard",
        purpose: Purpose::SwitchThreads(ThreadNumber::OfReaching),
        ..SPEC
    },
    |args| Ok(CpuSwitch::leaving_by(args.env().rank, args)),
);

const SPEC: Spec = Spec {
    topic: Topic::Queueing,
    ports: "1/1-",
    processing: "h/h",
    changes: Changes::Nothing,
    cost: NOTHING_MORE,
    replicas: Replicas::Alike,
    ..Spec::DEFAULT
};

struct CpuSwitch {
    output: usize,
}

impl CpuSwitch {
    /// Of the thread with this number.
    fn leaving_by(number: usize, args: &Args<'_>) -> Box<dyn Element> {
        Box::new(CpuSwitch { output: number % args.env().outputs.max(1) })
    }
}

impl Element for CpuSwitch {
    fn process(&mut self, cx: &mut Cx<'_>, _port: usize, batch: &mut Batch) {
        if self.output > 0 {
            cx.emit_all(self.output, batch);
        }
    }
}
