// A gateway for a home or a branch office: LAN on one side, the provider's network on the other.
//
// Between two interfaces (as root; give it the addresses of your networks):
//   thruway run examples/gateway.click LAN=eth1 WAN=eth0 LAN_IP=10.1.0.1 LAN_NET=10.1.0.0/16 ...
// Over captures (`pcap:IN>OUT`), as ./quickstart does:
//   thruway run examples/gateway.click LAN='pcap:lan.pcap>lan-out.pcap' WAN='pcap:wan.pcap>wan-out.pcap'
//
// It routes and filters IPv4 and IPv6, speaks ARP and neighbour discovery under Ethernet addresses of
// its own, and tells hosts by ICMP what it cannot deliver. It does not translate addresses: the provider
// must know a route to LAN_NET. The firewall is stateless.

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

// What a router does to an IPv4 packet on its way out (RFC 1812); ICMP errors leave by output 1.
elementclass Forward { $ip, $mtu |
    input -> DropBroadcasts
        -> options :: IPGWOptions($ip)
        -> FixIPSrc($ip)
        -> ttl :: DecIPTTL
        -> mtu :: IPFragmenter($mtu)
        -> output;
    options[1] -> ICMPError($ip, parameterproblem) -> [1]output;
    ttl[1] -> ICMPError($ip, timeexceeded) -> [1]output;
    mtu[1] -> ICMPError($ip, unreachable, needfrag, PMTU $mtu) -> [1]output;
}

// The same for IPv6 (RFC 8200). Errors come from $from, the gateway's address where packets come in.
elementclass Forward6 { $from |
    input -> DropBroadcasts -> hops :: DecIP6HLIM -> output;
    hops[1] -> ICMP6Error($from, timeexceeded, 0) -> [1]output;
}

lan :: Side($LAN, $LAN_IP, $LAN_IP6, $LAN_MAC);
wan :: Side($WAN, $WAN_IP, $WAN_IP6, $WAN_MAC);

// ---- IPv4: firewall, then routes

// What the LAN may send: everything but what has no business outside. Output 1 tells the sender.
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

// What may come in: answers. New connections to the LAN may not.
inbound :: IPFilter(
    deny  src net $LAN_NET,                          // our addresses, from outside
    deny  src net 127.0.0.0/8 or src net 224.0.0.0/3 or src net 0.0.0.0/8,
    allow icmp type echo-reply or unreachable or timeexceeded or parameterproblem,
    allow icmp type echo && dst host $WAN_IP,
    deny  tcp opt syn && tcp opt fin,
    allow tcp opt ack or tcp opt rst,                // of a connection that began inside
    1     tcp && dst port 113,                       // ident: refused, so that mail servers do not wait
    allow udp && src port 53 or 123,                 // names, time
    deny  udp && dst port 1900 or 5353 or 11211,
    allow udp && dst port >= 1024,                   // voice, tunnels, games
    allow ip proto 50,                               // ESP
    allow ip frag && !tcp,                           // what follows a first fragment
    deny  all);

routes :: StaticIPLookup(
    $LAN_IP/32 2,
    $WAN_IP/32 2,
    255.255.255.255/32 3,
    224.0.0.0/4 3,
    $LAN_NET 0,
    $WAN_NET 1,
    0.0.0.0/0 $WAN_GW 1);

lan -> outbound -> routes;
wan -> inbound -> routes;
outbound[1] -> refuse_out :: ICMPError($LAN_IP, unreachable, 13) -> routes;
inbound[1] -> refuse_in :: ICMPError($WAN_IP, unreachable, 13) -> routes;

routes[0] -> to_lan :: Forward($LAN_IP, $LAN_MTU) -> lan_packets :: Counter -> lan;
routes[1] -> to_wan :: Forward($WAN_IP, $WAN_MTU) -> wan_packets :: Counter -> wan;
to_lan[1], to_wan[1] -> routes;

// For the gateway itself: it answers pings, and says that it offers nothing else.
routes[2] -> ping :: ICMPPingResponder -> routes;
ping[1] -> offered :: IPClassifier(tcp or udp, -) -> ICMPError($LAN_IP, unreachable, port) -> routes;
offered[1] -> Discard;

// Multicast and broadcast stay where they are.
routes[3] -> stays :: Discard;

// ---- IPv6

inbound6 :: Classifier(
    6/3a,                            // ICMPv6
    6/06 53/10%10,                   // TCP of a connection that began inside (ACK)
    6/06 53/04%04,                   //   or that is refused (RST)
    6/11,                            // UDP
    -);

routes6 :: LookupIP6Route(
    $LAN_IP6/128 2,
    $WAN_IP6/128 2,
    fe80::/10 2,
    ff00::/8 2,
    $LAN_NET6 0,
    $WAN_NET6 1,
    ::/0 $WAN_GW6 1);

lan[1] -> routes6;
wan[1] -> inbound6;
inbound6[0, 1, 2, 3] -> routes6;
inbound6[4] -> denied6 :: Discard;

routes6[0] -> to_lan6 :: Forward6($WAN_IP6) -> [1]lan;
routes6[1] -> to_wan6 :: Forward6($LAN_IP6) -> [1]wan;
to_lan6[1], to_wan6[1] -> routes6;
routes6[2] -> stays6 :: Discard;
