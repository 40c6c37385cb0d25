// A gateway for a home or a branch office: LAN on one side, the provider's network on the other.
//
// Between two interfaces (as root; give it the addresses of your networks):
//   thruway run examples/gateway.click LAN=eth1 WAN=eth0 LAN_IP=10.1.0.1 LAN_NET=10.1.0.0/16 ...
// Over captures (`pcap:IN>OUT`), as ./quickstart does:
//   thruway run examples/gateway.click LAN='pcap:lan.pcap>lan-out.pcap' WAN='pcap:wan.pcap>wan-out.pcap'
//
// It routes and filters IPv4 and IPv6, speaks ARP and neighbour discovery under Ethernet addresses of
// its own, and sends ICMP errors for what it cannot deliver. It does not translate addresses: the provider
// must know a route to LAN_NET. The firewall is stateful: hosts inside may begin sessions, hosts outside may
// only answer, by IPv4 and by IPv6.

define(
    $LAN veth1,                      // port on the inside
    $LAN_IP 192.168.1.1,             // the gateway's addresses there
    $LAN_NET 192.168.1.0/24,
    $LAN_IP6 fd00:1::1,
    $LAN_NET6 fd00:1::/64,
    $LAN_MAC 02:00:00:00:00:02,
    $LAN_MTU 1500,

    $WAN veth2,                      // port on the outside
    $WAN_IP 192.0.2.2,
    $WAN_NET 192.0.2.0/24,
    $WAN_IP6 2001:db8:2::2,
    $WAN_NET6 2001:db8:2::/64,
    $WAN_MAC 02:00:00:00:00:01,
    $WAN_MTU 1500,
    $WAN_GW 192.0.2.1,               // the provider's router
    $WAN_GW6 2001:db8:2::1
);

// One side: Ethernet, ARP and neighbour discovery, header checks.
// Port 0, in and out, is IPv4, port 1 IPv6; both without their Ethernet header.
elementclass Side { $port, $ip, $ip6, $mac |
    in :: FromDevice($port, PROMISC true)
        -> for_us :: HostEtherFilter($mac)
        -> kind :: Classifier(
        12/0806 20/0001,         // ARP query
        12/0806 20/0002,         // ARP reply
        12/0800,                 // IPv4
        12/86dd 20/3a 54/87,     // neighbour solicitation
        12/86dd 20/3a 54/88,     // neighbour advertisement
        12/86dd,                 // IPv6
        -);
    arp :: ARPQuerier($ip, $mac);
    nd :: IP6NDSolicitor($ip6, $mac);
    queue :: Queue -> out :: ToDevice($port);

    kind[0] -> answer :: ARPResponder($ip $mac) -> queue;
    kind[1] -> [1]arp;
    kind[2] -> Strip(14) -> check :: CheckIPHeader -> output;
    kind[3] -> answer6 :: IP6NDAdvertiser($ip6 $mac, fe80::1 $mac) -> queue;
    kind[4] -> [1]nd;
    kind[5] -> Strip(14) -> check6 :: CheckIP6Header -> [1]output;
    kind[6] -> other :: Discard;

    input -> arp -> queue;
    input[1] -> nd -> queue;
}

// A router's steps for an outgoing IPv4 packet (RFC 1812); ICMP errors leave by output 1.
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

// The same for IPv6 (RFC 8200). Errors come from $from, the gateway's address where packets come in.
elementclass Forward6 { $from, $mtu, $port |
    input -> DropBroadcasts
        -> hops :: DecIP6HLIM
        -> length :: CheckLength($mtu, PORT $port)
        -> output;
    hops[1] -> ICMP6Error($from, timeexceeded, 0) -> [1]output;
    length[1] -> ICMP6Error($from, packettoobig, 0, PMTU $mtu, PORT $port) -> [1]output;
}

lan :: Side($LAN, $LAN_IP, $LAN_IP6, $LAN_MAC);
wan :: Side($WAN, $WAN_IP, $WAN_IP6, $WAN_MAC);

// ---- IPv4: firewall, then routes

