// Makes captures to try mpls.click and bng.click with, out of the bundled ones:
//   thruway run examples/tunnels.click DIR=.
//
// access.pcap: what the clients of lan.pcap send, on two lines of an access node; core.pcap: what the
// servers of wan.pcap answer, in the tunnels of these lines; labels.pcap: what the clients send, behind the
// labels of mpls.click; none.pcap: nothing.

define(
    $DIR .,
    $CAPTURES examples/captures
);

// The lines: the first half of the clients on one, the others on the other.
FromDump($CAPTURES/lan.pcap, STOP true) -> ip :: Classifier(12/0800, -);
ip[1] -> Discard;
ip -> copies :: Tee
    -> EtherRewrite(02:00:00:00:00:01, 02:00:00:00:01:00)
    -> MarkIPHeader(14)
    -> line :: IPClassifier(src net 16.0.0.0/25, src net 16.0.0.128/25, -);
line[0] -> VLANEncap(VLAN_ID 7) -> node :: VLANEncap(VLAN_ID 100, ETHERTYPE 0x88a8) -> ToDump($DIR/access.pcap);
line[1] -> VLANEncap(VLAN_ID 8) -> node;
line[2] -> Discard;

// The paths of mpls.click, in turn.
copies[1] -> EtherRewrite(02:00:00:00:00:21, 02:00:00:00:00:20) -> path :: RoundRobinSwitch;
path[0] -> MPLSPush(16, ETHER true) -> labels :: ToDump($DIR/labels.pcap);
path[1] -> MPLSPush(17, ETHER true) -> labels;
path[2] -> MPLSPush(18, ETHER true) -> labels;
path[3] -> MPLSPush(20, ETHER true) -> MPLSPush(19, ETHER true) -> labels;
Idle -> ToDump($DIR/none.pcap, ENCAP ETHER);

// The tunnels.
FromDump($CAPTURES/wan.pcap, STOP true) -> ip4 :: Classifier(12/0800, -);
ip4[1] -> Discard;
ip4 -> Strip(14)
    -> CheckIPHeader
    -> tunnel :: IPClassifier(dst net 16.0.0.0/25, dst net 16.0.0.128/25, -);
tunnel[0] -> GREEncap(KEY 42, CHECKSUM true) -> outer :: IPEncap(gre, 192.0.2.9, 192.0.2.1);
tunnel[1] -> GREEncap(KEY 43, CHECKSUM true) -> outer;
tunnel[2] -> Discard;
outer -> EtherEncap(0x0800, 02:00:00:00:00:09, 02:00:00:00:02:00)
    -> MPLSPush(1000, ETHER true)
    -> ToDump($DIR/core.pcap, ENCAP ETHER);
