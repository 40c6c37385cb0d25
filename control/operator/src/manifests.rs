//! What is applied to a cluster: definitions of the resources, and rights.
//!
//! The operator may what it needs and nothing else. The agent of a host may read placements in the
//! namespace of that host, and nothing of other hosts (ADR 70).

mod deployment;

use kube::api::Patch;
use kube::core::CustomResourceExt as _;
use kube::core::dynamic::{ApiResource, DynamicObject};
use kube::core::gvk::GroupVersionKind;
use kube::{Api, Client};
use serde_json::{Value, json};

use crate::calls::applying;
use crate::names::{host_namespace, host_user};
use crate::operator::leader::LEASE;
use crate::resource::{
    ChainHost, ChainPlacement, GROUP, MANAGED_BY, NetworkFunction, OPERATOR, ServiceChain,
    TrustGroup, VERSION,
};

/// Namespace of the operator, if nobody names another one.
pub const NAMESPACE: &str = "thruway-system";

/// API group of rights.
const RBAC: &str = "rbac.authorization.k8s.io";

/// Name of the lease of an agent.
pub const HEARTBEAT: &str = "agent";

/// Definitions of the resources.
///
/// # Panics
/// Never: the definitions are made of types of this program, which a test serializes.
pub fn definitions() -> Vec<Value> {
    let all = [
        ServiceChain::crd(),
        NetworkFunction::crd(),
        TrustGroup::crd(),
        ChainHost::crd(),
        ChainPlacement::crd(),
    ];
    all.iter().map(|one| json!(one)).collect()
}

/// Everything that is applied before the operator starts: definitions, its namespace, its rights.
pub fn all(namespace: &str) -> Vec<Value> {
    let mut all = definitions();
    all.push(json!({
        "apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace},
    }));
    all.append(&mut rights(namespace));
    all
}

/// The operator's account and its rights.
fn rights(namespace: &str) -> Vec<Value> {
    let account = json!({
        "apiVersion": "v1", "kind": "ServiceAccount",
        "metadata": {"name": OPERATOR, "namespace": namespace},
    });
    let subjects = json!([
        {"kind": "ServiceAccount", "name": OPERATOR, "namespace": namespace},
        {"apiGroup": RBAC, "kind": "User", "name": "thruway:operator"},
    ]);
    vec![
        account,
        role("ClusterRole", (OPERATOR, None), operator_rules()),
        role("Role", (OPERATOR, Some(namespace)), leader_rules()),
        binding("ClusterRole", (OPERATOR, None), &subjects),
        binding("Role", (OPERATOR, Some(namespace)), &subjects),
    ]
}

