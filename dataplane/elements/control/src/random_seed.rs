//! RandomSeed: where the random numbers of all elements begin.

use thruway_element::{
    Addresses, Arg, ArgErrors, Args, Element, Entry, NOTHING_MORE, Replicas, Spec, Topic, Ty,
};

use thruway_elements_support::random::RANDOM_SEED;

/// See the spec.
pub static ENTRY: Entry = Entry::new(
    Spec {
        name: "RandomSeed",
        topic: Topic::Control,
        summary: "makes runs with chance repeatable",
        docs: "Elements that draw random numbers and are given no SEED begin with this one (and with \
               their name, so that they choose independently). Without SEED nothing changes: each \
               run differs. What others must not foretell (ports of NAT and rewriters) stays so.",
        example: "RandomSeed(42); InfiniteSource(LIMIT 9, STOP true) -> RandomSample(50%) -> Print \
                  -> Discard",
        ports: "0/0",
        processing: "/",
        args: &[Arg::optional("SEED", Ty::UInt, "where random numbers begin")],
        cost: NOTHING_MORE,
        replicas: Replicas::Single,
        ..Spec::DEFAULT
    },
    build,
)
.declaring(declare);

struct RandomSeed;

impl Element for RandomSeed {}

fn build(args: &Args<'_>) -> Result<Box<dyn Element>, ArgErrors> {
    args.opt::<u64>("SEED")?;
    Ok(Box::new(RandomSeed))
}

/// An invalid number is reported when the element is built.
fn declare(_element: &str, args: &[String], addresses: &mut Addresses) -> Result<(), ArgErrors> {
    let text = args.first().map_or("", |text| text.trim());
    let number = text.strip_prefix("SEED").map_or(text, str::trim_start);
    if let Ok(seed) = number.parse() {
        addresses.entry(RANDOM_SEED).seed = Some(seed);
    }
    Ok(())
}
