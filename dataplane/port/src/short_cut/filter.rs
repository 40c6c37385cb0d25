//! The filter of a packet socket where sessions can take a short cut: decides whether a packet
//! does, notes that for the program behind it ([`super::redirect`]), and refuses it. All other
//! packets are sorted by class.
//!
//! Both run for a packet one after the other on one processor, and each packet is decided by one
//! filter: that of TCP by the one of the preferred class, that of UDP by the other.

use super::layout::{
    ACK, ACTIVE, BYTES, DEADLINE, END, FLOW_IN, GENERATION, IN_ORDER_UNTIL, MACS_IN, MTU, PACKETS,
    ROOM, SHIFT, half,
};
use super::maps::Maps;
use crate::bpf::assembly::{Alu, Assembly, By, Function, If, Jump, Register, Width};
use crate::classes::{Class, extended};
use std::os::fd::AsFd;

use Register::{R0, R1, R2, R3, R4, R5, R6, R7, R8, R9, R10};

/// Offsets in `struct __sk_buff`.
pub(super) const LEN_AT: i16 = 0;
const VLAN_PRESENT_AT: i16 = 20;
const GSO_SIZE_AT: i16 = 176;

// Where things are on the stack. The network header is aligned to four bytes.
const ETHERNET: i16 = -66;
const IP: i16 = -52;
const TRANSPORT: i16 = -32;
const KEY: i16 = -88;
const INDEX: i16 = -92;
const DECISION: i16 = -96;
/// The longest single packet, without Ethernet.
const LONGEST: i16 = -100;
const PAYLOAD: i16 = -104;
/// All headers, Ethernet's included.
const HEADERS: i16 = -108;
const WIRE_PACKETS: i16 = -112;

const ETHERNET_LEN: i32 = 14;
const IPV4_LEN: i32 = 20;
/// Frames shorter than this may be padded.
const PADDED_LEN: i32 = 60;
/// FIN, SYN, RST, ACK, URG: of these ACK alone may be set.
const FLAGS: i32 = 0x37;
const ACK_ALONE: i32 = 0x10;
pub(super) const TCP: i32 = 6;
pub(super) const UDP: i32 = 17;

/// The program for one class of a port.
pub(super) fn program(maps: &Maps, port: u32, class: Class) -> Assembly {
    let mut program = Assembly::default();
    program.alu(Alu::Move, R6, By::Register(R1));
    let mut no = Vec::new();
    let protocol = if class == Class::Preferred { TCP } else { UDP };
    headers(&mut program, protocol, &mut no);
    lengths(&mut program, protocol, &mut no);
    look_up(&mut program, maps, (port, protocol), &mut no);
    // R1 is the direction.
    let reply = program.jump_if(If::Differs, R1, By::Value(0));
    take(&mut program, maps, (0, protocol), &mut no);
    program.land(reply);
    take(&mut program, maps, (1, protocol), &mut no);
    no.into_iter().for_each(|jump| program.land(jump));
    extended::filter(&mut program, class);
    program
}

/// Reads the headers of an IPv4 packet without options that is no fragment, has a right checksum
/// and may be forwarded.
fn headers(program: &mut Assembly, protocol: i32, no: &mut Vec<Jump>) {
    program.load(Width::Word, R8, R6, LEN_AT);
    program.load(Width::Word, R1, R6, VLAN_PRESENT_AT);
    no.push(program.jump_if(If::Differs, R1, By::Value(0)));
    load_bytes(program, 0, ETHERNET, ETHERNET_LEN + IPV4_LEN, no);
    load_half(program, ETHERNET + 12);
    no.push(program.jump_if(If::Differs, R1, By::Value(libc::ETH_P_IP)));
    program.load(Width::Byte, R1, R10, IP);
    no.push(program.jump_if(If::Differs, R1, By::Value(0x45)));
    program.load(Width::Byte, R1, R10, IP + 9);
    no.push(program.jump_if(If::Differs, R1, By::Value(protocol)));
    load_half(program, IP + 6);
    program.alu(Alu::And, R1, By::Value(0x3FFF));
    no.push(program.jump_if(If::Differs, R1, By::Value(0)));
    program.load(Width::Byte, R1, R10, IP + 8);
    no.push(program.jump_if(If::Less, R1, By::Value(2)));
    let len = if protocol == TCP { 20 } else { 8 };
    load_bytes(program, ETHERNET_LEN + IPV4_LEN, TRANSPORT, len, no);
    checksum(program, no);
}

