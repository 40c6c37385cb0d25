// A label switching router between two others: paths through it, one that ends before the next router
// (penultimate hop popping), one that goes into a detour, and one that ends here.
//
// Between interfaces (as root):
//   thruway run examples/mpls.click WEST=eth1 EAST=eth2
// Over captures of examples/tunnels.click:
//   thruway run examples/mpls.click WEST='pcap:labels.pcap>west.pcap' EAST='pcap:none.pcap>east.pcap'
//
// Paths come and go while it runs: write router.add 32 swap 33 1 02-00-00-00-00-09.

define(
    $WEST veth0,
    $EAST veth1,
    $MAC 02:00:00:00:00:20,         // this router
    $WEST_MAC 02:00:00:00:00:21,    // its neighbours
    $EAST_MAC 02:00:00:00:00:22
);

elementclass Port { $port, $mac |
    FromDevice($port, PROMISC true) -> HostEtherFilter($mac) -> output;
    input -> Queue -> ToDevice($port);
}

west :: Port($WEST, $MAC) -> router :: MPLSSwitch(
    MAC $MAC,
    PUNT 3,
    16 swap 100 1 $EAST_MAC,              // on to the east
    17 swap 101 push 200 1 $EAST_MAC,     // over a detour with label 200
    18 pop 1 $EAST_MAC,                   // the last router gets the packet itself
    19 pop,                               // a tunnel that ends here: the label below counts
    20 pop 2,                             // a path that ends here
    100 swap 16 0 $WEST_MAC); // and back
east :: Port($EAST, $MAC) -> router;

router[0] -> west;
router[1] -> east;
router[2] -> ended :: Counter -> Discard; // a router would go on: Strip(14) -> CheckIPHeader -> ...
router[3] -> other :: Counter -> Discard;
