//! The Helm chart: a real helm renders and installs it.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::authentication::v1::{TokenRequest, TokenRequestSpec};
use k8s_openapi::api::core::v1::{Namespace, ServiceAccount};
use kube::Api;
use kube::api::PostParams;
use serde_json::{Value, json};
use tempfile::TempDir;
use thruway_operator::manifests;
use thruway_operator::resource::ServiceChain;

use crate::cluster::{Cluster, PROGRAM};
use crate::life::idle;
use crate::process::{Process, wait_for};
use crate::server::tool;

const IMAGE: &str = "thruway:0.1.0";
const RELEASE: &str = "thruway";
/// Where a pod finds its service account.
const ACCOUNT_DIR: &str = "/var/run/secrets/kubernetes.io/serviceaccount";

fn chart() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("deploy/chart")
}

/// Runs helm, with folders of its own.
fn helm(dir: &Path, args: &[&str]) -> Output {
    let mut command = Command::new(tool("helm"));
    command.env_clear().env("HOME", dir).args(args).output().expect("helm runs")
}

#[track_caller]
fn text(output: Output) -> String {
    assert!(output.status.success(), "{output:?}");
    String::from_utf8(output.stdout).expect("text")
}

/// The objects of a YAML text, in the order of their kinds and names; null values are left out, as
/// the API server leaves them out.
fn objects(text: &str) -> Vec<Value> {
    let documents = text.split("---\n").map(|one| {
        let lines = one.lines().filter(|line| !line.starts_with('#'));
        lines.collect::<Vec<_>>().join("\n")
    });
    let found = documents.filter(|one| !one.trim().is_empty());
    let mut all: Vec<Value> =
        found.map(|one| serde_saphyr::from_str(&one).expect("YAML")).collect();
    all.sort_by_key(|one| (one["kind"].to_string(), one["metadata"]["name"].to_string()));
    all
}

#[test]
fn the_chart_has_what_the_manifests_have() {
    let dir = TempDir::new().expect("a directory");
    let chart = chart().display().to_string();
    let image = format!("image={IMAGE}");
    let args = ["template", RELEASE, &chart, "--namespace", manifests::NAMESPACE, "--set", &image];
    let mut rendered = objects(&text(helm(dir.path(), &args)));
    for one in &mut rendered {
        if one["kind"] == "CustomResourceDefinition" {
            let annotations = one["metadata"].as_object_mut().expect("an object");
            let kept = annotations.remove("annotations").expect("annotations");
            assert_eq!(kept, json!({"helm.sh/resource-policy": "keep"}));
        }
    }
    let printed = Command::new(PROGRAM).args(["manifests", "--image", IMAGE]).output();
    let mut printed = objects(&text(printed.expect("it runs")));
    // Helm makes it: --create-namespace.
    printed.retain(|one| one["kind"] != "Namespace");
    assert_eq!(printed.len(), 11);
    assert_eq!(rendered, printed);
}

#[test]
fn values_that_are_wrong_are_named() {
    let dir = TempDir::new().expect("a directory");
    let chart = chart().display().to_string();
    for (set, wanted) in [
        ("replicas=2", "set image to an image that has /usr/bin/thruway-operator"),
        ("replicas=two,image=x", "at '/replicas': got string, want integer"),
        ("replica=2,image=x", "'replica' not allowed"),
    ] {
        let output = helm(dir.path(), &["template", RELEASE, &chart, "--set", set]);
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(!output.status.success() && said.contains(wanted), "{set}: {said}");
    }
    text(helm(dir.path(), &["lint", "--strict", &chart, "--set", "image=x"]));
}