/// Goes on where the sum over the IP header is all ones (RFC 1071: in any byte order).
fn checksum(program: &mut Assembly, no: &mut Vec<Jump>) {
    program.alu(Alu::Move, R1, By::Value(0));
    for word in 0..5 {
        program.load(Width::Word, R2, R10, IP + word * 4);
        program.alu(Alu::Add, R1, By::Register(R2));
    }
    for _ in 0..3 {
        program.alu(Alu::Move, R2, By::Register(R1));
        program.alu(Alu::ShiftRight, R2, By::Value(16));
        program.alu(Alu::And, R1, By::Value(0xFFFF));
        program.alu(Alu::Add, R1, By::Register(R2));
    }
    no.push(program.jump_if(If::Differs, R1, By::Value(0xFFFF)));
}

/// Reads how long the packet is, and how many packets it is on a wire.
fn lengths(program: &mut Assembly, protocol: i32, no: &mut Vec<Jump>) {
    load_half(program, IP + 2);
    program.alu(Alu::Move, R9, By::Register(R1));
    program.alu(Alu::Move, R2, By::Register(R9));
    program.alu(Alu::Add, R2, By::Value(ETHERNET_LEN));
    no.push(program.jump_if(If::Greater, R2, By::Register(R8)));
    let exact = program.jump_if(If::Equal, R2, By::Register(R8));
    no.push(program.jump_if(If::Greater, R8, By::Value(PADDED_LEN)));
    program.land(exact);
    if protocol == TCP {
        program.load(Width::Byte, R1, R10, TRANSPORT + 13);
        program.alu(Alu::And, R1, By::Value(FLAGS));
        no.push(program.jump_if(If::Differs, R1, By::Value(ACK_ALONE)));
        program.load(Width::Byte, R1, R10, TRANSPORT + 12);
        program.alu(Alu::ShiftRight, R1, By::Value(4));
        program.alu(Alu::ShiftLeft, R1, By::Value(2));
        no.push(program.jump_if(If::Less, R1, By::Value(20)));
    } else {
        load_half(program, TRANSPORT + 4);
        program.alu(Alu::Add, R1, By::Value(IPV4_LEN));
        no.push(program.jump_if(If::Differs, R1, By::Register(R9)));
        program.alu(Alu::Move, R1, By::Value(8));
    }
    // R1 is the length of the transport header, R2 that of both.
    program.alu(Alu::Move, R2, By::Register(R1));
    program.alu(Alu::Add, R2, By::Value(IPV4_LEN));
    no.push(program.jump_if(If::Greater, R2, By::Register(R9)));
    program.alu(Alu::Move, R3, By::Register(R9));
    program.alu(Alu::Sub, R3, By::Register(R2));
    program.store(Width::Word, R10, PAYLOAD, R3);
    program.alu(Alu::Move, R4, By::Register(R2));
    program.alu(Alu::Add, R4, By::Value(ETHERNET_LEN));
    program.store(Width::Word, R10, HEADERS, R4);
    program.store(Width::Word, R10, LONGEST, R9);
    program.store_value(Width::Word, R10, WIRE_PACKETS, 1);
    program.load(Width::Word, R1, R6, GSO_SIZE_AT);
    let single = program.jump_if(If::Equal, R1, By::Value(0));
    if protocol == UDP {
        no.push(program.jump());
    } else {
        program.alu(Alu::Add, R2, By::Register(R1));
        program.store(Width::Word, R10, LONGEST, R2);
        program.alu(Alu::Add, R3, By::Register(R1));
        program.alu(Alu::Sub, R3, By::Value(1));
        program.alu(Alu::Divide, R3, By::Register(R1));
        program.store(Width::Word, R10, WIRE_PACKETS, R3);
    }
    program.land(single);
}

/// R7 = the slot of the packet's session, R1 = its direction.
fn look_up(program: &mut Assembly, maps: &Maps, (port, protocol): (u32, i32), no: &mut Vec<Jump>) {
    program.store_value(Width::Word, R10, KEY, port.cast_signed());
    program.store_value(Width::Word, R10, KEY + 4, protocol);
    for (to, from) in [(KEY + 8, IP + 12), (KEY + 12, IP + 16), (KEY + 16, TRANSPORT)] {
        program.load(Width::Word, R1, R10, from);
        program.store(Width::Word, R10, to, R1);
    }
    program.map(R1, maps.flows.as_fd());
    lookup_at(program, KEY, no);
    program.load(Width::Word, R9, R0, 0);
    program.alu(Alu::Move, R1, By::Register(R9));
    program.alu(Alu::Add, R1, By::Value(1));
    program.store(Width::Word, R10, DECISION, R1);
    program.alu(Alu::Move, R1, By::Register(R9));
    program.alu(Alu::ShiftRight, R1, By::Value(1));
    program.store(Width::Word, R10, INDEX, R1);
    program.map(R1, maps.slots.as_fd());
    lookup_at(program, INDEX, no);
    program.alu(Alu::Move, R7, By::Register(R0));
    program.load(Width::Double, R1, R7, GENERATION);
    program.map_value(R2, maps.generation.as_fd());
    program.load(Width::Double, R2, R2, 0);
    no.push(program.jump_if(If::Differs, R1, By::Register(R2)));
    program.alu(Alu::Move, R1, By::Register(R9));
    program.alu(Alu::And, R1, By::Value(1));
}

