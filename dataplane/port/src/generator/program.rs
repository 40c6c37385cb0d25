//! The programs of generator and sink.

use super::latency;
use super::stream::{FRAME_LEN_MIN, HEAD_LEN, PORTS, Stream};
use crate::bpf::assembly::{Alu, Assembly, By, Function, If, Jump, Register, Width};
use std::os::fd::BorrowedFd;

use By::Value;
use Register::{R0, R1, R2, R3, R4, R5, R6, R7, R8, R9, R10};

// What an XDP program says of a frame.
const DROP: i32 = 1;
const PASS: i32 = 2;
// Where the frame begins and ends, in `struct xdp_md`.
const DATA_AT: i16 = 0;
const DATA_END_AT: i16 = 4;

/// Words of the program's state: what it counts, the head of all frames, how fast they are made.
pub(super) const STATE_WORDS: usize = 11;
// Where a sink counts.
pub(super) const PACKETS_AT: i16 = 0;
pub(super) const BYTES_AT: i16 = 8;
pub(super) const DISORDERED_AT: i16 = 16;
pub(super) const OTHERS_AT: i16 = 24;

/// What the payload begins with ("TWgn").
const MARK: i32 = i32::from_ne_bytes(*b"TWgn");
// Places in a frame.
const IP_CHECKSUM_AT: i16 = 24;
const DESTINATION_AT: i16 = 30;
const SOURCE_PORT_AT: i16 = 34;
const MARK_AT: i16 = HEAD_LEN as i16;
const FLOW_AT: i16 = MARK_AT + 4;
const NUMBER_AT: i16 = MARK_AT + 8;
/// The lower half of the kernel's nanoseconds when a paced frame was made; 0: it was not paced.
const STAMP_AT: i16 = MARK_AT + 16;
// Places in a generator's state.
const NEXT_NUMBER_AT: i16 = 0;
const NEXT_FLOW_AT: i16 = 8;
const HEAD_AT: i16 = 16;
const DUE_AT: i16 = DUE as i16 * 8;
const INTERVAL_AT: i16 = INTERVAL as i16 * 8;
const LEFT_AT: i16 = LEFT as i16 * 8;
// Words of the state that are set while it does not run.
/// When the next frame may be made, in the kernel's nanoseconds; kept by the program.
const DUE: usize = 8;
/// Nanoseconds between frames, at least; 0: as fast as it can.
pub(super) const INTERVAL: usize = 9;
/// Frames that are to be made still.
pub(super) const LEFT: usize = 10;

/// A generator's state at the beginning: number and flow are 0, nothing is to be made.
pub(super) fn initial_state(head: &[u8; HEAD_LEN]) -> [u64; STATE_WORDS] {
    let mut bytes = [0; STATE_WORDS * 8];
    bytes[HEAD_AT as usize..][..HEAD_LEN].copy_from_slice(head);
    let words = bytes.as_chunks::<8>().0;
    std::array::from_fn(|at| u64::from_ne_bytes(words[at]))
}

/// Frames made by then.
pub(super) fn made(state: &[u64; STATE_WORDS], flows: u32) -> u64 {
    let flow = u32::from_ne_bytes(state[1].to_ne_bytes()[..4].try_into().expect("four"));
    state[0] * u64::from(flows) + u64::from(flow)
}

/// Loads where the frame begins and ends into R2 and R3, and jumps if it is shorter than all of
/// ours.
fn frame(program: &mut Assembly, context: Register) -> Jump {
    program.load(Width::Word, R2, context, DATA_AT);
    program.load(Width::Word, R3, context, DATA_END_AT);
    program.alu(Alu::Move, R4, By::Register(R2));
    program.alu(Alu::Add, R4, Value(FRAME_LEN_MIN as i32));
    program.jump_if(If::Greater, R4, By::Register(R3))
}