// Packets that the LAN may send: all but internal traffic. Output 1 notifies the sender.
outbound :: IPFilter(
    allow dst host $LAN_IP,
    deny  !(src net $LAN_NET),                       // not one of our addresses
    deny  dst port 135 or 137 or 138 or 139 or 445,  // file sharing
    deny  tcp && dst port 23,                        // telnet
    deny  udp && dst port 1026,                      // messenger
    deny  udp && dst port 1900,                      // device discovery
    1     tcp && dst port 25,                        // mail leaves by submission (587) only
    1     dst port 6660 or 6667,                     // chat relays
    allow all);

// Packets that may come in, checked before sessions. Output 1 notifies the sender.
inbound :: IPFilter(
    deny  src net $LAN_NET,                          // our addresses, from outside
    deny  src net 127.0.0.0/8 or src net 224.0.0.0/3 or src net 0.0.0.0/8,
    deny  tcp opt syn && tcp opt fin,
    1     tcp opt syn && !(tcp opt ack) && dst port 113,  // ident: refused, so that mail servers do not wait
    allow all);

// Fragments are put together, so that all packets have ports. Sessions are found where packets come in.
from_lan :: FlowClassifier(INPUT ip);
from_wan :: FlowClassifier(INPUT ip);

// Asked for the first packet of a session; the rest of it, answers and ICMP errors about it follow. What no
// rule allows is denied. Patterns are about IPv4; IPv6 sessions may begin inside.
firewall :: StatefulFirewall(
    OUT allow all,
    IN allow icmp type echo && dst host $WAN_IP,
    IP6 out);

routes :: StaticIPLookup(
    $LAN_IP/32 2,
    $WAN_IP/32 2,
    255.255.255.255/32 3,
    224.0.0.0/4 3,
    $LAN_NET 0,
    $WAN_NET 1,
    0.0.0.0/0 $WAN_GW 1);

lan -> outbound -> whole_out :: IPReassembler -> from_lan -> firewall;
wan -> inbound -> whole_in :: IPReassembler -> from_wan -> [1]firewall;
firewall[0, 1] -> family :: Classifier(0/40%f0, 0/60%f0) -> routes;
outbound[1] -> refuse_out :: ICMPError($LAN_IP, unreachable, 13) -> routes;
inbound[1] -> refuse_in :: ICMPError($WAN_IP, unreachable, 13) -> routes;

routes[0] -> to_lan :: Forward($LAN_IP, $LAN_MTU, $LAN) -> lan_packets :: Counter -> lan;
routes[1] -> to_wan :: Forward($WAN_IP, $WAN_MTU, $WAN) -> wan_packets :: Counter -> wan;
to_lan[1], to_wan[1] -> routes;

// For the gateway itself: it answers pings, and says that it offers nothing else.
routes[2] -> ping :: ICMPPingResponder -> routes;
ping[1] -> offered :: IPClassifier(tcp or udp, -) -> ICMPError($LAN_IP, unreachable, port) -> routes;
offered[1] -> Discard;

// Multicast and broadcast stay where they are.
routes[3] -> stays :: Discard;

// ---- IPv6

routes6 :: LookupIP6Route(
    $LAN_IP6/128 2,
    $WAN_IP6/128 2,
    fe80::/10 3,
    ff00::/8 3,
    $LAN_NET6 0,
    $WAN_NET6 1,
    ::/0 $WAN_GW6 1);

lan[1] -> from_lan;
wan[1] -> own6 :: LookupIP6Route($WAN_IP6/128 0, ::/0 1);
own6[1] -> from_wan;
family[1] -> routes6;

routes6[0] -> to_lan6 :: Forward6($WAN_IP6, $LAN_MTU, $LAN) -> [1]lan;
routes6[1] -> to_wan6 :: Forward6($LAN_IP6, $WAN_MTU, $WAN) -> [1]wan;
to_lan6[1], to_wan6[1] -> routes6;

// For the gateway itself, also from outside, where it begins no session: it answers pings.
routes6[2], own6 -> ping6 :: ICMP6PingResponder -> routes6;
ping6[1] -> Discard;
routes6[3] -> stays6 :: Discard;
