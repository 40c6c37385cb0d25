// As replay, with every IP header checked.
source :: ReplayUnqueue($TRACE, STOP $LOOPS, BURST 256);
source -> Strip(14) -> CheckIPHeader -> out :: Discard;
