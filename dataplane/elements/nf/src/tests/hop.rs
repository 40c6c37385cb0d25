//! A hop in one thread: the element, and a Worker that leaves packets as they are, in turn.
//!
//! Instructions of a hop, of both sides, without what wakes and waits:
//!
//! ```sh
//! cargo test --profile quick -p thruway-elements-nf --lib --no-run  # names the program
//! valgrind --tool=callgrind --toggle-collect='*hop::turns*' PROGRAM hop::a_hop
//! ```

use thruway_exchange::{Mapped, Worker};
use thruway_nf_abi::LinkShape;
use thruway_packet::{Batch, Packet};

use super::Stage;

/// Packets of a turn.
const BURST: usize = 32;
/// Turns that are counted: 32,000 packets.
const TURNS: usize = 1_000;

/// Lets batches go to the Worker and back, so many times.
#[inline(never)]
fn turns(stage: &mut Stage, worker: &mut Worker<Mapped>, batch: &mut Batch, count: usize) {
    for _ in 0..count {
        stage.rig.turn(batch, || {
            let waiting = worker.waiting();
            for _ in 0..waiting {
                if let Some(current) = worker.current() {
                    current.close();
                }
                worker.advance(1);
            }
            // The element does not sleep between two batches.
            let _ = worker.flush();
        });
    }
}

/// Allocations in [`TURNS`], once everything has its size.
fn allocations(shape: &LinkShape, len: usize) -> u64 {
    let mut stage = Stage::of(shape, &[]);
    let fd = stage.storage.fd().try_clone_to_owned().expect("a descriptor");
    let mut worker = Worker::open(fd, 32).expect("a Worker");
    let mut batch: Batch =
        (0..BURST).map(|nth| Packet::new(&vec![nth as u8; len]).expect("memory")).collect();
    // More than once round the ring.
    (0..64).for_each(|_| turns_before(&mut stage, &mut worker, &mut batch));
    let counted = allocation_counter::measure(|| {
        turns(&mut stage, &mut worker, &mut batch, TURNS);
    });
    assert_eq!(batch.len(), BURST, "all came back");
    for (nth, packet) in batch.iter().enumerate() {
        assert_eq!(packet.data(), vec![nth as u8; len], "in their order, unchanged");
    }
    let all = ((TURNS + 64) * BURST).to_string();
    assert_eq!(stage.rig.read("packets_in", "").unwrap(), all);
    assert_eq!(stage.rig.read("packets_out", "").unwrap(), all);
    counted.count_total
}

/// One turn that no profiler counts.
fn turns_before(stage: &mut Stage, worker: &mut Worker<Mapped>, batch: &mut Batch) {
    stage.rig.turn(batch, || {
        let waiting = worker.waiting();
        worker.advance(waiting);
        let _ = worker.flush();
    });
}

#[test]
fn a_hop_allocates_nothing() {
    let shape = LinkShape { slots: 1024, ..LinkShape::DEFAULT };
    for len in [60, 512, 1400] {
        assert_eq!(allocations(&shape, len), 0, "packets of {len} bytes");
    }
    // A ring of two batches comes round every other turn.
    assert_eq!(allocations(&LinkShape { slots: 64, ..LinkShape::DEFAULT }, 60), 0);
}
