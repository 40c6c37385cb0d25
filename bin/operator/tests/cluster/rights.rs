//! Who may what: an agent sees what its host runs, and nothing else.

use k8s_openapi::api::core::v1::{Namespace, Secret};
use kube::Api;
use kube::api::{DeleteParams, ListParams, Patch, PatchParams, PostParams};
use serde_json::json;
use thruway_operator::names::host_namespace;
use thruway_operator::resource::{ChainHost, ChainPlacement, ServiceChain};

use crate::cluster::Cluster;
use crate::life::idle;

/// That a call is refused for want of rights.
#[track_caller]
fn forbidden<T: std::fmt::Debug>(done: Result<T, kube::Error>) {
    match done {
        Err(kube::Error::Api(status)) if status.code == 403 => {}
        other => panic!("{other:?}"),
    }
}

#[test]
fn an_agent_sees_its_host_alone_and_an_operator_what_it_needs() {
    let cluster = Cluster::start(&["a", "b"]);
    cluster.chain("web", &idle());
    assert_eq!(cluster.wait_running("web"), ["a"]);
    let (all, change) = (ListParams::default(), PatchParams::default());
    let runtime = &cluster.server.runtime;
    let agent = cluster.server.client("b");
    let own: Api<ChainPlacement> = Api::namespaced(agent.clone(), &host_namespace("b"));
    assert_eq!(runtime.block_on(own.list(&all)).expect("its own").items.len(), 0);
    let other: Api<ChainPlacement> = Api::namespaced(agent.clone(), &host_namespace("a"));
    forbidden(runtime.block_on(other.list(&all)));
    forbidden(runtime.block_on(other.get("default--web")));
    let placement = ChainPlacement::new("forged", Default::default());
    forbidden(runtime.block_on(own.create(&PostParams::default(), &placement)));
    forbidden(runtime.block_on(own.delete("forged", &DeleteParams::default())));
    let chains: Api<ServiceChain> = Api::all(agent.clone());
    forbidden(runtime.block_on(chains.list(&all)));
    let hosts: Api<ChainHost> = Api::all(agent);
    runtime.block_on(hosts.get("b")).expect("its own");
    forbidden(runtime.block_on(hosts.get("a")));
    let merge = Patch::Merge(json!({"spec": {"drain": false}}));
    forbidden(runtime.block_on(hosts.patch("b", &change, &merge)));
    let merge = Patch::Merge(json!({"status": {"chains": 9}}));
    forbidden(runtime.block_on(hosts.patch_status("a", &change, &merge)));

    let operator = cluster.server.client("one");
    let secrets: Api<Secret> = Api::all(operator.clone());
    forbidden(runtime.block_on(secrets.list(&all)));
    let namespaces: Api<Namespace> = Api::all(operator.clone());
    forbidden(runtime.block_on(namespaces.delete("default", &DeleteParams::default())));
    let chains: Api<ServiceChain> = Api::namespaced(operator, "default");
    forbidden(runtime.block_on(chains.delete("web", &DeleteParams::default())));
}
