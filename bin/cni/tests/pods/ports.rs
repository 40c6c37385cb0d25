//! What a port is: pods reach each other by the chain or directly, and never the host.

use serde_json::json;

use crate::privileged;
use crate::runtime::{Pod, Runtime, printed, succeeds};

/// The address of the host that pods try to reach.
const HOST: &str = "192.0.2.1";

/// Messages of ICMP that the host's stack received.
fn received(runtime: &Runtime) -> u64 {
    let text = printed(&runtime.host, "nstat -asz IcmpInMsgs");
    let line = text.lines().find(|line| line.starts_with("IcmpInMsgs")).expect("a counter");
    line.split_whitespace().nth(1).and_then(|count| count.parse().ok()).expect("a number")
}

fn reaches(pod: &Pod, ip: &str) -> bool {
    succeeds(&pod.netns, &format!("ping -n -c 2 -i 0.2 -W 1 {ip}"))
}

#[test]
fn pods_of_a_port_reach_each_other_only_if_that_is_asked_for() {
    if !privileged("pods_of_a_port_reach_each_other_only_if_that_is_asked_for") {
        return;
    }
    let runtime = Runtime::new();
    let network = runtime.network("inside", "in0", 1);
    let (one, other) = (runtime.pod("pod-1"), runtime.pod("pod-2"));
    runtime.call("ADD", &one, &network).good();
    let ip = runtime.call("ADD", &other, &network).ip();
    assert!(!reaches(&one, &ip), "no chain runs");

    let mut network = runtime.network("together", "in1", 2);
    network["podToPod"] = json!("direct");
    let (one, other) = (runtime.pod("pod-3"), runtime.pod("pod-4"));
    runtime.call("ADD", &one, &network).good();
    let ip = runtime.call("ADD", &other, &network).ip();
    assert!(reaches(&one, &ip));
}

#[test]
fn pods_do_not_reach_the_host_where_no_chain_runs() {
    if !privileged("pods_do_not_reach_the_host_where_no_chain_runs") {
        return;
    }
    let runtime = Runtime::new();
    // As hosts of pods are: they forward, and their filters of sources are loose.
    for (name, value) in [("ipv4/ip_forward", "1"), ("ipv4/conf/all/rp_filter", "2")] {
        runtime.host.set(name, value).expect("set");
    }
    runtime.host.ip(&format!("address add {HOST}/32 dev lo")).expect("an address");
    runtime.host.ip("link add up0 type veth peer name up1").expect("interfaces");
    runtime.host.ip("link set up0 up").expect("up");
    runtime.host.ip("route add default dev up0").expect("a route");
    let mut network = runtime.network("inside", "in0", 1);
    network["ipam"]["routes"] = json!([{"dst": "0.0.0.0/0", "gw": "10.9.1.1"}]);
    let pod = runtime.pod("pod-1");
    runtime.call("ADD", &pod, &network).good();
    assert!(!reaches(&pod, HOST), "nobody answers for the router");

    // A pod that knows the port's Ethernet address, and sends there.
    let mac = printed(&runtime.host, "cat /sys/class/net/in0/address");
    pod.netns.ip(&format!("neigh replace 10.9.1.1 lladdr {} dev net1", mac.trim())).expect("set");
    let before = received(&runtime);
    assert!(!reaches(&pod, HOST));
    assert_eq!(received(&runtime), before, "the filter is in front of the stack");

    // Without the filter, the port's parameters are left.
    printed(&runtime.host, "nft delete table netdev thruway-cni-in0");
    runtime.call("CHECK", &pod, &with_result(&network, &pod, &runtime)).fails(102, &["nftables"]);
    assert!(!reaches(&pod, HOST));
    assert_eq!(received(&runtime), before);
    // Such packets do come to the stack where nothing keeps them from it: the test can fail.
    for name in ["ipv4/conf/all/rp_filter", "ipv4/conf/in0/rp_filter"] {
        runtime.host.set(name, "0").expect("set");
    }
    assert!(!reaches(&pod, HOST));
    assert!(received(&runtime) > before);

    // Each ADD, and the command, puts it right.
    assert!(runtime.tool("port add in0").0);
    let before = received(&runtime);
    assert!(!reaches(&pod, HOST));
    assert_eq!(received(&runtime), before);
}

/// A network with the result of an ADD of the pod.
fn with_result(network: &serde_json::Value, pod: &Pod, runtime: &Runtime) -> serde_json::Value {
    let mac = pod.printed("cat /sys/class/net/net1/address");
    let ip = runtime.reserved("inside").first().expect("an address").clone();
    let mut network = network.clone();
    network["prevResult"] = json!({
        "cniVersion": "1.0.0",
        "interfaces": [{"name": "in0"}, {"name": "net1", "mac": mac.trim(), "sandbox": "x"}],
        "ips": [{"address": format!("{ip}/24"), "interface": 1}],
    });
    network
}

#[test]
fn ports_are_made_by_a_command_too() {
    if !privileged("ports_are_made_by_a_command_too") {
        return;
    }
    let runtime = Runtime::new();
    assert_eq!(runtime.tool("port add in0 --mtu 9000"), (true, "port in0, MTU 9000\n".into()));
    assert_eq!(runtime.tool("port add in0"), (true, "port in0, MTU 9000\n".into()));
    let (done, text) = runtime.tool("port add in0 --mtu 9001");
    assert!(!done && text.contains("has 9000"), "{text}");
    // What was taken down or is half gone is made whole.
    runtime.host.ip("link set in0 down").expect("down");
    assert!(runtime.tool("port add in0").0);
    assert!(printed(&runtime.host, "ip link show in0").contains(",UP"));
    let (done, text) = runtime.tool("port add a-name-too-long");
    assert!(!done && text.contains("characters"), "{text}");
    runtime.host.ip("link add mine type veth peer name other").expect("interfaces");
    for line in ["port add mine", "port delete mine"] {
        let (done, text) = runtime.tool(line);
        assert!(!done && text.contains("no port of thruway-cni"), "{text}");
    }
    assert_eq!(runtime.tool("port delete in0"), (true, "port in0 removed\n".into()));
    assert_eq!(runtime.tool("port delete in0"), (true, "there is no port in0\n".into()));
    assert_eq!(runtime.links(), ["other", "mine"]);

    let dir = runtime.dir.path().join("bin");
    std::fs::create_dir(&dir).expect("a directory");
    assert!(runtime.tool(&format!("install {}", dir.display())).0);
    let copy = std::process::Command::new(dir.join("thruway-cni")).arg("--version").output();
    assert!(copy.expect("it runs").status.success());
    assert_eq!(std::fs::read_dir(&dir).expect("a directory").count(), 1);
    assert!(!runtime.tool("install /proc/nowhere").0);
}
