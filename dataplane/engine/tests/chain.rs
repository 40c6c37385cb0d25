//! The flow manager's view of a configuration.

use std::cell::RefCell;

use thruway_element::{
    Arg, ArgErrors, Args, Changes, Demand, Element, Entry, FlowDispatch, FlowEntry, Handler,
    Purpose, Registry, Role, Rule, Scratch, SessionFunction, Settings, Spec, Threading, Ty, Wants,
};
use thruway_engine::{Options, Router};
use thruway_flow::chain::{Chain, Node};
use thruway_flow::{NoNames, PacketView, SessionDef, evaluate_naive, parse_class};
use thruway_lang::{NoLibraries, Source, Variables, load};

thread_local! {
    /// The rules given to dispatchers without rules.
    static GIVEN: RefCell<Vec<Vec<String>>> = const { RefCell::new(Vec::new()) };
}

static REGISTRY: Registry = Registry(&[&[
    &ENTRY,
    &DISPATCHER,
    &SOURCE,
    &NULL,
    &FRONT,
    &REWRITE,
    &WEB,
    &WANT,
    &LANES,
    &FIREWALL,
    &PAIRS,
    &ODD,
    &SINK,
    &COUNTED,
    &STORE,
]]);

struct Plain;

impl Element for Plain {}

fn plain(_: &Args<'_>) -> Result<Box<dyn Element>, ArgErrors> {
    Ok(Box::new(Plain))
}

const fn spec(name: &'static str, ports: &'static str, processing: &'static str) -> Spec {
    Spec { name, ports, processing, changes: Changes::Nothing, ..Spec::DEFAULT }
}

const fn dispatcher(name: &'static str) -> Spec {
    Spec { purpose: Purpose::DispatchLinks, ..spec(name, "1/-", "h/h") }
}

const SORTED: &[Arg] = &[Arg::rest("CLASS", Ty::Any, ""), Arg::keyword("SESSION", Ty::Any, "")];
const CLASSES: &[Arg] = &[Arg::rest("CLASS", Ty::Any, "")];

static ENTRY: Entry =
    Entry::new(spec("FlowClassifier", "1/1", "h/h"), |_| Ok(Box::new(Classifier)))
        .with_flow_entry::<Classifier>();
static DISPATCHER: Entry =
    Entry::new(Spec { args: SORTED, ..dispatcher("FlowDispatcher") }, |args| {
        let classes = args.rest().map(|(_, text)| text.to_owned()).collect();
        let session = args.text("SESSION").and_then(|text| SessionDef::parse(text).ok());
        Ok(Box::new(Dispatcher { classes, session }))
    })
    .with_flow_dispatch::<Dispatcher>()
    .with_session_function::<Dispatcher>();
static SOURCE: Entry =
    Entry::new(Spec { threading: Threading::Task, ..spec("Source", "0/1", "h/h") }, plain);
static NULL: Entry = Entry::new(spec("Null", "1/1-2", "a/ah"), plain);
static FRONT: Entry =
    Entry::new(Spec { changes: Changes::Frame, ..spec("Front", "1/1", "a/a") }, plain);
static REWRITE: Entry =
    Entry::new(Spec { changes: Changes::Headers, ..spec("Rewrite", "1/1", "a/a") }, plain);
static WEB: Entry = Entry::new(
    Spec {
        wants: Wants { classes: &["tcp dst port 80", "tcp src port 80"], ..Wants::NOTHING },
        flow: "#/#",
        ..spec("Web", "-/=", "a/a")
    },
    plain,
);
static WANT: Entry = Entry::new(Spec { args: CLASSES, ..spec("Want", "1/1", "a/a") }, |args| {
    Ok(Box::new(Want(args.rest().map(|(_, text)| text.to_owned()).next())))
})
.with_session_function::<Want>();
static LANES: Entry = Entry::new(Spec { flow: "#/#", ..spec("Lanes", "-/=", "a/a") }, plain);
static FIREWALL: Entry = Entry::new(
    Spec {
        wants: Wants {
            scratch: Scratch { size: 12, align: 4 },
            shared_words: 1,
            ..Wants::session::<()>("connection")
        },
        ..spec("Firewall", "1/1", "a/a")
    },
    plain,
);
static PAIRS: Entry = Entry::new(spec("Pairs", "1/1", "a/a"), |_| Ok(Box::new(Pairs)))
    .with_session_function::<Pairs>();
static ODD: Entry = Entry::new(
    Spec { wants: Wants::session::<()>("conection"), ..spec("Odd", "1/1", "a/a") },
    plain,
);
static SINK: Entry = Entry::new(spec("Sink", "1/0", "a"), plain);
static COUNTED: Entry = Entry::new(
    Spec { handlers: &[Handler::sum("byte_count", "")], ..spec("Counted", "1/1", "a/a") },
    plain,
);
static STORE: Entry = Entry::new(spec("Store", "1/1", "h/l"), plain);

struct Classifier;

impl Element for Classifier {}