/// Writes the next frame of a stream, and redirects it to the interface in a map.
pub(super) fn generating(
    stream: &Stream,
    state: BorrowedFd<'_>,
    interfaces: BorrowedFd<'_>,
) -> Assembly {
    let mut program = Assembly::default();
    program.alu(Alu::Move, R9, By::Register(R1));
    program.map_value(R6, state);
    let [none_left, not_due] = wait_for_turn(&mut program);
    let short = frame(&mut program, R9);
    take_number(&mut program, stream.flows);
    copy_head(&mut program);
    program.store_value(Width::Word, R2, MARK_AT, MARK);
    program.store(Width::Word, R2, FLOW_AT, R5);
    program.store(Width::Double, R2, NUMBER_AT, R7);
    program.load(Width::Word, R0, R10, STAMP_KEPT_AT);
    program.store(Width::Word, R2, STAMP_AT, R0);
    write_addresses(&mut program, stream);
    program.map(R1, interfaces);
    program.alu(Alu::Move, R2, Value(0));
    program.alu(Alu::Move, R3, Value(0));
    program.call(Function::RedirectMap);
    program.exit();
    for jump in [none_left, not_due, short] {
        program.land(jump);
    }
    program.give(DROP);
    program
}

/// Where a frame's time is kept on the stack.
const STAMP_KEPT_AT: i16 = -4;
/// What was missed of a pace is made up for if it is no more than this, nanoseconds: at a million
/// frames a second 50 then come at once, which every ring has room for.
const MISSED_MAX_NS: i32 = 50_000;

/// Jumps if no frame is to be made, or not yet: then the page comes again.
fn wait_for_turn(program: &mut Assembly) -> [Jump; 2] {
    program.load(Width::Double, R7, R6, LEFT_AT);
    let none_left = program.jump_if(If::Equal, R7, Value(0));
    program.store_value(Width::Word, R10, STAMP_KEPT_AT, 0);
    program.load(Width::Double, R8, R6, INTERVAL_AT);
    let unpaced = program.jump_if(If::Equal, R8, Value(0));
    program.call(Function::Now);
    program.load(Width::Double, R1, R6, DUE_AT);
    let not_due = program.jump_if(If::Less, R0, By::Register(R1));
    program.store(Width::Word, R10, STAMP_KEPT_AT, R0);
    program.alu(Alu::Add, R1, By::Register(R8));
    program.alu(Alu::Sub, R0, Value(MISSED_MAX_NS));
    let in_time = program.jump_if(If::NotLess, R1, By::Register(R0));
    program.alu(Alu::Move, R1, By::Register(R0));
    program.land(in_time);
    program.store(Width::Double, R6, DUE_AT, R1);
    program.land(unpaced);
    program.alu(Alu::Sub, R7, Value(1));
    program.store(Width::Double, R6, LEFT_AT, R7);
    [none_left, not_due]
}

/// R7 is the number and R5 the flow of this frame; those of the next are kept.
fn take_number(program: &mut Assembly, flows: u32) {
    program.load(Width::Double, R7, R6, NEXT_NUMBER_AT);
    program.load(Width::Word, R5, R6, NEXT_FLOW_AT);
    program.alu(Alu::Move, R0, By::Register(R5));
    program.alu(Alu::Add, R0, Value(1));
    let same_number = program.jump_if(If::Less, R0, Value(flows.cast_signed()));
    program.alu(Alu::Move, R0, Value(0));
    program.alu(Alu::Move, R8, By::Register(R7));
    program.alu(Alu::Add, R8, Value(1));
    program.store(Width::Double, R6, NEXT_NUMBER_AT, R8);
    program.land(same_number);
    program.store(Width::Word, R6, NEXT_FLOW_AT, R0);
}

/// All headers: the previous user of the page may have changed them.
fn copy_head(program: &mut Assembly) {
    const { assert!(HEAD_LEN == 5 * 8 + 2) };
    for at in [0, 8, 16, 24, 32] {
        program.load(Width::Double, R0, R6, HEAD_AT + at);
        program.store(Width::Double, R2, at, R0);
    }
    program.load(Width::Half, R0, R6, HEAD_AT + 40);
    program.store(Width::Half, R2, 40, R0);
}

