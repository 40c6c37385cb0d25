// A packet filter that lets all through: rules, then "allow all".
FromDump($TRACE) -> source :: ReplayUnqueue(STOP $LOOPS, BURST 128);
source -> Strip(14)
    -> CheckIPHeader
    -> IPFilter(
    $RULES,
    allow all)
    -> out :: Discard;
