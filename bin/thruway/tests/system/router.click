// A router between two links for IPv4 and IPv6, with what hosts need of a router: ARP, neighbour
// discovery, echo replies, and errors for an expired TTL, an unknown network and too long packets.
// Towards the WAN the MTU is 1400 for IPv4, and 1300 is told for IPv6.
define($LAN lan0, $WAN wan0, $METHOD XDP)

elementclass Port {
    $device, $method, $ip, $ip6, $mac |

    FromDevice($device, METHOD $method)
        -> in :: Classifier(12/0806 20/0001, 12/0806 20/0002, 12/86dd 20/3a 54/87,
                            12/86dd 20/3a 54/88, 12/0800, 12/86dd, -)
    out :: Queue -> ToDevice($device, METHOD $method)
    arp :: ARPQuerier($ip, $mac)
    nd :: IP6NDSolicitor($ip6, $mac)

    in[0] -> ARPResponder($ip $mac) -> out
    in[1] -> [1]arp
    in[2] -> IP6NDAdvertiser($ip6 $mac) -> out
    in[3] -> [1]nd
    in[4] -> HostEtherFilter($mac) -> Strip(14) -> CheckIPHeader -> [0]output
    in[5] -> HostEtherFilter($mac) -> Strip(14) -> CheckIP6Header -> [1]output
    in[6] -> Discard
    input[0] -> arp -> out
    input[1] -> nd -> out
}

lan :: Port($LAN, $METHOD, 10.1.0.1, fd01::1, 02:00:00:00:01:01)
wan :: Port($WAN, $METHOD, 10.2.0.1, fd02::1, 02:00:00:00:02:01)

routes :: StaticIPLookup(10.1.0.1/32 0, 10.2.0.1/32 0, 10.1.0.0/24 1, 10.2.0.0/24 2, 0.0.0.0/0 3)
lan[0] -> routes
wan[0] -> routes
routes[0] -> mine :: IPClassifier(icmp type echo, icmp, -)
mine[0] -> ICMPPingResponder -> routes
mine[1] -> Discard
mine[2] -> ICMPError(10.1.0.1, unreachable, port) -> routes
routes[1] -> to_lan :: DecIPTTL -> IPFragmenter(1500) -> [0]lan
routes[2] -> to_wan :: DecIPTTL -> fragment :: IPFragmenter(1400) -> [0]wan
routes[3] -> ICMPError(10.1.0.1, unreachable, net) -> routes
to_lan[1] -> ICMPError(10.2.0.1, timeexceeded, transit) -> routes
to_wan[1] -> ICMPError(10.1.0.1, timeexceeded, transit) -> routes
fragment[1] -> ICMPError(10.1.0.1, unreachable, needfrag, PMTU 1400) -> routes

routes6 :: LookupIP6Route(fd01::1/128 0, fd02::1/128 0, fd01::/64 1, fd02::/64 2, ::/0 3)
lan[1] -> routes6
wan[1] -> routes6
routes6[0] -> Discard
routes6[1] -> to_lan6 :: DecIP6HLIM -> [1]lan
// A payload of 0x05.. bytes makes packets of 1320 bytes or more.
routes6[2] -> to_wan6 :: DecIP6HLIM -> long6 :: Classifier(4/05, -)
long6[0] -> ICMP6Error(fd01::1, packettoobig, 0, PMTU 1300) -> routes6
long6[1] -> [1]wan
routes6[3] -> ICMP6Error(fd01::1, unreachable, 0) -> routes6
to_lan6[1] -> ICMP6Error(fd02::1, timeexceeded, 0) -> routes6
to_wan6[1] -> ICMP6Error(fd01::1, timeexceeded, 0) -> routes6
