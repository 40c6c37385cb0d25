//! RandomSample: keeps a random part of the packets.

use thruway_element::{
    Arg, ArgErrors, Args, Changes, Cx, Element, Entry, HandlerError, Handlers, Operation, Replicas,
    Spec, Topic, Ty, Verdict, handler_value, reasons,
};
use thruway_packet::Batch;

use thruway_elements_support::random::{self, Probability, Random, seed_of};

/// See the spec.
pub static ENTRY: Entry = Entry::built::<RandomSample>(
    Spec {
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
        args: &[
            Arg::optional("P", Ty::Float, "probability of passing"),
            Arg::keyword("SAMPLE", Ty::Float, "the same"),
            Arg::keyword("DROP", Ty::Float, "probability of not passing"),
            Arg::keyword("ACTIVE", Ty::Bool, "whether it samples; if not, all pass").or("true"),
            Arg::keyword("SEED", Ty::UInt, "start of the random numbers; else each run differs"),
        ],
        drops: Unlucky::DROPS,
        changes: Changes::Nothing,
        cost: &[Operation::Random.once()],
        replicas: Replicas::Apart("each draws numbers of its own"),
        ..Spec::DEFAULT
    },
    build,
);

reasons! {
    /// Why a packet does not pass.
    enum Unlucky {
        NotSampled = "not-sampled": "chance was against it",
    }
}

#[derive(Handlers)]
#[handler(
    both, field = pass, name = "sampling_prob", "probability of passing", get = self.pass.value()
)]
#[handler(
    both, name = "drop_prob", "probability of not passing", get = self.pass.complement().value(),
    write = self.write_drop_prob(value)
)]
#[handler(both, field = active, "whether it samples")]
#[handler(sum, field = drops, "packets that did not pass")]
#[handler(read, field = seed, "start of the random numbers: give it as SEED to repeat this run")]
struct RandomSample {
    pass: Probability,
    active: bool,
    seed: u64,
    random: Random,
    drops: u64,
}

fn build(args: &Args<'_>) -> Result<Box<dyn Element>, ArgErrors> {
    let drop = args.opt("DROP")?.map(Probability::complement);
    let given = [args.opt("P")?, args.opt("SAMPLE")?, drop];
    let mut given = given.iter().flatten();
    let (Some(pass), None) = (given.next(), given.next()) else {
        return Err(ArgErrors::whole("give one of P, SAMPLE and DROP"));
    };
    let seed = seed_of(args)?;
    Ok(Box::new(RandomSample {
        pass: *pass,
        active: args.get("ACTIVE")?,
        seed,
        random: random::of_element(args, seed),
        drops: 0,
    }))
}

impl RandomSample {
    fn write_drop_prob(&mut self, value: &str) -> Result<(), HandlerError> {
        self.pass = handler_value::<Probability>("drop_prob", value)?.complement();
        Ok(())
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
