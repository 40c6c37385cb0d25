//! From arguments to a rewriter.

use std::sync::Arc;

use thruway_element::{
    AnnoArg, Arg, ArgError, ArgErrors, Args, Changes, Cost, Element, Handler, Names, Nanos,
    Operation, Replicas, Spec, Topic, Ty,
};

use thruway_flow::shared_flows::{SharedFlows, SharedFlowsError};

use crate::rewriters::class::Class;
use crate::rewriters::context::Context;
use crate::rewriters::handlers;
use crate::rewriters::input::Rule;
use crate::rewriters::rewriter::{Annos, Input, Keeper, Rewriter, RewriterDrop};
use crate::rewriters::state::{others_by_state, others_yield, tcp_by_state, tcp_yields};
use crate::rewriters::store::sharing::WORDS;
use crate::rewriters::store::{CAPACITY_MAX, Limits, Owner, Store, TIMEOUT_MAX_S, ticks_of};
use thruway_elements_support::random::Secret;

/// Default number of mappings.
pub(super) const CAPACITY: &str = "1048576";

/// What a packet of a known mapping costs.
pub(super) const COST: &[Cost] = &[Operation::HashLookup.once(), Operation::RewriteIp.once()];

/// The arguments of a rewriter: its own between those that all have.
macro_rules! taken {
    ($($own:expr),* $(,)?) => {
        &[
            $crate::rewriters::build::INPUTSPEC,
            $($own,)*
            $crate::rewriters::build::GUARANTEE,
            $crate::rewriters::build::REAP_INTERVAL,
            $crate::rewriters::build::REAP_TIME,
            $crate::rewriters::build::MAPPING_CAPACITY,
            $crate::rewriters::build::CAPACITY_ARG,
            $crate::rewriters::build::DST_ANNO,
            $crate::rewriters::build::REPLY_ANNO,
            $crate::rewriters::build::SET_AGGREGATE,
            thruway_elements_support::dialect::ignored("HANDLE_MIGRATION"),
        ]
    };
}

/// The handlers of a rewriter: its own before those that all have.
macro_rules! shown {
    ($($own:expr),* $(,)?) => {
        &[
            $($own,)*
            $crate::rewriters::handlers::COMMON[0],
            $crate::rewriters::handlers::COMMON[1],
            $crate::rewriters::handlers::COMMON[2],
            $crate::rewriters::handlers::COMMON[3],
            $crate::rewriters::handlers::COMMON[4],
            $crate::rewriters::handlers::COMMON[5],
            $crate::rewriters::handlers::COMMON[6],
            $crate::rewriters::handlers::COMMON[7],
        ]
    };
}

pub(super) use {shown, taken};

/// What all of them declare; some have more handlers.
pub(super) const REWRITER: Spec = Spec {
    topic: Topic::Rewriters,
    ports: "1-/1-",
    processing: "h/h",
    drops: RewriterDrop::DROPS,
    handlers: shown![handlers::table("table"), handlers::table("mappings")],
    changes: Changes::Headers,
    cost: COST,
    replicas: Replicas::Sharing(
        "the shared table of mappings: each thread finds those that another has made",
    ),
    large_packets: true,
    ..Spec::DEFAULT
};

/// The arguments for mappings of TCP.
pub(super) const TCP_ARGS: [Arg; 5] = [
    Arg::keyword("TIMEOUT", Ty::Time, "TCP_TIMEOUT in short"),
    Arg::keyword(
        "TCP_TIMEOUT",
        Ty::Time,
        "timeout of TCP mappings with payload in both directions",
    )
    .or("86400"),
    Arg::keyword("TCP_NODATA_TIMEOUT", Ty::Time, "timeout of other TCP mappings").or("300"),
    Arg::keyword(
        "TCP_DONE_TIMEOUT",
        Ty::Time,
        "timeout of TCP mappings after their connection's end",
    )
    .or("240"),
    Arg::keyword("TCP_GUARANTEE", Ty::Time, "GUARANTEE of TCP mappings"),
];

/// The handlers of one with a table for all its mappings.
pub(super) const ONE_TABLE: &[Handler] =
    shown![handlers::table("table"), handlers::table("mappings"), handlers::lookup("lookup"),];

/// Input specifications.
pub(super) const INPUTSPEC: Arg = Arg::rest(
    "INPUTSPEC",
    Ty::Rule(
        "drop, pass OUTPUT, keep FOUTPUT ROUTPUT, pattern PATTERN FOUTPUT ROUTPUT, or a mapper",
    ),
    "treatment of packets without a mapping; one for each input",
);
/// Seconds of a mapping of other than TCP.
pub(super) const GUARANTEE: Arg = Arg::keyword(
    "GUARANTEE",
    Ty::Time,
    "how long after its last packet a mapping is safe from others",
)
.or("5");
/// See its doc.
pub(super) const REAP_INTERVAL: Arg =
    Arg::keyword("REAP_INTERVAL", Ty::Time, "how often expired mappings are removed").or("15min");
