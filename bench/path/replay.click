// The engine's own cost: packets from memory, dropped.
FromDump($TRACE) -> source :: ReplayUnqueue(STOP $LOOPS, BURST 256);
source -> out :: Discard;
