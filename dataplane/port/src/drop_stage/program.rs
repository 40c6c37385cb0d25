//! The XDP program that walks a table of tests. The headers that it reads first are those of
//! [`DropTable`'s](super::DropTests) interpreter, field by field.

use crate::bpf::area::Area;
use crate::bpf::assembly::{Alu, Assembly, By, Function, If, Jump, Register, Width};
use crate::classes::{ETHERNET_LEN, IPV4_LEN, IPV6_LEN, PROTOCOL_ICMPV6};
use crate::notes::{NO_CLASS, NOTE_LEN, Notes};
use std::os::fd::AsFd;

use Register::{R0, R1, R2, R3, R4, R5, R6, R7, R8, R9, R10};

/// `XDP_DROP`.
pub(super) const XDP_DROP: u32 = 1;
/// Words of a test, and where each is, bytes.
pub(super) const TEST_WORDS: usize = 8;
const AT: i16 = 0;
const FROM_TRANSPORT: i16 = 4;
const MASK: i16 = 8;
const LO: i16 = 12;
const SPAN: i16 = 16;
const YES: i16 = 20;
const NO: i16 = 24;
const SHORT: i16 = 28;
/// Words of a test that are its targets.
pub(super) const ENDS: std::ops::Range<usize> = YES as usize / 4..TEST_WORDS;
/// 32-bit words of a processor's counter: a cache line.
pub(super) const COUNTER_WORDS: usize = 16;
/// Offsets in `struct xdp_md` of the frame, its end, and its metadata.
const DATA_AT: i16 = 0;
const END_AT: i16 = 4;
const METADATA_AT: i16 = 8;
/// Where the context is kept on the stack.
const CONTEXT_AT: i16 = -8;
/// Bits of an offset in a frame.
const REACH_MASK: i32 = 0x7ff;
/// Ends that stand for a class have this bit, and the class in the bits below.
const CLASS_BIT: i32 = 1 << 16;
const CLASS_MASK: i32 = 0xffff;
/// Targets that are ends and no tests have this bit.
const END_BIT: u32 = 1 << 31;
/// Of the other two ends, the one at which packets are dropped has this bit.
const DROP_BIT: i32 = 1;
/// More fragments, or an offset (RFC 791, section 3.1).
const FRAGMENT: i32 = 0x3fff;

const PROTOCOL_ICMP: u32 = 1;
/// Types of ICMP errors: RFC 792, RFC 4443 section 2.1.
const ERRORS4: &[u32] = &[3, 4, 5, 11, 12];
const ERRORS6: &[u32] = &[1, 2, 3, 4];
/// Next headers of IPv6 behind which another one follows (IANA, IPv6 extension header types).
const EXTENSIONS: [u32; 10] = [0, 43, 44, 51, 60, 135, 139, 140, 253, 254];
/// `ETH_P_QINQ1` of <linux/if_ether.h>.
const OLD_DOUBLE_TAG: u32 = 0x9100;

/// Whether a target is an end that stands for a class.
pub(super) fn is_class(target: u32) -> bool {
    target & !CLASS_MASK.cast_unsigned() == END_BIT | CLASS_BIT.cast_unsigned()
}

/// What a program is made of.
pub(super) struct Parts<'a> {
    /// The tests, of a power of two.
    pub tests: &'a Area,
    pub tests_mask: i32,
    /// A counter for each processor, of a power of two.
    pub counters: &'a Area,
    pub counters_mask: i32,
    pub starts: [u32; 3],
    pub depth: u32,
    pub leaves_errors: bool,
    /// The number of its notes, if it notes classes.
    pub notes: Option<Notes>,
}

/// Drops what the table drops; with all other frames, with notes of their classes if wanted, it
/// goes on as `rest`, which finds the context in R1.
pub(super) fn program(parts: &Parts<'_>, rest: impl FnOnce(&mut Assembly)) -> Assembly {
    let mut program = Assembly::default();
    let mut others = Vec::new();
    program.store(Width::Double, R10, CONTEXT_AT, R1);
    program.load(Width::Word, R8, R1, DATA_AT);
    program.load(Width::Word, R9, R1, END_AT);
    let begins = headers(&mut program, parts, &mut others);
    begins.into_iter().for_each(|jump| program.land(jump));
    let classified = walk(&mut program, parts, &mut others);
    count(&mut program, parts);
    program.give(XDP_DROP as i32);
    others.into_iter().for_each(|jump| program.land(jump));
    program.alu(Alu::Move, R7, By::Value(i32::from(NO_CLASS)));
    program.land(classified);
    if let Some(notes) = parts.notes {
        note(&mut program, notes);
    }
    program.load(Width::Double, R1, R10, CONTEXT_AT);
    rest(&mut program);
    program
}

