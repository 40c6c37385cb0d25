// As check, and a hop to another host and from it: a service header, VXLAN-GPE, UDP, IP and Ethernet
// on, checked and off.
FromDump($TRACE) -> source :: ReplayUnqueue(STOP $LOOPS, BURST 128);
source -> Strip(14) -> CheckIPHeader
    -> NSHEncap(5, 255)
    -> HopEncap(192.0.2.1, 192.0.2.2, VNI 7)
    -> EtherEncap(0x0800, 02:00:00:00:00:01, 02:00:00:00:00:02)
    -> Strip(14)
    -> HopDecap(VNI 7)
    -> NSHDecap(5)
    -> out :: Discard;
