//! Plan files, right and wrong.

use std::path::Path;

use super::super::{FunctionLoad, PlanError, PlanFile, Problem, Run};
use super::hardware;

const PLAN: &str = r#"headroom = 0.25

[[chain]]
name = "office"
rate = 1_200_000
packet = 350.5
latency_us = 50

[[chain.function]]
name = "firewall"
cycles = 120
run = "isolated"

[[chain]]
name = "uplink"
configuration = "uplink.click"
rate = 2e6
packet = 64
host = "edge"

[[chain.function]]
name = "nat"
cycles = 99

[[host]]
name = "edge"
hardware = "edge.toml"
cores = 2
"#;

#[track_caller]
fn refused(from: &str, to: &str, expected: &str) {
    assert!(PLAN.contains(from), "no '{from}' to replace");
    let reported =
        PlanFile::parse("plan.toml", &PLAN.replacen(from, to, 1)).unwrap_err().to_string();
    assert!(reported.contains(expected), "{reported}");
}

fn estimated(text: &str, estimate: &super::super::Estimator<'_>) -> Result<Problem, PlanError> {
    Problem::new(&PlanFile::parse("plan.toml", text).unwrap(), vec![hardware(4, 1)], estimate)
}

fn load(name: &str, cycles: f64) -> FunctionLoad {
    FunctionLoad { name: name.into(), cycles, working_set: 1.0, lines: 1.0, memory: 1.0 }
}

#[test]
fn what_is_not_said_has_its_usual_value() {
    let plan = PlanFile::parse("plan.toml", PLAN).unwrap();
    assert_eq!((plan.headroom, plan.between_sockets, plan.hosts[0].cores), (0.25, 2.0, Some(2)));
    let office = &plan.chains[0];
    assert_eq!((office.rate, office.packet, office.burst), (1.2e6, 350.5, 32));
    assert_eq!((office.run, office.functions[0].run), (Run::Either, Some(Run::Isolated)));
    assert!(office.parallel && office.share_core && !office.cross_sockets);
}

#[test]
fn values_that_cannot_be_are_named_with_their_line() {
    refused("headroom = 0.25", "headroom = 1.0", "plan.toml:1: headroom is 1: give a share");
    refused("rate = 2e6", "rate = -1", "plan.toml:17: chain[2].rate is -1: give a number above 0");
    refused("rate = 2e6", "rate = inf", "plan.toml:17: chain[2].rate is inf");
    refused("rate = 2e6", "rate = nan", "plan.toml:17: chain[2].rate is NaN");
    refused("packet = 64", "packet = 9", "plan.toml:18: chain[2].packet is 9: give bytes");
    refused("latency_us = 50", "latency_us = 0", "plan.toml:7: chain[1].latency_us is 0");
    refused("cycles = 120", "cycles = -3", "plan.toml:11: chain[1].function[1].cycles is -3");
    refused("cores = 2", "cores = 0", "plan.toml:28: host[1].cores is 0: a host has at least one");
    refused("\"uplink\"", "\"office\"", "plan.toml:15: chain[2].name is 'office' again");
    refused("packet = 64", "packet = 64\nburst = 300", "chain[2].burst is 300: give 1 to 256");
    refused("packet = 64", "packet = 64\nskew = -1", "plan.toml:19: chain[2].skew is -1");
}

#[test]
fn what_is_missing_is_named_with_its_line() {
    refused("cycles = 120\n", "", "plan.toml:9: no cycles in chain[1].function[1]: give cycles");
    refused(
        "configuration = \"uplink.click\"\n",
        "model = \"m.toml\"\nconfiguration = \"c\"\n",
        "plan.toml:14: no one source of its functions in chain[2]",
    );
    refused("rate = 2e6\n", "", "missing field `rate`");
    refused("rate = 2e6", "rate = 2e6\nspeed = 1", "unknown field `speed`");
    refused("run = \"isolated\"", "run = \"alone\"", "unknown variant `alone`");
    refused("host = \"edge\"", "host = \"core\"", "plan.toml:19: no host 'core': there are edge");
    let none = PlanFile::parse("plan.toml", "").unwrap_err().to_string();
    assert!(none.contains("chain is 0: give 1 to 256 [[chain]] and [[host]] tables"), "{none}");
    let file = PlanFile::load(Path::new("/nonexistent.toml")).unwrap_err().to_string();
    assert!(file.starts_with("/nonexistent.toml: No such file"), "{file}");
}

