//! The operator as a Deployment of the cluster.

use serde_json::{Value, json};

use crate::resource::OPERATOR;

/// Operators in the cluster: one leads, the other takes over.
const REPLICAS: u32 = 2;

/// The user of the container, which owns nothing; images commonly name it `nonroot`.
const USER: u32 = 65_532;

/// The operator of an image that has `/usr/bin/thruway-operator`, as scripts/image makes it. The
/// chart's template is the same (bin/operator/deploy/chart).
pub(super) fn of(namespace: &str, image: &str) -> Value {
    let labels = json!({"app.kubernetes.io/name": OPERATOR});
    let apart = json!({
        "weight": 100,
        "podAffinityTerm": {
            "topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": labels},
        },
    });
    let pod = json!({
        "serviceAccountName": OPERATOR,
        "securityContext": {
            "runAsNonRoot": true, "runAsUser": USER, "runAsGroup": USER,
            "seccompProfile": {"type": "RuntimeDefault"},
        },
        "affinity": {
            "podAntiAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [apart]},
        },
        "containers": [container(namespace, image)],
    });
    json!({
        "apiVersion": "apps/v1", "kind": "Deployment",
        "metadata": {"name": OPERATOR, "namespace": namespace, "labels": labels},
        "spec": {
            "replicas": REPLICAS,
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": pod},
        },
    })
}

fn container(namespace: &str, image: &str) -> Value {
    json!({
        "name": "operator",
        "image": image,
        "imagePullPolicy": "IfNotPresent",
        "command": ["/usr/bin/thruway-operator"],
        "args": ["run", "--namespace", namespace, "--lease-seconds", "15"],
        "resources": {
            "requests": {"cpu": "50m", "memory": "64Mi"},
            "limits": {"memory": "256Mi"},
        },
        "securityContext": {
            "allowPrivilegeEscalation": false,
            "readOnlyRootFilesystem": true,
            "capabilities": {"drop": ["ALL"]},
        },
    })
}