/// Ends with the packet taken, if it may be.
fn take(
    program: &mut Assembly,
    maps: &Maps,
    (direction, protocol): (usize, i32),
    no: &mut Vec<Jump>,
) {
    let (own, peer) = (half(direction), half(1 - direction));
    program.load(Width::Word, R1, R7, own + ACTIVE);
    no.push(program.jump_if(If::Differs, R1, By::Value(1)));
    program.call(Function::Now);
    program.alu(Alu::Move, R9, By::Register(R0));
    program.load(Width::Double, R1, R7, own + DEADLINE);
    no.push(program.jump_if(If::NotLess, R9, By::Register(R1)));
    for at in (0..12).step_by(2) {
        program.load(Width::Half, R1, R7, own + MACS_IN + at);
        program.load(Width::Half, R2, R10, ETHERNET + at);
        no.push(program.jump_if(If::Differs, R1, By::Register(R2)));
    }
    for (at, part) in [(0, IP + 12), (4, IP + 16), (8, TRANSPORT)] {
        program.load(Width::Word, R1, R7, own + FLOW_IN + at);
        program.load(Width::Word, R2, R10, part);
        no.push(program.jump_if(If::Differs, R1, By::Register(R2)));
    }
    program.load(Width::Word, R1, R10, LONGEST);
    program.load(Width::Word, R2, R7, own + MTU);
    no.push(program.jump_if(If::Greater, R1, By::Register(R2)));
    if protocol == TCP {
        numbers(program, (own, peer), no);
    }
    // The decision for the program behind.
    program.store_value(Width::Word, R10, INDEX, 0);
    program.map(R1, maps.decision.as_fd());
    lookup_at(program, INDEX, no);
    program.load(Width::Word, R1, R10, DECISION);
    program.store(Width::Word, R0, 0, R1);
    program.store(Width::Word, R0, 4, R8);
    if protocol == TCP {
        advance(program, own);
    }
    program.load(Width::Word, R1, R10, WIRE_PACKETS);
    // A TCP segment without payload that the kernel merged: one.
    let some = program.jump_if(If::Differs, R1, By::Value(0));
    program.alu(Alu::Move, R1, By::Value(1));
    program.land(some);
    program.add_atomically(R7, own + PACKETS, R1);
    program.alu(Alu::Sub, R1, By::Value(1));
    program.load(Width::Word, R2, R10, HEADERS);
    program.alu(Alu::Multiply, R1, By::Register(R2));
    program.alu(Alu::Add, R1, By::Register(R8));
    program.add_atomically(R7, own + BYTES, R1);
    program.give(0);
}

