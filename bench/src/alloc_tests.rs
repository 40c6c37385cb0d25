//! No allocation per packet: twice the packets cost the very same number of allocations.

use allocation_counter::measure;

use super::case::{Suite, Workspace};
use super::flow;
use super::measure::Meter;
use super::path;
use super::stream;

/// Allocations of this thread while a case handles so many packets more than once before.
fn allocations(suite: &Suite, name: &str, packets: [u64; 2]) -> [u64; 2] {
    let dir = tempfile::tempdir().expect("a directory");
    let workspace = Workspace { dir: dir.path().to_owned(), words: None, cores: Vec::new() };
    let case = (suite.cases)().into_iter().find(|case| case.name == name).expect("a case");
    let mut subject = (case.set_up)(&workspace).expect("set-up");
    // Vectors grow to their final size, addresses are resolved.
    let mut meter = Meter::new();
    subject.run(packets[1], &mut meter).expect("warm-up");
    packets.map(|packets| {
        let mut done = 0;
        let counted = measure(|| done = subject.run(packets, &mut meter).expect("run"));
        // Streams send and answer in small runs.
        assert!(done.abs_diff(packets) <= packets / 16, "{done} packets for {packets}");
        counted.count_total
    })
}

#[test]
fn the_packet_path_does_not_allocate() {
    for name in ["router-5/fits", "router-standard/fits", "filter-20/fits", "filter-1000/fits"] {
        let [few, many] = allocations(&path::SUITE, name, [4096, 20 * 4096]);
        assert_eq!(few, many, "{name}: allocations in 4,096 and 81,920 packets");
        // The count works: a run asks handlers, which answer with text.
        assert!(few > 0, "{name}");
    }
}

#[test]
fn packets_of_known_sessions_do_not_allocate() {
    for name in ["lookup/10k/uniform", "chain/6", "balancer/10k"] {
        let [few, many] = allocations(&flow::SUITE, name, [4096, 20 * 4096]);
        assert_eq!(few, many, "{name}: allocations in 4,096 and 81,920 packets");
        assert!(few > 0, "{name}");
    }
}

#[test]
fn streams_do_not_allocate() {
    for name in ["nat-tcp", "order/disorder", "guard", "inspect/2000"] {
        let [few, many] = allocations(&stream::SUITE, name, [4096, 20 * 4096]);
        assert_eq!(few, many, "{name}: allocations in 4,096 and 81,920 packets");
        assert!(few > 0, "{name}");
    }
}

/// What is kept depends on clocks; what holds it grows by doubling, now and then.
#[test]
fn streams_that_change_hardly_allocate() {
    let [few, many] = allocations(&stream::SUITE, "replace", [4096, 20 * 4096]);
    assert!(few > 0 && many <= few + 32, "{few} and {many} in 4,096 and 81,920 packets");
}
