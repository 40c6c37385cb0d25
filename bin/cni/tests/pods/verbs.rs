//! Verbs and versions: results, CHECK, GC, STATUS, VERSION.

use serde_json::{Value, json};

use crate::privileged;
use crate::runtime::{Runtime, talk};

#[test]
fn results_are_those_of_each_version() {
    if !privileged("results_are_those_of_each_version") {
        return;
    }
    let runtime = Runtime::new();
    for version in ["0.3.0", "0.3.1", "0.4.0", "1.0.0"] {
        let mut network = runtime.network("inside", "in0", 1);
        network["cniVersion"] = json!(version);
        network["dns"] = json!({"nameservers": ["10.9.1.53"]});
        network["ipam"]["ranges"].as_array_mut().expect("a list").push(json!([{
            "subnet": "fd09:1::/64"
        }]));
        network["ipam"]["routes"] = json!([{"dst": "0.0.0.0/0"}, {"dst": "10.70.0.0/16"}]);
        let pod = runtime.pod("pod-1");
        let result = runtime.call("ADD", &pod, &network).good();
        assert_eq!(result["cniVersion"], version);
        assert_eq!(result["interfaces"][0], json!({"name": "in0"}));
        let interface = &result["interfaces"][1];
        assert_eq!(
            (&interface["name"], &interface["sandbox"]),
            (&json!("net1"), &json!(pod.netns.path()))
        );
        assert!(interface.get("mtu").is_none(), "{result}");
        let protocol = if version == "1.0.0" { Value::Null } else { json!("4") };
        assert_eq!(result["ips"][0]["version"], protocol);
        assert_eq!(result["ips"][1]["interface"], 1);
        assert_eq!(result["routes"].as_array().map(Vec::len), Some(2));
        assert_eq!(result["dns"]["nameservers"][0], "10.9.1.53");

        let addresses = pod.printed("ip address show net1");
        for ip in result["ips"].as_array().expect("a list") {
            assert!(addresses.contains(ip["address"].as_str().expect("text")), "{addresses}");
        }
        let routes = pod.printed("ip route");
        assert!(routes.contains("default via 10.9.1.1 dev net1"), "{routes}");
        assert!(routes.contains("10.70.0.0/16 via 10.9.1.1 dev net1"), "{routes}");
        runtime.call("DEL", &pod, &network).good();
    }
}

#[test]
fn an_interface_has_the_mtu_and_addresses_that_are_asked_for() {
    if !privileged("an_interface_has_the_mtu_and_addresses_that_are_asked_for") {
        return;
    }
    let runtime = Runtime::new();
    // Without IPAM, version 1.1 (Debian's IPAM plugins know 1.0); behind another plugin.
    let mut network = json!({
        "cniVersion": "1.1.0", "name": "plain", "type": "thruway-cni", "port": "in0", "mtu": 1400,
        "runtimeConfig": {"mac": "02:00:00:00:00:05"},
        "prevResult": {
            "cniVersion": "1.1.0",
            "interfaces": [{"name": "eth0", "mac": "02:00:00:00:00:01", "pciID": "x"}],
            "ips": [{"address": "10.1.0.2/16", "interface": 0}],
        },
    });
    let pod = runtime.pod("pod-1");
    let result = runtime.call("ADD", &pod, &network).good();
    assert_eq!(result["interfaces"][0], network["prevResult"]["interfaces"][0]);
    assert_eq!(result["ips"], network["prevResult"]["ips"]);
    assert_eq!(result["interfaces"][2]["mac"], "02:00:00:00:00:05");
    assert_eq!(result["interfaces"][2]["mtu"], 1400);
    let link = pod.printed("ip link show net1");
    assert!(link.contains("mtu 1400") && link.contains("02:00:00:00:00:05"), "{link}");
    network["prevResult"] = result;
    runtime.call("CHECK", &pod, &network).good();

    // Another pod of the port with the same address would take its packets.
    let other = runtime.pod("pod-2");
    runtime.call("ADD", &other, &network).fails(7, &["another pod", "02:00:00:00:00:05"]);
    assert_eq!(other.links(), Vec::<String>::new());
    network["mtu"] = json!(1401);
    runtime.call("ADD", &other, &network).fails(7, &["mtu 1401", "has 1400"]);
    runtime.call("DEL", &pod, &network).good();
    assert_eq!(pod.links(), Vec::<String>::new());
}