/// The destination, the header's checksum and the source port of the flow in R5.
fn write_addresses(program: &mut Assembly, stream: &Stream) {
    let [first, second, third, fourth] = stream.destination.octets();
    let network = i32::from(u16::from_be_bytes([first, second]));
    let host = i32::from(u16::from_be_bytes([third, fourth]));
    // R8 is the network, R9 the host in it.
    program.alu(Alu::Move, R8, By::Register(R5));
    program.alu(Alu::And, R8, Value(stream.networks.cast_signed() - 1));
    program.alu(Alu::Move, R9, By::Register(R5));
    program.alu(Alu::ShiftRight, R9, Value(stream.networks.ilog2().cast_signed()));
    // The sum of the header of flow 0 and of what differs; three words of 16 bits fold twice.
    program.alu(Alu::Move, R0, Value(stream.ip_sum().into()));
    program.alu(Alu::Add, R0, By::Register(R8));
    program.alu(Alu::Add, R0, By::Register(R9));
    for _ in 0..2 {
        program.alu(Alu::Move, R1, By::Register(R0));
        program.alu(Alu::ShiftRight, R1, Value(16));
        program.alu(Alu::And, R0, Value(0xFFFF));
        program.alu(Alu::Add, R0, By::Register(R1));
    }
    program.alu(Alu::Xor, R0, Value(0xFFFF));
    program.alu(Alu::Add, R8, Value(network));
    program.alu(Alu::Add, R9, Value(host));
    program.alu(Alu::And, R5, Value(PORTS.cast_signed() - 1));
    program.alu(Alu::Add, R5, Value(stream.source_port.into()));
    let fields = [
        (R0, IP_CHECKSUM_AT),
        (R8, DESTINATION_AT),
        (R9, DESTINATION_AT + 2),
        (R5, SOURCE_PORT_AT),
    ];
    for (register, at) in fields {
        program.network16(register);
        program.store(Width::Half, R2, at, register);
    }
}

/// Counts and drops frames of a stream, records their latency if they say when they
/// were made, and looks whether each is the next of its flow or a later one; others pass.
pub(super) fn counting(
    counts: BorrowedFd<'_>,
    flows: BorrowedFd<'_>,
    latencies: BorrowedFd<'_>,
) -> Assembly {
    /// The key of the flow, on the stack.
    const KEY_AT: i16 = -4;
    let mut program = Assembly::default();
    program.alu(Alu::Move, R9, By::Register(R1));
    program.map_value(R6, counts);
    let short = frame(&mut program, R9);
    program.load(Width::Word, R5, R2, MARK_AT);
    program.alu(Alu::Move, R4, Value(MARK));
    let other = program.jump_if(If::Differs, R5, By::Register(R4));
    add(&mut program, PACKETS_AT, Value(1));
    program.alu(Alu::Sub, R3, By::Register(R2));
    add(&mut program, BYTES_AT, By::Register(R3));
    program.load(Width::Double, R7, R2, NUMBER_AT);
    program.load(Width::Word, R0, R2, FLOW_AT);
    program.store(Width::Word, R10, KEY_AT, R0);
    program.load(Width::Word, R8, R2, STAMP_AT);
    latency::note(&mut program, latencies);
    program.map(R1, flows);
    program.alu(Alu::Move, R2, By::Register(R10));
    program.alu(Alu::Add, R2, Value(KEY_AT.into()));
    program.call(Function::Lookup);
    // A flow that is none of ours.
    let unknown = program.jump_if(If::Equal, R0, Value(0));
    program.load(Width::Double, R8, R0, 0);
    let in_order = program.jump_if(If::NotLess, R7, By::Register(R8));
    add(&mut program, DISORDERED_AT, Value(1));
    program.give(DROP);
    program.land(in_order);
    program.alu(Alu::Add, R7, Value(1));
    program.store(Width::Double, R0, 0, R7);
    program.land(unknown);
    program.give(DROP);
    program.land(short);
    program.land(other);
    add(&mut program, OTHERS_AT, Value(1));
    program.give(PASS);
    program
}

/// Adds to one of the counts at R6; R0 is lost. Not atomically: a queue's frames are looked at one
/// after the other.
fn add(program: &mut Assembly, at: i16, amount: By) {
    program.load(Width::Double, R0, R6, at);
    program.alu(Alu::Add, R0, amount);
    program.store(Width::Double, R6, at, R0);
}
