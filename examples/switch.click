// A switch with VLANs: two ports for hosts, each in a VLAN of its own, and a trunk that has both.
//
// Between interfaces (as root):
//   thruway run examples/switch.click STAFF=eth1 GUESTS=eth2 TRUNK=eth3
// Over captures (`pcap:IN>OUT`):
//   thruway run examples/switch.click STAFF='pcap:examples/captures/lan.pcap>staff.pcap' \
//     GUESTS='pcap:examples/captures/wan.pcap>guests.pcap' TRUNK='pcap:examples/captures/wan.pcap>trunk.pcap'
//
// List addresses: read switch.table. Clear them: write switch.flush, or write switch.flush VLAN 20. A printer
// that never speaks first: write switch.add 10 02-00-00-00-00-31 0.

define(
    $STAFF veth0,
    $GUESTS veth1,
    $TRUNK veth2,       // to the next switch: VLAN 10 and 20 with tags
    $TIMEOUT 300        // how long an address counts, in seconds
);

// A port: accepts all packets, for any address.
elementclass Port { $port |
    FromDevice($port, PROMISC true) -> output;
    input -> Queue -> ToDevice($port);
}

switch :: EtherSwitch(
    TIMEOUT $TIMEOUT,
    PORT 0 ACCESS 10,
    PORT 1 ACCESS 20,
    PORT 2 TRUNK 10 20);

switch[0] -> staff :: Port($STAFF) -> switch;
switch[1] -> guests :: Port($GUESTS) -> [1]switch;
switch[2] -> trunk :: Port($TRUNK) -> [2]switch;
