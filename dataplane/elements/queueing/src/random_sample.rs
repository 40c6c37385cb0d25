//! RandomSample: keeps a random part of the packets.

use thruway_element::{
    ArgErrors, Arguments, Changes, Cx, Element, Entry, Handlers, Operation, Replicas, Spec, Topic,
    Verdict, handler_value, reasons,
};
use thruway_packet::Batch;

use thruway_elements_support::random::{self, Probability, Random, SEED, seed_of};

/// See the spec.
pub static ENTRY: Entry = Entry::of::<RandomSample>(Spec {
    name: "RandomSample",
    topic: Topic::Queueing,
    summary: "passes packets on with a probability",
    docs: "Each packet goes out of output 0 with probability P. The others go out of output 1, \
           or are dropped where there is none. The probability is given as P, or as SAMPLE, \
           or as DROP, which is that of the contrary; as a number from 0 to 1 or in per cent. \
           With SEED (not in Click), two runs choose the same packets.",
    example: "InfiniteSource(LIMIT 1000, STOP true) -> RandomSample(1%, SEED 7) -> Print \
              -> Discard",
    ports: "1/1-2",
    processing: "a/ah",
    straight: true,
    drops: Unlucky::DROPS,
    changes: Changes::Nothing,
    cost: &[Operation::Random.once()],
    replicas: Replicas::Apart("each draws numbers of its own"),
    ..Spec::DEFAULT
});

reasons! {
    /// Why a packet does not pass.
    enum Unlucky {
        NotSampled = "not-sampled": "chance was against it",
    }
}

#[derive(Arguments, Handlers)]
#[handler(
    both, field = pass, name = "sampling_prob", "probability of passing", get = self.pass.value()
)]
#[handler(
    both, name = "drop_prob", "probability of not passing", get = self.pass.complement().value(),
    run = self.pass = handler_value::<Probability>(name, value)?.complement()
)]
#[handler(both, field = active, "whether it samples")]
#[handler(sum, field = drops, "packets that did not pass")]
#[handler(read, field = seed, "start of the random numbers: give it as SEED to repeat this run")]
struct RandomSample {
    #[arg(optional, name = "P", value = Option<Probability>, "probability of passing")]
    #[arg(keyword, name = "SAMPLE", value = Option<Probability>, "the same")]
    #[arg(keyword, name = "DROP", value = Option<Probability>, "probability of not passing")]
    #[new(only([p, sample, drop.map(Probability::complement)])?)]
    pass: Probability,
    /// whether it samples; if not, all pass
    #[arg(keyword, or = "true")]
    active: bool,
    #[arg(like = SEED)]
    #[new(seed_of(args)?)]
    seed: u64,
    #[new(random::of_element(args, seed))]
    random: Random,
    drops: u64,
}

fn only(given: [Option<Probability>; 3]) -> Result<Probability, ArgErrors> {
    let mut given = given.into_iter().flatten();
    match (given.next(), given.next()) {
        (Some(pass), None) => Ok(pass),
        _ => Err(ArgErrors::whole("give one of P, SAMPLE and DROP")),
    }
}

impl Element for RandomSample {
    fn process(&mut self, cx: &mut Cx<'_>, _port: usize, batch: &mut Batch) {
        if !self.active {
            return;
        }
        cx.filter(batch, |_| {
            if self.pass.hits(&mut self.random) {
                return Verdict::Pass;
            }
            self.drops += 1;
            Verdict::reject(1, Unlucky::NotSampled)
        });
    }
}
