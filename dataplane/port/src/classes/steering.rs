//! The steering program of AF_XDP: hands each frame to the socket of its queue and class.

use super::{
    Class, DISCOVERY, ETHERNET_LEN, FLAGS_AT, FRAGMENT, IPV4_LEN, IPV6_LEN, NOT_FORWARDED,
    PROTOCOL_ICMPV6, PROTOCOL_TCP, SYN, SYN_AND_ACK, VLAN_LEN,
};
use crate::bpf::assembly::{Alu, Assembly, By, Function, If, Jump, Register, Width};
use std::os::fd::BorrowedFd;

use Register::{R1, R2, R3, R4, R5, R6, R7};

/// `XDP_PASS`: on to the host's stack.
const PASS: i32 = 2;
/// Offsets in `struct xdp_md` of the frame, its end, and the number of its queue.
const DATA_AT: i16 = 0;
const END_AT: i16 = 4;
const QUEUE_AT: i16 = 16;

/// Index in the map of the socket that gets a queue's frames of a class.
pub(crate) fn index(queue: u32, class: Class) -> u32 {
    2 * queue + class as u32
}

/// Redirects each frame to the socket of its queue and class in a socket map. Frames without a
/// socket in the map go to the host's stack.
pub(crate) fn program(map: BorrowedFd<'_>) -> Assembly {
    let mut program = Assembly::default();
    steer(&mut program, map);
    program
}

/// The same behind other instructions, which leave the frame's context in R1.
pub(crate) fn steer(program: &mut Assembly, map: BorrowedFd<'_>) {
    program.load(Width::Word, R6, R1, QUEUE_AT);
    program.alu(Alu::ShiftLeft, R6, By::Value(1));
    by_class(program, |program, class| {
        program.alu(Alu::Move, R2, By::Register(R6));
        program.alu(Alu::Add, R2, By::Value(class as i32));
        program.map(R1, map);
        // The lower bits of the flags are the verdict where the map has no socket (Linux 5.3).
        program.alu(Alu::Move, R3, By::Value(PASS));
        program.call(Function::RedirectMap);
        program.exit();
    });
}

/// Ends with what `end` writes for the class of the frame; R6 is left alone.
pub(super) fn by_class(program: &mut Assembly, end: impl Fn(&mut Assembly, Class)) {
    program.load(Width::Word, R2, R1, DATA_AT);
    program.load(Width::Word, R3, R1, END_AT);
    let mut other = Vec::new();
    let mut preferred = Vec::new();
    other.push(too_short(program, R2, ETHERNET_LEN));
    load_type(program);
    let tags = [libc::ETH_P_8021Q, libc::ETH_P_8021AD].map(|tag| is(program, R5, tag as u32));
    let untagged = program.jump();
    tags.into_iter().for_each(|tag| program.land(tag));
    program.alu(Alu::Add, R2, By::Value(VLAN_LEN as i32));
    other.push(too_short(program, R2, ETHERNET_LEN));
    load_type(program);
    program.land(untagged);
    preferred.push(is(program, R5, libc::ETH_P_ARP as u32));
    let ipv6 = is(program, R5, libc::ETH_P_IPV6 as u32);
    other.push(is_not(program, R5, libc::ETH_P_IP as u32));
    ipv4(program, &mut other);
    preferred.push(program.jump());
    program.land(ipv6);
    other.push(too_short(program, R2, ETHERNET_LEN + IPV6_LEN + 1));
    load_byte(program, R2, ETHERNET_LEN + 6);
    let icmp = is(program, R5, PROTOCOL_ICMPV6);
    other.push(is_not(program, R5, PROTOCOL_TCP));
    other.push(too_short(program, R2, ETHERNET_LEN + IPV6_LEN + FLAGS_AT + 1));
    load_byte(program, R2, ETHERNET_LEN + IPV6_LEN + FLAGS_AT);
    other.push(asks(program));
    preferred.push(program.jump());
    program.land(icmp);
    discovery(program, &mut other);
    preferred.into_iter().for_each(|jump| program.land(jump));
    end(program, Class::Preferred);
    other.into_iter().for_each(|jump| program.land(jump));
    end(program, Class::Other);
}

/// Goes on where a packet is a whole TCP segment that asks for no connection.
fn ipv4(program: &mut Assembly, other: &mut Vec<Jump>) {
    other.push(too_short(program, R2, ETHERNET_LEN + IPV4_LEN));
    load_byte(program, R2, ETHERNET_LEN + 9);
    other.push(is_not(program, R5, PROTOCOL_TCP));
    load_half(program, ETHERNET_LEN + 6);
    program.alu(Alu::And, R5, By::Value(FRAGMENT as i32));
    other.push(is_not(program, R5, 0));
    // The length of the header, in words of four bytes.
    program.load(Width::Byte, R7, R2, ETHERNET_LEN as i16);
    program.alu(Alu::And, R7, By::Value(0x0F));
    program.alu(Alu::ShiftLeft, R7, By::Value(2));
    program.alu(Alu::Add, R7, By::Register(R2));
    other.push(too_short(program, R7, ETHERNET_LEN + FLAGS_AT + 1));
    load_byte(program, R7, ETHERNET_LEN + FLAGS_AT);
    other.push(asks(program));
}

/// Goes on where an ICMPv6 message is one of neighbour discovery.
fn discovery(program: &mut Assembly, other: &mut Vec<Jump>) {
    load_byte(program, R2, ETHERNET_LEN + 7);
    other.push(is_not(program, R5, NOT_FORWARDED));
    load_byte(program, R2, ETHERNET_LEN + IPV6_LEN);
    other.push(program.jump_if(If::Less, R5, By::Value(*DISCOVERY.start() as i32)));
    other.push(program.jump_if(If::Greater, R5, By::Value(*DISCOVERY.end() as i32)));
}

/// Jumps where the frame ends less than so many bytes behind a place.
fn too_short(program: &mut Assembly, from: Register, len: u32) -> Jump {
    program.alu(Alu::Move, R4, By::Register(from));
    program.alu(Alu::Add, R4, By::Value(len as i32));
    program.jump_if(If::Greater, R4, By::Register(R3))
}

/// R5 = the frame's type, where a tag was skipped or there is none.
fn load_type(program: &mut Assembly) {
    load_half(program, ETHERNET_LEN - 2);
}

fn load_half(program: &mut Assembly, at: u32) {
    program.load(Width::Half, R5, R2, at as i16);
    program.network16(R5);
}

fn load_byte(program: &mut Assembly, from: Register, at: u32) {
    program.load(Width::Byte, R5, from, at as i16);
}

fn is(program: &mut Assembly, register: Register, value: u32) -> Jump {
    program.jump_if(If::Equal, register, By::Value(value as i32))
}

fn is_not(program: &mut Assembly, register: Register, value: u32) -> Jump {
    program.jump_if(If::Differs, register, By::Value(value as i32))
}

/// Jumps where TCP's flags, in R5, ask for a connection.
fn asks(program: &mut Assembly) -> Jump {
    program.alu(Alu::And, R5, By::Value(SYN_AND_ACK as i32));
    is(program, R5, SYN)
}
