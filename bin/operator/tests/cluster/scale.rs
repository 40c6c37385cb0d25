//! Many hosts, whose agents only pretend: how long, how many calls, how much memory. `./check
//! cluster-long`; THRUWAY_CLUSTER_HOSTS says how many hosts, with ten chains each.

use std::time::{Duration, Instant};

use futures_util::StreamExt as _;
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::MicroTime;
use k8s_openapi::jiff::Timestamp;
use kube::api::{ListParams, Patch, PatchParams};
use kube::{Api, Client, Resource as _, ResourceExt as _};
use serde_json::json;
use thruway_operator::names::host_namespace;
use thruway_operator::resource::{
    ChainHost, ChainPlacement, Conditions as _, HEARTBEAT_LABEL, ServiceChain,
};

use crate::cluster::Cluster;
use crate::life::idle;

/// Hosts, if nobody says otherwise.
const HOSTS: usize = 100;

/// Chains of a host.
const CHAINS: usize = 10;

/// Calls at a time.
const CALLS: usize = 16;

/// Longest time for all of it.
const TIME_MAX: Duration = Duration::from_secs(1800);

async fn apply<K>(api: &Api<K>, name: &str, body: serde_json::Value)
where
    K: kube::Resource<DynamicType = ()> + Clone + std::fmt::Debug + serde::de::DeserializeOwned,
{
    let params = PatchParams::apply("test").force();
    api.patch(name, &params, &Patch::Apply(&body)).await.expect("applied");
}

