// A gateway as they are written for Click: one outside address, hosts behind it.

define($LAN lan0, $WAN wan0);

elementclass Side { $port, $ip, $mac |
    FromDevice($port, PROMISC true)
        -> kind :: Classifier(12/0806 20/0001, 12/0806 20/0002, 12/0800, -);
    arp :: ARPQuerier($ip, $mac);
    queue :: Queue(1000) -> ToDevice($port);
    kind[0] -> ARPResponder($ip $mac) -> queue;
    kind[1] -> [1]arp;
    kind[2] -> Strip(14) -> CheckIPHeader -> output;
    kind[3] -> Discard;
    input -> arp -> queue;
}

lan :: Side($LAN, 192.168.1.1, 02:00:00:00:00:02);
wan :: Side($WAN, 192.0.2.2, 02:00:00:00:00:01);

IPRewriterPatterns(outside 192.0.2.2 20000-65535 - -);
control :: TCPRewriter(pattern outside 0 1, drop);
rw :: IPRewriter(pattern outside 0 1, drop);
ping :: ICMPPingRewriter(pattern 192.0.2.2 - 0-65535 0 1, drop);

lan -> ttl :: DecIPTTL -> from_lan :: IPClassifier(tcp dst port 21, tcp or udp, icmp type echo, -);
ttl[1] -> ICMPError(192.168.1.1, timeexceeded) -> GetIPAddress(16) -> lan;
from_lan[0] -> FTPPortMapper(control, rw, 0) -> control;
from_lan[1] -> rw;
from_lan[2] -> ping;
from_lan[3] -> Discard;

wan -> from_wan :: IPClassifier(tcp src port 21, tcp or udp, icmp type echo-reply, icmp, -);
from_wan[0] -> [1]control;
from_wan[1] -> [1]rw;
from_wan[2] -> [1]ping;
from_wan[3] -> errors :: ICMPRewriter(rw control ping);
from_wan[4] -> Discard;

control[0] -> wan; rw[0] -> wan; ping[0] -> wan;
control[1] -> lan; rw[1] -> lan; ping[1] -> lan; errors -> lan;
