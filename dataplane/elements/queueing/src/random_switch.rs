//! RandomSwitch: sends packets to outputs by chance.

use thruway_element::{
    Arguments, Changes, Cx, Element, Entry, Handlers, Operation, Replicas, Spec, Topic, Verdict,
};
use thruway_packet::Batch;

use thruway_elements_support::random::{self, Random, SEED, seed_of};

/// See the spec.
pub static ENTRY: Entry = Entry::of::<RandomSwitch>(Spec {
    name: "RandomSwitch",
    topic: Topic::Queueing,
    summary: "sends each packet to an output chosen by chance",
    docs: "Each packet leaves by an output that is chosen at random, all with the same \
           probability. With SEED (not in Click), two runs choose the same.",
    example: "InfiniteSource(LIMIT 3, STOP true) -> s :: RandomSwitch;\n\
              s[0] -> Print(heads) -> Discard; s[1] -> Print(tails) -> Discard",
    ports: "1/1-",
    processing: "h/h",
    straight: true,
    changes: Changes::Nothing,
    // With two outputs; more of them are worse.
    cost: &[Operation::Random.once(), Operation::Sort.once(), Operation::Surprise.times(0.5)],
    replicas: Replicas::Apart("each draws numbers of its own"),
    ..Spec::DEFAULT
});

#[derive(Arguments, Handlers)]
struct RandomSwitch {
    #[arg(like = SEED)]
    #[new(seed_of(args)?)]
    #[handler(read, "start of the random numbers: give it as SEED to repeat this run")]
    seed: u64,
    #[new(random::of_element(args, seed))]
    random: Random,
}

impl Element for RandomSwitch {
    fn process(&mut self, cx: &mut Cx<'_>, _port: usize, batch: &mut Batch) {
        let outputs = cx.outputs() as u64;
        cx.filter(batch, |_| match self.random.below(outputs) as usize {
            0 => Verdict::Pass,
            output => Verdict::To(output),
        });
    }
}
