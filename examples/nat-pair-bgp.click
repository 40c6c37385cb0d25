// Two hosts, one gateway, on a routed network: as nat-pair.click inside, where both hosts have the gateway's
// addresses; outside each host has its own address at a router, and a routing daemon (FRR) that announces the
// translated address, SERVICE, by BGP while this host serves. Both hosts run this:
//   thruway run examples/nat-pair-bgp.click LAN=eth1 WAN=eth0 WAN_IP=192.0.2.2 WAN_MAC=... \
//       PEER="TO 10.9.0.2:7070" AFTER=150ms
//   thruway run examples/nat-pair-bgp.click LAN=eth1 WAN=eth0 WAN_IP=192.0.2.3 WAN_MAC=... \
//       PEER="LISTEN 10.9.0.2:7070" AFTER=150ms
// WAN_IP and WAN_MAC are those that the kernel has at WAN: FRR and Thruway share the interface.
// See docs/replication.md.

define(
    $LAN veth1,                      // port on the inside
    $LAN_IP 192.168.1.1,             // the gateway's address there, on both hosts
    $LAN_NET 192.168.1.0/24,
    $LAN_MAC 02:00:00:00:00:02,

    $WAN veth2,                      // port to the router
    $WAN_IP 192.0.2.2,               // this host's own addresses there
    $WAN_MAC 02:00:00:00:00:01,
    $WAN_GW 192.0.2.1,               // the router
    $SERVICE 203.0.113.2,            // what is announced, and packets are translated to

    $PEER LISTEN 127.0.0.1:7070,     // TO IP:PORT on the host that serves, LISTEN IP:PORT on its backup
    $AFTER 0,                        // silence after which the backup takes over; 0: only on command
    $KEY /etc/thruway/pair.key       // the secret of both hosts
);

// Routes in the kernel's table while this host serves; FRR has 'redistribute kernel'. They go with the process.
routes :: KernelRoutes($SERVICE/32);

// Nothing passes at a backup until it takes over. Outside nothing is announced by ARP: routes lead there.
pair :: Replicate($LAN_IP $LAN_MAC, -, $PEER, KEY $KEY, AFTER $AFTER,
    SERVE routes.active true, RETIRE routes.active false);

to_lan :: Queue -> ToDevice($LAN);
to_wan :: Queue -> ToDevice($WAN);
FromDevice($LAN, PROMISC true) -> pair;
FromDevice($WAN) -> [1]pair;
pair[2] -> to_lan;
pair[3] -> to_wan;

// ---- inside

pair[0] -> HostEtherFilter($LAN_MAC)
    -> lan :: Classifier(12/0806 20/0001, 12/0806 20/0002, 12/0800, -);
lan_arp :: ARPQuerier($LAN_IP, $LAN_MAC) -> to_lan;
lan[0] -> ARPResponder($LAN_IP $LAN_MAC) -> to_lan;
lan[1] -> [1]lan_arp;
lan[3] -> Discard;

// ---- outside: replies to ARP queries, and packets for the service. The kernel has all others, BGP among them.

pair[1] -> wan :: Classifier(12/0806 20/0002, 12/0800, -);
wan_arp :: ARPQuerier($WAN_IP, $WAN_MAC) -> to_wan;
wan[0] -> [1]wan_arp;
wan[1] -> Strip(14) -> CheckIPHeader -> service :: IPFilter(allow dst host $SERVICE);
wan[2] -> Discard;

// ---- between them

nat :: NAT(SNAT $LAN_NET -> $SERVICE);
firewall :: StatefulFirewall(OUT allow tcp or udp or icmp);

lan[2] -> Strip(14) -> CheckIPHeader -> IPReassembler -> FlowClassifier(INPUT ip) -> firewall -> nat;
service -> IPReassembler -> FlowClassifier(INPUT ip) -> [1]nat;
nat[1] -> [1]firewall;
nat[2] -> Discard;
nat -> DecIPTTL -> SetIPAddress($WAN_GW) -> wan_arp;
firewall[1] -> DecIPTTL -> lan_arp;
