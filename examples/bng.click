// A broadband network gateway: access nodes with QinQ on one side, a core of GRE over MPLS on the other.
//
// Between interfaces (as root):
//   thruway run examples/bng.click ACCESS=eth1 CORE=eth2
// Over captures of examples/tunnels.click:
//   thruway run examples/bng.click ACCESS='pcap:access.pcap>to-access.pcap' CORE='pcap:core.pcap>to-core.pcap'
//
// Subscribers come and go while it runs: write gateway.add SUBSCRIBER 100 9 44 10.0.0.9. With many, put
// them into a file, one a line, and give the gateway FILE.

define(
    $ACCESS veth0,
    $ACCESS_MAC 02:00:00:00:01:00,
    $GATEWAY 16.0.255.254,         // what subscribers know as their gateway
    $CORE veth1,
    $CORE_MAC 02:00:00:00:02:00,
    $IP 192.0.2.1,                 // where tunnels begin
    $PEER 192.0.2.9,               // where they end: address translation, say
    $NEXT_MAC 02:00:00:00:00:09,   // the next router on the path
    $LABEL 16                      // and its label for it
);

gateway :: BNG(
    ACCESS_MAC $ACCESS_MAC,
    CORE_MAC $CORE_MAC,
    IP $IP,
    GATEWAY $GATEWAY,
    PUNT 2,
    TUNNEL 0 $PEER $NEXT_MAC 1 $LABEL,
    ROUTE 0.0.0.0/0 0,
    SUBSCRIBER 100 7 42 16.0.0.0/25,
    SUBSCRIBER 100 8 43 16.0.0.128/25);

// A port, for frames of up to 1,600 bytes or so: tunnels make them longer.
elementclass Port { $port |
    FromDevice($port, PROMISC true) -> output;
    input -> Queue -> ToDevice($port);
}

gateway[0] -> access :: Port($ACCESS) -> gateway;
gateway[1] -> core :: Port($CORE) -> [1]gateway;
gateway[2] -> punted :: Counter -> Discard;
