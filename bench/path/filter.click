// A packet filter that lets all through: rules, then "allow all".
source :: ReplayUnqueue($TRACE, STOP $LOOPS, BURST 256);
source -> Strip(14)
    -> CheckIPHeader
    -> IPFilter(
    $RULES,
    allow all)
    -> out :: Discard;
