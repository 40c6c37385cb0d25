// Host lan -- access switch -- access node -- gateway -- label switching router -- end of tunnels -- host wan

define($ACCESS_MAC 02:00:00:00:01:00, $CORE_MAC 02:00:00:00:02:00, $LSR_MAC 02:00:00:00:03:00, $END_MAC 02:00:00:00:04:00);

access :: EtherSwitch(PORT 0 ACCESS 7, PORT 1 TRUNK 7)
FromDevice(lan0, PROMISC true) -> access -> Queue -> ToDevice(lan0)

gateway :: BNG(ACCESS_MAC $ACCESS_MAC, CORE_MAC $CORE_MAC, IP 192.0.2.1, GATEWAY 10.0.0.1,
	TUNNEL 0 192.0.2.9 $LSR_MAC 1 16, ROUTE 0/0 0, SUBSCRIBER 100 7 42 10.0.0.7)
access[1] -> VLANEncap(VLAN_ID 100, ETHERTYPE 0x88a8) -> gateway
gateway -> VLANDecap(ETHERTYPE 0x88a8) -> [1] access

lsr :: MPLSSwitch(MAC $LSR_MAC, 16 pop 0 $END_MAC, 17 swap 18 push 19 1 $CORE_MAC)
gateway[1] -> HostEtherFilter($LSR_MAC) -> lsr
lsr[1] -> [1] gateway

// The end of the tunnels, a router.
arp :: ARPQuerier(198.51.100.1, 02:00:00:00:05:00) -> out :: Queue -> ToDevice(wan0)
lsr -> HostEtherFilter($END_MAC) -> Strip(14) -> CheckIPHeader
	-> ours :: IPClassifier(dst host 192.0.2.9 and ip proto 47, -) -> StripIPHeader -> GREDecap(0x0800, KEY 42)
	-> CheckIPHeader -> GetIPAddress(16) -> arp
ours[1] -> Discard
FromDevice(wan0) -> kind :: Classifier(12/0806 20/0001, 12/0806 20/0002, 12/0800, -)
kind[0] -> ARPResponder(198.51.100.1 02:00:00:00:05:00) -> out
kind[1] -> [1] arp
kind[2] -> Strip(14) -> CheckIPHeader -> GREEncap(KEY 42, CHECKSUM true) -> IPEncap(gre, 192.0.2.9, 192.0.2.1)
	-> EtherEncap(0x0800, $END_MAC, $LSR_MAC) -> MPLSPush(17, ETHER true) -> HostEtherFilter($LSR_MAC) -> lsr
kind[3] -> Discard
