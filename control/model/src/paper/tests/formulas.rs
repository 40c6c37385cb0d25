//! Every formula of section 2.2, with values worked by hand.

use super::*;

const FRAME: u32 = 64;

/// Cycles and accesses, and how they were worked out.
fn expect(operation: Operation, cycles: f64, accesses: f64) {
    let (_, mapping) = host();
    let cost = mapping.cost(&operation, FRAME);
    assert_eq!(cost, Cost { cycles, accesses }, "{operation}");
}

#[test]
fn a_packet_is_copied_in_and_out() {
    let (hdr, data) = (size(30), Size::frame(-18));
    // One line: 31 + 5, 31 + 9.
    expect(Operation::IoMem { hdr, data }, 36.0, 0.0);
    expect(Operation::MemIo { hdr, data }, 40.0, 0.0);
    // 64 bytes are one line, 65 two: 31 + 2 x 5, 31 + 2 x 9.
    expect(Operation::IoMem { hdr: size(64), data }, 36.0, 0.0);
    expect(Operation::IoMem { hdr: size(65), data }, 41.0, 0.0);
    expect(Operation::MemIo { hdr: size(70), data }, 49.0, 0.0);
    expect(Operation::IoMem { hdr: size(0), data }, 31.0, 0.0);
}

#[test]
fn fields_are_read_and_written_by_registers() {
    // 6 bytes: one register of 8; 10: two; 70: nine.
    expect(Operation::Parse { b: size(6), from: MemoryLevel::L1 }, 5.0, 0.0);
    expect(Operation::Parse { b: size(8), from: MemoryLevel::L1 }, 5.0, 0.0);
    expect(Operation::Deparse { b: size(10), from: MemoryLevel::L1 }, 10.0, 0.0);
    expect(Operation::Deparse { b: size(70), from: MemoryLevel::L1 }, 45.0, 0.0);
    // From L2 twelve cycles each; from memory five, and the lines.
    expect(Operation::Parse { b: size(20), from: MemoryLevel::L2 }, 36.0, 0.0);
    expect(Operation::Parse { b: size(70), from: MemoryLevel::Memory }, 45.0, 2.0);
    // As long as the frame: 64 bytes, eight registers.
    expect(Operation::Parse { b: Size::frame(0), from: MemoryLevel::Memory }, 40.0, 1.0);
}

#[test]
fn three_additions_take_a_cycle() {
    // 0.33 x 1 / 8 rounds up to 1; 24 bytes: 0.99; 32: 1.32; 64: 2.64.
    expect(Operation::Increase { b: size(1) }, 1.0, 0.0);
    expect(Operation::Decrease { b: size(24) }, 1.0, 0.0);
    expect(Operation::Sum { b: size(32) }, 2.0, 0.0);
    expect(Operation::Sum { b: size(64) }, 3.0, 0.0);
    expect(Operation::Sum { b: size(0) }, 0.0, 0.0);
}

#[test]
fn checksums_take_seven_cycles_for_two_bytes() {
    // 20 bytes: 7 x 10 + 8; 54: 7 x 27 + 8; 65: 7 x 33 + 8, and a second line.
    expect(Operation::Checksum { b: size(20), from: MemoryLevel::Memory }, 78.0, 1.0);
    expect(Operation::Checksum { b: Size::frame(-10), from: MemoryLevel::Memory }, 197.0, 1.0);
    expect(Operation::Checksum { b: size(65), from: MemoryLevel::Memory }, 239.0, 2.0);
    expect(Operation::IncChecksum { b: size(1), from: MemoryLevel::L1 }, 15.0, 0.0);
}

#[test]
fn arrays_are_read_by_index() {
    // 20 bytes: the addition, three registers, one line; 65: nine registers, two lines.
    expect(Operation::ArrayAccess { es: size(20), max: 256 }, 4.0, 1.0);
    expect(Operation::ArrayAccess { es: size(65), max: 256 }, 10.0, 2.0);
    // Up to 24 bits in one access, beyond in two.
    expect(Operation::LpmLookup { b: size(3), es: size(19) }, 4.0, 1.0);
    expect(Operation::LpmLookup { b: size(4), es: size(19) }, 8.0, 2.0);
}

