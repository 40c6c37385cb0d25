//! Hosts of a pair drain, one after the other: no packet is lost.

use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use serde_json::{Value, json};
use thruway_operator::resource::{ChainHost, ServiceChain};
use thruway_sync::atomic::{AtomicBool, Ordering};

use crate::cluster::Cluster;
use crate::namespace::Namespace;
use crate::networks::{BACKUP, Networks, SERVER};
use crate::process::wait_for;

/// Pings of a burst, 5 ms apart.
const BURST: usize = 200;

/// The chain of one host of a pair.
fn gateway(host: &str, peer: &str, key: &Path) -> Value {
    json!({
        "configuration": include_str!("../../../../examples/nat-pair.click"),
        "variables": {
            "LAN": "lan0", "WAN": "wan0", "AFTER": "150ms", "PEER": peer, "KEY": key,
        },
        "placement": {"hosts": [host], "onHostDrain": "Stop"},
    })
}

/// Pings that came back.
fn ping(client: &Namespace, count: usize) -> usize {
    let mut command = client.command("ping");
    command.args(["-n", "-q", "-i", "0.005", "-W", "2", "-c", &count.to_string(), SERVER]);
    let output = command.output().expect("ping is installed");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let (_, rest) = text.split_once(" packets transmitted, ").expect("a summary");
    rest.split(' ').next().and_then(|came| came.parse().ok()).expect("a count")
}

fn drain(cluster: &Cluster, host: &str, drain: bool) {
    cluster.put::<ChainHost>(host, &json!({"zone": format!("zone-{host}"), "drain": drain}));
}

#[test]
fn hosts_of_a_pair_drain_one_after_the_other_without_loss() {
    let Networks { client, server: _server, hosts: [a, b], bridges: _bridges } =
        Networks::new("twc").expect("root makes them");
    let mut cluster = Cluster::start(&[]);
    cluster.add_host("a", Some(a));
    cluster.add_host("b", Some(b));
    let key = cluster.server.dir.path().join("pair.key");
    std::fs::write(&key, "the secret of both hosts").expect("a file");
    std::fs::set_permissions(&key, std::fs::Permissions::from_mode(0o600)).expect("ours");
    cluster.chain("pair-b", &gateway("b", &format!("LISTEN {BACKUP}"), &key));
    cluster.wait_running("pair-b");
    cluster.chain("pair-a", &gateway("a", &format!("TO {BACKUP}"), &key));
    cluster.wait_running("pair-a");
    wait_for("the first ping", || (ping(&client, 1) == 1).then_some(()));

    let has_ended = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let bursts = scope.spawn(|| {
            let mut lost = Vec::new();
            while !has_ended.load(Ordering::Relaxed) {
                lost.push(BURST - ping(&client, BURST));
            }
            lost
        });
        for host in ["a", "b", "a"] {
            let chain = format!("pair-{host}");
            drain(&cluster, host, true);
            let why = cluster.wait_reason(&chain, "Ready", "Drained").message;
            println!("{chain}: {why}");
            assert_eq!(cluster.host(host).planes(), [0; 0], "the host may be switched off");
            drain(&cluster, host, false);
            cluster.wait_running(&chain);
        }
        // The host that serves gives up its chain: it drains before.
        cluster.delete::<ServiceChain>("pair-b");
        wait_for("it is gone", || (!cluster.has::<ServiceChain>("pair-b")).then_some(()));
        assert_eq!(cluster.host("b").chains(), [""; 0]);
        has_ended.store(true, Ordering::Relaxed);
        let lost = bursts.join().expect("no panic");
        assert_eq!(lost, vec![0; lost.len()], "of {BURST} each");
        assert!(lost.len() > 10, "{} bursts", lost.len());
    });
}
