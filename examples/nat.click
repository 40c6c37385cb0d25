// A gateway for a home or an office with one address: what hosts inside send leaves under that
// address, and the answers find their host. Some ports of the address lead to servers inside.
//
// Between two interfaces (as root; give it the addresses of your networks):
//   thruway run examples/nat.click LAN=eth1 WAN=eth0 LAN_IP=10.1.0.1 LAN_NET=10.1.0.0/16 ...
//
// IPv4 only. Hosts inside reach the servers inside by the outside address, too. ICMP errors find their
// way back, those that the gateway makes about translated packets included.

define(
    $LAN veth1,                      // port on the inside
    $LAN_IP 192.168.1.1,             // the gateway's address there
    $LAN_NET 192.168.1.0/24,
    $LAN_MAC 02:00:00:00:00:02,
    $LAN_MTU 1500,

    $WAN veth2,                      // port on the outside
    $WAN_IP 203.0.113.2,
    $WAN_NET 203.0.113.0/24,
    $WAN_MAC 02:00:00:00:00:01,
    $WAN_MTU 1500,
    $WAN_GW 203.0.113.1,               // the provider's router

    $WEB 192.168.1.11,               // servers inside
    $NAMES 192.168.1.11
);

// One side: Ethernet, ARP, header checks; packets in fragments are made whole, so that all of them have
// ports. Port 0, in and out, is IPv4 without an Ethernet header.
elementclass Side { $port, $ip, $mac |
    FromDevice($port, PROMISC true)
        -> HostEtherFilter($mac)
        -> kind :: Classifier(
        12/0806 20/0001,         // ARP query
        12/0806 20/0002,         // ARP reply
        12/0800,                 // IPv4
        -);
    arp :: ARPQuerier($ip, $mac);
    queue :: Queue -> ToDevice($port);

    kind[0] -> ARPResponder($ip $mac) -> queue;
    kind[1] -> [1]arp;
    kind[2] -> Strip(14) -> CheckIPHeader -> IPReassembler -> output;
    kind[3] -> other :: Discard;

    input -> arp -> queue;
}

// A router's steps for an outgoing packet (RFC 1812); ICMP errors leave by output 1.
elementclass Forward { $ip, $mtu, $port |
    input -> DropBroadcasts
        -> options :: IPGWOptions($ip)
        -> FixIPSrc($ip)
        -> ttl :: DecIPTTL
        -> mtu :: IPFragmenter($mtu, PORT $port)
        -> output;
    options[1] -> ICMPError($ip, parameterproblem) -> [1]output;
    ttl[1] -> ICMPError($ip, timeexceeded) -> [1]output;
    mtu[1] -> ICMPError($ip, unreachable, needfrag, PMTU $mtu, PORT $port) -> [1]output;
}

// What is for the gateway itself: it answers pings, and says that it offers nothing else.
elementclass Local {
    input -> ping :: ICMPPingResponder -> output;
    ping[1] -> offered :: IPClassifier(tcp or udp, -) -> ICMPError($LAN_IP, unreachable, port) -> output;
    offered[1] -> Discard;
}

lan :: Side($LAN, $LAN_IP, $LAN_MAC);
wan :: Side($WAN, $WAN_IP, $WAN_MAC);

// Sessions are found where packets come in, for all that is behind.
from_lan :: FlowClassifier(INPUT ip);
from_wan :: FlowClassifier(INPUT ip);

nat :: NAT(
    SNAT $LAN_NET -> $WAN_IP,
    DNAT tcp $WAN_IP:8080 -> $WEB:80,
    DNAT udp $WAN_IP:5353 -> $NAMES:53);

routes :: StaticIPLookup(
    $LAN_IP/32 2,
    $WAN_IP/32 2,
    255.255.255.255/32 3,
    224.0.0.0/4 3,
    $LAN_NET 0,
    $WAN_NET 1,
    0.0.0.0/0 $WAN_GW 1);

// What hosts inside send to the gateway's inside address is not translated.
lan -> begin :: IPClassifier(dst host $LAN_IP, -) -> routes;
begin[1] -> from_lan -> nat;
wan -> from_wan -> [1]nat;
nat[0, 1, 2] -> routes;

routes[0] -> to_lan :: Forward($LAN_IP, $LAN_MTU, $LAN) -> lan;
routes[1] -> to_wan :: Forward($WAN_IP, $WAN_MTU, $WAN) -> wan;
routes[2] -> Local -> routes;
routes[3] -> stays :: Discard; // multicast and broadcast

// An error about a translated packet takes the path of its replies.
to_lan[1] -> from_lan;
to_wan[1] -> from_wan;
