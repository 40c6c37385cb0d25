// The short router with a table of many routes: four outputs.
FromDump($TRACE) -> source :: ReplayUnqueue(STOP $LOOPS, BURST 128);
rt :: DirectIPLookup(FILE $ROUTES);
out :: Discard;

elementclass Hop { $src, $dst |
    input -> DecIPTTL -> Unstrip(14) -> EtherRewrite($src, $dst) -> output;
}

source -> Strip(14) -> CheckIPHeader -> rt;
rt[0] -> Hop(00:00:c0:00:00:10, 00:00:c0:00:01:10) -> out;
rt[1] -> Hop(00:00:c0:00:00:11, 00:00:c0:00:01:11) -> out;
rt[2] -> Hop(00:00:c0:00:00:12, 00:00:c0:00:01:12) -> out;
rt[3] -> Hop(00:00:c0:00:00:13, 00:00:c0:00:01:13) -> out;
