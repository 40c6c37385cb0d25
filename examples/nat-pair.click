// Two hosts, one gateway: address translation (IPv4) and a stateful firewall (IPv4 and IPv6) with sessions that
// survive when a host dies. Both hosts run this, with the same addresses, and a cable between them for the sessions:
//   thruway run examples/nat-pair.click LAN=eth1 WAN=eth0 KEY=/etc/thruway/pair.key \
//       PEER="TO 10.9.0.2:7070" AFTER=100ms
//   thruway run examples/nat-pair.click LAN=eth1 WAN=eth0 KEY=/etc/thruway/pair.key \
//       PEER="LISTEN 10.9.0.2:7070" AFTER=100ms
// See docs/replication.md.

define(
    $LAN veth1,                      // port on the inside
    $LAN_IP 192.168.1.1,             // the gateway's address there, on both hosts
    $LAN_NET 192.168.1.0/24,
    $LAN_IP6 fd00:1::1,
    $LAN_NET6 fd00:1::/64,
    $LAN_MAC 02:00:00:00:00:02,

    $WAN veth2,                      // port on the outside
    $WAN_IP 203.0.113.2,
    $WAN_NET 203.0.113.0/24,
    $WAN_IP6 2001:db8:2::2,
    $WAN_NET6 2001:db8:2::/64,
    $WAN_MAC 02:00:00:00:00:01,
    $WAN_GW 203.0.113.1,             // the provider's router
    $WAN_GW6 2001:db8:2::1,

    $PEER LISTEN 127.0.0.1:7070,     // TO IP:PORT on the host that serves, LISTEN IP:PORT on its backup
    $AFTER 0,                        // silence after which the backup takes over; 0: only on command
    $KEY /etc/thruway/pair.key       // the secret of both hosts
);

// One network: port 0, in and out, is IPv4 and port 2 IPv6, without an Ethernet header; port 1 is Ethernet
// frames.
elementclass Side { $ip, $ip6, $mac |
    input[1] -> HostEtherFilter($mac)
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

    kind[0] -> ARPResponder($ip $mac) -> [1]output;
    kind[1] -> [1]arp;
    kind[2] -> Strip(14) -> CheckIPHeader -> IPReassembler -> output;
    kind[3] -> IP6NDAdvertiser($ip6 $mac) -> [1]output;
    kind[4] -> [1]nd;
    kind[5] -> Strip(14) -> CheckIP6Header -> [2]output;
    kind[6] -> Discard;

    input -> DecIPTTL -> arp -> [1]output;
    input[2] -> DecIP6HLIM -> nd -> [1]output;
}

lan :: Side($LAN_IP, $LAN_IP6, $LAN_MAC);
wan :: Side($WAN_IP, $WAN_IP6, $WAN_MAC);
to_lan :: Queue -> ToDevice($LAN);
to_wan :: Queue -> ToDevice($WAN);

// Nothing passes at a backup until it takes over.
pair :: Replicate($LAN_IP $LAN_IP6 $LAN_MAC, $WAN_IP $WAN_IP6 $WAN_MAC, $PEER, KEY $KEY, AFTER $AFTER);
FromDevice($LAN, PROMISC true) -> pair -> [1]lan;
FromDevice($WAN, PROMISC true) -> [1]pair[1] -> [1]wan;
lan[1] -> to_lan;
wan[1] -> to_wan;
pair[2] -> to_lan;
pair[3] -> to_wan;

from_lan :: FlowClassifier(INPUT ip);
from_wan :: FlowClassifier(INPUT ip);
nat :: NAT(SNAT $LAN_NET -> $WAN_IP);
firewall :: StatefulFirewall(OUT allow tcp or udp or icmp);

lan -> from_lan -> firewall -> nat;
wan -> from_wan -> [1]nat;
nat[1] -> [1]firewall;

routes :: StaticIPLookup($LAN_NET 0, $WAN_NET 1, 0.0.0.0/0 $WAN_GW 1);
nat -> routes;
firewall[1] -> routes;
nat[2] -> Discard;
routes[0] -> lan;
routes[1] -> wan;

// IPv6 is not translated: hosts inside may begin sessions, hosts outside may only answer.
firewall6 :: StatefulFirewall(IP6 out);
routes6 :: LookupIP6Route($LAN_NET6 0, $WAN_NET6 1, ::/0 $WAN_GW6 1);

lan[2] -> FlowClassifier(INPUT ip) -> firewall6;
wan[2] -> FlowClassifier(INPUT ip) -> [1]firewall6;
firewall6[0, 1] -> routes6;
routes6[0] -> [2]lan;
routes6[1] -> [2]wan;
