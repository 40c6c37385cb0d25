//! Calls that are killed, repeated, or made at once; pods that are gone.

use std::time::Duration;

use serde_json::{Value, json};
use thruway_random::Random;

use crate::privileged;
use crate::runtime::{PLUGINS, Runtime, begin, end, ip_of, talk};

/// Both modes.
fn networks(runtime: &Runtime) -> [Value; 2] {
    let shared = runtime.network("inside", "in0", 1);
    let mut direct = runtime.network("cable", "di0", 2);
    direct["mode"] = json!("direct");
    [shared, direct]
}

#[test]
fn calls_may_be_repeated() {
    if !privileged("calls_may_be_repeated") {
        return;
    }
    let runtime = Runtime::new();
    for network in networks(&runtime) {
        let name = network["name"].as_str().expect("text");
        let pod = runtime.pod("pod-1");
        runtime.call("DEL", &pod, &network).good();
        runtime.call("ADD", &pod, &network).good();
        let result = runtime.call("ADD", &pod, &network).good();
        assert_eq!((pod.links(), runtime.reserved(name).len()), (vec!["net1".to_owned()], 1));
        assert!(pod.printed("ip address show net1").contains(&ip_of(&result)));
        for _ in 0..2 {
            runtime.call("DEL", &pod, &network).good();
            assert_eq!((pod.links(), runtime.reserved(name)), (vec![], vec![]));
        }
    }
    assert_eq!(runtime.links(), ["in0-in", "in0"]);
}

#[test]
fn a_pod_that_is_gone_is_detached() {
    if !privileged("a_pod_that_is_gone_is_detached") {
        return;
    }
    let runtime = Runtime::new();
    for network in networks(&runtime) {
        let name = network["name"].as_str().expect("text");
        let pod = runtime.pod("pod-1");
        runtime.call("ADD", &pod, &network).good();
        // Without its namespace, by a call that names none or one that is gone.
        for netns in ["", "/run/netns/gone"] {
            let mut command = runtime.command("DEL", Some(&pod));
            command.env("CNI_NETNS", netns);
            talk(command, network.to_string().as_bytes()).good();
        }
        assert_eq!(runtime.reserved(name), Vec::<String>::new());
        drop(pod);
        let pod = runtime.pod("pod-2");
        runtime.call("ADD", &pod, &network).good();
        runtime.call("DEL", &pod, &network).good();
    }
    assert_eq!(runtime.links(), ["in0-in", "in0"]);
}

#[test]
fn calls_that_are_killed_leave_nothing() {
    if !privileged("calls_that_are_killed_leave_nothing") {
        return;
    }
    let runtime = Runtime::new();
    let mut random = Random::from_seed(7);
    let mut completed = 0;
    for round in 0..60 {
        let network = &networks(&runtime)[round % 2];
        let name = network["name"].as_str().expect("text");
        let pod = runtime.pod("pod-1");
        let mut command = std::process::Command::new("nsenter");
        // The plugin itself, and not what enters the namespace for it, is to be killed.
        command.arg(format!("--net={}", runtime.host.path())).arg(crate::runtime::PROGRAM);
        command.env("CNI_COMMAND", "ADD").env("CNI_PATH", PLUGINS);
        command.env("CNI_CONTAINERID", &pod.id).env("CNI_IFNAME", "net1");
        command.env("CNI_NETNS", pod.netns.path());
        let mut child = begin(command, network.to_string().as_bytes());
        std::thread::sleep(Duration::from_micros(random.below(60_000)));
        child.kill().expect("a child");
        completed += usize::from(child.wait().expect("a child").success());
        // The IPAM plugin may go on alone for a moment.
        std::thread::sleep(Duration::from_millis(60));
        if round % 3 == 0 {
            // A runtime that tries again.
            runtime.call("ADD", &pod, network).good();
            assert_eq!((pod.links().len(), runtime.reserved(name).len()), (1, 1));
        }
        runtime.call("DEL", &pod, network).good();
        assert_eq!((pod.links(), runtime.reserved(name)), (vec![], vec![]), "round {round}");
        // Half a port is the next call's to complete; nothing else is left.
        let of_port = |link: &String| ["in0", "twp", "twq"].iter().any(|one| link.starts_with(one));
        let left = runtime.links();
        assert!(left.len() <= 2 && left.iter().all(of_port), "round {round}: {left:?}");
        if round % 4 == 2 {
            runtime.tool("port delete in0");
        }
    }
    assert!((1..50).contains(&completed), "{completed} calls of 60 were done before the kill");
}

#[test]
fn calls_at_once_make_one_port() {
    if !privileged("calls_at_once_make_one_port") {
        return;
    }
    let runtime = Runtime::new();
    let network = runtime.network("inside", "in0", 1);
    let pods: Vec<_> = (0..8).map(|number| runtime.pod(&format!("pod-{number}"))).collect();
    let all = |verb: &str| {
        let text = network.to_string();
        let calls = pods.iter().map(|pod| runtime.command(verb, Some(pod)));
        let calls: Vec<_> = calls.map(|command| begin(command, text.as_bytes())).collect();
        calls.into_iter().map(|child| end(child).good()).collect::<Vec<Value>>()
    };
    let mut ips: Vec<String> = all("ADD").iter().map(ip_of).collect();
    ips.sort();
    ips.dedup();
    assert_eq!(ips.len(), pods.len());
    assert_eq!(runtime.links(), ["in0-in", "in0"]);
    assert!(pods.iter().all(|pod| pod.links() == ["net1"]));
    all("DEL");
    assert!(pods.iter().all(|pod| pod.links().is_empty()));
    assert_eq!(runtime.reserved("inside"), Vec::<String>::new());
}
