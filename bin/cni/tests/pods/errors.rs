//! Wrong calls and configurations: an error of the specification's form, and nothing left.

use serde_json::{Value, json};

use crate::privileged;
use crate::runtime::{Runtime, talk};

/// A change of a right configuration, the code of the error, a word of it.
fn wrong_configurations() -> Vec<(&'static str, Value, u64, &'static str)> {
    vec![
        ("/cniVersion", json!("0.2.0"), 1, "0.2.0"),
        ("/cniVersion", json!(1), 7, "cniVersion"),
        ("/name", json!("../etc"), 7, "name"),
        ("/name", json!("n".repeat(300)), 7, "too long"),
        ("/prot", json!("in0"), 2, "prot \"in0\""),
        ("/ipMasq", json!(true), 2, "ipMasq"),
        ("/port", Value::Null, 7, "port"),
        ("/port", json!(""), 7, "port"),
        ("/port", json!(7), 7, "port 7"),
        ("/port", json!("thirteen-char"), 7, "at most 12"),
        ("/port", json!("in/0"), 7, "in/0"),
        ("/port", json!("in%d"), 7, "'%'"),
        ("/port", json!("lo"), 102, "'lo' exists"),
        ("/mode", json!("bridge"), 7, "mode"),
        ("/podToPod", json!("maybe"), 7, "podToPod"),
        ("/mtu", json!(67), 7, "mtu 67"),
        ("/mtu", json!("1500"), 7, "mtu"),
        ("/mac", json!("01:00:5e:00:00:01"), 7, "group"),
        ("/mac", json!("mac"), 7, "02:00:00:00:00:01"),
        ("/chain", json!("a b"), 7, "chain"),
        ("/ipam", json!("host-local"), 7, "ipam"),
        ("/ipam/type", json!("../../bin/sh"), 7, "no path"),
        ("/ipam/type", json!("thruway-cni"), 7, "this plugin"),
        ("/ipam/type", json!("nobody-has-this"), 7, "/usr/lib/cni"),
        ("/prevResult", json!([1]), 6, "prevResult"),
    ]
}

#[test]
fn wrong_configurations_are_refused() {
    if !privileged("wrong_configurations_are_refused") {
        return;
    }
    let runtime = Runtime::new();
    let pod = runtime.pod("pod-1");
    let right = runtime.network("inside", "in0", 1);
    for (at, value, code, word) in wrong_configurations() {
        let mut wrong = right.clone();
        match wrong.pointer_mut(at) {
            Some(field) => *field = value,
            None => wrong[&at[1..]] = value,
        }
        runtime.call("ADD", &pod, &wrong).fails(code, &[word]);
    }
    assert_eq!((runtime.links(), pod.links()), (vec![], vec![]));
    // What IPAM refuses is passed on as it is, and undone.
    let mut wrong = right.clone();
    wrong["ipam"]["ranges"] = json!([[{"subnet": "10.9.1.0/31"}]]);
    let answer = runtime.call("ADD", &pod, &wrong);
    assert!(!answer.ok && answer.json["msg"].is_string(), "{answer:?}");
    assert_eq!(pod.links(), Vec::<String>::new());
    // Too short for IPv6.
    let mut wrong = right.clone();
    wrong["mtu"] = json!(1000);
    wrong["ipam"]["ranges"] = json!([[{"subnet": "fd09::/64"}]]);
    runtime.call("ADD", &pod, &wrong).fails(7, &["mtu 1000", "1280"]);
    assert_eq!((runtime.reserved("inside"), pod.links()), (vec![], vec![]));
    // A route that the pod has already by another interface.
    pod.netns.ip("link add eth0 type veth peer name eth1").expect("interfaces");
    pod.netns.ip("link set eth0 up").expect("up");
    pod.netns.ip("route add 10.70.0.0/16 dev eth0").expect("a route");
    let mut wrong = right;
    wrong["ipam"]["routes"] = json!([{"dst": "10.70.0.0/16"}]);
    runtime.call("ADD", &pod, &wrong).fails(102, &["10.70.0.0/16", "priority"]);
    assert_eq!((runtime.reserved("inside"), pod.links().len()), (vec![], 2));
}

#[test]
fn wrong_calls_are_refused() {
    if !privileged("wrong_calls_are_refused") {
        return;
    }
    let runtime = Runtime::new();
    let pod = runtime.pod("pod-1");
    let network = runtime.network("inside", "in0", 1).to_string();
    for (name, value) in [
        ("CNI_COMMAND", "ATTACH"),
        ("CNI_CONTAINERID", ""),
        ("CNI_IFNAME", "a-name-that-is-too-long"),
        ("CNI_NETNS", "/nowhere/netns"),
        ("CNI_NETNS", "/dev/null"),
        ("CNI_NETNS", "/proc/self/ns/net"),
        ("CNI_NETNS", "/proc/self/ns/uts"),
        ("CNI_IFNAME", "lo"),
        ("CNI_ARGS", "MAC"),
    ] {
        let mut command = runtime.command("ADD", Some(&pod));
        command.env(name, value);
        talk(command, network.as_bytes()).fails(4, &[name]);
    }
    for text in ["", "{", "[]", "null", "\u{0}", &"[".repeat(100_000), &"x".repeat(2 << 20)] {
        talk(runtime.command("ADD", Some(&pod)), text.as_bytes()).fails(6, &["configuration"]);
    }
    talk(runtime.command("ADD", Some(&pod)), &[b'"', 0xff, b'"']).fails(6, &["configuration"]);
    assert_eq!((runtime.links(), pod.links()), (vec![], vec![]));
    assert_eq!(runtime.reserved("inside"), Vec::<String>::new());
}

#[test]
fn interfaces_of_others_are_left_alone() {
    if !privileged("interfaces_of_others_are_left_alone") {
        return;
    }
    let runtime = Runtime::new();
    let pod = runtime.pod("pod-1");
    let network = runtime.network("inside", "in0", 1);
    pod.netns.ip("link add net1 type veth peer name net2").expect("interfaces");
    runtime.call("ADD", &pod, &network).fails(4, &["CNI_IFNAME", "already has an interface"]);
    // A runtime's DEL after that.
    runtime.call("DEL", &pod, &network).good();
    assert_eq!(pod.links(), ["net2", "net1"]);
    runtime.host.ip("link add eth0 type veth peer name eth1").expect("interfaces");
    for mode in ["shared", "direct"] {
        let mut taken = runtime.network("inside", "eth0", 1);
        taken["mode"] = json!(mode);
        let other = runtime.pod("pod-2");
        runtime.call("ADD", &other, &taken).fails(102, &["'eth0' exists", "ip link del eth0"]);
        runtime.call("DEL", &other, &taken).good();
    }
    assert!(runtime.links().ends_with(&["eth1".into(), "eth0".into()]), "{:?}", runtime.links());
    // A port of one pod, which another pod asks for.
    let mut direct = runtime.network("cable", "di0", 2);
    direct["mode"] = json!("direct");
    let (one, other) = (runtime.pod("pod-3"), runtime.pod("pod-4"));
    runtime.call("ADD", &one, &direct).good();
    runtime.call("ADD", &other, &direct).fails(11, &["'di0'", "pod-3"]);
    runtime.call("DEL", &other, &direct).good();
    assert_eq!((one.links(), runtime.reserved("cable").len()), (vec!["net1".to_owned()], 1));
}
