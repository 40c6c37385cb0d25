// The short router with a queue before each output, and an Unqueue behind it.
FromDump($TRACE) -> source :: ReplayUnqueue(STOP $LOOPS, BURST 128);
rt :: DirectIPLookup(10.0.0.0/16 0, 10.1.0.0/16 1, 10.2.0.0/16 2, 10.3.0.0/16 3, 0.0.0.0/0 0);
out :: Discard;

elementclass Hop { $src, $dst |
    input -> DecIPTTL -> Unstrip(14) -> EtherRewrite($src, $dst) -> Queue(4096) -> Unqueue(128) -> output;
}

source -> Strip(14) -> CheckIPHeader -> rt;
rt[0] -> Hop(00:00:c0:00:00:10, 00:00:c0:00:01:10) -> out;
rt[1] -> Hop(00:00:c0:00:00:11, 00:00:c0:00:01:11) -> out;
rt[2] -> Hop(00:00:c0:00:00:12, 00:00:c0:00:01:12) -> out;
rt[3] -> Hop(00:00:c0:00:00:13, 00:00:c0:00:01:13) -> out;
