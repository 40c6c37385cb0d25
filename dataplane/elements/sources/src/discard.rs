//! Discard: the end of the way.

use thruway_element::{
    Arg, ArgErrors, Args, Changes, Cx, Element, Entry, Handlers, NOTHING_MORE, Purpose, Replicas,
    Run, Spec, Threading, Topic, Ty,
};
use thruway_packet::{Batch, MAX_BATCH};

/// See the spec.
pub static ENTRY: Entry = Entry::built::<Discard>(
    Spec {
        name: "Discard",
        topic: Topic::Sources,
        summary: "drops all packets",
        docs: "Frees every packet that is pushed into it, or that it pulls.",
        example: "InfiniteSource(LIMIT 3, STOP true) -> Discard",
        ports: "1/0",
        processing: "a/",
        args: &[
            Arg::keyword("ACTIVE", Ty::Bool, "whether it pulls (pull input only)").or("true"),
            Arg::keyword("BURST", Ty::UInt, "packets to pull at once; 0 for all (pull input only)")
                .or("1"),
        ],
        threading: Threading::PullTask,
        changes: Changes::Nothing,
        cost: NOTHING_MORE,
        replicas: Replicas::Alike,
        purpose: Purpose::Discard,
        large_packets: true,
        ..Spec::DEFAULT
    },
    build,
);

#[derive(Handlers)]
#[handler(sum, field = count, "packets discarded")]
#[handler(both, field = active, "whether it pulls")]
#[handler(write, name = "reset_counts", "sets count to zero", run = self.count = 0)]
struct Discard {
    active: bool,
    burst: usize,
    count: u64,
    batch: Batch,
}

fn build(args: &Args<'_>) -> Result<Box<dyn Element>, ArgErrors> {
    let burst = match args.get::<u32>("BURST")? as usize {
        0 => MAX_BATCH,
        burst => burst.min(MAX_BATCH),
    };
    Ok(Box::new(Discard { active: args.get("ACTIVE")?, burst, count: 0, batch: Batch::new() }))
}

impl Element for Discard {
    fn initialize(&mut self, cx: &mut Cx<'_>) -> Result<(), String> {
        if !self.active && !cx.is_pull_input(0) {
            return Err("ACTIVE is meaningless where packets are pushed; leave it out".into());
        }
        Ok(())
    }

    fn process(&mut self, _cx: &mut Cx<'_>, _port: usize, batch: &mut Batch) {
        self.count += batch.len() as u64;
    }

    fn run(&mut self, cx: &mut Cx<'_>) -> Run {
        if !self.active || !cx.is_pull_input(0) {
            return Run::Idle;
        }
        cx.pull(0, self.burst, &mut self.batch);
        if self.batch.is_empty() {
            return Run::Idle;
        }
        self.count += self.batch.len() as u64;
        self.batch.clear();
        Run::Again
    }
}
