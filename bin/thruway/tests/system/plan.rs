//! `thruway plan` as a user and as an orchestrator run it.

mod reality;

use std::collections::BTreeMap;

use serde_json::Value;

use crate::process::{Done, root, run, thruway};

fn plan(more: &[&str]) -> Done {
    let mut command = thruway();
    run(command.current_dir(root()).args(["plan", "examples/plan/plan.toml"]).args(more))
}

fn json(done: &Done) -> Value {
    serde_json::from_str(&done.stdout).expect("JSON")
}

#[test]
fn the_example_has_a_plan() {
    let done = plan(&[]).expect(0).prints(&["1 host, 3 cores, ", "optimal"]);
    let done = done.prints(&["inspect (own process)", "0 of 8", "When all rates rise together, "]);
    assert_eq!(done.stderr, "");
}

#[test]
fn what_an_orchestrator_reads_is_whole_and_adds_up() {
    let answer = json(&plan(&["--json"]).expect(0));
    assert_eq!((&answer["answer"], &answer["proved"]), (&"plan".into(), &true.into()));
    let mut rates: BTreeMap<String, f64> = BTreeMap::new();
    let mut cores_used = 0;
    for core in answer["hosts"]
        .as_array()
        .unwrap()
        .iter()
        .flat_map(|host| host["cores"].as_array().unwrap())
    {
        let tasks = core["tasks"].as_array().unwrap();
        let load: f64 = tasks.iter().map(|task| task["load"].as_f64().unwrap()).sum();
        assert!((load - core["load"].as_f64().unwrap()).abs() < 1e-9, "{core}");
        assert!(load <= 0.8 + 1e-9, "{core}");
        cores_used += 1;
        for task in tasks {
            for function in task["functions"].as_array().unwrap() {
                let name =
                    format!("{}/{}", task["chain"].as_str().unwrap(), function.as_str().unwrap());
                *rates.entry(name).or_default() += task["packets_per_second"].as_f64().unwrap();
            }
        }
    }
    assert_eq!(answer["cores_used"], cores_used);
    let expected = [
        ("office/classify", 2.4e6),
        ("office/count", 2.4e6),
        ("office/firewall", 2.4e6),
        ("office/translate", 2.4e6),
        ("tenant/forward", 6e5),
        ("tenant/inspect", 6e5),
        ("uplink/shape", 1.5e6),
        ("uplink/tunnel", 1.5e6),
    ];
    let rates: Vec<(&str, f64)> =
        rates.iter().map(|(name, rate)| (name.as_str(), rate.round())).collect();
    assert_eq!(rates, expected);
}

#[test]
fn rates_may_rise_as_far_as_is_said_and_no_farther() {
    let answer = json(&plan(&["--json", "--rate", "x2"]).expect(1));
    assert_eq!((&answer["answer"], &answer["reason"]), (&"none".into(), &"not-parallel".into()));
    assert_eq!(answer["chains"], serde_json::json!(["uplink"]));
    let factor = answer["factor"].as_f64().unwrap();
    let rate = |share: f64| format!("x{}", 2.0 * factor * share);
    plan(&["--rate", &rate(0.999)]).expect(0);
    plan(&["--rate", &rate(1.01)]).expect(1).prints(&[
        "No placement serves these rates. The most is 0.9",
        "What limits uplink: flows may not be spread over cores (parallel = false).",
    ]);
}

#[test]
fn another_host_makes_another_plan() {
    let small = tempfile::NamedTempFile::new().unwrap();
    let text = std::fs::read_to_string(root().join("examples/plan/edge.toml")).unwrap();
    let text = text.replace("cores = 16", "cores = 2").replace("sockets = 2", "sockets = 1");
    std::fs::write(small.path(), text).unwrap();
    let host = |name: &str| format!("{name}={}", small.path().display());
    plan(&["--host", &host("edge-1")]).expect(0).prints(&["edge-1", "0 of 2"]);
    let both = ["--host", &host("edge-1"), "--host", &host("edge-2")];
    plan(&both).expect(0).prints(&["2 hosts, 3 cores"]);
    plan(&["--add-host", &host("edge-3")]).expect(0).prints(&["edge-3", "0 of 2"]);
}

#[test]
fn models_of_the_paper_are_placed_on_its_host() {
    let dir = tempfile::tempdir().unwrap();
    let hardware = root().join("control/model/hardware/xeon-e5-2690v2.toml");
    let chain = |name: &str, rate: &str| {
        format!("[[chain]]\nname = \"{name}\"\nmodel = \"{name}\"\nrate = {rate}\npacket = 60\n")
    };
    let text = chain("l2-switch", "20e6") + &chain("mpls-switch", "10e6");
    let host = format!("[[host]]\nname = \"xeon\"\nhardware = \"{}\"\n", hardware.display());
    let file = dir.path().join("plan.toml");
    std::fs::write(&file, text + &host).unwrap();
    let plan = |more: &[&str]| run(thruway().arg("plan").arg(&file).args(more));
    // Some 240 cycles for each of 30 million packets, at 3.6 GHz of which a fifth stays free.
    let done = plan(&[]).expect(0).prints(&["1 host, 3 cores", "optimal"]);
    assert!(done.stdout.lines().filter(|line| line.contains("l2-switch")).count() >= 2);
    plan(&["--rate", "x10"])
        .expect(1)
        .prints(&["What limits l2-switch: packets stay on one socket"]);
}

#[test]
fn what_is_wrong_is_named() {
    let said = |more: &[&str], words: &str| drop(plan(more).expect(1).says(&[words]));
    said(&["--rate", "uplnk=x2"], "no chain 'uplnk'; did you mean uplink?");
    said(&["--rate", "2"], "--rate 2: give x2 for all chains, CHAIN=x2 or CHAIN=1.5e6 for one");
    said(&["--rate", "x-1"], "--rate x-1: give x2 for all chains");
    said(&["--rate", "xinf"], "--rate xinf: give x2 for all chains");
    said(&["--rate", "x1e14"], "--rate x1e14: 240000000000000000000 packets/s for 'office'");
    said(
        &["--host", "edge=x.toml"],
        "no host 'edge'; there are edge-1, edge-2; --add-host adds one",
    );
    said(&["--host", "edge-1"], "--host edge-1: it is not of the form NAME=FILE");
    said(&["--host", "edge-1=none.toml"], "host 'edge-1': none.toml: No such file");
    said(&["--add-host", "edge-1=x.toml"], "there is a host 'edge-1'; --host replaces");
    said(&["--headroom", "1"], "--headroom 1: give a share");
}
