//! RandomSource: packets of random bytes.

use thruway_element::{
    Arg, ArgErrors, Args, Element, Entry, Handler, Operation, Replicas, Spec, Threading, Topic, Ty,
};

use super::infinite_source::InfiniteSource;
use super::template::Template;
use thruway_elements_support::random::{self, seed_of};

/// See the spec.
pub static ENTRY: Entry = Entry::new(
    Spec {
        name: "RandomSource",
        topic: Topic::Sources,
        summary: "makes packets of random bytes as fast as it can",
        docs: "Makes packets of LENGTH random bytes, BURST at a time whenever it is scheduled, LIMIT \
               in all; otherwise as InfiniteSource. With SEED (not in Click), two runs make the \
               same packets.",
        example: "RandomSource(64, LIMIT 3, STOP true) -> Print -> Discard",
        ports: "0/1",
        processing: "/a",
        args: &[
            Arg::required("LENGTH", Ty::UInt, "bytes of a packet"),
            Arg::optional("LIMIT", Ty::Int, "packets in all; -1 for no limit").or("-1"),
            Arg::optional("BURST", Ty::Int, "packets per scheduling").or("1"),
            Arg::optional("ACTIVE", Ty::Bool, "whether it makes packets").or("true"),
            Arg::keyword("TIMESTAMP", Ty::Bool, "whether packets bear the time").or("true"),
            Arg::keyword("STOP", Ty::Bool, "whether the driver stops after the last").or("false"),
            Arg::keyword("END_CALL", Ty::Handler, "HANDLER [VALUE]: written after the last"),
            Arg::keyword("SEED", Ty::UInt, "start of the random numbers; else each run differs"),
        ],
        handlers: &[
            Handler::sum("count", "packets made"),
            Handler::both("active", "whether it makes packets"),
            Handler::both("limit", "packets in all; -1 for no limit"),
            Handler::both("burst", "packets per scheduling"),
            Handler::both("length", "bytes of a packet"),
            Handler::write("reset", "sets count to zero and starts again"),
        ],
        threading: Threading::Task,
        cost: &[Operation::Make.once(), Operation::Random.times(8.0)],
        replicas: Replicas::Single,
        ..Spec::DEFAULT
    },
    build,
)
.with_cost_model::<InfiniteSource>()
.with_handlers::<InfiniteSource>();

fn build(args: &Args<'_>) -> Result<Box<dyn Element>, ArgErrors> {
    let length: u32 = args.get("LENGTH")?;
    let template = Template::new(Vec::new(), length.into());
    let template = template.map_err(|message| args.error("LENGTH", message))?;
    let seed = seed_of(args)?;
    let random = random::of_element(args, seed);
    Ok(Box::new(InfiniteSource::new(args, template, Some(random))?))
}