#[test]
fn the_file_goes_before_the_estimate() {
    let estimate = |chain: &super::super::Chain, _: &crate::Hardware| {
        assert_eq!(chain.name, "uplink", "only what is not by hand is estimated");
        Ok(vec![load("check", 10.0), load("nat", 20.0)])
    };
    let problem = estimated(PLAN, &estimate).unwrap();
    let uplink = &problem.demands[1];
    assert_eq!((uplink.on[0].cycles, uplink.pinned), (10.0 + 99.0, Some(0)));
}

#[test]
fn estimates_that_fail_say_for_whom() {
    let reported = |loads: Result<Vec<FunctionLoad>, String>| {
        estimated(PLAN, &|_, _| loads.clone()).unwrap_err().to_string()
    };
    let wrong = reported(Err("no such element".into()));
    assert_eq!(wrong, "chain 'uplink' on host 'edge': no such element");
    let wrong = reported(Ok(vec![load("check", 1.0)]));
    assert!(wrong.ends_with("no function 'nat': there are check"), "{wrong}");
    let wrong = reported(Ok(vec![load("nat", 1.0), load("check", f64::NAN)]));
    assert!(wrong.contains("the estimate of 'check' is no number"), "{wrong}");
    assert!(reported(Ok(vec![])).contains("packets meet nothing"));
}

#[test]
fn a_model_is_one_function() {
    // 213 cycles and an access to memory, of frames of 64 bytes: section 3.1.1 of the paper.
    let text = PLAN.replace("configuration = \"uplink.click\"", "model = \"l2-switch\"");
    let text =
        text.replace("packet = 64", "packet = 60").replace("name = \"nat\"\ncycles = 99", "");
    let text = text.replace("run = \"isolated\"", "").replace("[[chain.function]]\n\n", "");
    let file = PlanFile::parse("plan.toml", &text).unwrap();
    let estimate =
        |chain: &super::super::Chain, hardware: &crate::Hardware| chain.modelled(hardware).unwrap();
    let problem = Problem::new(&file, vec![crate::paper::hardware()], &estimate).unwrap();
    let uplink = &problem.demands[1].on[0];
    assert_eq!(uplink.functions[0].load.name, "l2-switch");
    let mapping = crate::paper::Mapping::of(&crate::paper::hardware(), "paper").unwrap();
    let memory = mapping.memory_seconds() * crate::paper::hardware().clock_hz.value;
    let cost = crate::paper::Model::find("l2-switch").unwrap().cost(&mapping, 64);
    assert!((uplink.cycles - cost.cycles - cost.accesses * memory).abs() < 1e-9);
    let wrong = estimated(&text, &estimate).err().unwrap().to_string();
    assert!(wrong.starts_with("chain 'uplink' on host 'edge': made up: no "), "{wrong}");
    let wrong = estimated(&text.replace("l2-switch", "l3-switch"), &estimate).err().unwrap();
    assert!(wrong.to_string().contains("l3-switch"), "{wrong}");
}

#[test]
fn hosts_that_lack_something_say_what() {
    let estimate = |_: &super::super::Chain, _: &crate::Hardware| Ok(vec![load("nat", 1.0)]);
    let reported = |text: &str, change: fn(&mut crate::Hardware)| {
        let mut hardware = hardware(4, 1);
        change(&mut hardware);
        let file = PlanFile::parse("plan.toml", text).unwrap();
        Problem::new(&file, vec![hardware], &estimate).unwrap_err().to_string()
    };
    let wrong = reported(PLAN, |hardware| hardware.between_cores = None);
    assert!(wrong.contains("no between_cores in its description"), "{wrong}");
    let wrong = reported(PLAN, |hardware| hardware.levels.truncate(1));
    assert!(wrong.contains("no caches and memory in its description"), "{wrong}");
    let wrong = reported(&PLAN.replace("cores = 2", "cores = 9"), |_| ());
    assert_eq!(
        wrong,
        "host 'edge': cores is 9: give at most the cores of its description, and at most 1024"
    );
    let wrong = reported(&PLAN.replace("cores = 2", "memory = 1e7"), |_| ());
    assert!(wrong.starts_with("host 'edge': memory is 10000000: give at most"), "{wrong}");
    let wrong = reported(&PLAN.replace("packet = 64", "packet = 64\nlink = \"lan\""), |_| ());
    assert_eq!(wrong, "chain 'uplink': no link 'lan': there are wan");
}
