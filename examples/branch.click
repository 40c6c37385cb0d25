// A gateway for a branch office behind one address, which the provider gives by DHCP.
//
// Between two interfaces (as root):
//   thruway run examples/branch.click LAN=eth1 WAN=eth0
//
// Hosts in the LAN plug in and work: they get IPv4 addresses by DHCP, IPv6 addresses by router
// advertisements, and names from the gateway, which passes their questions on to the provider's resolver.
// What they send by IPv4 leaves under the gateway's address. By both families hosts inside may begin
// sessions, and hosts outside may only answer; the gateway itself answers pings.
//
// The provider must route LAN_NET6 to WAN_IP6 (prefixes are not asked for by DHCPv6). LAN_MTU is not to be
// less than WAN_MTU: errors about packets from outside are not sent to their senders.

define(
    $LAN veth1,                      // port on the inside
    $LAN_IP 192.168.1.1,             // the gateway's addresses there
    $LAN_NET 192.168.1.0/24,
    $LAN_IP6 fd00:1::1,
    $LAN_NET6 fd00:1::/64,
    $LAN_MAC 02:00:00:00:00:02,
    $LAN_MTU 1500,
    $FIRST 192.168.1.100,            // addresses for hosts, the first and the last
    $LAST 192.168.1.199,
    $LEASE 3600s,                    // how long they have one

    $WAN veth2,                      // port on the outside; its IPv4 address comes by DHCP
    $WAN_IP6 2001:db8:2::2,
    $WAN_NET6 2001:db8:2::/64,
    $WAN_GW6 2001:db8:2::1,
    $WAN_MAC 02:00:00:00:00:01,
    $WAN_MTU 1500
);

// One side: Ethernet, ARP and neighbour discovery, header checks. Port 0, in and out, is IPv4 and port 1
// IPv6, both without their Ethernet header. Port 2 has frames: DHCP to port $dhcp (hexadecimal) out, anything in.
// Output 3 has router solicitations.
elementclass Side { $port, $ip, $ip6, $mac, $dhcp |
    FromDevice($port, PROMISC true)
        -> HostEtherFilter($mac)
        -> kind :: Classifier(
        12/0806 20/0001,            // ARP query
        12/0806 20/0002,            // ARP reply
        12/0800 14/45 23/11 36/$dhcp,
        12/0800,                    // IPv4
        12/86dd 20/3a 54/85,        // router solicitation
        12/86dd 20/3a 54/87,        // neighbour solicitation
        12/86dd 20/3a 54/88,        // neighbour advertisement
        12/86dd,                    // IPv6
        -);
    arp :: ARPQuerier($ip, $mac);
    nd :: IP6NDSolicitor($ip6, $mac);
    queue :: Queue -> ToDevice($port);

    kind[0] -> answer :: ARPResponder($ip $mac) -> queue;
    kind[1] -> [1]arp;
    kind[2] -> [2]output;
    kind[3] -> Strip(14) -> CheckIPHeader -> output;
    kind[4] -> [3]output;
    kind[5] -> IP6NDAdvertiser($ip6 $mac, fe80::1 $mac) -> queue;
    kind[6] -> [1]nd;
    kind[7] -> Strip(14) -> CheckIP6Header -> [1]output;
    kind[8] -> other :: Discard;

    input -> arp -> queue;
    input[1] -> nd -> queue;
    input[2] -> queue;
}

