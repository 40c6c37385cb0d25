//! docs/cluster.md: what the page shows is taken.

use std::collections::BTreeSet;

use serde_json::Value;
use thruway_operator::manifests;

use crate::cluster::Cluster;

#[test]
fn resources_of_the_page_are_taken() {
    let cluster = Cluster::start(&[]);
    let page = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/cluster.md");
    let page = std::fs::read_to_string(page).expect("a page");
    let blocks = page.split("```yaml\n").skip(1).filter_map(|rest| rest.split_once("```"));
    let documents = blocks.flat_map(|(text, _)| text.split("---\n"));
    // Networks of pods are another operator's: bin/cni/tests/pods/page.rs tries them.
    let is_own = |one: &Value| one["kind"] != "NetworkAttachmentDefinition";
    let objects: Vec<Value> =
        documents.map(|text| serde_saphyr::from_str(text).expect("YAML")).filter(is_own).collect();
    let kinds: BTreeSet<&str> = objects.iter().filter_map(|one| one["kind"].as_str()).collect();
    assert_eq!(
        Vec::from_iter(kinds),
        ["ChainHost", "NetworkFunction", "ServiceChain", "TrustGroup"]
    );
    let done = cluster.server.runtime.block_on(manifests::apply(&cluster.client, &objects));
    done.expect("taken");
}
