// The second of two hosts that a chain runs over (the first: hop-first.click). It reads the class of a packet
// from the metadata of its service header, and classifies only what comes without one that it trusts.
//   thruway run examples/hop-second.click WAN=eth1 HOP=eth0 PEER=192.0.2.1
// See docs/hops.md.

define(
    $WAN wan0,                       // port to the servers
    $WAN_IP 203.0.113.2,             // the address of this host there
    $WAN_MAC 02:00:00:00:02:01,

    $HOP hop0,                       // port to the first host
    $HOP_IP 192.0.2.2,
    $HOP_MAC 02:00:00:00:02:02,
    $PEER 192.0.2.1,                 // the first host

    $NETWORK vxlan-gpe,              // or geneve
    $MTU 1440,                       // longest packet that goes into a hop: 1500 of the link less 60 of headers
    $SEGMENTS_MTU 1440               // the same for what TCP connections agree on
);

// A network: port 0, in and out, is IPv4 without an Ethernet header; port 1 is Ethernet frames.
elementclass Side { $ip, $mac |
    input[1] -> HostEtherFilter($mac)
        -> kind :: Classifier(
        12/0806 20/0001,         // ARP query
        12/0806 20/0002,         // ARP reply
        12/0800,                 // IPv4
        -);
    arp :: ARPQuerier($ip, $mac);

    kind[0] -> ARPResponder($ip $mac) -> [1]output;
    kind[1] -> [1]arp;
    kind[2] -> Strip(14) -> CheckIPHeader -> output;
    kind[3] -> Discard;

    input -> arp -> [1]output;
}

wan :: Side($WAN_IP, $WAN_MAC);
hop :: Side($HOP_IP, $HOP_MAC);
FromDevice($WAN, PROMISC true) -> [1]wan[1] -> Queue -> ToDevice($WAN);
FromDevice($HOP, PROMISC true) -> [1]hop[1] -> Queue -> ToDevice($HOP);

// From the first host, on path 5; and whether it is there.
hop -> from :: IPClassifier(src host $PEER and udp dst port 3784, src host $PEER, -);
from[0] -> bfd :: BFD($HOP_IP, $PEER) -> hop;
from[1] -> come :: HopDecap(NETWORK $NETWORK, VNI 7)
    -> service :: NSHDecap(5, 255)
    -> fc :: FlowClassifier(INPUT ip, TAG_ANNO VLAN_TCI)
    ~> kinds :: FlowDispatcher(tcp dst port 8080, -, SESSION connection);
from[2] -> Discard;
out :: DecIPTTL -> GetIPAddress(16) -> wan;
kinds[0] -> web :: Counter -> out;
kinds[1] -> others :: Counter -> out;

// To it, on path 6. What is too long is cut, or its sender learns what is not.
wan -> IPReassembler
    -> ClampMSS($SEGMENTS_MTU)
    -> fits :: IPFragmenter($MTU)
    -> NSHEncap(6, 255)
    -> HopEncap($HOP_IP, $PEER, NETWORK $NETWORK, VNI 7)
    -> hop;
fits[1] -> ICMPError($WAN_IP, unreachable, needfrag, PMTU $MTU) -> wan;
