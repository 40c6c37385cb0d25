//! The kernel's own VXLAN device in its GPE mode as the other end of a hop.

use crate::control::Client;
use crate::network::Namespace;
use crate::process::{Running, need, privileged, wait_for};
use crate::traffic::{fetch, iperf_both_directions};

/// A host whose kernel makes and reads the headers; a client behind the other one.
#[test]
fn the_kernel_is_the_other_end() {
    if !privileged("the_kernel_is_the_other_end") {
        return;
    }
    need("ping", "iputils-ping");
    need("ethtool", "ethtool");
    for is_v6 in [false, true] {
        let (client, host, kernel) =
            (Namespace::new("client"), Namespace::new("host"), Namespace::new("kernel"));
        host.cable("lan0", (&client, "eth0"), "");
        host.cable("hop0", (&kernel, "eth0"), "");
        client.ip("address add 10.1.0.7/24 dev eth0");
        client.ip("link set eth0 up");
        client.ip("route add default via 10.1.0.1 dev eth0");
        let (own, peer, len) = match is_v6 {
            true => ("2001:db8::1", "2001:db8::2", 64),
            false => ("192.0.2.1", "192.0.2.2", 24),
        };
        let nodad = if is_v6 { "nodad" } else { "" };
        kernel.ip(&format!("address add {peer}/{len} dev eth0 {nodad}"));
        kernel.ip("link set eth0 up");
        kernel.ip(&format!("neigh add {own} lladdr 02:00:00:00:00:01 dev eth0"));
        kernel.ip("link add gpe0 type vxlan dstport 4790 gpe external");
        kernel.ip("link set gpe0 mtu 1400 up");
        // No card behind computes checksums.
        kernel.succeed("ethtool -K gpe0 tx off tso off gso off");
        kernel.succeed("ethtool -K eth0 tx off");
        kernel.ip("address add 10.2.0.1/32 dev gpe0");
        // Without the word, the kernel leaves the checksum out over IPv6, too (RFC 6936).
        let (encap, checksum) = if is_v6 { ("ip6", "csum") } else { ("ip", "") };
        let route = format!("encap {encap} id 7 dst {own} src {peer} {checksum} dev gpe0");
        kernel.ip(&format!("route add 10.1.0.0/24 {route}"));
        let dir = tempfile::tempdir().expect("a directory");
        let socket = dir.path().join("control");
        let ethertype = if is_v6 { "0x86dd" } else { "0x0800" };
        let mac = kernel.succeed("cat /sys/class/net/eth0/address");
        let text = format!(
            "FromDevice(lan0, PROMISC true) -> k :: Classifier(12/0806 20/0001, 12/0806 20/0002, 12/0800, -);
             k[0] -> ARPResponder(10.1.0.1 02:00:00:00:00:07) -> q :: Queue -> ToDevice(lan0);
             arp :: ARPQuerier(10.1.0.1, 02:00:00:00:00:07) -> q; k[1] -> [1]arp; k[3] -> Discard;
             k[2] -> HostEtherFilter(02:00:00:00:00:07) -> Strip(14) -> CheckIPHeader -> ClampMSS(1400)
                 -> HopEncap({own}, {peer}, VNI 7, PROTOCOL ip)
                 -> EtherEncap({ethertype}, 02:00:00:00:00:01, {mac}) -> Queue -> ToDevice(hop0);
             FromDevice(hop0, PROMISC true) -> HostEtherFilter(02:00:00:00:00:01) -> Strip(14)
                 -> d :: HopDecap(VNI 7, PROTOCOL ip) -> CheckIPHeader -> ClampMSS(1400) -> GetIPAddress(16) -> arp;
             ControlSocket(UNIX, {})",
            socket.display()
        );
        let mut running = Running::start(host.thruway().args(["click", "-e", &text]));
        wait_for("the first ping", || {
            assert!(!running.ended(), "{}", running.stderr());
            (client.run("ping -n -c 1 -W 1 10.2.0.1").code() == 0).then_some(())
        });
        fetch(&client, &kernel, "10.2.0.1", 2 << 20);
        iperf_both_directions(&client, &kernel, "10.2.0.1");
        let drops = Client::unix(&socket).read("d.drops");
        assert!(drops.contains("\n0 bad-checksum"), "{drops}");
        running.interrupt().expect(0);
    }
}
