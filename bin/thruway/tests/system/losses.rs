//! What is lost because it came too fast is counted where it was lost: nothing is missing from the
//! sum.

use crate::control::Client;
use crate::network::{HostConfig, Namespace, Network};
use crate::process::{Running, privileged, run, wait_for};

/// Hosts that send nothing of their own.
const SITE: HostConfig = HostConfig { addresses: &[], routers: &[] };
/// More frames than any ring has slots.
const COUNT: u64 = 30_000;

/// Sends frames of a made-up type; the kernel took all of them.
fn send(host: &Namespace) {
    let text = format!(
        "InfiniteSource(LENGTH 60, LIMIT {COUNT})
             -> EtherEncap(0x88b5, 02:00:00:00:00:01, 02:00:00:00:00:02)
             -> Queue({COUNT}) -> to :: ToDevice(eth0, METHOD LINUX);
         Script(label again, wait 20ms, goto again $(lt $(to.count) {COUNT}), print to.count, stop)"
    );
    let done = run(host.thruway().args(["run", "-q", "-e", &text])).expect(0);
    assert_eq!(done.stdout.trim(), COUNT.to_string());
}

/// Frames that a veth interface lost on the way to the other end, whose queue was full.
fn lost_on_path(host: &Namespace) -> u64 {
    let path = "/sys/class/net/eth0/statistics/tx_dropped";
    host.succeed(&format!("cat {path}")).trim().parse().expect("a number")
}

#[test]
fn what_comes_too_fast_is_counted() {
    if !privileged("what_comes_too_fast_is_counted") {
        return;
    }
    for method in ["XDP", "XDP, XDP_MODE GENERIC", "LINUX"] {
        let network = Network::new(&SITE, &SITE);
        network.lan.set("ipv6/conf/eth0/disable_ipv6", "1");
        let dir = tempfile::tempdir().expect("a directory");
        let socket = dir.path().join("control");
        // Nothing is read until all is sent.
        let text = format!(
            "ControlSocket(UNIX, {});
             from :: FromDevice(lan0, METHOD {method}, PROMISC true, ACTIVE false) -> Discard",
            socket.display()
        );
        let mut running = Running::start(network.middle.thruway().args(["run", "-q", "-e", &text]));
        wait_for("the socket", || {
            assert!(!running.ended(), "{}", running.stderr());
            socket.exists().then_some(())
        });
        let mut client = Client::unix(&socket);
        let lost_before = lost_on_path(&network.lan);
        send(&network.lan);
        assert_eq!(client.number("from.count"), 0);
        assert_eq!(client.write_data("from.active", "true").0, 200);
        let mut sum = || {
            let lost = lost_on_path(&network.lan) - lost_before;
            (client.number("from.count"), client.number("from.kernel_drops"), lost)
        };
        let mut last = (0, 0, 0);
        // The kernel may still be delivering.
        wait_for("all to be accounted for", || {
            last = sum();
            (last.0 + last.1 + last.2 >= COUNT).then_some(())
        });
        let (count, drops, lost) = last;
        assert_eq!(count + drops + lost, COUNT, "{method}: {last:?}");
        assert!(count > 1000 && drops > 1000, "{method}: {last:?}");
        drop(client);
        let done = running.interrupt().expect(0);
        assert!(!done.stderr.contains("longer"), "{done:#?}");
    }
}
