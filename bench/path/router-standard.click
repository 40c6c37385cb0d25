// The standard IP router of the Click papers with four interfaces, 192.168.0.1/24 to
// 192.168.3.1/24. Traffic enters by interface 0; behind the others stands a next hop each.
FromDump($TRACE) -> source :: ReplayUnqueue(STOP $LOOPS, BURST 128);
out :: Discard;
host :: Discard;

// From the wire: ARP queries are answered, ARP replies go to the querier, IP is checked.
elementclass Ingress { $color, $ip, $ether |
    input -> c :: Classifier(12/0806 20/0001, 12/0806 20/0002, 12/0800, -);
    c[0] -> ARPResponder($ip $ether) -> [0]output;
    c[1] -> [1]output;
    c[2] -> Paint($color)
        -> Strip(14)
        -> CheckIPHeader(INTERFACES 192.168.0.1/24 192.168.1.1/24 192.168.2.1/24 192.168.3.1/24)
        -> GetIPAddress(16)
        -> [2]output;
    c[3] -> Discard;
}

// To the wire: what a router owes each packet, then its next hop's Ethernet address. The next hop
// is near: its ARP responder answers at once.
elementclass Egress { $color, $ip, $ether, $next, $nextether |
    input -> DropBroadcasts
        -> redirect :: PaintTee($color)
        -> options :: IPGWOptions($ip)
        -> FixIPSrc($ip)
        -> ttl :: DecIPTTL
        -> fragment :: IPFragmenter(1500)
        -> arp :: ARPQuerier($ip, $ether)
        -> [0]output;
    redirect[1] -> ICMPError($ip, redirect, host) -> [1]output;
    options[1] -> ICMPError($ip, parameterproblem) -> [1]output;
    ttl[1] -> ICMPError($ip, timeexceeded, transit) -> [1]output;
    fragment[1] -> ICMPError($ip, unreachable, needfrag) -> [1]output;
    arp[1] -> ARPResponder($next $nextether) -> [1]arp;
    input[1] -> [1]arp;
}

// Output 0 is for the router itself.
rt :: DirectIPLookup(
    192.168.0.1/32 0, 192.168.0.255/32 0, 192.168.1.1/32 0, 192.168.1.255/32 0,
    192.168.2.1/32 0, 192.168.2.255/32 0, 192.168.3.1/32 0, 192.168.3.255/32 0,
    192.168.0.0/24 1, 192.168.1.0/24 2, 192.168.2.0/24 3, 192.168.3.0/24 4,
    10.0.0.0/16 192.168.1.2 2, 10.1.0.0/16 192.168.1.2 2,
    10.2.0.0/16 192.168.2.2 3, 10.3.0.0/16 192.168.3.2 4,
    0.0.0.0/0 192.168.1.2 2);
rt[0] -> host;

i0 :: Ingress(1, 192.168.0.1, 00:00:c0:00:00:01);
i1 :: Ingress(2, 192.168.1.1, 00:00:c0:00:00:02);
i2 :: Ingress(3, 192.168.2.1, 00:00:c0:00:00:03);
i3 :: Ingress(4, 192.168.3.1, 00:00:c0:00:00:04);
e0 :: Egress(1, 192.168.0.1, 00:00:c0:00:00:01, 192.168.0.2, 00:00:c0:00:01:02);
e1 :: Egress(2, 192.168.1.1, 00:00:c0:00:00:02, 192.168.1.2, 00:00:c0:00:01:03);
e2 :: Egress(3, 192.168.2.1, 00:00:c0:00:00:03, 192.168.2.2, 00:00:c0:00:01:04);
e3 :: Egress(4, 192.168.3.1, 00:00:c0:00:00:04, 192.168.3.2, 00:00:c0:00:01:05);

source -> i0;
Idle -> i1; Idle -> i2; Idle -> i3;
i0[0] -> out; i0[1] -> [1]e0; i0[2] -> rt;
i1[0] -> out; i1[1] -> [1]e1; i1[2] -> rt;
i2[0] -> out; i2[1] -> [1]e2; i2[2] -> rt;
i3[0] -> out; i3[1] -> [1]e3; i3[2] -> rt;
rt[1] -> e0; rt[2] -> e1; rt[3] -> e2; rt[4] -> e3;
e0[0] -> out; e0[1] -> rt;
e1[0] -> out; e1[1] -> rt;
e2[0] -> out; e2[1] -> rt;
e3[0] -> out; e3[1] -> rt;