/// See its doc.
pub(super) const MAPPING_CAPACITY: Arg = Arg::keyword(
    "MAPPING_CAPACITY",
    Ty::Any,
    "most mappings, at most 33554432, or the name of a rewriter whose capacity is shared",
);
/// Another name.
pub(super) const CAPACITY_ARG: Arg = Arg::keyword("CAPACITY", Ty::Any, "the same");
/// See its doc.
pub(super) const DST_ANNO: Arg = Arg::keyword(
    "DST_ANNO",
    Ty::Bool,
    "whether the destination annotation is set to the new destination address",
)
.or("true");
/// See its doc.
pub(super) const REPLY_ANNO: Arg = Arg::keyword(
    "REPLY_ANNO",
    Ty::Anno,
    "a byte that replies get from the packet that made the mapping",
);
/// FastClick's.
pub(super) const SET_AGGREGATE: Arg = Arg::keyword(
    "SET_AGGREGATE",
    Ty::Bool,
    "whether the aggregate annotation is set to the number of the mapping",
)
.or("false");
/// Kept for old configurations.
pub(super) const REAP_TIME: Arg =
    Arg::keyword("REAP_TIME", Ty::Time, "REAP_INTERVAL, as it was called");

fn seconds(args: &Args<'_>, name: &str) -> Result<u32, ArgError> {
    let Nanos(ns) = args.get(name)?;
    let seconds = ns.div_euclid(1_000_000_000) + i64::from(ns.rem_euclid(1_000_000_000) > 0);
    match u32::try_from(seconds) {
        Ok(seconds) if seconds <= TIMEOUT_MAX_S => Ok(seconds),
        _ => Err(args.error(name, "expected 0 seconds to 100 days")),
    }
}

/// The first of several arguments that is given; else the last of them counts, with its default.
fn first_of(args: &Args<'_>, names: &[&str]) -> Result<u32, ArgError> {
    let name = names.iter().find(|name| args.given(name)).or(names.last()).copied().unwrap_or("");
    seconds(args, name).map(ticks_of)
}

/// Limits with a guarantee, which counts for all mappings if one of its names is given.
fn guaranteed(
    args: &Args<'_>,
    names: &[&str],
    by_state: [u32; 16],
    yields: u64,
) -> Result<Limits, ArgError> {
    let is_promised = names.iter().any(|name| args.given(name));
    Ok(Limits { guarantee: first_of(args, names)?, is_promised, yields, by_state })
}

/// Timeouts of TCP, and of all others.
fn limits(args: &Args<'_>, class: Class) -> Result<[Limits; 2], ArgError> {
    let tcp = || {
        let data = first_of(args, &["TIMEOUT", "TCP_TIMEOUT"])?;
        let done = first_of(args, &["TCP_DONE_TIMEOUT"])?;
        let nodata = first_of(args, &["TCP_NODATA_TIMEOUT"])?;
        let by_state = tcp_by_state(nodata, data, done);
        guaranteed(args, &["TCP_GUARANTEE", "GUARANTEE"], by_state, tcp_yields())
    };
    let streaming = |name, few| match args.given(name) {
        true => first_of(args, &[name]),
        false => Ok(few),
    };
    Ok(match class {
        Class::Ip => {
            let few = first_of(args, &["UDP_TIMEOUT"])?;
            let by_state = others_by_state(few, streaming("UDP_STREAMING_TIMEOUT", few)?);
            [tcp()?, guaranteed(args, &["UDP_GUARANTEE"], by_state, others_yield())?]
        }
        Class::Tcp => [tcp()?; 2],
        Class::Udp => {
            let few = first_of(args, &["UDP_TIMEOUT", "TIMEOUT"])?;
            let name = match args.given("UDP_STREAMING_TIMEOUT") {
                true => "UDP_STREAMING_TIMEOUT",
                false => "STREAMING_TIMEOUT",
            };
            let by_state = others_by_state(few, streaming(name, few)?);
            [guaranteed(args, &["UDP_GUARANTEE", "GUARANTEE"], by_state, others_yield())?; 2]
        }
        Class::Address | Class::Pair | Class::Ping => {
            let by_state = [first_of(args, &["TIMEOUT"])?; 16];
            // Nothing is followed by which a state would be known.
            [guaranteed(args, &["GUARANTEE"], by_state, 0)?; 2]
        }
    })
}

