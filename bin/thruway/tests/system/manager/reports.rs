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

/// A dry run says what would be done, and what packets would cost.
fn forecasts(put: &dyn Fn(&str, &str) -> (String, Value)) {
    let chain = json!({
        "configuration": "FromDevice($IN) -> FlowClassifier ~> SessionStats -> Discard",
        "variables": {"IN": "nosuch0"},
        "threads": 2
    });
    let (status, view) = put(&chain.to_string(), "dry_run=true&estimate=true");
    assert_eq!((status.as_str(), &view["plan"][0]["action"]), ("200", &json!("Start")), "{view}");
    let message = &view["plan"][0]["message"];
    assert_eq!(message, "a data plane begins with 2 threads");
    let estimate = &view["estimate"]["estimate"];
    assert!(estimate["cycles"].as_f64().is_some_and(|cycles| cycles > 1.0), "{view}");
    assert_eq!(estimate["packet_bytes"], 512.0, "{view}");
    assert!(view["estimate"]["traffic"].as_str().is_some_and(|text| text.contains("512")));
    // One that brings its packets along needs none from outside.
    let chain = json!({"configuration": CHAIN});
    let (_, view) = put(&chain.to_string(), "dry_run=true&estimate=true");
    println!("{}", view["estimate"]);
    assert!(view["estimate"]["reason"].is_null() || view["estimate"]["estimate"].is_null());
}

/// Packets that a filter takes come as a capture that other programs read.
fn captures(host: &Namespace, url: &str, token: &str) {
    need("capinfos", "wireshark-common");
    need("tcpdump", "tcpdump");
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().join("web.pcapng");
    let path = path.to_str().expect("plain text");
    let capture = |body: Value, output: &str| {
        let mut command = host.command("curl");
        command.args(["--silent", "--insecure", "--max-time", "60", "--output", output]);
        command.args(["--header", &format!("Authorization: Bearer {token}")]);
        command.args(["--header", "Content-Type: application/json", "--write-out"]);
        command.args(["%{http_code} %{content_type}", "--data", &body.to_string(), url]);
        run(&mut command).expect(0).stdout
    };
    let asked = json!({"element": "check", "filter": "udp", "count": 50, "seconds": 30});
    assert_eq!(capture(asked, path), "200 application/x-pcapng");
    let text = run(std::process::Command::new("tcpdump").args(["-nr", path])).expect(0).stdout;
    assert_eq!(text.lines().count(), 50, "{text}");
    assert!(text.lines().all(|line| line.contains("10.0.0.1.1024 > 10.0.0.2.9: UDP")), "{text}");
    let mut capinfos = std::process::Command::new("capinfos");
    let info = run(capinfos.args(["-c", "-E", path])).expect(0).stdout;
    assert!(info.contains("Number of packets:   50") && info.contains("Ethernet"), "{info}");

    // A filter that no packet fits ends with its time, and has no packet.
    let asked = json!({"filter": "tcp", "seconds": 1});
    assert_eq!(capture(asked, path), "200 application/x-pcapng");
    let text = run(std::process::Command::new("tcpdump").args(["-nr", path])).expect(0).stdout;
    assert_eq!(text, "");
    for (asked, status) in [
        (json!({"count": 0}), "422"),
        (json!({"elment": "x"}), "422"),
        (json!({"element": "nosuch"}), "502"),
        (json!({"filter": "no such filter"}), "502"),
    ] {
        let answer = capture(asked.clone(), path);
        assert!(answer.starts_with(status), "{asked}: {answer}");
    }
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

    forecasts(&|chain, query| {
        let put = ["--request", "PUT", "--header", "Content-Type: application/json", "--data"];
        let all: Vec<&str> = put.into_iter().chain([chain]).collect();
        ask(&host, &at(&format!("chains/next?{query}")), &token, &all)
    });

    captures(&host, &at("chains/web/capture"), &token);

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