#[test]
fn check_finds_what_is_lost() {
    if !privileged("check_finds_what_is_lost") {
        return;
    }
    let runtime = Runtime::new();
    let mut network = runtime.network("inside", "in0", 1);
    network["ipam"]["routes"] = json!([{"dst": "10.70.0.0/16"}]);
    let pod = runtime.pod("pod-1");
    runtime.call("CHECK", &pod, &network).fails(7, &["prevResult"]);
    let mut checked = network.clone();
    checked["prevResult"] = runtime.call("ADD", &pod, &network).good();
    let ip = checked["prevResult"]["ips"][0]["address"].as_str().expect("text").to_owned();
    runtime.call("CHECK", &pod, &checked).good();
    let mac = pod.printed("cat /sys/class/net/net1/address");
    let steps = [
        ("route del 10.70.0.0/16", "route add 10.70.0.0/16 via 10.9.1.1", "route to 10.70.0.0/16"),
        (
            &format!("address del {ip} dev net1"),
            &format!("address add {ip} dev net1"),
            "no address",
        ),
        (
            "link set net1 address 02:00:00:00:00:09",
            &format!("link set net1 address {mac}"),
            "has address",
        ),
        ("link set net1 down", "link set net1 up", "is down"),
    ];
    for (harm, remedy, word) in steps {
        pod.netns.ip(harm).expect("done");
        runtime.call("CHECK", &pod, &checked).fails(102, &[word]);
        pod.netns.ip(remedy).expect("done");
        if word != "route to 10.70.0.0/16" {
            let _ = pod.netns.ip("route add 10.70.0.0/16 via 10.9.1.1");
        }
        runtime.call("CHECK", &pod, &checked).good();
    }
    runtime.host.ip("link set in0 down").expect("done");
    runtime.call("CHECK", &pod, &checked).fails(102, &["ip link set in0 up"]);
    runtime.host.ip("link set in0 up").expect("done");
    runtime.call("CHECK", &pod, &checked).good();
    // The reservation is the IPAM plugin's to check.
    std::fs::remove_dir_all(runtime.dir.path().join("ipam")).expect("removed");
    assert!(!runtime.call("CHECK", &pod, &checked).ok);
    runtime.host.ip("link del in0").expect("done");
    runtime.call("CHECK", &pod, &checked).fails(102, &["port 'in0' is not there"]);
    runtime.call("DEL", &pod, &checked).good();
}

#[test]
fn gc_removes_what_no_valid_attachment_has() {
    if !privileged("gc_removes_what_no_valid_attachment_has") {
        return;
    }
    let runtime = Runtime::new();
    let network = |name: &str, port: &str| {
        json!({
            "cniVersion": "1.1.0", "name": name, "type": "thruway-cni", "port": port,
            "mode": "direct",
        })
    };
    let (one, two, three) = (network("n", "p1"), network("n", "p2"), network("other", "p3"));
    let pods = ["pod-1", "pod-2", "pod-3"].map(|id| runtime.pod(id));
    for (pod, network) in pods.iter().zip([&one, &two, &three]) {
        runtime.call("ADD", pod, network).good();
    }
    runtime.call_for("GC", &one).fails(7, &["cni.dev/valid-attachments"]);
    assert_eq!(runtime.links().len(), 3);
    let mut valid = one.clone();
    valid["cni.dev/valid-attachments"] = json!([{"containerID": "pod-1", "ifname": "net1"}]);
    runtime.call_for("GC", &valid).good();
    let mut left = runtime.links();
    left.sort();
    assert_eq!(left, ["p1", "p3"], "another network's, too");
    assert_eq!(pods[1].links(), Vec::<String>::new());
    valid["cni.dev/valid-attachments"] = Value::Null;
    runtime.call_for("GC", &valid).good();
    assert_eq!(runtime.links(), ["p3"]);
}

#[test]
fn status_says_whether_pods_can_be_attached() {
    if !privileged("status_says_whether_pods_can_be_attached") {
        return;
    }
    let runtime = Runtime::new();
    let mut network = json!({
        "cniVersion": "1.1.0", "name": "inside", "type": "thruway-cni", "port": "in0",
    });
    runtime.call_for("STATUS", &network).good();
    network["ipam"] = json!({"type": "nobody-has-this"});
    runtime.call_for("STATUS", &network).fails(50, &["nobody-has-this", "CNI_PATH"]);
    network["ipam"] = json!({});
    network["chain"] = json!("edge");
    network["managerSocket"] = json!("/nowhere/api.sock");
    runtime.call_for("STATUS", &network).fails(50, &["chain 'edge'", "/nowhere/api.sock"]);
    network["cniVersion"] = json!("1.0.0");
    runtime.call_for("STATUS", &network).fails(1, &["STATUS needs cniVersion 1.1.0"]);
    runtime.call_for("GC", &network).fails(1, &["GC needs cniVersion 1.1.0"]);
}

#[test]
fn version_names_what_is_supported() {
    if !privileged("version_names_what_is_supported") {
        return;
    }
    let runtime = Runtime::new();
    for (input, version) in [(r#"{"cniVersion": "0.4.0"}"#, "0.4.0"), ("", "1.1.0")] {
        let answer = talk(runtime.command("VERSION", None), input.as_bytes()).good();
        let supported = json!(["0.3.0", "0.3.1", "0.4.0", "1.0.0", "1.1.0"]);
        assert_eq!(answer, json!({"cniVersion": version, "supportedVersions": supported}));
    }
}
