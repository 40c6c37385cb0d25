//! What is lost: an agent, an operator, the API server, a manager.

use std::time::{Duration, Instant};

use serde_json::json;
use thruway_operator::resource::{ChainHost, ServiceChain};

use crate::cluster::Cluster;
use crate::life::{idle, placed};
use crate::process::wait_for;

#[test]
fn a_killed_agent_costs_no_chain_and_its_successor_goes_on() {
    let mut cluster = Cluster::start(&["a"]);
    cluster.chain("web", &idle());
    cluster.wait_running("web");
    let planes = cluster.host("a").planes();
    cluster.host("a").kill_agent();
    cluster.wait_host("a", "AgentLate");
    // Nobody learns of this change; a chain that is new finds no host.
    cluster.chain("web", &json!({"configuration": "Idle -> late :: Counter -> Discard;"}));
    cluster.chain("new", &idle());
    let why = cluster.wait_reason("new", "Placed", "NoHost").message;
    assert!(why.contains("thruway-operator agent"), "{why}");
    assert_eq!(cluster.host("a").planes(), planes, "it runs on");
    cluster.host("a").start_agent();
    cluster.wait_host("a", "Ready");
    cluster.wait_running("web");
    cluster.wait_running("new");
    assert!(planes.iter().all(|pid| cluster.host("a").planes().contains(pid)));
}

#[test]
fn another_operator_takes_over() {
    let mut cluster = Cluster::start(&["a"]);
    cluster.start_operator("two");
    cluster.chain("web", &idle());
    cluster.wait_running("web");
    // kill -9: the other one waits for the end of the lease.
    let begin = Instant::now();
    drop(cluster.operators.remove("one"));
    wait_for("the other one leads", || {
        cluster.operators["two"].log().contains("two leads").then_some(())
    });
    let killed = begin.elapsed();
    cluster.chain("more", &idle());
    cluster.wait_running("more");
    // SIGTERM: it gives the lease back.
    cluster.start_operator("three");
    std::thread::sleep(Duration::from_secs(1));
    let begin = Instant::now();
    cluster.operators.remove("two").expect("it runs").end();
    wait_for("the third one leads", || {
        cluster.operators["three"].log().contains("three leads").then_some(())
    });
    println!("taken over {killed:?} after a kill, {:?} after an end", begin.elapsed());
    cluster.delete::<ServiceChain>("web");
    wait_for("it is gone", || (!cluster.has::<ServiceChain>("web")).then_some(()));
    assert_eq!(cluster.host("a").chains(), ["default--more"]);
}

#[test]
fn data_goes_on_without_the_api_server_and_nothing_is_lost() {
    let mut cluster = Cluster::start(&["a", "b"]);
    cluster.chain("web", &placed(json!({"hosts": ["a"]})));
    cluster.chain("ip", &placed(json!({"hosts": ["b"]})));
    cluster.wait_running("web");
    cluster.wait_running("ip");
    let planes = [cluster.host("a").planes(), cluster.host("b").planes()];
    cluster.server.kill_api();
    // Longer than the leases.
    std::thread::sleep(Duration::from_secs(5));
    assert_eq!([cluster.host("a").planes(), cluster.host("b").planes()], planes);
    cluster.server.start_api();
    wait_for("the API server", || cluster.server.is_ready().then_some(()));
    cluster.wait_host("a", "Ready");
    cluster.chain("web", &json!({"configuration": "Idle -> back :: Counter -> Discard;"}));
    wait_for("the change comes", || {
        let shown = cluster.host("a").ask(&["describe", "default--web"]).ok()?;
        shown.contains("back :: Counter").then_some(())
    });
    cluster.wait_running("web");
    cluster.wait_running("ip");
    assert_eq!([cluster.host("a").planes(), cluster.host("b").planes()], planes);
}

#[test]
fn what_may_move_is_fenced_before_another_host_takes_it() {
    let mut cluster = Cluster::start(&["a", "b"]);
    cluster.chain("moves", &placed(json!({"onHostLoss": "Move"})));
    assert_eq!(cluster.wait_running("moves"), ["a"]);
    let rest = json!({"hosts": ["a"]});
    cluster.chain("stays", &placed(rest));
    cluster.wait_running("stays");
    // The host is there, and cut off from the API server: its certificate is another's.
    cluster.host("a").kill_agent();
    let before = cluster.host("a").planes().len();
    assert_eq!(before, 2);
    cluster.wait_on("moves", &["b"]);
    assert_eq!(cluster.status("stays").map(|status| status.hosts), Some(vec!["a".to_owned()]));
    // Back again, it gives up what moved, and keeps what stayed.
    cluster.host("a").start_agent();
    wait_for("a gives it up", || (cluster.host("a").chains() == ["default--stays"]).then_some(()));
    cluster.wait_running("moves");
    cluster.wait_running("stays");
}

#[test]
fn a_deleted_host_is_given_up_and_a_manager_may_come_late() {
    let mut cluster = Cluster::start(&["a", "b"]);
    cluster.chain("web", &idle());
    assert_eq!(cluster.wait_running("web"), ["a"]);
    cluster.host("a").kill_manager();
    cluster.wait_host("a", "NoManager");
    cluster.host("a").start_manager();
    cluster.wait_host("a", "Ready");
    cluster.host("a").kill_agent();
    cluster.wait_host("a", "AgentLate");
    let api: kube::Api<ChainHost> = kube::Api::all(cluster.client.clone());
    let deleted = cluster.server.runtime.block_on(api.delete("a", &Default::default()));
    deleted.expect("deleted");
    cluster.wait_on("web", &["b"]);
    wait_for("the host is gone", || {
        let found = cluster.server.runtime.block_on(api.get_opt("a")).expect("an answer");
        found.is_none().then_some(())
    });
}
