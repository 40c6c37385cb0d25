// The engine's own cost: packets from memory, dropped.
source :: ReplayUnqueue($TRACE, STOP $LOOPS, BURST 256);
source -> out :: Discard;
