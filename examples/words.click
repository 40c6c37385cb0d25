// A word filter on the cable between two networks: what they say to each other by TCP is searched for
// words, whatever segments they come in, and these are masked. Neither side notices that anybody stands
// between them: the filter has no address, connections go on as they are.
//
// Between two interfaces (as root):
//   thruway run examples/words.click LAN=eth1 WAN=eth0 'WORDS=attack, "top secret"'
//   thruway ctl /tmp/thruway.sock read filter.words      # how often each word was found
//
// Instead of being masked, words may be removed, replaced ('DO=MODE REPLACE, WITH "defence"'), counted
// ('DO=MODE ALERT'), or end their connection ('DO=MODE CLOSE'). Where lengths change, this has to suit
// what is spoken: around HTTP write TCPIn => HTTPIn => filter => HTTPOut => TCPOut (docs/streams.md).
//
// Words in what is compressed or encrypted are not seen (around HTTP, what is compressed is: see above).
// IPv4 and IPv6, with up to two VLAN tags. Fragments of TCP are dropped, as no function can be shown them:
// hosts send none where they find the path's MTU. `thruway check` lists what cannot be inspected.

define(
    $LAN veth1,                      // ports
    $WAN veth2,

    $WORDS attack,                   // what to look for
    $DO MODE MASK,                   // what to do about it

    $CONTROL /tmp/thruway.sock       // for thruway ctl
);

// One side. What is not TCP passes by the filter unseen.
elementclass Side { $port |
    FromDevice($port, PROMISC true) -> output;
    input -> ToDevice($port);
}

ControlSocket(UNIX, $CONTROL);

lan :: Side($LAN);
wan :: Side($WAN);

// Both directions of a connection go through the same elements: what comes from the LAN enters and
// leaves by their ports 0, what comes from outside by their ports 1.
lan -> from_lan :: FlowClassifier -> tcp :: TCPIn;
wan -> from_wan :: FlowClassifier -> [1]tcp;
tcp => [0, 1]filter :: WordMatcher($WORDS, $DO) => [0, 1]end :: TCPOut;
end[0] -> wan;
end[1] -> lan;