/// Goes on where a receiver would take the segment: as `Side::fits` of thruway-flow has it (RFC
/// 5961 section 5.2). Then R2 is its number, R3 its acknowledgement.
fn numbers(program: &mut Assembly, (own, peer): (i16, i16), no: &mut Vec<Jump>) {
    program.load(Width::Word, R1, R7, peer + ACTIVE);
    no.push(program.jump_if(If::Differs, R1, By::Value(1)));
    load_number(program, R2, TRANSPORT + 4);
    load_number(program, R3, TRANSPORT + 8);
    // Nothing of this direction waits in the software, or it takes too long.
    program.load(Width::Double, R1, R7, own + IN_ORDER_UNTIL);
    let joined = program.jump_if(If::NotLess, R9, By::Register(R1));
    program.load(Width::Word, R4, R7, own + END);
    no.push(program.jump_if(If::Differs, R2, By::Register(R4)));
    program.land(joined);
    // ack - room <= seq <= ack + room, of the peer.
    program.load(Width::Word, R4, R7, peer + ACK);
    program.load(Width::Word, R5, R7, peer + ROOM);
    program.alu(Alu::Move, R1, By::Register(R2));
    program.alu(Alu::Sub, R1, By::Register(R4));
    program.alu(Alu::Add, R1, By::Register(R5));
    low_word(program, R1);
    program.alu(Alu::ShiftLeft, R5, By::Value(1));
    no.push(program.jump_if(If::Greater, R1, By::Register(R5)));
    // The end of the sent bytes is not beyond the window: else the peer's state is not known.
    program.load(Width::Word, R1, R7, own + END);
    program.alu(Alu::Sub, R1, By::Register(R4));
    low_word(program, R1);
    program.load(Width::Word, R5, R7, peer + ROOM);
    program.alu(Alu::Add, R5, By::Value(1));
    let within = program.jump_if(If::Less, R1, By::Register(R5));
    // Or the peer has acknowledged more than was sent here.
    no.push(program.jump_if(If::Less, R1, By::Value(i32::MAX)));
    program.land(within);
    // own ack - own room <= ack <= end of the peer.
    program.load(Width::Word, R4, R7, own + ACK);
    program.load(Width::Word, R5, R7, own + ROOM);
    program.alu(Alu::Sub, R4, By::Register(R5));
    program.load(Width::Word, R5, R7, peer + END);
    program.alu(Alu::Sub, R5, By::Register(R4));
    low_word(program, R5);
    program.alu(Alu::Move, R1, By::Register(R3));
    program.alu(Alu::Sub, R1, By::Register(R4));
    low_word(program, R1);
    no.push(program.jump_if(If::Greater, R1, By::Register(R5)));
}

/// Notes what is new in the segment.
fn advance(program: &mut Assembly, own: i16) {
    program.store_value(Width::Double, R7, own + IN_ORDER_UNTIL, 0);
    load_number(program, R2, TRANSPORT + 4);
    program.load(Width::Word, R1, R10, PAYLOAD);
    program.alu(Alu::Add, R2, By::Register(R1));
    low_word(program, R2);
    store_if_after(program, own + END);
    load_number(program, R2, TRANSPORT + 8);
    store_if_after(program, own + ACK);
    load_half(program, TRANSPORT + 14);
    program.load(Width::Word, R2, R7, own + SHIFT);
    program.alu(Alu::And, R2, By::Value(0x0F));
    program.alu(Alu::ShiftLeft, R1, By::Register(R2));
    program.load(Width::Word, R2, R7, own + ROOM);
    let less = program.jump_if(If::NotLess, R2, By::Register(R1));
    program.store(Width::Word, R7, own + ROOM, R1);
    program.land(less);
}

/// Stores R2 where it is a later number than what stands there.
fn store_if_after(program: &mut Assembly, at: i16) {
    program.load(Width::Word, R1, R7, at);
    program.alu(Alu::Move, R3, By::Register(R2));
    program.alu(Alu::Sub, R3, By::Register(R1));
    low_word(program, R3);
    let before = program.jump_if(If::Greater, R3, By::Value(i32::MAX));
    program.store(Width::Word, R7, at, R2);
    program.land(before);
}

/// Keeps the lower 32 bits.
fn low_word(program: &mut Assembly, register: Register) {
    program.alu(Alu::ShiftLeft, register, By::Value(32));
    program.alu(Alu::ShiftRight, register, By::Value(32));
}

/// A number of 32 bits in the network's byte order.
fn load_number(program: &mut Assembly, to: Register, at: i16) {
    program.load(Width::Word, to, R10, at);
    program.network32(to);
}

/// R1 = a number of 16 bits.
fn load_half(program: &mut Assembly, at: i16) {
    program.load(Width::Half, R1, R10, at);
    program.network16(R1);
}

/// Copies bytes of the frame to the stack.
fn load_bytes(program: &mut Assembly, from: i32, to: i16, len: i32, no: &mut Vec<Jump>) {
    program.alu(Alu::Move, R1, By::Register(R6));
    program.alu(Alu::Move, R2, By::Value(from));
    program.alu(Alu::Move, R3, By::Register(R10));
    program.alu(Alu::Add, R3, By::Value(i32::from(to)));
    program.alu(Alu::Move, R4, By::Value(len));
    program.call(Function::LoadBytes);
    no.push(program.jump_if(If::Differs, R0, By::Value(0)));
}

/// R0 = the value of the key on the stack in the map in R1.
fn lookup_at(program: &mut Assembly, key: i16, no: &mut Vec<Jump>) {
    program.alu(Alu::Move, R2, By::Register(R10));
    program.alu(Alu::Add, R2, By::Value(i32::from(key)));
    program.call(Function::Lookup);
    no.push(program.jump_if(If::Equal, R0, By::Value(0)));
}
