//! The life of a chain: it runs, changes, moves and goes.

use serde_json::{Value, json};
use thruway_operator::resource::{ChainHost, ServiceChain};

use crate::cluster::Cluster;
use crate::process::wait_for;

/// A chain that waits for datagrams.
pub fn idle() -> Value {
    json!({"configuration": "Idle -> c :: Counter -> Discard;"})
}

/// The same with rules.
pub fn placed(placement: Value) -> Value {
    json!({"configuration": "Idle -> c :: Counter -> Discard;", "placement": placement})
}

#[test]
fn a_chain_runs_changes_moves_and_goes() {
    let mut cluster = Cluster::start(&["a", "b"]);
    cluster.chain("web", &placed(json!({"hosts": ["a", "b"]})));
    assert_eq!(cluster.wait_running("web"), ["a"]);
    assert_eq!(cluster.host("a").chains(), ["default--web"]);
    assert_eq!(cluster.host("a").planes().len(), 1);
    // A change keeps the process: it is a hot swap.
    let before = cluster.host("a").planes();
    cluster.chain("web", &json!({"configuration": "Idle -> d :: Counter -> Discard;"}));
    cluster.wait_running("web");
    assert_eq!(cluster.host("a").planes(), before);
    let shown = cluster.host("a").ask(&["describe", "default--web"]).expect("it is there");
    assert!(shown.contains("d :: Counter") && shown.contains("managed_by: cluster"), "{shown}");
    // Drained, its host gives it up once it is ready elsewhere.
    cluster.put::<ChainHost>("a", &json!({"zone": "zone-a", "drain": true}));
    cluster.wait_on("web", &["b"]);
    wait_for("a is empty", || cluster.host("a").chains().is_empty().then_some(()));
    assert_eq!(cluster.host("a").planes(), [0; 0]);
    cluster.delete::<ServiceChain>("web");
    wait_for("it is gone", || (!cluster.has::<ServiceChain>("web")).then_some(()));
    assert_eq!(cluster.host("b").chains(), [""; 0]);
    wait_for("b is empty", || cluster.host("b").planes().is_empty().then_some(()));
}

#[test]
fn replicas_keep_apart_and_zones_are_kept() {
    let cluster = Cluster::start(&["a", "b", "c"]);
    let mut two = placed(json!({"spread": "Zones"}));
    two["replicas"] = json!(2);
    cluster.chain("two", &two);
    assert_eq!(cluster.wait_running("two"), ["a", "b"]);
    cluster.chain("lone", &placed(json!({"apartFrom": ["two"]})));
    assert_eq!(cluster.wait_running("lone"), ["c"]);
    cluster.chain("none", &placed(json!({"apartFrom": ["two", "lone"]})));
    let why = cluster.wait_reason("none", "Placed", "NoHost").message;
    assert!(why.contains("a, b: runs 'two'") && why.contains("c: runs 'lone'"), "{why}");
    cluster.chain("zoned", &placed(json!({"zones": ["zone-b"]})));
    assert_eq!(cluster.wait_running("zoned"), ["b"]);
    // A third replica makes the other two no different.
    two["replicas"] = json!(3);
    cluster.chain("two", &two);
    let why = cluster.wait_reason("two", "Placed", "NoHost").message;
    assert!(why.contains("2 of 3 replicas") && why.contains("c: runs 'lone'"), "{why}");
    wait_for("two run", || (cluster.status("two")?.ready_replicas == 2).then_some(()));
}
