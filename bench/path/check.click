// As replay, with every IP header checked.
FromDump($TRACE) -> source :: ReplayUnqueue(STOP $LOOPS, BURST 128);
source -> Strip(14) -> CheckIPHeader -> out :: Discard;
