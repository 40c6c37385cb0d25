// One configuration with two placements on two cores: docs/threads.md.
//
//   thruway run -j 2 examples/placement.click             each core does all the work on its packets
//   thruway run -j 2 examples/placement.click SECOND=1    core 1 does the second half of it
//
// LIMIT is the number of packets of each input, WORK the numbers that each half draws for a packet.

define($SECOND, $LIMIT 1000000, $WORK 32)

// Packets go on in another thread, if one is given.
elementclass Handover {
    input -> output
|| $thread |
    input -> ring :: Pipeliner(BLOCKING true) -> output;
    StaticThreadSched(ring $thread);
}

// Two inputs, as two queues of an interface: each core has its own, or the first core both.
elementclass Inputs {
    StaticThreadSched(in0 0, in1 1);
|| $second |
    StaticThreadSched(in0 0, in1 0);
}

in0 :: InfiniteSource(LENGTH 64, LIMIT $LIMIT, BURST 32);
in1 :: InfiniteSource(LENGTH 64, LIMIT $LIMIT, BURST 32);
Inputs($SECOND);

in0, in1 -> first :: WorkPackage(0, 0, 0, false, W $WORK)
    -> Handover($SECOND)
    -> second :: WorkPackage(0, 0, 0, false, W $WORK)
    -> out :: Counter
    -> Discard;

// Stops when all have arrived.
Script(label again, wait 10ms, goto again $(lt $(out.count) $(mul 2 $LIMIT)), stop);
