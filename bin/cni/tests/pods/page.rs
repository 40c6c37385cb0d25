//! What docs/cluster.md shows: the chain, its networks, and the cable that no plugin lays.

use std::path::Path;

use serde_json::{Value, json};

use crate::chain::{gets, serve, wait_until_gets};
use crate::manager::Manager;
use crate::privileged;
use crate::runtime::{Runtime, succeeds};

/// The block of a kind in the page that has this text.
fn block(kind: &str, with: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/cluster.md");
    let page = std::fs::read_to_string(path).expect("the page");
    let fence = format!("```{kind}\n");
    let blocks = page.split(&fence).skip(1);
    let mut blocks = blocks.filter_map(|rest| rest.split_once("\n```").map(|(text, _)| text));
    blocks.find(|text| text.contains(with)).expect("the block").to_owned()
}

/// The resources of the page's example.
fn resources() -> Vec<Value> {
    let text = block("yaml", "NetworkAttachmentDefinition");
    let read = |one: &str| serde_saphyr::from_str::<Value>(one).expect("YAML");
    text.split("\n---\n").map(read).collect()
}

/// The configuration of a network, with files of the test in the place of the host's.
fn network(resource: &Value, runtime: &Runtime, manager: &Manager) -> Value {
    assert_eq!(resource["kind"], "NetworkAttachmentDefinition");
    let config = resource["spec"]["config"].as_str().expect("text");
    let mut config: Value = serde_json::from_str(config).expect("JSON");
    config["ipam"]["dataDir"] = json!(runtime.dir.path().join("ipam"));
    config["managerSocket"] = json!(manager.socket());
    config
}

#[test]
fn the_example_of_the_page_works() {
    if !privileged("the_example_of_the_page_works") {
        return;
    }
    let [chain, inside, outside] = resources().try_into().expect("three");
    let runtime = Runtime::new();
    let manager = Manager::start(&runtime);
    let (inside, outside) =
        (network(&inside, &runtime, &manager), network(&outside, &runtime, &manager));
    assert_eq!(outside["chain"], "default--edge");
    let spec = &chain["spec"];
    let (configuration, variables) = (&spec["configuration"], &spec["variables"]);
    manager.apply("default--edge", json!({"configuration": configuration, "variables": variables}));

    let (client, server) = (runtime.pod("client"), runtime.pod("server"));
    runtime.call("ADD", &client, &inside).good();
    // The chain lacks this port until it is made here, and runs when this returns.
    let ip = runtime.call("ADD", &server, &outside).ip();
    assert_eq!(ip, "10.9.0.100");
    serve(&server.netns, 8080);
    serve(&server.netns, 9090);
    wait_until_gets(&client, &ip, 8080);
    assert!(!gets(&client, &ip, 9090));

    // The cable that no plugin lays, in the place of the port.
    runtime.call("DEL", &client, &inside).good();
    assert!(runtime.tool("port delete inside0").0);
    let other = runtime.pod("other");
    let mut shell = runtime.host.command("sh");
    let lines = block("text", "peer name net1");
    let done = shell.args(["-euc", &lines]).env("POD", other.netns.path()).output().expect("run");
    assert!(done.status.success(), "{done:?}");
    wait_until_gets(&other, &ip, 8080);
    assert!(!gets(&other, &ip, 9090));
    assert!(succeeds(&runtime.host, "sysctl net.ipv4.conf.inside0.forwarding=0"));
}
