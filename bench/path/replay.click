// The engine's own cost: packets from memory, dropped.
FromDump($TRACE) -> source :: ReplayUnqueue(STOP $LOOPS, BURST 64);
source -> out :: Discard;