/// R6 = where the transport header begins, R7 = where the table does. Jumps where both are known,
/// and to `others` where the chain may read other headers.
fn headers(program: &mut Assembly, parts: &Parts<'_>, others: &mut Vec<Jump>) -> [Jump; 3] {
    others.push(ends_before(program, ETHERNET_LEN));
    load_half(program, ETHERNET_LEN - 2);
    for tag in [libc::ETH_P_8021Q as u32, libc::ETH_P_8021AD as u32, OLD_DOUBLE_TAG] {
        others.push(is(program, tag));
    }
    let ipv4 = is(program, libc::ETH_P_IP as u32);
    let ipv6 = is(program, libc::ETH_P_IPV6 as u32);
    program.alu(Alu::Move, R6, By::Value(0));
    let other = begin(program, parts.starts[2]);
    program.land(ipv4);
    read_ipv4(program, parts, others);
    let four = begin(program, parts.starts[0]);
    program.land(ipv6);
    read_ipv6(program, parts, others);
    let six = begin(program, parts.starts[1]);
    [other, four, six]
}

fn begin(program: &mut Assembly, start: u32) -> Jump {
    // An end is the only number with the highest bit; extended with its sign it stays an end.
    program.alu(Alu::Move, R7, By::Value(start.cast_signed()));
    program.jump()
}

fn read_ipv4(program: &mut Assembly, parts: &Parts<'_>, others: &mut Vec<Jump>) {
    others.push(ends_before(program, ETHERNET_LEN + IPV4_LEN));
    load_byte(program, ETHERNET_LEN);
    program.alu(Alu::Move, R6, By::Register(R2));
    program.alu(Alu::ShiftRight, R2, By::Value(4));
    others.push(is_not(program, 4));
    program.alu(Alu::And, R6, By::Value(0x0f));
    program.alu(Alu::ShiftLeft, R6, By::Value(2));
    others.push(program.jump_if(If::Less, R6, By::Value(IPV4_LEN as i32)));
    load_half(program, ETHERNET_LEN + 2);
    others.push(program.jump_if(If::Less, R2, By::Register(R6)));
    others.push(ends_before_more(program, ETHERNET_LEN));
    load_half(program, ETHERNET_LEN + 6);
    program.alu(Alu::And, R2, By::Value(FRAGMENT));
    others.push(is_not(program, 0));
    program.alu(Alu::Add, R6, By::Value(ETHERNET_LEN as i32));
    if parts.leaves_errors {
        load_byte(program, ETHERNET_LEN + 9);
        leave_errors(program, (PROTOCOL_ICMP, ERRORS4), others);
    }
}

fn read_ipv6(program: &mut Assembly, parts: &Parts<'_>, others: &mut Vec<Jump>) {
    others.push(ends_before(program, ETHERNET_LEN + IPV6_LEN));
    load_byte(program, ETHERNET_LEN);
    program.alu(Alu::ShiftRight, R2, By::Value(4));
    others.push(is_not(program, 6));
    load_half(program, ETHERNET_LEN + 4);
    others.push(ends_before_more(program, ETHERNET_LEN + IPV6_LEN));
    load_byte(program, ETHERNET_LEN + 6);
    for extension in EXTENSIONS {
        others.push(is(program, extension));
    }
    program.alu(Alu::Move, R6, By::Value((ETHERNET_LEN + IPV6_LEN) as i32));
    if parts.leaves_errors {
        leave_errors(program, (PROTOCOL_ICMPV6, ERRORS6), others);
    }
}

/// Jumps where the protocol, in R2, is this one and its type an error, or missing.
fn leave_errors(program: &mut Assembly, (protocol, errors): (u32, &[u32]), others: &mut Vec<Jump>) {
    let another = is_not(program, protocol);
    program.alu(Alu::Move, R3, By::Register(R8));
    program.alu(Alu::Add, R3, By::Register(R6));
    program.alu(Alu::Move, R4, By::Register(R3));
    program.alu(Alu::Add, R4, By::Value(1));
    others.push(program.jump_if(If::Greater, R4, By::Register(R9)));
    program.load(Width::Byte, R2, R3, 0);
    for error in errors {
        others.push(is(program, *error));
    }
    program.land(another);
}

