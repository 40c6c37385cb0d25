//! PullSwitch: pulls from one input, which a handler can change.

use thruway_element::{
    Alias, ArgError, Args, Arguments, Changes, Cx, Element, Entry, Handlers, NOTHING_MORE, Purpose,
    Replicas, Spec, Topic,
};
use thruway_packet::Batch;

use super::switch::ChosenPort;

/// See the spec.
pub static ENTRY: Entry = Entry::of::<PullSwitch>(Spec {
    name: "PullSwitch",
    aliases: &[Alias { name: "SimplePullSwitch", summary: "the same" }],
    topic: Topic::Queueing,
    summary: "pulls from one input, which can be changed",
    docs: "What is pulled at its output comes from input INPUT; with a negative INPUT, or one \
           that there is not, nothing comes. Writing the switch handler turns to another input \
           while packets flow.",
    example: "InfiniteSource -> Queue -> s :: PullSwitch(1) -> Unqueue -> Discard;\n\
              InfiniteSource -> Queue -> [1] s",
    ports: "-/1",
    processing: "l/l",
    changes: Changes::Nothing,
    cost: NOTHING_MORE,
    replicas: Replicas::Alike,
    ..Spec::DEFAULT
});

/// See the spec.
pub static FIXED: Entry = Entry::of::<PullSwitch>(Spec {
    name: "StaticPullSwitch",
    aliases: &[],
    summary: "pulls from one fixed input",
    docs: "A PullSwitch with a required INPUT that cannot change.",
    example: "InfiniteSource -> Queue -> s :: StaticPullSwitch(1) -> Unqueue -> Discard;\n\
              InfiniteSource -> Queue -> [1] s",
    purpose: Purpose::FixedSwitch,
    ..ENTRY.spec
});

#[derive(Arguments, Handlers)]
struct PullSwitch {
    #[arg(optional, name = "INPUT", value = i32, or = "0", "number of the input; negative: none")]
    #[new(chosen(args, input)?)]
    #[handler(
        both, name = "switch", "number of the input; -1 when switched off",
        read = self.input.read(name), write = self.input.write(name, value, self.inputs)
    )]
    #[handler(read, name = "config", "the same", get = self.input.text())]
    input: ChosenPort,
    #[new(args.env().inputs)]
    inputs: usize,
}

fn chosen(args: &Args<'_>, input: i32) -> Result<ChosenPort, ArgError> {
    let (fixed, inputs) = (args.class() == "StaticPullSwitch", args.env().inputs);
    if fixed && !args.given("INPUT") {
        return Err(args.error("INPUT", "StaticPullSwitch needs the number of its input"));
    }
    let number = usize::try_from(input).ok();
    if fixed && number.is_some_and(|number| number >= inputs) {
        let message = format!("must be below {inputs}, the number of connected inputs");
        return Err(args.error("INPUT", message));
    }
    Ok(ChosenPort { number: number.filter(|number| *number < inputs), fixed })
}

impl Element for PullSwitch {
    fn pull(&mut self, cx: &mut Cx<'_>, _port: usize, max: usize, batch: &mut Batch) {
        if let Some(input) = self.input.number {
            cx.pull(input, max, batch);
        }
    }
}
