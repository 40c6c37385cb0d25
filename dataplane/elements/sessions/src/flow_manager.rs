//! FlowManager: FlowClassifier by FastClick's names.

use thruway_element::{
    Alias, Arg, ArgErrors, Args, Element, Entry, Input, Nanos, Replicas, Settings, Spec, Ty,
};
use thruway_flow::Timeouts;
use thruway_flow::manager::Bounds;

use thruway_elements_support::dialect::ignored;

use super::flow_classifier::{self, FlowClassifier, seconds, sessions_max};

/// See the spec.
pub static ENTRY: Entry = Entry::new(
    Spec {
        name: "FlowManager",
        aliases: &[
            Alias { name: "CTXManager", summary: "the same" },
            Alias { name: "FlowIPManager", summary: BY_ADDRESSES },
            Alias { name: "FlowIPManagerBucket", summary: BY_ADDRESSES },
            Alias { name: "FlowIPManagerHMP", summary: BY_ADDRESSES },
            Alias { name: "FlowIPManagerIMP", summary: BY_ADDRESSES },
            Alias { name: "FlowIPManagerMP", summary: BY_ADDRESSES },
            Alias { name: "FlowIPManagerSpinlock", summary: BY_ADDRESSES },
            Alias { name: "FlowIPManager_CuckooPP", summary: BY_ADDRESSES },
            Alias { name: "FlowIPManager_DPDK", summary: BY_ADDRESSES },
        ],
        summary: "a FlowClassifier by FastClick's names",
        docs: "FlowClassifier, with the words that FastClick's managers know: CAPACITY is the most \
               sessions, TIMEOUT every timeout (those of FlowClassifier where it is not given or \
               0). The kinds of tables that FastClick offers are one here. CONTEXT is the first \
               header of the packets: ETHER, or NONE and IP for a marked IP header.",
        example: "FromDump(web.pcap, STOP true) -> MarkIPHeader(14) -> FlowIPManager(CAPACITY 1000) \
                  ~> SessionStats(-) -> Discard",
        args: &[
            Arg::keyword(
                "CONTEXT",
                Ty::Choice(&["ETHER", "NONE", "IP"]),
                "what packets begin with; IP for the names with IP in them",
            )
            .or("ETHER"),
            Arg::keyword("CAPACITY", Ty::UInt, "most sessions of one sort in one thread")
                .or("1048576"),
            Arg::keyword("TIMEOUT", Ty::Time, "until a session without packets ends").or("0"),
            Arg::keyword("EARLYDROP", Ty::Bool, "whether unwanted packets are dropped here")
                .or("true"),
            ignored("RESERVE"),
            ignored("VERBOSE"),
            ignored("VERBOSE_FCB"),
            ignored("AGGCACHE"),
            ignored("AGGTRUST"),
            ignored("CACHESIZE"),
            ignored("CACHERINGSIZE"),
            ignored("BUILDER"),
            ignored("CLEAN_TIMER"),
            ignored("NOCUT"),
            ignored("ORDERED"),
            ignored("OPTIMIZE"),
        ],
        replicas: Replicas::Apart(
            "each has the sessions that begin in its thread; directions that come in by two \
             threads meet",
        ),
        ..flow_classifier::ENTRY.spec
    },
    build,
)
.with_flow_entry::<FlowClassifier>()
.with_cost_model::<FlowClassifier>()
.with_publisher::<FlowClassifier>()
.with_handlers::<FlowClassifier>();

const BY_ADDRESSES: &str = "for packets that begin with a marked IP header";

fn build(args: &Args<'_>) -> Result<Box<dyn Element>, ArgErrors> {
    let by_addresses = args.class().starts_with("FlowIPManager");
    let input = match args.choice("CONTEXT")? {
        0 if !by_addresses || args.text("CONTEXT").is_some() => Input::Ethernet,
        _ => Input::Marked,
    };
    let sessions_max = sessions_max(args, "CAPACITY")?;
    let timeouts = match args.get("TIMEOUT")? {
        Nanos(0) => Timeouts::default(),
        _ => Timeouts { seconds: [[seconds(args, "TIMEOUT")?; 4]; 4] },
    };
    let settings = Settings {
        bounds: Bounds { sessions_max, embryonic_max: sessions_max.div_ceil(4) },
        timeouts,
        early_drop: args.get("EARLYDROP")?,
        ..Settings::default()
    };
    Ok(Box::new(FlowClassifier::new(input, settings)))
}