// A router's steps for an outgoing IPv4 packet (RFC 1812); ICMP errors leave by output 1.
elementclass Forward { $mtu, $port |
    input -> DropBroadcasts
        -> options :: IPGWOptions($LAN_IP)
        -> ttl :: DecIPTTL
        -> mtu :: IPFragmenter($mtu, PORT $port)
        -> output;
    options[1] -> ICMPError($LAN_IP, parameterproblem) -> [1]output;
    ttl[1] -> ICMPError($LAN_IP, timeexceeded) -> [1]output;
    mtu[1] -> ICMPError($LAN_IP, unreachable, needfrag, PMTU $mtu, PORT $port) -> [1]output;
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

// Frames for what has one table or one timer for all threads: they go through a short queue to one of them.
elementclass ToOne {
    input -> Queue(64) -> Unqueue -> output;
}

lan :: Side($LAN, $LAN_IP, $LAN_IP6, $LAN_MAC, 0043);
wan :: Side($WAN, 0.0.0.0, $WAN_IP6, $WAN_MAC, 0044);

// ---- Addresses for the LAN

lan[2] -> ToOne
    -> server :: DHCPServer($LAN_IP, $LAN_MAC, $LAN_NET, $FIRST, $LAST, DNS $LAN_IP, LEASE $LEASE)
    -> [2]lan;
lan[3] -> ToOne
    -> advertiser :: IP6RouterAdvertiser(fe80::1, $LAN_MAC, PREFIX $LAN_NET6, MTU $LAN_MTU)
    -> [2]lan;

// ---- The address from the provider

wan[2] -> ToOne -> client :: DHCPClient($WAN_MAC, CALL lease.run) -> [2]wan;
wan[3] -> Discard;

// Called with ADDRESS NETWORK ROUTER RESOLVER, all 0 when there is no lease. New patterns forget the
// sessions of the old address.
lease :: Script(TYPE PASSIVE,
    write wan/arp.ipaddr $1,
    write wan/answer.config $1 $WAN_MAC,
    write own.flush,
    write routes.flush,
    write own.add 0.0.0.0/0 1,
    goto lost $(eq $1 0.0.0.0),
    write own.add $1/32 0,
    write routes.add $2 0,
    write routes.set 0.0.0.0/0 $3 0,
    write nat.pattern0 pattern $1 1024-65535? - - 0 1,
    write pings.pattern0 pattern $1 - 0-65535? 0 1,
    write names.pattern0 pattern - - $4 53 0 1,
    end,
    label lost,
    write nat.pattern0 drop,
    write pings.pattern0 drop,
    write names.pattern0 drop);

// ---- IPv4 from the LAN

// Packets that the LAN may send: all but internal traffic. Output 1 notifies the sender.
outbound :: IPFilter(
    allow dst host $LAN_IP,
    deny  !(src net $LAN_NET),                       // not one of our addresses
    deny  dst net $LAN_NET or dst net 224.0.0.0/3,   // stays where it is
    deny  dst port 135 or 137 or 138 or 139 or 445,  // file sharing
    deny  tcp && dst port 23,                        // telnet
    1     tcp && dst port 25,                        // mail leaves by submission (587) only
    allow all);

// Questions for names get the provider's resolver as their destination, and its answers the gateway as
// their source; in between they are translated as all else, with a port that nobody foretells (RFC 5452).
names :: IPRewriter(drop, pass 1);

// Address translation; what comes from outside and answers nothing is dropped.
nat :: IPRewriter(drop, drop);
pings :: ICMPPingRewriter(drop, drop);

routes :: DirectIPLookup(); // outside: networks and their routers, by DHCP
own :: DirectIPLookup(0.0.0.0/0 1);

lan -> outbound -> IPReassembler -> begins :: IPClassifier(
    dst host $LAN_IP and dst port 53,
    dst host $LAN_IP,
    -);
outbound[1] -> ICMPError($LAN_IP, unreachable, 13) -> lan;
begins[0] -> names;
begins[1] -> ping :: ICMPPingResponder -> lan;
begins[2] -> to_wan :: Forward($WAN_MTU, $WAN);
names[0] -> to_wan;
to_wan[1] -> lan;

// The gateway offers nothing else.
ping[1] -> offered :: IPClassifier(tcp or udp, -) -> ICMPError($LAN_IP, unreachable, port) -> lan;
offered[1] -> Discard;

to_wan -> leaves :: IPClassifier(tcp or udp, icmp type echo, -);
leaves[0] -> nat;
leaves[1] -> pings;
leaves[2] -> untranslated :: Discard;
nat[0], pings[0] -> routes -> wan_packets :: Counter -> wan;

// ---- IPv4 from outside

// What may come in at all, before mappings are looked at.
inbound :: IPFilter(
    deny  src net $LAN_NET,                          // our addresses, from outside
    deny  src net 127.0.0.0/8 or src net 224.0.0.0/3 or src net 0.0.0.0/8,
    deny  tcp opt syn && tcp opt fin,
    allow all);

wan -> inbound -> IPReassembler -> arrives :: IPClassifier(
    tcp or udp,
    icmp type echo-reply,
    icmp type echo,
    icmp,
    -);
arrives[0] -> [1]nat;
arrives[1] -> [1]pings;
arrives[2] -> GetIPAddress(16) -> own -> own_ping :: ICMPPingResponder -> routes;
arrives[3] -> errors :: ICMPRewriter(nat pings);
arrives[4] -> Discard;
own[1] -> Discard;

nat[1], pings[1], errors -> [1]names;
names[1] -> to_lan :: Forward($LAN_MTU, $LAN) -> lan_packets :: Counter -> lan;
to_lan[1] -> Discard;

// ---- IPv6: sessions begin inside

from_lan6 :: FlowClassifier(INPUT ip);
from_wan6 :: FlowClassifier(INPUT ip);
firewall :: StatefulFirewall(OUT deny all, IN deny all, IP6 out);

routes6 :: LookupIP6Route(
    $LAN_IP6/128 2,
    $WAN_IP6/128 2,
    fe80::/10 3,
    ff00::/8 3,
    $LAN_NET6 0,
    $WAN_NET6 1,
    ::/0 $WAN_GW6 1);

lan[1] -> from_lan6 -> firewall;
wan[1] -> own6 :: LookupIP6Route($WAN_IP6/128 0, ::/0 1);
own6[1] -> from_wan6 -> [1]firewall;
firewall[0, 1] -> routes6;

routes6[0] -> to_lan6 :: Forward6($WAN_IP6, $LAN_MTU, $LAN) -> [1]lan;
routes6[1] -> to_wan6 :: Forward6($LAN_IP6, $WAN_MTU, $WAN) -> [1]wan;
to_lan6[1], to_wan6[1] -> routes6;

// For the gateway itself, also from outside, where it begins no session: it answers pings.
routes6[2], own6 -> ping6 :: ICMP6PingResponder -> routes6;
ping6[1] -> Discard;
routes6[3] -> stays6 :: Discard;
