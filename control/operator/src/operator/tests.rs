//! Decisions against a plain model of an API server and of agents.

mod model;
mod random;

use std::sync::Arc;

use super::world::Heartbeat;
use super::{Action, decide};
use crate::names::Key;
use crate::resource::{
    ChainHostSpec, DeclaredGroup, Demand, NetworkFunction, NetworkFunctionSpec, OnHostDrain,
    OnHostLoss, PlacementRules, ServiceChainSpec, TrustGroup, TrustGroupSpec,
};
use model::{Model, deleted_now};

fn chain() -> ServiceChainSpec {
    let configuration = "Idle -> Discard;".to_owned();
    ServiceChainSpec { configuration, threads: 1, replicas: 1, ..ServiceChainSpec::default() }
}

fn with_rules(rules: PlacementRules) -> ServiceChainSpec {
    ServiceChainSpec { placement: rules, ..chain() }
}

#[test]
fn a_drained_host_is_left_when_the_next_one_is_ready() {
    let mut model = Model::new();
    model.host("a", ChainHostSpec::default(), Heartbeat::Fresh);
    model.chain("web", chain());
    model.converge();
    assert_eq!(model.hosts_of("web"), ["a"]);
    model.host("a", ChainHostSpec { drain: true, ..ChainHostSpec::default() }, Heartbeat::Fresh);
    model.converge();
    let (holds, reason, message) = model.condition("web", "Placed");
    assert_eq!((holds, reason.as_str()), (false, "NoHost"));
    assert!(message.contains("drain"), "{message}");
    assert_eq!(model.hosts_of("web"), ["a"], "it stays where it is");
    model.host("b", ChainHostSpec::default(), Heartbeat::Fresh);
    let actions = decide(&model.world);
    actions.iter().for_each(|action| model.carry_out(action));
    assert_eq!(model.hosts_of("web"), ["a", "b"]);
    assert!(decide(&model.world).iter().all(|one| !matches!(one, Action::Withdraw(..))));
    model.agents();
    model.converge();
    assert_eq!(model.hosts_of("web"), ["b"]);
}

/// For a host of a pair: the chain is not moved, and begins nowhere that drains.
#[test]
fn a_chain_that_stops_with_its_host_drains_there_and_begins_again() {
    let drains = |drain| ChainHostSpec { drain, ..ChainHostSpec::default() };
    let rules = |hosts: &[&str]| PlacementRules {
        hosts: hosts.iter().map(|host| (*host).to_owned()).collect(),
        on_host_drain: OnHostDrain::Stop,
        ..PlacementRules::default()
    };
    let mut model = Model::new();
    model.host("a", drains(false), Heartbeat::Fresh);
    model.host("b", drains(false), Heartbeat::Fresh);
    model.chain("pair-a", with_rules(rules(&["a"])));
    model.converge();
    model.host("a", drains(true), Heartbeat::Fresh);
    model.chain("other", with_rules(rules(&["a"])));
    model.converge();
    assert_eq!(model.hosts_of("pair-a"), ["a"]);
    let (holds, reason, _) = model.condition("pair-a", "Ready");
    assert_eq!((holds, reason.as_str()), (false, "Drained"));
    let (_, reason, message) = model.condition("other", "Placed");
    assert!(reason == "NoHost" && message.contains("a: drains"), "{message}");
    model.host("a", drains(false), Heartbeat::Fresh);
    model.converge();
    assert!(model.condition("pair-a", "Ready").0 && model.condition("other", "Ready").0);
}

/// What it runs there is what it was before: the other host stays until it is what is asked for.
#[test]
fn a_host_that_takes_a_chain_back_is_waited_for() {
    let mut model = Model::new();
    let in_zone = |zone: &str, drain| {
        let zone = Some(zone.to_owned());
        ChainHostSpec { zone, drain, ..ChainHostSpec::default() }
    };
    model.host("a", in_zone("x", false), Heartbeat::Fresh);
    model.host("b", in_zone("y", false), Heartbeat::Fresh);
    model.chain("web", ServiceChainSpec { replicas: 2, ..chain() });
    model.converge();
    model.host("b", in_zone("y", true), Heartbeat::Fresh);
    let rules = PlacementRules { zones: vec!["y".to_owned()], ..PlacementRules::default() };
    let configuration = "Idle -> Counter -> Discard;".to_owned();
    model.chain("web", ServiceChainSpec { configuration, ..with_rules(rules) });
    model.converge();
    assert_eq!(model.hosts_of("web"), ["a", "b"], "both stay until one may take it");
    model.host("b", in_zone("y", false), Heartbeat::Fresh);
    let actions = decide(&model.world);
    assert!(actions.iter().any(|one| matches!(one, Action::Assign(host, _) if host == "b")));
    assert!(actions.iter().all(|one| !matches!(one, Action::Withdraw(..))), "{actions:?}");
    model.converge();
    assert_eq!(model.hosts_of("web"), ["b"]);
}

