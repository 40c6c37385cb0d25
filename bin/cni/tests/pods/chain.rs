//! A firewall between two pods.

use std::io::{Read as _, Write as _};
use std::net::TcpListener;

use serde_json::json;

use crate::manager::{Manager, kill};
use crate::namespace::Namespace;
use crate::runtime::{Pod, Runtime, succeeds};
use crate::{privileged, wait_for};

/// A firewall on a cable, for TCP to these ports, whose devices have these arguments.
fn firewall(ports: &str, arguments: &str) -> String {
    format!(
        "inside :: FromDevice(inside0{arguments}) -> i :: Classifier(12/0800, -);
         outside :: FromDevice(outside0{arguments}) -> o :: Classifier(12/0800, -);
         out :: Queue -> ToDevice(outside0{arguments}); in :: Queue -> ToDevice(inside0{arguments});
         i[1] -> out; o[1] -> in;
         i[0] -> FlowClassifier ~> fw :: StatefulFirewall({ports}, deny all) -> out;
         o[0] -> FlowClassifier ~> [1] fw; fw[1] -> in;"
    )
}

const OPEN: &str = "allow tcp dst port 8080";
const WIDER: &str = "allow tcp dst port 8080 or tcp dst port 9090";

/// A server in a pod, which answers each connection with a text.
pub fn serve(netns: &Namespace, port: u16) {
    let listener = netns.within(|| TcpListener::bind(("0.0.0.0", port)));
    let listener = listener.expect("a namespace").expect("a free port");
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let Ok(mut stream) = stream else { return };
            let _ = stream.read(&mut [0; 4096]);
            let head = format!("HTTP/1.0 200 OK\r\nContent-Length: {}\r\n\r\n", BODY.len());
            let _ = stream.write_all(&[head.as_bytes(), BODY].concat());
        }
    });
}

/// Longer than a window: segments of 64 kB come to be.
const BODY: &[u8] = &[b'x'; 1 << 20];

/// Whether curl in a pod gets the whole text.
pub fn gets(pod: &Pod, ip: &str, port: u16) -> bool {
    let url = format!("http://{ip}:{port}/");
    let mut curl = pod.netns.command("curl");
    let output = curl.args(["-sS", "--max-time", "3", &url]).output().expect("curl is there");
    output.status.success() && output.stdout == BODY
}

#[track_caller]
pub fn wait_until_gets(pod: &Pod, ip: &str, port: u16) {
    wait_for("an answer through the chain", || gets(pod, ip, port).then_some(()));
}

#[test]
fn a_firewall_is_between_pods_while_chain_and_pods_change() {
    if !privileged("a_firewall_is_between_pods_while_chain_and_pods_change") {
        return;
    }
    let runtime = Runtime::new();
    let manager = Manager::start(&runtime);
    let mut inside = runtime.network("inside", "inside0", 1);
    let mut outside = runtime.network("outside", "outside0", 1);
    inside["ipam"]["ranges"][0][0]["rangeEnd"] = json!("10.9.1.99");
    outside["ipam"]["ranges"][0][0]["rangeStart"] = json!("10.9.1.100");
    inside["chain"] = json!("edge");
    inside["managerSocket"] = json!(manager.socket());

    // No pod without its chain: what was begun is undone, and a runtime tries again.
    let (client, server) = (runtime.pod("client-1"), runtime.pod("server-1"));
    runtime.call("ADD", &client, &inside).fails(11, &["chain 'edge'"]);
    assert_eq!((client.links(), runtime.reserved("inside")), (vec![], vec![]));
    assert_eq!(runtime.links(), ["inside0-in", "inside0"]);

    manager.declare(&firewall(OPEN, ""));
    // The chain waits for its other port; the port comes with its first pod.
    let ip = runtime.call("ADD", &server, &outside).ip();
    assert_eq!(ip, "10.9.1.100");
    serve(&server.netns, 8080);
    serve(&server.netns, 9090);
    runtime.call("ADD", &client, &inside).good();
    let pid = manager.wait_running(1);
    assert!(gets(&client, &ip, 8080), "an open port");
    assert!(!gets(&client, &ip, 9090), "another port");

    // Another configuration takes over while packets flow.
    manager.declare(&firewall(WIDER, ""));
    assert_eq!(manager.wait_running(2), pid, "it was a hot swap");
    assert!(gets(&client, &ip, 9090) && gets(&client, &ip, 8080));

    // The data plane dies, and comes again; pods keep what they have.
    kill(pid);
    let other =
        wait_for("another process", || Some(manager.wait_running(2)).filter(|other| *other != pid));
    wait_until_gets(&client, &ip, 8080);

    // A pod goes, another one has its address and another Ethernet address.
    runtime.call("DEL", &server, &outside).good();
    assert!(!gets(&client, &ip, 8080), "it is gone");
    let successor = runtime.pod("server-2");
    let mut same = outside.clone();
    same["ipam"]["ranges"][0][0]["rangeStart"] = json!(ip);
    same["ipam"]["ranges"][0][0]["rangeEnd"] = json!(ip);
    assert_eq!(runtime.call("ADD", &successor, &same).ip(), ip);
    serve(&successor.netns, 8080);
    assert!(gets(&client, &ip, 8080), "it announced itself");
    assert_eq!(manager.wait_running(2), other, "the chain did not notice");

    runtime.call("DEL", &successor, &same).good();
    runtime.call("DEL", &client, &inside).good();
    for pod in [&client, &server, &successor] {
        assert_eq!(pod.links(), Vec::<String>::new());
    }
    assert_eq!(runtime.reserved("inside").len() + runtime.reserved("outside").len(), 0);
    manager.ask(&["delete", "edge"]);
    for port in ["inside0", "outside0"] {
        assert!(runtime.tool(&format!("port delete {port}")).0);
    }
    assert_eq!((runtime.links(), runtime.filters()), (vec![], String::new()));
}

#[test]
fn a_chain_by_af_xdp_and_a_port_of_one_pod() {
    if !privileged("a_chain_by_af_xdp_and_a_port_of_one_pod") {
        return;
    }
    let runtime = Runtime::new();
    let manager = Manager::start(&runtime);
    let inside = runtime.network("inside", "inside0", 1);
    let mut outside = runtime.network("outside", "outside0", 1);
    outside["mode"] = json!("direct");
    outside["ipam"]["ranges"][0][0]["rangeStart"] = json!("10.9.1.100");
    assert!(runtime.tool("port add inside0").0);
    let (client, server) = (runtime.pod("client-1"), runtime.pod("server-1"));
    let ip = runtime.call("ADD", &server, &outside).ip();
    manager.declare(&firewall(OPEN, ", METHOD XDP"));
    let pid = manager.wait_running(1);
    runtime.call("ADD", &client, &inside).good();
    serve(&server.netns, 8080);
    wait_until_gets(&client, &ip, 8080);

    // The cable goes with its pod; the chain takes the next one's.
    runtime.call("DEL", &server, &outside).good();
    let successor = runtime.pod("server-2");
    let ip = runtime.call("ADD", &successor, &outside).ip();
    serve(&successor.netns, 8080);
    wait_until_gets(&client, &ip, 8080);
    assert_eq!(manager.wait_running(1), pid, "it was the same process all the time");
    assert!(!succeeds(&client.netns, &format!("ping -n -c 1 -W 1 {ip}")), "not by TCP");
}
