//! What the API finds out by the program: estimates beside observations, explanations, checkups.

use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use serde_json::{Value, json};
use thruway_manager::access::Role;

use super::browser::Browser;
use super::page::Server;
use crate::network::Namespace;
use crate::process::{need, privileged, root, run, wait_for};

/// A chain of elements of different weight.
const CHAIN: &str = "s :: RatedSource(RATE 20000, DATA \\<000000000002 000000000001 0800
    4500002e 00000000 401166bd 0a000001 0a000002 04000009 001a0000
    000000000000000000 000000000000000000>)
    -> check :: CheckIPHeader(14) -> fc :: FlowClassifier ~> stats :: SessionStats -> d :: Discard";

/// What a session's state costs on a host, in round numbers of cycles.
const STATE: &str = "
[operations.session-state]
each = { value = 20, source = \"round numbers\" }
batch = { value = 40, source = \"round numbers\" }
";

/// Asks with a token: the status and the answer.
fn ask(host: &Namespace, url: &str, token: &str, more: &[&str]) -> (String, Value) {
    let mut command = host.command("curl");
    command.args(["--silent", "--insecure", "--max-time", "30", "--write-out", "\n%{http_code}"]);
    command.args(["--header", &format!("Authorization: Bearer {token}")]).args(more).arg(url);
    let answer = run(&mut command).expect(0).stdout;
    let (body, status) = answer.rsplit_once('\n').expect("a status");
    (status.to_owned(), serde_json::from_str(body).unwrap_or_else(|_| panic!("JSON: {body}")))
}

/// The program with a configuration folder of its own, so that it is calibrated as the test says.
pub(super) fn program(dir: &Path) -> std::path::PathBuf {
    let path = dir.join("thruway");
    let (config, own) = (dir.join("config"), env!("CARGO_BIN_EXE_thruway"));
    let script = format!("#!/bin/sh\nXDG_CONFIG_HOME={} exec {own} \"$@\"\n", config.display());
    std::fs::write(&path, script).expect("room");
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).expect("ours");
    path
}

/// Has the host of a [`program`] calibrated, in round numbers.
pub(super) fn calibrate(dir: &Path) {
    let config = dir.join("config/thruway");
    std::fs::create_dir_all(&config).expect("room");
    let edge = std::fs::read_to_string(root().join("examples/plan/edge.toml")).expect("an example");
    std::fs::write(config.join("hardware.toml"), edge + STATE).expect("room");
}

/// What the elements take is shown beside what they should.
pub(super) fn are_shown(browser: &Browser<'_>) {
    browser.click("#compare");
    browser.wait_text("#costs-status", |text| text.contains(" cycles a packet predicted, "));
    browser.wait_text("#costs", |text| text.contains("StatefulFirewall"));
    assert_eq!(browser.text("#costs-problem"), "");
    browser.picture("costs");
}

#[test]
fn chains_are_compared_and_explained_and_hosts_looked_at() {
    if !privileged("manager::reports::chains_are_compared_and_explained_and_hosts_looked_at") {
        return;
    }
    need("curl", "curl");
    let host = Namespace::new("reports");
    host.ip("link set lo up");
    let dir = tempfile::tempdir().expect("a directory");
    let server = Server::start_by(&host, &program(dir.path()));
    let token = server.token("operator", Role::Operate);
    let at = |path: &str| format!("{}v1/{path}", server.url());
    let get = |path: &str| ask(&host, &at(path), &token, &[]);
    let chain = json!({"configuration": CHAIN}).to_string();
    let put = ["--request", "PUT", "--header", "Content-Type: application/json", "--data", &chain];
    assert_eq!(get("chains/web/estimate").0, "404");
    assert_eq!(ask(&host, &at("chains/web"), &token, &put).0, "201");
    wait_for("packets", || {
        let (status, value) = get("chains/web/handlers/fc.sessions");
        (status == "200" && value["value"] == "1").then_some(())
    });

    let (status, problem) = get("chains/web/estimate");
    let detail = problem["detail"].as_str().expect("a reason");
    assert!(status == "409" && detail.contains("run `thruway calibrate`"), "{problem}");
    calibrate(dir.path());
    let (status, comparison) = get("chains/web/estimate");
    assert_eq!(status, "200", "{comparison}");
    assert!(comparison["packets"].as_u64().is_some_and(|count| count > 5_000), "{comparison}");
    let all = comparison["elements"].as_array().expect("elements");
    let stats = all.iter().find(|one| one["element"] == "stats").expect("SessionStats");
    for side in ["predicted_cycles", "observed_cycles"] {
        assert!(stats[side].as_f64().is_some_and(|cycles| cycles > 0.0), "{side}: {comparison}");
    }

    let (status, explanation) = get("chains/web/explanation");
    assert_eq!(status, "200", "{explanation}");
    let elements = explanation["elements"].as_array().expect("elements");
    let stats = elements.iter().find(|one| one["element"] == "stats").expect("SessionStats");
    assert!(stats["paths"].as_str().is_some_and(|paths| paths.contains("-> check")), "{stats}");
    assert!(explanation["classes"].as_array().is_some_and(|classes| !classes.is_empty()));

    let hosts = get("hosts").1;
    let name = hosts["items"][0]["name"].as_str().expect("this host").to_owned();
    let (status, checkup) = get(&format!("hosts/{name}/checkup"));
    assert_eq!(status, "200", "{checkup}");
    assert!(checkup["findings"].as_array().is_some_and(|all| all.len() > 3), "{checkup}");
    assert_eq!(get("hosts/other/checkup").0, "404");
}
