//! Functions of chains: declared where their chain runs, replicated, and replaced by steps.

use std::path::Path;
use std::process::Command;

use serde_json::{Value, json};
use thruway_operator::resource::{NetworkFunction, ServiceChain, TrustGroup};

use crate::cluster::{Cluster, beside};
use crate::process::wait_for;

/// A version of a function: this executable.
fn version(name: &str, program: &Path) -> Value {
    let sum = Command::new("sha256sum").arg(program).output().expect("sha256sum runs");
    let sum = String::from_utf8_lossy(&sum.stdout[..64]).into_owned();
    json!({"version": name, "path": program, "sha256": sum})
}

#[test]
fn functions_and_groups_are_declared_where_their_chain_runs_while_it_does() {
    let mut cluster = Cluster::start(&["a"]);
    let program = std::fs::canonicalize("/bin/true").expect("a program");
    let mut version = version("1.0", &program);
    version["limits"] = json!({"memory": "64M"});
    cluster.try_put::<NetworkFunction>("words", &json!({"versions": [version]})).expect("applied");
    cluster.chain(
        "masked",
        &json!({
            "configuration": "Idle -> Nf($words, ON_FAILURE open) -> Discard;",
            "functions": {"words": "words@1.0 attack hug"},
            "groups": ["edge"],
        }),
    );
    cluster.wait_reason("masked", "Accepted", "GroupUnknown");
    // The host has one of the two.
    let members = json!({"functions": ["words@1.0", "words@2.0"]});
    cluster.try_put::<TrustGroup>("edge", &members).expect("applied");
    cluster.wait_reason("masked", "Accepted", "Accepted");
    wait_for("both are declared", || {
        let functions = cluster.host("a").ask(&["get", "functions"]).ok()?;
        let group = cluster.host("a").ask(&["describe", "group/default--edge"]).ok()?;
        let is_there = functions.contains("default--words@1.0") && group.contains("words@1.0");
        (is_there && !group.contains("words@2.0")).then_some(())
    });
    // A version is for ever.
    let mut other = version.clone();
    other["sha256"] = json!("0".repeat(64));
    let refused = cluster.try_put::<NetworkFunction>("words", &json!({"versions": [other]}));
    assert!(refused.expect_err("refused").contains("declare another version"));
    cluster.delete::<NetworkFunction>("words");
    std::thread::sleep(std::time::Duration::from_millis(500));
    assert!(cluster.has::<NetworkFunction>("words"), "a chain uses it");
    cluster.delete::<ServiceChain>("masked");
    wait_for("both are gone", || {
        let is_there = cluster.has::<NetworkFunction>("words");
        (!is_there && !cluster.has::<ServiceChain>("masked")).then_some(())
    });
    wait_for("the host forgets it", || {
        let functions = cluster.host("a").ask(&["get", "functions"]).ok()?;
        let groups = cluster.host("a").ask(&["get", "groups"]).ok()?;
        (!functions.contains("default--words") && !groups.contains("edge")).then_some(())
    });
}

/// Packets of 200 sessions at any time, of 100 packets each, through a function.
const SESSIONS: &str = "
    FastUDPFlows(2000, -1, 60, 0:0:0:0:0:1, 10.0.0.1, 0:0:0:0:0:2, 10.0.0.2, 200, 100)
        -> Unqueue -> Strip(14) -> CheckIPHeader -> FlowClassifier(INPUT ip)
        -> nf :: Nf($count, SESSION connection, HANG 60s, ON_FAILURE restart) -> Discard;";

/// What the manager of host `a` observes of the replicas of the chain's function.
fn replicas(cluster: &mut Cluster) -> Option<Value> {
    let text = cluster.host("a").ask(&["get", "default--counted", "--output", "json"]).ok()?;
    let shown: Value = serde_json::from_str(&text).expect("JSON");
    let found = shown.pointer("/status/replicas/0")?.clone();
    Some(found)
}

/// Whether so many replicas run this version and take all sessions, and no other does.
fn all_run(replicas: &Value, count: usize, version: &str) -> bool {
    let is_it = |one: &Value| {
        let runs = one["version"].as_str().unwrap_or_default();
        one["state"] == "up" && runs.starts_with(&format!("default--counter@{version}"))
    };
    let all = replicas["replicas"].as_array().expect("a list");
    all.len() == count && all.iter().all(is_it) && replicas["rollout"].is_null()
}

#[test]
fn replicas_follow_their_chain_and_a_new_version_begins_with_a_share_of_the_sessions() {
    let mut cluster = Cluster::start(&["a"]);
    let program = beside("flowcount");
    let [old, new] = ["1.0", "2.0"].map(|name| version(name, &program));
    let put = |cluster: &Cluster, versions: &[&Value]| {
        let spec = json!({"versions": versions});
        cluster.try_put::<NetworkFunction>("counter", &spec).expect("applied");
    };
    let chain = |version: &str, count: u32| {
        let canary = json!({"steps": [50], "window": "2s", "packets": 10});
        json!({
            "configuration": SESSIONS,
            "functions": {"count": format!("counter@{version}")},
            "functionReplicas": {"count": {"count": count, "canary": canary}},
        })
    };
    put(&cluster, &[&old, &new]);
    cluster.chain("counted", &chain("1.0", 1));
    assert_eq!(cluster.wait_running("counted"), ["a"]);
    cluster.chain("counted", &chain("1.0", 2));
    wait_for("two replicas", || all_run(&replicas(&mut cluster)?, 2, "1.0").then_some(()));

    // The old version leaves the cluster while replicas still run it: the host keeps it so long.
    cluster.chain("counted", &chain("2.0", 2));
    wait_for("a canary", || {
        (replicas(&mut cluster)?["rollout"]["phase"] == "canary").then_some(())
    });
    put(&cluster, &[&new]);
    let functions = |cluster: &mut Cluster| {
        cluster.host("a").ask(&["get", "functions"]).expect("the manager answers")
    };
    assert!(functions(&mut cluster).contains("default--counter@1.0"));
    wait_for("the new version", || all_run(&replicas(&mut cluster)?, 2, "2.0").then_some(()));
    wait_for("the old one goes", || {
        let shown = functions(&mut cluster);
        let is_kept = shown.contains("default--counter@1.0");
        assert!(shown.contains("default--counter@2.0"), "{shown}");
        (!is_kept).then_some(())
    });
    cluster.wait_running("counted");
}
