//! CPUSwitch: an output for each thread.

use thruway_element::{
    Alias, ArgErrors, Args, Changes, Cx, Element, Entry, NOTHING_MORE, Replicas, Spec, Topic,
};
use thruway_packet::Batch;

/// See the spec.
pub static ENTRY: Entry = Entry::new(
    Spec {
        name: "CPUSwitch",
        aliases: &[Alias {
            name: "ExactCPUSwitch",
            summary: "counts only the threads that may bring it packets: the first leaves by output 0",
        }],
        topic: Topic::Moving,
        summary: "sends packets to the output of the thread that has them",
        docs: "Packets that thread N pushes leave by output N, or, with fewer outputs than threads, \
               by output N modulo their number.",
        example: "InfiniteSource(LIMIT 3, STOP true) -> s :: CPUSwitch;\n\
                  s[0] -> Print(first) -> Discard; s[1] -> Discard",
        ports: "1/1-",
        processing: "h/h",
        changes: Changes::Nothing,
        cost: NOTHING_MORE,
        replicas: Replicas::Alike,
        ..Spec::DEFAULT
    },
    build,
);

struct CpuSwitch {
    output: usize,
}

fn build(args: &Args<'_>) -> Result<Box<dyn Element>, ArgErrors> {
    let env = args.env();
    let number = match args.class() {
        "ExactCPUSwitch" => env.rank,
        _ => env.thread,
    };
    Ok(Box::new(CpuSwitch { output: number % env.outputs.max(1) }))
}

impl Element for CpuSwitch {
    fn process(&mut self, cx: &mut Cx<'_>, _port: usize, batch: &mut Batch) {
        if self.output > 0 {
            cx.emit_all(self.output, batch);
        }
    }
}
