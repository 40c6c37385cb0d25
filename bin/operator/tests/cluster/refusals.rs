//! What is wrong is refused, with what to do.

use serde_json::json;
use thruway_operator::resource::{ServiceChain, TrustGroup};

use crate::cluster::Cluster;
use crate::life::{idle, placed};

#[test]
fn what_is_wrong_is_refused_with_a_remedy() {
    let mut cluster = Cluster::start(&["a"]);
    let refused = |name: &str, spec| {
        cluster.try_put::<ServiceChain>(name, &spec).expect_err("the schema refuses it")
    };
    assert!(refused("a--b", idle()).contains("without '--'"));
    assert!(refused("a.b", idle()).contains("inner hyphens"));
    let mut spec = idle();
    spec["replicas"] = json!(0);
    assert!(refused("web", spec.clone()).contains("replicas"));
    spec["replicas"] = json!(1);
    spec["variables"] = json!({"words": "1"});
    spec["functions"] = json!({"words": "words@1.0"});
    assert!(refused("web", spec).contains("rename one"));
    assert!(refused("web", json!({"configuration": ""})).contains("configuration"));
    let mut spec = json!({"configuration": "Idle -> Discard;", "functions": {"f": "words@1"}});
    spec["functionReplicas"] = json!({"g": {"count": 2}});
    assert!(refused("web", spec.clone()).contains("`functionReplicas` is not in `functions`"));
    let scaling = json!({"min": 1, "max": 2});
    spec["functionReplicas"] = json!({"f": {"count": 2, "scaling": scaling}});
    assert!(refused("web", spec.clone()).contains("keep one"));
    spec["functionReplicas"] = json!({"f": {"scaling": {"min": 3, "max": 2}}});
    assert!(refused("web", spec.clone()).contains("as much as min"));
    spec["functionReplicas"] = json!({});
    spec["onDemand"] = json!({"g": {"when": "x.y"}});
    assert!(refused("web", spec).contains("`onDemand` is not in `functions`"));

    // What only the language knows, the host's manager refuses: what ran runs on.
    cluster.chain("web", &idle());
    cluster.wait_running("web");
    let planes = cluster.host("a").planes();
    cluster.chain("web", &json!({"configuration": "Idle -> Discrad;"}));
    let why = cluster.wait_reason("web", "Accepted", "ConfigurationRefused").message;
    assert!(why.contains("host a") && why.contains("Discard"), "{why}");
    assert_eq!(cluster.host("a").planes(), planes);
    cluster.chain("web", &idle());
    cluster.wait_running("web");

    let functions = json!({"configuration": "Idle -> Discard;", "functions": {"f": "words@2"}});
    cluster.chain("uses", &functions);
    let why = cluster.wait_reason("uses", "Accepted", "FunctionUnknown").message;
    assert!(why.contains("no function 'words'") && why.contains("NetworkFunction"), "{why}");

    cluster.chain("far", &placed(json!({"hosts": ["nowhere"]})));
    let why = cluster.wait_reason("far", "Placed", "NoHost").message;
    assert!(why.contains("not in placement.hosts"), "{why}");

    let demand = json!({"configuration": "Idle -> Discard;",
        "demand": {"packetsPerSecond": 1_000_000, "cycles": 500}});
    cluster.chain("hungry", &demand);
    let why = cluster.wait_reason("hungry", "Placed", "NoHost").message;
    assert!(why.contains("thruway calibrate"), "{why}");

    cluster.try_put::<TrustGroup>("edge", &json!({"functions": ["words@1"]})).expect("applied");
}

#[test]
fn what_people_declared_on_a_host_is_reported_and_left_alone() {
    let mut cluster = Cluster::start(&["a"]);
    let file = cluster.server.dir.path().join("own.yaml");
    let text = "chains:\n  own: {configuration: \"Idle -> Discard;\"}\n  default--web: \
                {configuration: \"Idle -> Discard;\"}\n";
    std::fs::write(&file, text).expect("written");
    cluster.host("a").ask(&["apply", file.to_str().expect("text")]).expect("declared");
    cluster.chain("web", &idle());
    let why = cluster.wait_reason("web", "Ready", "NameTaken").message;
    assert!(why.contains("thruway delete default--web"), "{why}");
    cluster.host("a").ask(&["delete", "default--web"]).expect("deleted");
    cluster.wait_running("web");
    // What is the cluster's, people do not change there.
    let refused = cluster.host("a").ask(&["delete", "default--web"]).expect_err("refused");
    assert!(
        refused.contains("managed by 'cluster'") && refused.contains("ServiceChain"),
        "{refused}"
    );
    let refused = cluster.host("a").ask(&["apply", file.to_str().expect("text")]);
    assert!(refused.expect_err("refused").contains("managed by 'cluster'"));
    cluster.delete::<ServiceChain>("web");
    crate::process::wait_for("it is gone", || (!cluster.has::<ServiceChain>("web")).then_some(()));
    assert_eq!(cluster.host("a").chains(), ["own"]);
}