/// The inputs; all that is wrong with them.
fn inputs(args: &Args<'_>, class: Class, names: &Names) -> Result<Vec<Input>, ArgErrors> {
    let (wanted, given) = (args.env().inputs, args.rest().len());
    if wanted != given {
        let plural = if wanted == 1 { "" } else { "s" };
        return Err(ArgErrors::whole(format!(
            "need {wanted} argument{plural} INPUTSPEC, one per input port; there are {given}"
        )));
    }
    let (mut inputs, mut errors) = (Vec::with_capacity(given), Vec::new());
    let mut refused = Vec::new();
    for (number, (index, text)) in args.rest().enumerate() {
        let wrong = |why: String| args.rest_error(index, format!("input spec {number}: {why}"));
        match Rule::parse(text, &Context::of(args, names, number)) {
            Ok(rule) => {
                let why = rule.patterns().find_map(|pattern| class.refuses(pattern));
                refused.extend(why.map(|why| wrong(why.to_owned())));
                inputs.push(Input { rule, failures: 0 });
            }
            Err(why) => errors.push(wrong(why)),
        }
    }
    // What is no pattern at all is reported first.
    if errors.is_empty() {
        errors = refused;
    }
    if errors.is_empty() { Ok(inputs) } else { Err(ArgErrors(errors)) }
}

/// Where the mappings are, and how many there may be.
fn keeper(args: &Args<'_>) -> Result<(Keeper, u32), ArgError> {
    let name = if args.given("CAPACITY") { "CAPACITY" } else { "MAPPING_CAPACITY" };
    let text = args.text(name).unwrap_or(CAPACITY);
    match args.parse::<u64>(text) {
        Ok(capacity) if capacity <= CAPACITY_MAX.into() => Ok((Keeper::Own, capacity as u32)),
        // Click's default is the largest possible value.
        Ok(0x7fff_ffff) => Ok((Keeper::Own, CAPACITY_MAX)),
        Ok(_) => Err(args.error(name, format!("expected at most {CAPACITY_MAX}"))),
        Err(_) if text.starts_with(|c: char| c.is_ascii_digit() || c == '-') => {
            Err(args.error(name, "expected a number or the name of a rewriter"))
        }
        Err(_) => Ok((Keeper::Named(text.to_owned()), 0)),
    }
}

/// Where the replicas of a rewriter in several threads find each other's mappings.
fn shared_flows(
    args: &Args<'_>,
    class: Class,
    keeper: &Keeper,
    capacity: u32,
) -> Result<Option<Arc<SharedFlows>>, ArgErrors> {
    if let Keeper::Named(other) = keeper {
        let name = if args.given("CAPACITY") { "CAPACITY" } else { "MAPPING_CAPACITY" };
        let why = "a capacity can be shared within one thread; a number is for any";
        if args.env().threads > 1 {
            return Err(args.error(name, args.env().one_thread(why)).into());
        }
        args.other_for_one_thread(name, other, why)?;
        args.other_is_here(name, other)?;
    }
    if args.env().threads < 2 {
        return Ok(None);
    }
    let mut secret = Secret::fresh();
    let seeds = [secret.next_u64(), secret.next_u64()];
    let make = || {
        let all = SharedFlows::new(capacity, WORDS, seeds)?;
        Ok(Arc::new(if class.follows_tcp() { all.following_tcp(capacity)? } else { all }))
    };
    let made: Arc<Result<Arc<SharedFlows>, SharedFlowsError>> = args.shared("meeting", make);
    match &*made {
        Ok(shared_flows) => Ok(Some(Arc::clone(shared_flows))),
        Err(error) => Err(args.error("MAPPING_CAPACITY", error).into()),
    }
}

/// Builds a rewriter of a class.
pub(super) fn build(args: &Args<'_>, class: Class) -> Result<Box<dyn Element>, ArgErrors> {
    let names = args.names();
    let inputs = inputs(args, class, &names)?;
    let limits = limits(args, class)?;
    let owner = Owner { limits, counts: vec![0; inputs.len()] };
    let (keeper, capacity) = keeper(args)?;
    let reply = args.opt::<AnnoArg>("REPLY_ANNO")?.map(|AnnoArg(anno)| anno);
    if reply.is_some_and(|anno| anno.size != 1) {
        return Err(args.error("REPLY_ANNO", "expected an annotation of one byte").into());
    }
    let (dst, aggregate) = (args.get("DST_ANNO")?, args.get("SET_AGGREGATE")?);
    let reap = if args.given("REAP_TIME") { "REAP_TIME" } else { "REAP_INTERVAL" };
    let reap_ns = i64::from(seconds(args, reap)?) * 1_000_000_000;
    let mut random = Secret::fresh();
    let seeds = [random.next_u64(), random.next_u64()];
    let shared_flows = shared_flows(args, class, &keeper, capacity)?;
    let store = matches!(keeper, Keeper::Own).then(|| {
        let mut store = Box::new(Store::new(capacity, owner.clone(), seeds));
        shared_flows.into_iter().for_each(|shared_flows| store.share(shared_flows));
        store
    });
    let texts = args.rest().map(|(_, text)| text.to_owned()).collect();
    let outputs = args.env().outputs;
    let mut rewriter = Rewriter::new(class, owner, random, names);
    rewriter.annos = Annos { dst, reply, aggregate };
    (rewriter.inputs, rewriter.outputs, rewriter.reap_ns) = (inputs, outputs, reap_ns);
    rewriter.rank = args.env().rank;
    (rewriter.keeper, rewriter.store, rewriter.texts) = (keeper, store, texts);
    Ok(Box::new(rewriter))
}
