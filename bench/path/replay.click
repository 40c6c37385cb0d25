// The engine's own cost: packets from memory, dropped.
FromDump($TRACE) -> source :: ReplayUnqueue(STOP $LOOPS, BURST 128);
source -> out :: Discard;