#[test]
fn hash_tables_are_looked_up() {
    let million = 1 << 20;
    // 4 + 106 + 5 x 2 + 5 x 1; with two components 4 more; 40 bytes: 5 x 5 + 5 x 2; 65: two lines.
    expect(Operation::HtLookup(table(1, 12, million, 0.0)), 125.0, 1.0);
    expect(Operation::HtLookup(table(2, 14, million, 0.0)), 129.0, 1.0);
    expect(Operation::HtLookup(table(1, 40, million, 0.0)), 145.0, 1.0);
    expect(Operation::HtLookup(table(1, 65, million, 0.0)), 170.0, 2.0);
    // A tenth collides: 125 x 1.1 = 137.5 and 1.1 lines, each rounded up; 130 x 1.1 is 143 exactly.
    expect(Operation::HtLookup(table(1, 12, million, 0.1)), 138.0, 2.0);
    expect(Operation::HtLookup(table(1, 23, million, 0.1)), 143.0, 2.0);
}

#[test]
fn hash_tables_are_inserted_into() {
    let million = 1 << 20;
    // 4 + 129 + 7 x 2 + 5 x 1; 4 + 129 + 7 x 3 + 5 x 1; the line is read and written.
    expect(Operation::CtInsertion(table(1, 14, million, 0.0)), 152.0, 2.0);
    expect(Operation::CtInsertion(table(1, 23, million, 0.0)), 159.0, 2.0);
    // 159 x 1.5 = 238.5; twice the two lines that 1.5 rounds up to.
    expect(Operation::CtInsertion(table(1, 23, million, 0.5)), 239.0, 4.0);
}

#[test]
fn a_table_that_fits_the_near_caches_needs_no_access() {
    // 288 KB hold 24,576 entries of 12 bytes: without the transfer into L1, 5 cycles less.
    expect(Operation::HtLookup(table(1, 12, 24_576, 0.0)), 120.0, 0.0);
    expect(Operation::HtLookup(table(1, 12, 24_577, 0.0)), 125.0, 1.0);
    expect(Operation::CtInsertion(table(1, 12, 24_576, 0.0)), 147.0, 0.0);
}

#[test]
fn a_frame_of_the_other_socket_comes_through_memory() {
    let (_, mapping) = host();
    // 78 bytes: two lines; 30 + 5 x 2. 1,518: 24 lines; 30 + 5 x 24.
    let taken = Operation::IoMem { hdr: size(42), data: Size::frame(-42) };
    let remote = |frame| mapping.remote_cost(&taken, frame).unwrap();
    assert_eq!(remote(78), Cost { cycles: 40.0, accesses: 2.0 });
    assert_eq!(remote(1518), Cost { cycles: 150.0, accesses: 24.0 });
    let sum = Operation::Sum { b: size(2) };
    assert_eq!(mapping.remote_cost(&sum, 78), None);
}

#[test]
fn memory_has_the_latency_of_its_formula() {
    let (_, mapping) = host();
    // (9 x 2 + 3) / 1333 MT/s; the printed rates leave out the two: (9 + 3) / 1333 MT/s.
    assert!((mapping.memory_seconds() * 1e9 - 15.754).abs() < 1e-3);
    assert!((1e-6 / mapping.printed_memory_seconds() - 111.083).abs() < 1e-3);
}

#[test]
fn rates_are_what_the_scarcest_resource_allows() {
    let (hardware, mapping) = host();
    let run = Run { cores: 2, memories: 1, links: 2, other_socket: 0.0 };
    let of = |cycles, accesses, frame| {
        rates(&hardware, &mapping, &run, Cost { cycles, accesses }, frame)
    };
    // 2 x 3.6 GHz / 200; 1 / 15.754 ns; 20 Gbit/s in frames of 84 bytes on the wire.
    let near = of(200.0, 1.0, 64);
    assert!((near.cores / 1e6 - 36.0).abs() < 1e-9);
    assert!((near.memory / 1e6 - 63.476).abs() < 1e-3);
    assert!((near.links / 1e6 - 29.762).abs() < 1e-3);
    assert_eq!(near.limit(), Limit::Links);
    assert_eq!(near.packets(), near.links);
    assert!((near.bits(near.links) - 20e9).abs() < 1.0);
    assert_eq!(of(400.0, 1.0, 64).limit(), Limit::Cores);
    assert_eq!(of(200.0, 6.0, 64).limit(), Limit::Memory);
    assert_eq!(of(200.0, 0.0, 64).memory, f64::INFINITY);
}