/// From test to test, to an end, R7: goes on only where packets are dropped, and jumps by what it
/// gives where their class is known.
fn walk(program: &mut Assembly, parts: &Parts<'_>, others: &mut Vec<Jump>) -> Jump {
    // R0 counts the tests, so that the kernel sees that there is an end.
    program.alu(Alu::Move, R0, By::Value(0));
    let next = program.here();
    // As unsigned numbers, ends are greater than any index.
    let end = program.jump_if(If::Greater, R7, By::Value(i32::MAX));
    program.alu(Alu::Add, R0, By::Value(1));
    others.push(program.jump_if(If::Greater, R0, By::Value(parts.depth.cast_signed())));
    program.alu(Alu::And, R7, By::Value(parts.tests_mask));
    program.alu(Alu::ShiftLeft, R7, By::Value(5));
    program.map_value(R1, parts.tests.as_fd());
    program.alu(Alu::Add, R1, By::Register(R7));
    program.load(Width::Word, R2, R1, AT);
    program.load(Width::Word, R3, R1, FROM_TRANSPORT);
    program.alu(Alu::And, R3, By::Register(R6));
    program.alu(Alu::Add, R2, By::Register(R3));
    program.alu(Alu::And, R2, By::Value(REACH_MASK));
    program.alu(Alu::Move, R3, By::Register(R8));
    program.alu(Alu::Add, R3, By::Register(R2));
    program.alu(Alu::Move, R4, By::Register(R3));
    program.alu(Alu::Add, R4, By::Value(4));
    let short = program.jump_if(If::Greater, R4, By::Register(R9));
    program.load(Width::Word, R2, R3, 0);
    program.network32(R2);
    program.load(Width::Word, R3, R1, MASK);
    program.alu(Alu::And, R2, By::Register(R3));
    // In 64 bits, so that what is below the bound becomes very large.
    program.load(Width::Word, R3, R1, LO);
    program.alu(Alu::Sub, R2, By::Register(R3));
    program.load(Width::Word, R3, R1, SPAN);
    let no = program.jump_if(If::Greater, R2, By::Register(R3));
    program.load(Width::Word, R7, R1, YES);
    program.jump_back(next);
    program.land(no);
    program.load(Width::Word, R7, R1, NO);
    program.jump_back(next);
    program.land(short);
    program.load(Width::Word, R7, R1, SHORT);
    program.jump_back(next);
    program.land(end);
    let classified = program.jump_if(If::Meets, R7, By::Value(CLASS_BIT));
    program.alu(Alu::And, R7, By::Value(DROP_BIT));
    others.push(program.jump_if(If::Equal, R7, By::Value(0)));
    classified
}

/// Notes a class, the lower bits of R7, in front of the frame. Where there is no room, or the frame
/// has metadata of others, it goes on without.
fn note(program: &mut Assembly, notes: Notes) {
    program.load(Width::Double, R1, R10, CONTEXT_AT);
    program.alu(Alu::Move, R2, By::Value(-(NOTE_LEN as i32)));
    program.call(Function::AdjustMeta);
    let refused = program.jump_if(If::Differs, R0, By::Value(0));
    program.load(Width::Double, R1, R10, CONTEXT_AT);
    program.load(Width::Word, R2, R1, METADATA_AT);
    program.load(Width::Word, R3, R1, DATA_AT);
    program.alu(Alu::Move, R4, By::Register(R2));
    program.alu(Alu::Add, R4, By::Value(NOTE_LEN as i32));
    let short = program.jump_if(If::Greater, R4, By::Register(R3));
    // The kernel compares the two for order only.
    let apart = program.jump_if(If::Greater, R3, By::Register(R4));
    program.alu(Alu::And, R7, By::Value(CLASS_MASK));
    program.constant(R5, notes.bits());
    program.alu(Alu::Or, R5, By::Register(R7));
    program.store(Width::Double, R2, 0, R5);
    [refused, short, apart].into_iter().for_each(|jump| program.land(jump));
}

/// Counts a packet: each processor has a counter of its own, and runs one program at a time.
fn count(program: &mut Assembly, parts: &Parts<'_>) {
    program.call(Function::Cpu);
    program.alu(Alu::And, R0, By::Value(parts.counters_mask));
    program.alu(Alu::ShiftLeft, R0, By::Value(6));
    program.map_value(R1, parts.counters.as_fd());
    program.alu(Alu::Add, R1, By::Register(R0));
    program.load(Width::Double, R2, R1, 0);
    program.alu(Alu::Add, R2, By::Value(1));
    program.store(Width::Double, R1, 0, R2);
}

/// Jumps where the frame ends less than so many bytes behind its beginning.
fn ends_before(program: &mut Assembly, len: u32) -> Jump {
    program.alu(Alu::Move, R4, By::Register(R8));
    program.alu(Alu::Add, R4, By::Value(len as i32));
    program.jump_if(If::Greater, R4, By::Register(R9))
}

/// The same with as many bytes more as R2 says.
fn ends_before_more(program: &mut Assembly, len: u32) -> Jump {
    program.alu(Alu::Move, R4, By::Register(R8));
    program.alu(Alu::Add, R4, By::Value(len as i32));
    program.alu(Alu::Add, R4, By::Register(R2));
    program.jump_if(If::Greater, R4, By::Register(R9))
}

fn load_byte(program: &mut Assembly, at: u32) {
    program.load(Width::Byte, R2, R8, at as i16);
}

fn load_half(program: &mut Assembly, at: u32) {
    program.load(Width::Half, R2, R8, at as i16);
    program.network16(R2);
}

fn is(program: &mut Assembly, value: u32) -> Jump {
    program.jump_if(If::Equal, R2, By::Value(value as i32))
}

fn is_not(program: &mut Assembly, value: u32) -> Jump {
    program.jump_if(If::Differs, R2, By::Value(value as i32))
}
