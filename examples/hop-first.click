// The first of two hosts that a chain runs over: packets of its network leave in hops to the second one
// (hop-second.click), with the class that the second would find. Answers come back on a path of their own.
//   thruway run examples/hop-first.click LAN=eth1 HOP=eth0 PEER=192.0.2.2
// See docs/hops.md.

define(
    $LAN lan0,                       // port to the clients
    $LAN_IP 10.1.0.1,                // the address of this host there
    $LAN_MAC 02:00:00:00:01:01,

    $HOP hop0,                       // port to the second host
    $HOP_IP 192.0.2.1,
    $HOP_MAC 02:00:00:00:01:02,
    $PEER 192.0.2.2,                 // the second host

    $NETWORK vxlan-gpe,              // or geneve
    $MTU 1440,                       // longest packet that goes into a hop: 1500 of the link less 60 of headers
    $SEGMENTS_MTU 1440,              // the same for what TCP connections agree on
    $WEB 0,                          // tags of the second host's classes: see docs/hops.md
    $OTHERS 0
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

lan :: Side($LAN_IP, $LAN_MAC);
hop :: Side($HOP_IP, $HOP_MAC);
FromDevice($LAN, PROMISC true) -> [1]lan[1] -> Queue -> ToDevice($LAN);
FromDevice($HOP, PROMISC true) -> [1]hop[1] -> Queue -> ToDevice($HOP);

// To the second host, on path 5. What is too long is cut, or its sender learns what is not.
lan -> IPReassembler
    -> ClampMSS($SEGMENTS_MTU)
    -> fits :: IPFragmenter($MTU)
    -> class :: IPClassifier(tcp dst port 8080, -);
fits[1] -> ICMPError($LAN_IP, unreachable, needfrag, PMTU $MTU) -> lan;
web :: NSHEncap(5, 255, TAG $WEB);
others :: NSHEncap(5, 255, TAG $OTHERS);
there :: HopEncap($HOP_IP, $PEER, NETWORK $NETWORK, VNI 7);
class[0] -> web -> there;
class[1] -> others -> there;
there -> hop;

// From it, on path 6; and whether it is there.
hop -> from :: IPClassifier(src host $PEER and udp dst port 3784, src host $PEER, -);
from[0] -> bfd :: BFD($HOP_IP, $PEER) -> hop;
from[1] -> back :: HopDecap(NETWORK $NETWORK, VNI 7)
    -> service :: NSHDecap(6, 255)
    -> CheckIPHeader
    -> DecIPTTL
    -> GetIPAddress(16)
    -> lan;
from[2] -> Discard;