/// Starts the operator as a pod of this Deployment would run it: its command, its account, and the
/// address of the API server by the environment.
fn start_pod(cluster: &Cluster, deployment: &Deployment) -> Process {
    let pod = deployment.spec.template.spec.as_ref().expect("a pod");
    let container = &pod.containers[0];
    assert_eq!(container.command.as_deref(), Some(&["/usr/bin/thruway-operator".to_owned()][..]));
    let namespace = deployment.metadata.namespace.as_deref().expect("a namespace");
    let accounts: Api<ServiceAccount> = Api::namespaced(cluster.client.clone(), namespace);
    let account = pod.service_account_name.as_deref().expect("an account");
    let request = TokenRequest { spec: Some(TokenRequestSpec::default()), ..Default::default() };
    let params = PostParams::default();
    let asked = accounts.create_token_request(account, &params, &request);
    let answer = cluster.server.runtime.block_on(asked).expect("an answer");
    let token = answer.status.and_then(|status| status.token).expect("a token");
    let dir = cluster.server.dir.path();
    let files = dir.join("account");
    fs::create_dir(&files).expect("a directory");
    fs::write(files.join("token"), token).expect("written");
    fs::write(files.join("namespace"), namespace).expect("written");
    fs::copy(dir.join("authority.pem"), files.join("ca.crt")).expect("copied");
    let script = format!(
        "mount -t tmpfs none /var/run && mkdir -p {ACCOUNT_DIR} && cp {}/* {ACCOUNT_DIR} && \
         exec \"$@\"",
        files.display()
    );
    let mut command = Command::new("unshare");
    command.args(["--mount", "sh", "-c", &script, "pod", PROGRAM]);
    command.args(container.args.iter().flatten());
    command.env_remove("KUBECONFIG").env("HOME", "/nonexistent");
    command.env("KUBERNETES_SERVICE_HOST", "127.0.0.1");
    command.env("KUBERNETES_SERVICE_PORT", cluster.server.port().to_string());
    Process::start(&mut command, dir, "pod")
}

#[test]
fn a_release_runs_the_operator_in_the_cluster_and_leaves_chains_when_it_goes() {
    let mut cluster = Cluster::bare();
    let home = cluster.server.dir.path().to_owned();
    let (chart, image) = (chart().display().to_string(), format!("image={IMAGE}"));
    let config = home.join("admin.kubeconfig").display().to_string();
    let release = |args: &[&str]| {
        let mut all = args.to_vec();
        all.extend(["--kubeconfig", &config, "--namespace", "net"]);
        text(helm(&home, &all))
    };
    let notes =
        release(&["install", RELEASE, &chart, "--create-namespace", "--set", image.as_str()]);
    assert!(notes.contains("thruway-operator agent --host edge-1"), "{notes}");
    let deployments: Api<Deployment> = Api::namespaced(cluster.client.clone(), "net");
    let deployment = cluster.server.runtime.block_on(deployments.get("thruway-operator"));
    let pod = start_pod(&cluster, &deployment.expect("a Deployment"));
    cluster.operators.insert("pod".to_owned(), pod);
    wait_for("definitions are served", || {
        let chains: Api<ServiceChain> = Api::all(cluster.client.clone());
        cluster.server.runtime.block_on(chains.list(&Default::default())).ok().map(|_| ())
    });
    cluster.add_host("a", None);
    cluster.wait_host("a", "Ready");
    cluster.chain("web", &idle());
    assert_eq!(cluster.wait_running("web"), ["a"]);

    // Another version of the chart's values, and the end: what was declared stays.
    release(&["upgrade", RELEASE, &chart, "--set", &image, "--set", "replicas=3"]);
    let deployment = cluster.server.runtime.block_on(deployments.get("thruway-operator"));
    assert_eq!(deployment.expect("a Deployment").spec.replicas, Some(3));
    cluster.operators.clear();
    release(&["uninstall", RELEASE]);
    let gone = cluster.server.runtime.block_on(deployments.get_opt("thruway-operator"));
    assert!(gone.expect("an answer").is_none_or(|one| one.metadata.deletion_timestamp.is_some()));
    assert!(cluster.has::<ServiceChain>("web"));
    assert_eq!(cluster.host("a").chains(), ["default--web"]);
    let namespaces: Api<Namespace> = Api::all(cluster.client.clone());
    assert!(cluster.server.runtime.block_on(namespaces.get("net")).is_ok());
}