/// Templates of the Helm chart that are the same objects, by file name: the release's namespace is
/// the operator's. Helm keeps the definitions when a release is uninstalled, and with them the
/// chains.
///
/// # Errors
/// One cannot be written.
pub fn templates() -> anyhow::Result<[(&'static str, String); 2]> {
    let mut definitions = definitions();
    for one in &mut definitions {
        one["metadata"]["annotations"] = json!({"helm.sh/resource-policy": "keep"});
    }
    let rights = rights("{{ .Release.Namespace }}");
    Ok([("definitions.yaml", yaml_of(&definitions)?), ("rights.yaml", yaml_of(&rights)?)])
}

/// All of them as YAML, one document each; with an image also a Deployment that runs the operator
/// in the cluster.
///
/// # Errors
/// One cannot be written.
pub fn yaml(namespace: &str, image: Option<&str>) -> anyhow::Result<String> {
    let mut all = all(namespace);
    all.extend(image.map(|image| deployment::of(namespace, image)));
    yaml_of(&all)
}

/// Objects as YAML, one document each.
///
/// # Errors
/// One cannot be written.
pub fn yaml_of(objects: &[Value]) -> anyhow::Result<String> {
    let mut text = String::from("# Written by `thruway-operator manifests`.\n");
    for one in objects {
        text += "---\n";
        text += &serde_saphyr::to_string(one)?;
        if !text.ends_with('\n') {
            text.push('\n');
        }
    }
    Ok(text)
}

fn operator_rules() -> Value {
    let resources = ["servicechains", "networkfunctions", "trustgroups", "chainhosts"];
    let statuses = resources.map(|name| format!("{name}/status"));
    let held = ["servicechains", "networkfunctions", "chainhosts"];
    let finalizers = held.map(|name| format!("{name}/finalizers"));
    json!([
        {"apiGroups": [GROUP], "resources": resources, "verbs": ["get", "list", "watch"]},
        {"apiGroups": [GROUP], "resources": held, "verbs": ["patch"]},
        {"apiGroups": [GROUP], "resources": finalizers, "verbs": ["update"]},
        {"apiGroups": [GROUP], "resources": statuses, "verbs": ["get", "patch"]},
        {
            "apiGroups": [GROUP], "resources": ["chainplacements"],
            "verbs": ["get", "list", "watch", "create", "patch", "delete"],
        },
        {"apiGroups": ["events.k8s.io"], "resources": ["events"], "verbs": ["create", "patch"]},
        // What it hands on to agents it must have itself.
        {
            "apiGroups": [GROUP], "resources": ["chainplacements/status"],
            "verbs": ["get", "patch"],
        },
        {
            "apiGroups": ["coordination.k8s.io"], "resources": ["leases"],
            "verbs": ["get", "list", "watch", "create", "update"],
        },
        {"apiGroups": [""], "resources": ["namespaces"], "verbs": ["get", "create", "patch"]},
        {
            "apiGroups": [RBAC],
            "resources": ["roles", "rolebindings", "clusterroles", "clusterrolebindings"],
            "verbs": ["get", "create", "patch"],
        },
    ])
}

fn leader_rules() -> Value {
    json!([
        {
            "apiGroups": ["coordination.k8s.io"], "resources": ["leases"],
            "resourceNames": [LEASE], "verbs": ["get", "update"],
        },
        {"apiGroups": ["coordination.k8s.io"], "resources": ["leases"], "verbs": ["create"]},
    ])
}

/// What the agent of a host may in the namespace of its host.
fn agent_rules() -> Value {
    json!([
        {
            "apiGroups": [GROUP], "resources": ["chainplacements"],
            "verbs": ["get", "list", "watch", "patch"],
        },
        {
            "apiGroups": [GROUP], "resources": ["chainplacements/status"],
            "verbs": ["get", "patch"],
        },
        {
            "apiGroups": ["coordination.k8s.io"], "resources": ["leases"],
            "resourceNames": [HEARTBEAT], "verbs": ["get", "update"],
        },
        {"apiGroups": ["coordination.k8s.io"], "resources": ["leases"], "verbs": ["create"]},
    ])
}

/// What the agent of a host may outside of it: report of its own host.
fn host_rules(host: &str) -> Value {
    json!([
        {
            "apiGroups": [GROUP], "resources": ["chainhosts"], "resourceNames": [host],
            "verbs": ["get"],
        },
        {
            "apiGroups": [GROUP], "resources": ["chainhosts/status"], "resourceNames": [host],
            "verbs": ["get", "patch"],
        },
    ])
}

/// The namespace of a host and the rights of its agent. They go with the host.
pub fn of_host(host: &str, uid: &str) -> Vec<Value> {
    let namespace = host_namespace(host);
    let name = format!("thruway-host-{host}");
    let owner = json!([{
        "apiVersion": format!("{GROUP}/{VERSION}"), "kind": "ChainHost", "name": host, "uid": uid,
    }]);
    let user = json!([{"apiGroup": RBAC, "kind": "User", "name": host_user(host)}]);
    let mut all = vec![
        json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}}),
        role("Role", ("thruway-agent", Some(&namespace)), agent_rules()),
        binding("Role", ("thruway-agent", Some(&namespace)), &user),
        role("ClusterRole", (&name, None), host_rules(host)),
        binding("ClusterRole", (&name, None), &user),
    ];
    for one in &mut all {
        one["metadata"]["labels"] = json!({MANAGED_BY: OPERATOR});
        // An owner is of the cluster, and so is what it owns.
        if one["metadata"]["namespace"].is_null() {
            one["metadata"]["ownerReferences"] = owner.clone();
        }
    }
    all
}

fn metadata((name, namespace): (&str, Option<&str>)) -> Value {
    match namespace {
        Some(namespace) => json!({"name": name, "namespace": namespace}),
        None => json!({"name": name}),
    }
}

fn role(kind: &str, at: (&str, Option<&str>), rules: Value) -> Value {
    json!({
        "apiVersion": format!("{RBAC}/v1"), "kind": kind, "metadata": metadata(at), "rules": rules,
    })
}

fn binding(kind: &str, at: (&str, Option<&str>), subjects: &Value) -> Value {
    json!({
        "apiVersion": format!("{RBAC}/v1"), "kind": format!("{kind}Binding"),
        "metadata": metadata(at),
        "roleRef": {"apiGroup": RBAC, "kind": kind, "name": at.0},
        "subjects": subjects,
    })
}

/// Makes the namespace of a host and the rights of its agent, or makes them right.
///
/// # Errors
/// The API server's.
pub async fn admit(client: &Client, host: &str, uid: &str) -> Result<(), kube::Error> {
    apply(client, &of_host(host, uid)).await
}

/// Applies objects in their order.
///
/// # Errors
/// The API server's.
pub async fn apply(client: &Client, objects: &[Value]) -> Result<(), kube::Error> {
    for one in objects {
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let api_version = text(&one["apiVersion"]);
        let (group, version) = api_version.split_once('/').unwrap_or(("", &api_version));
        let kind = GroupVersionKind::gvk(group, version, &text(&one["kind"]));
        let resource = ApiResource::from_gvk(&kind);
        let api: Api<DynamicObject> = match one["metadata"]["namespace"].as_str() {
            Some(namespace) => Api::namespaced_with(client.clone(), namespace, &resource),
            None => Api::all_with(client.clone(), &resource),
        };
        let name = text(&one["metadata"]["name"]);
        api.patch(&name, &applying(OPERATOR), &Patch::Apply(one)).await?;
    }
    Ok(())
}