impl FlowEntry for Classifier {
    fn settings(&self) -> Settings {
        Settings { early_drop: false, ..Settings::default() }
    }
}

struct Dispatcher {
    classes: Vec<String>,
    session: Option<SessionDef>,
}

impl Element for Dispatcher {}

impl SessionFunction for Dispatcher {
    fn demand(&self) -> Option<Demand> {
        Some(Demand::of(self.session.clone()?, 0, 1))
    }
}

impl FlowDispatch for Dispatcher {
    fn rules(&self) -> Vec<Rule> {
        let parse = |(at, text): (usize, &String)| {
            Rule::new(parse_class(text, &NoNames).expect("a class"), at as u32)
        };
        self.classes.iter().enumerate().map(parse).collect()
    }

    fn take_rules(&mut self, rules: &[Rule], classes: &[String]) -> Result<(), String> {
        assert!(self.classes.is_empty());
        assert!(rules.iter().all(|rule| (rule.output as usize) < classes.len()));
        GIVEN.with_borrow_mut(|given| given.push(classes.to_vec()));
        Ok(())
    }
}

struct Want(Option<String>);

impl Element for Want {}

impl SessionFunction for Want {
    fn class(&self, _port: usize) -> Option<String> {
        self.0.clone()
    }
}

struct Pairs;

impl Element for Pairs {}

impl SessionFunction for Pairs {
    fn demand(&self) -> Option<Demand> {
        Some(Demand {
            initial: vec![1],
            translates: true,
            shared_words: 2,
            timeout_s: Some(7),
            ..Demand::of(SessionDef::parse("pair").ok()?, 4, 4)
        })
    }
}

fn router(text: &str) -> Result<Router, String> {
    let source = Source::new("config", text);
    let loaded = load(source, &REGISTRY, &Variables::new(), &NoLibraries);
    let loaded = loaded.unwrap_or_else(|errors| panic!("{}", errors.click()));
    let names: Vec<String> = loaded.graph.elements.iter().map(|e| e.name.clone()).collect();
    Router::new(loaded.graph, loaded.checked, &REGISTRY, &Options::default()).map_err(|errors| {
        let messages =
            errors.iter().map(|e| format!("{}: {}", names[e.node.expect("an element")], e.message));
        messages.collect::<Vec<_>>().join("\n")
    })
}

fn node<'a>(chain: &'a Chain, name: &str) -> &'a Node {
    chain.nodes.iter().find(|node| node.name == name).expect(name)
}

/// The classes that the one dispatcher without rules was given.
fn given(text: &str) -> Vec<String> {
    GIVEN.with_borrow_mut(Vec::clear);
    if let Err(errors) = router(text) {
        panic!("{errors}");
    }
    let given = GIVEN.with_borrow_mut(std::mem::take);
    assert_eq!(given.len(), 1, "{given:?}");
    given[0].clone()
}

#[test]
fn nodes_are_the_elements() {
    let router = router(
        "s :: Source -> fc :: FlowClassifier -> d :: FlowDispatcher(tcp, -) -> w :: Front
            -> c :: Counted -> q :: Store -> t :: Sink; d[1] -> r :: Rewrite -> l :: Sink",
    );
    let router = router.unwrap();
    let chain = &router.flows().chain;
    let at = |name: &str| chain.nodes.iter().position(|node| node.name == name).unwrap();
    assert_eq!(node(chain, "fc").role, Role::Entry);
    assert!(matches!(&node(chain, "d").role, Role::Dispatcher(rules) if rules.len() == 2));
    assert!(!chain.early_drop);
    assert_eq!(node(chain, "w").role, Role::Function);
    assert_eq!(node(chain, "d").outputs, [Some((at("w"), 0)), Some((at("r"), 0))]);
    assert_eq!(node(chain, "d").passes, [[0, 1]]);
    assert_eq!(node(chain, "q").outputs, [None], "what is pulled is not followed");
    assert_eq!(node(chain, "s").passes, Vec::<Vec<usize>>::new());
    assert_eq!(node(chain, "w").changes, Changes::Frame);
    assert_eq!(node(chain, "r").changes, Changes::Headers);
    assert!(node(chain, "c").counts && !node(chain, "w").counts && !node(chain, "d").counts);
}

#[test]
fn sessions_are_those_of_the_element_or_its_spec() {
    let router =
        router("Source -> FlowClassifier -> f :: Firewall -> p :: Pairs -> n :: Null -> Sink")
            .unwrap();
    let demand = |name| node(&router.flows().chain, name).demand.clone();
    let firewall = demand("f").unwrap();
    assert_eq!(firewall.session, SessionDef::connection());
    assert_eq!((firewall.size, firewall.align, firewall.shared_words), (12, 4, 1));
    let pairs = demand("p").unwrap();
    assert_eq!((pairs.initial, pairs.translates, pairs.timeout_s), (vec![1], true, Some(7)));
    assert_eq!(demand("n"), None);
}

