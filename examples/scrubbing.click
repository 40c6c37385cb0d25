// A cable between clients and servers that scrubs floods of requests for TCP connections (SYNs). Packets to a
// server that is flooded leave by output 1 of `detector`. The manager puts a function there while that is so,
// which lets requests through from sources that prove that they exist. See docs/scrubbing.md.

define(
    $LAN lan0,                       // port to the clients
    $WAN wan0,                       // port to the servers
    $RATE 1000,                      // requests a second at which a server is flooded
    $SCRUBBER /bin/true              // the function: the manager gives it
);

lan :: FromDevice($LAN, METHOD LINUX, PROMISC true, LARGE false);
wan :: FromDevice($WAN, METHOD LINUX, PROMISC true, LARGE false);
near :: ToDevice($LAN, METHOD LINUX);
far :: ToDevice($WAN, METHOD LINUX);

wan -> near;
lan -> kind :: Classifier(12/0800, 12/86dd, -);
kind[0] -> MarkIPHeader(14) -> detector :: FloodDetector($RATE);
kind[1] -> MarkIP6Header(14) -> detector;
kind[2] -> far;

detector[0] -> clean :: Counter -> far;
detector[1] -> suspect :: Counter
    -> scrubber :: Nf($SCRUBBER, SLOTS 4096, ON_FAILURE open)
    -> far;
scrubber[1] -> near;
