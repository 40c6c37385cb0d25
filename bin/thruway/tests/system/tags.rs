//! VLAN tags through each kind of port: in the frame, and where a kernel on the way took them out
//! of it.

use std::path::Path;

use crate::frames::{read_capture, write_capture};
use crate::network::{HostConfig, Namespace, Network};
use crate::process::{LIMIT, Running, need, privileged, run, wait_for};

/// Hosts that send nothing of their own.
const SITE: HostConfig = HostConfig { addresses: &[], routers: &[] };

/// Frames without a tag, with one, and with two, of a made-up type, with a number in them; sorted.
fn frames() -> Vec<Vec<u8>> {
    let tags: [&[u8]; 4] = [
        &[],
        &[0x81, 0x00, 0x60, 0x05],
        &[0x88, 0xA8, 0x00, 0x07, 0x81, 0x00, 0xE0, 0x09],
        &[0x81, 0x00, 0x0F, 0xFE, 0x81, 0x00, 0x00, 0x01],
    ];
    let of = |number: u8| {
        let tags = tags[usize::from(number) % tags.len()];
        [&[0xFF; 6], &[2; 6], tags, &[0x88, 0xB5, number], &[0x5A; 60]].concat()
    };
    let mut frames: Vec<_> = (0..20).map(of).collect();
    frames.sort();
    frames
}

/// What of the frames arrives at one host when another one sends them, sorted.
fn sent(from: &Namespace, to: &Namespace) -> Vec<Vec<u8>> {
    let dir = tempfile::tempdir().expect("a directory");
    let (input, output) = (dir.path().join("in.pcap"), dir.path().join("out.pcap"));
    let frames = frames();
    write_capture(&input, &frames);
    let receiving = receive(to, frames.len(), &output);
    let text = format!(
        "FromDump({}, STOP true) -> Queue -> ToDevice(eth0, METHOD LINUX)",
        input.display()
    );
    run(from.thruway().args(["run", "-q", "-e", &text])).expect(0);
    receiving.wait(LIMIT).expect(0);
    let mut came = read_capture(&output);
    came.sort();
    came
}

/// Writes so many frames of ours to a file and ends.
fn receive(host: &Namespace, count: usize, file: &Path) -> Running {
    let text = format!(
        "FromDevice(eth0, METHOD LINUX, PROMISC true)
             -> ours :: Classifier(12/88b5, 12/8100, 12/88a8);
         count :: Counter(COUNT_CALL {count} stop) -> ToDump({}, SNAPLEN 0);
         ours -> count; ours[1] -> count; ours[2] -> count",
        file.display()
    );
    let mut running = Running::start(host.thruway().args(["run", "-q", "-e", &text]));
    wait_for("a receiver", || {
        assert!(!running.ended(), "{}", running.stderr());
        running.stderr().contains("AF_PACKET").then_some(())
    });
    running
}

/// A wire between two interfaces of a host, by METHOD, once it is there.
fn wire(host: &Namespace, method: &str) -> Running {
    let text = format!(
        "FromDevice(lan0, METHOD {method}, PROMISC true) -> Queue -> ToDevice(wan0);
         FromDevice(wan0, METHOD {method}, PROMISC true) -> Queue -> ToDevice(lan0)"
    );
    let mut running = Running::start(host.thruway().args(["run", "-q", "-e", &text]));
    wait_for("the wire", || {
        assert!(!running.ended(), "{}", running.stderr());
        let lines = running.stderr().matches("': AF_").count();
        (lines == 4).then_some(())
    });
    running
}

#[test]
fn tags_pass_both_ways() {
    if !privileged("tags_pass_both_ways") {
        return;
    }
    let network = Network::new(&SITE, &SITE);
    for method in ["XDP", "XDP, XDP_MODE GENERIC", "LINUX"] {
        let wire = wire(&network.middle, method);
        assert_eq!(sent(&network.lan, &network.wan), frames(), "{method}");
        assert_eq!(sent(&network.wan, &network.lan), frames(), "{method}");
        wire.interrupt().expect(0);
    }
}

#[test]
fn tags_that_were_taken_out_on_the_way_are_put_back_or_told() {
    if !privileged("tags_that_were_taken_out_on_the_way_are_put_back_or_told") {
        return;
    }
    need("ethtool", "ethtool");
    // A bridge in the kernel between host and wire: it takes the outer tag out of a frame and hands
    // it on beside the frame.
    let network = Network::new(&SITE, &SITE);
    let bridge = Namespace::new("bridge");
    network.middle.ip("link del lan0");
    bridge.ip("link add br0 type bridge");
    bridge.ip("link set br0 up");
    bridge.cable("far", (&network.lan, "eth0"), "");
    network.middle.cable("lan0", (&bridge, "near"), "");
    for port in ["far", "near"] {
        bridge.ip(&format!("link set {port} master br0"));
        bridge.ip(&format!("link set {port} up"));
    }
    network.lan.ip("link set eth0 up");
    wait_for("the bridge", || {
        let ports = bridge.succeed("bridge link");
        (ports.matches("state forwarding").count() == 2).then_some(())
    });
    let by_packet_sockets = wire(&network.middle, "LINUX");
    assert_eq!(sent(&network.lan, &network.wan), frames());
    assert_eq!(sent(&network.wan, &network.lan), frames());
    let done = by_packet_sockets.interrupt().expect(0);
    assert!(!done.stderr.contains("VLAN"), "{done:#?}");
    // AF_XDP does not get to see them, and says so, once, with what helps.
    let by_xdp = wire(&network.middle, "XDP");
    assert_ne!(sent(&network.lan, &network.wan), frames());
    let done = by_xdp.interrupt().expect(0);
    let warning = "FromDevice@1: interface 'lan0': VLAN tags stripped by hardware offload are \
                   invisible to AF_XDP; to keep them in, at its other end: ethtool -K PEER txvlan off \
                   tx-vlan-stag-hw-insert off";
    assert_eq!(done.stderr.lines().filter(|line| *line == warning).count(), 1, "{done:#?}");
    bridge.succeed("ethtool -K near txvlan off tx-vlan-stag-hw-insert off");
    let by_xdp = wire(&network.middle, "XDP");
    assert_eq!(sent(&network.lan, &network.wan), frames());
    assert_eq!(sent(&network.wan, &network.lan), frames());
    by_xdp.interrupt().expect(0);
}