#[test]
fn what_is_wanted_is_planned_or_refused() {
    let planned = router("Source -> FlowClassifier -> d :: FlowDispatcher -> Firewall -> Sink");
    let planned = planned.unwrap();
    assert_eq!((planned.flows().plan.entries.len(), planned.flows().plan.levels.len()), (1, 2));
    let none = router("Source -> FlowDispatcher(tcp) -> Sink").unwrap();
    assert!(none.flows().plan.nodes.is_empty(), "no function needs anything");
    let error = router("Source -> f :: Firewall -> Sink").err().unwrap();
    assert!(error.starts_with("f: 'f': it wants sessions, and no FlowClassifier"), "{error}");
}

#[test]
fn a_dispatcher_may_want_sessions_for_all_behind_it() {
    let router = router(
        "Source -> FlowClassifier -> d :: FlowDispatcher(tcp, udp, SESSION pair) -> Sink;
         d[1] -> FlowDispatcher(udp dst port 53) -> Sink",
    );
    let router = router.unwrap();
    let plan = &router.flows().plan;
    let with: Vec<&str> = plan
        .leaves
        .iter()
        .filter(|leaf| leaf.keys.iter().flatten().next().is_some())
        .map(|leaf| leaf.class.as_str())
        .collect();
    assert_eq!((with.len(), plan.leaves.len()), (3, 4), "{:?}", plan.leaves);
    assert!(plan.levels.iter().all(|level| level.session.to_string() == "pair"));
}

#[test]
fn passes_follow_the_flow_code() {
    let router = router(
        "Source -> l :: Lanes -> Sink; Source -> [1]l[1] -> Sink; Source -> n :: Null -> Sink;
         n[1] -> Sink",
    );
    let router = router.unwrap();
    assert_eq!(node(&router.flows().chain, "l").passes, [[0], [1]]);
    assert_eq!(node(&router.flows().chain, "n").passes, [[0, 1]]);
}

#[test]
fn context_links_sort_by_what_is_declared_behind() {
    let text = "Source -> a :: FlowClassifier; w :: Web -> Sink; a ~> w; a ~> [1]w[1] -> Sink;
        a ~> Null -> Front -> Want(12/0806) -> Sink; a ~> Null -> rest :: Sink";
    assert_eq!(given(text), ["tcp dst port 80", "tcp src port 80", "12/0806", "-"]);
}

#[test]
fn a_path_ends_at_a_branch_or_a_change_of_headers() {
    assert_eq!(given("Source ~> Null -> Want(tcp) -> Sink"), ["tcp"]);
    assert_eq!(given("Source ~> Rewrite -> Want(tcp) -> Sink"), ["-"]);
    assert_eq!(given("Source ~> n :: Null -> Want(tcp) -> Sink; n[1] -> Sink"), ["-"]);
    assert_eq!(given("Source ~> FlowDispatcher(udp) -> Want(tcp) -> Sink"), ["-"]);
    assert_eq!(given("Source ~> Store -> Want(tcp) -> Sink"), ["-"]);
}

#[test]
fn what_takes_the_rest_comes_last_wherever_it_is_written() {
    let router =
        router("Source -> n :: Null; n ~> r :: Null -> Sink; n ~> Want(12/0806) -> Sink").unwrap();
    let dispatcher = router.flows().chain.nodes.last().unwrap();
    let Role::Dispatcher(rules) = &dispatcher.role else { panic!("{dispatcher:?}") };
    let arp = [&[0; 12][..], &[8, 6], &[0; 28]].concat();
    let view = |frame| PacketView { frame, network: &[], transport: &[] };
    assert_eq!(evaluate_naive(rules, &view(&arp)), 1);
    assert_eq!(evaluate_naive(rules, &view(&[0; 60])), 0);
}

#[test]
fn indistinguishable_classes_are_an_error() {
    let error = |text: &str| router(text).err().expect(text);
    assert_eq!(
        error("s :: Source; s ~> a :: Null -> Sink; s ~> b :: Null -> Sink"),
        "b: 'a' and 'b' would both take the rest, for nothing behind them declares \
         what it wants: write a FlowDispatcher with a class for each output"
    );
    assert_eq!(
        error("s :: Source; s ~> a :: Want(tcp) -> Sink; s ~> b :: Want(tcp) -> Sink"),
        "b: no packet is left for 'b', which wants 'tcp': 'a', which comes first, \
         wants the same; write a FlowDispatcher with a class for each output"
    );
    assert_eq!(
        error("s :: Source; s ~> a :: Want(tcp && udp) -> Sink"),
        "a: no packet is left for 'a', which wants 'tcp && udp': it contradicts \
         itself; write a FlowDispatcher with a class for each output"
    );
    let wrong = error("s :: Source ~> a :: Want(tcp dst prot 80) -> Sink");
    assert!(wrong.starts_with("a: the class that it wants, 'tcp dst prot 80': "), "{wrong}");
    let wrong = error("Source -> o :: Odd -> Sink");
    assert!(wrong.starts_with("o: its class declares the session 'conection': "), "{wrong}");
}