/// Declares hosts, and the leases of agents.
async fn declare(client: &Client, hosts: &[String]) {
    let api: Api<ChainHost> = Api::all(client.clone());
    let calls = hosts.iter().map(|name| {
        let body = json!({
            "apiVersion": ChainHost::api_version(&()), "kind": "ChainHost",
            "metadata": {"name": name}, "spec": {"zone": "z"},
        });
        let api = &api;
        async move { apply(api, name, body).await }
    });
    futures_util::stream::iter(calls).buffer_unordered(CALLS).count().await;
    for name in hosts {
        let namespace = host_namespace(name);
        let api: Api<Lease> = Api::namespaced(client.clone(), &namespace);
        let body = json!({
            "apiVersion": "coordination.k8s.io/v1", "kind": "Lease",
            "metadata": {"name": "agent", "labels": {HEARTBEAT_LABEL: "agent"}},
            "spec": {"holderIdentity": name, "leaseDurationSeconds": 3600,
                "renewTime": MicroTime(Timestamp::now())},
        });
        let params = PatchParams::apply("test").force();
        // Its namespace is the operator's to make.
        let begin = Instant::now();
        while api.patch("agent", &params, &Patch::Apply(&body)).await.is_err() {
            assert!(begin.elapsed() < TIME_MAX, "there is no {namespace}");
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }
}

/// Reports for all agents; how many placements run what they are to.
async fn pretend(client: &Client) -> usize {
    let all: Api<ChainPlacement> = Api::all(client.clone());
    let Ok(found) = all.list(&ListParams::default()).await else { return 0 };
    let is_new = |one: &&ChainPlacement| {
        let status = one.status.as_ref();
        status.map(|status| status.observed_generation) != one.metadata.generation
    };
    let calls = found.items.iter().filter(is_new).map(|one| {
        let namespace = one.namespace().unwrap_or_default();
        let api: Api<ChainPlacement> = Api::namespaced(client.clone(), &namespace);
        let condition = |kind: &str| {
            json!({"type": kind, "status": "True", "reason": "Running", "message": "",
                "lastTransitionTime": "2026-01-01T00:00:00Z"})
        };
        let status = json!({"status": {
            "observedGeneration": one.metadata.generation,
            "conditions": [condition("Declared"), condition("Ready")],
        }});
        async move {
            let params = PatchParams::default();
            let _ = api.patch_status(&one.name_any(), &params, &Patch::Merge(&status)).await;
        }
    });
    futures_util::stream::iter(calls).buffer_unordered(CALLS).count().await;
    found.items.len()
}

/// How many chains are ready.
async fn ready(client: &Client) -> usize {
    let api: Api<ServiceChain> = Api::all(client.clone());
    let Ok(found) = api.list(&ListParams::default()).await else { return 0 };
    let is_ready = |one: &&ServiceChain| {
        one.status.as_ref().is_some_and(|status| status.conditions.holds("Ready"))
    };
    found.items.iter().filter(is_ready).count()
}

/// All calls that the API server answered.
async fn calls(client: &Client) -> u64 {
    let request = hyper::Request::get("/metrics").body(Vec::new()).expect("a request");
    let text = client.request_text(request).await.unwrap_or_default();
    let lines = text.lines().filter(|line| line.starts_with("apiserver_request_total{"));
    lines.filter_map(|line| line.rsplit_once(' ')?.1.parse::<u64>().ok()).sum()
}

#[test]
#[ignore = "minutes; ./check cluster-long"]
fn many_hosts_and_chains_converge() {
    let given = std::env::var("THRUWAY_CLUSTER_HOSTS").ok().and_then(|text| text.parse().ok());
    let hosts: Vec<String> = (0..given.unwrap_or(HOSTS)).map(|at| format!("h{at}")).collect();
    let wanted = hosts.len() * CHAINS;
    let cluster = Cluster::start(&[]);
    let client = cluster.client.clone();
    cluster.server.runtime.block_on(async {
        let begin = Instant::now();
        declare(&client, &hosts).await;
        println!("{} hosts admitted after {:?}", hosts.len(), begin.elapsed());
        let (begin, before) = (Instant::now(), calls(&client).await);
        let api: Api<ServiceChain> = Api::namespaced(client.clone(), "default");
        let declared = (0..wanted).map(|at| {
            let (api, name) = (&api, format!("c{at}"));
            async move {
                let body = json!({
                    "apiVersion": ServiceChain::api_version(&()), "kind": "ServiceChain",
                    "metadata": {"name": name}, "spec": idle(),
                });
                apply(api, &name, body).await;
            }
        });
        futures_util::stream::iter(declared).buffer_unordered(CALLS).count().await;
        println!("{wanted} chains declared after {:?}", begin.elapsed());
        while ready(&client).await < wanted {
            pretend(&client).await;
            assert!(begin.elapsed() < TIME_MAX, "{} of {wanted} are ready", ready(&client).await);
            tokio::time::sleep(Duration::from_millis(200)).await;
        }
        let made = calls(&client).await - before;
        println!("all run after {:?}; {made} calls", begin.elapsed());
        let all: Api<ChainPlacement> = Api::all(client.clone());
        let mut per_host = std::collections::BTreeMap::new();
        for one in all.list(&ListParams::default()).await.expect("a list").items {
            *per_host.entry(one.namespace()).or_insert(0) += 1;
        }
        assert!(per_host.values().all(|count| *count == CHAINS), "they are spread evenly");
        let begin = Instant::now();
        let text = json!({"spec": {"configuration": "Idle -> x :: Counter -> Discard;"}});
        api.patch("c0", &PatchParams::default(), &Patch::Merge(&text)).await.expect("changed");
        let placements = all.list(&ListParams::default()).await.expect("a list").items;
        let one = placements.iter().find(|one| one.spec.chain.name == "c0").expect("there");
        let here: Api<ChainPlacement> =
            Api::namespaced(client.clone(), &one.namespace().unwrap_or_default());
        while !here.get(&one.name_any()).await.expect("there").spec.configuration.contains("x ::") {
            assert!(begin.elapsed() < TIME_MAX, "a change does not come");
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        println!("one change reaches its placement after {:?}", begin.elapsed());
    });
    for (name, pid) in cluster.pids() {
        let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
        let line = status.lines().find(|line| line.starts_with("VmHWM")).unwrap_or("?");
        println!("{name}: {line}");
    }
}