#[test]
fn a_lost_host_keeps_what_must_stay() {
    let mut model = Model::new();
    model.host("a", ChainHostSpec::default(), Heartbeat::Fresh);
    model.chain("stays", chain());
    let on_host_loss = OnHostLoss::Move;
    model.chain("moves", with_rules(PlacementRules { on_host_loss, ..Default::default() }));
    model.converge();
    model.host("b", ChainHostSpec::default(), Heartbeat::Fresh);
    for (heartbeat, host) in [(Heartbeat::Late, "a"), (Heartbeat::Lost, "b")] {
        model.world.heartbeats.insert("a".into(), heartbeat);
        model.converge();
        assert_eq!(model.hosts_of("stays"), ["a"]);
        assert_eq!(model.hosts_of("moves"), [host]);
    }
    // The one that was lost takes back what moved, once it is there.
    assert_eq!(model.world.placements.len(), 3);
    model.world.heartbeats.insert("a".into(), Heartbeat::Fresh);
    model.agents();
    assert_eq!(model.world.placements.len(), 2);
}

#[test]
fn a_host_takes_what_it_has_room_for() {
    let mut model = Model::new();
    let hardware = include_str!("../../../../examples/plan/edge.toml").to_owned();
    let spec = ChainHostSpec { hardware: Some(hardware), cores: Some(2), ..Default::default() };
    model.host("a", spec, Heartbeat::Fresh);
    let demand = |packets_per_second: i64| {
        let demand =
            Demand { packets_per_second, cycles: 500, packet_bytes: 512, ..Demand::default() };
        ServiceChainSpec { demand: Some(demand), ..chain() }
    };
    model.chain("a-small", demand(1_000_000));
    model.chain("b-large", demand(100_000_000));
    model.chain("c-any", chain());
    model.converge();
    assert_eq!(model.hosts_of("a-small"), ["a"]);
    assert_eq!(model.hosts_of("c-any"), ["a"]);
    let (_, _, message) = model.condition("b-large", "Placed");
    assert!(message.contains("% of the packets"), "{message}");
}

#[test]
fn a_function_that_is_used_is_not_let_go() {
    let mut model = Model::new();
    model.host("a", ChainHostSpec::default(), Heartbeat::Fresh);
    let functions = [("w".to_owned(), "words@1".to_owned())].into();
    model.chain("web", ServiceChainSpec { functions, ..chain() });
    model.converge();
    let (holds, reason, message) = model.condition("web", "Accepted");
    assert_eq!((holds, reason.as_str()), (false, "FunctionUnknown"));
    assert!(message.contains("functions.w") && message.contains("NetworkFunction"), "{message}");
    assert_eq!(model.hosts_of("web"), [""; 0]);
    let version = crate::resource::FunctionVersion { version: "1".into(), ..Default::default() };
    let mut words = NetworkFunction::new("words", NetworkFunctionSpec { versions: vec![version] });
    words.metadata.namespace = Some("default".into());
    model.born(&mut words.metadata);
    let key = Key::new("default", "words");
    model.world.functions.insert(key.clone(), Arc::new(words));
    model.converge();
    assert_eq!(model.hosts_of("web"), ["a"]);
    let words = model.world.functions.get_mut(&key).expect("there");
    Arc::make_mut(words).metadata.deletion_timestamp = deleted_now();
    model.converge();
    assert!(model.world.functions.contains_key(&key));
    model.delete_chain(&Key::new("default", "web"));
    model.converge();
    assert!(!model.world.functions.contains_key(&key));
}

#[test]
fn groups_go_to_hosts_with_their_chain() {
    let mut model = Model::new();
    model.host("a", ChainHostSpec::default(), Heartbeat::Fresh);
    let version = crate::resource::FunctionVersion { version: "1".into(), ..Default::default() };
    let mut words = NetworkFunction::new("words", NetworkFunctionSpec { versions: vec![version] });
    words.metadata.namespace = Some("default".into());
    model.born(&mut words.metadata);
    model.world.functions.insert(Key::new("default", "words"), Arc::new(words));
    let functions = [("w".to_owned(), "words@1".to_owned())].into();
    let groups = vec!["edge".to_owned()];
    model.chain("web", ServiceChainSpec { functions, groups, ..chain() });
    model.converge();
    let (holds, reason, message) = model.condition("web", "Accepted");
    assert_eq!((holds, reason.as_str()), (false, "GroupUnknown"));
    assert!(message.contains("TrustGroup 'edge'"), "{message}");
    let members = ["words@1", "nobody@1", "nothing"].map(str::to_owned).to_vec();
    let group = TrustGroup::new("edge", TrustGroupSpec { functions: members });
    model.world.groups.insert(Key::new("default", "edge"), Arc::new(group));
    model.converge();
    let placed = model.world.placements.values().next().expect("a placement");
    let functions = vec!["default--words@1".to_owned()];
    let declared = DeclaredGroup { name: "default--edge".to_owned(), functions };
    assert_eq!(placed.spec.groups, [declared]);
}
