//! The program behind packet sockets: sends on what a filter ([`super::filter`]) has decided to
//! take a short cut, with the headers that the chain would have given it. The packet is not copied.

use super::filter::LEN_AT;
use super::layout::{
    ADDRESSES_OUT, CHECKSUM_AT, CHECKSUM_FLAGS, FLOW_IN, HOPS, INTERFACE, IP_CHANGE, MACS_OUT,
    PORT_CHANGE, PORTS_OUT, PSEUDO_CHANGE, TRANSLATES, half,
};
use super::maps::Maps;
use crate::bpf::assembly::{Alu, Assembly, By, Function, If, Jump, Register, Width};
use std::os::fd::AsFd;

use Register::{R0, R1, R2, R3, R4, R5, R6, R7, R8, R10};

/// `TCX_NEXT`: on to the next program, or to the stack.
pub(super) const NEXT: i32 = -1;

// Where things are in a frame.
const TTL_AT: i32 = 22;
const IP_CHECKSUM_AT: i32 = 24;
const ADDRESSES_AT: i32 = 26;
const PORTS_AT: i32 = 34;
/// `BPF_F_PSEUDO_HDR`: what changes is in the pseudo header, which also open checksums include.
const PSEUDO: i32 = 0x10;

// On the stack.
const INDEX: i16 = -4;
const FLOW: i16 = -16;
const TTL: i16 = -20;

/// The program.
pub(super) fn program(maps: &Maps) -> Assembly {
    let mut program = Assembly::default();
    let mut no = Vec::new();
    program.alu(Alu::Move, R6, By::Register(R1));
    program.store_value(Width::Word, R10, INDEX, 0);
    program.map(R1, maps.decision.as_fd());
    lookup(&mut program, &mut no);
    program.load(Width::Word, R8, R0, 0);
    no.push(program.jump_if(If::Equal, R8, By::Value(0)));
    program.store_value(Width::Word, R0, 0, 0);
    program.load(Width::Word, R1, R0, 4);
    program.load(Width::Word, R2, R6, LEN_AT);
    no.push(program.jump_if(If::Differs, R1, By::Register(R2)));
    program.alu(Alu::Sub, R8, By::Value(1));
    program.alu(Alu::Move, R1, By::Register(R8));
    program.alu(Alu::ShiftRight, R1, By::Value(1));
    program.store(Width::Word, R10, INDEX, R1);
    program.map(R1, maps.slots.as_fd());
    lookup(&mut program, &mut no);
    program.alu(Alu::Move, R7, By::Register(R0));
    program.alu(Alu::And, R8, By::Value(1));
    let reply = program.jump_if(If::Differs, R8, By::Value(0));
    send(&mut program, half(0), &mut no);
    program.land(reply);
    send(&mut program, half(1), &mut no);
    no.into_iter().for_each(|jump| program.land(jump));
    program.give(NEXT);
    program
}

/// R0 = the value of the key at [`INDEX`] in the map in R1.
fn lookup(program: &mut Assembly, no: &mut Vec<Jump>) {
    program.alu(Alu::Move, R2, By::Register(R10));
    program.alu(Alu::Add, R2, By::Value(i32::from(INDEX)));
    program.call(Function::Lookup);
    no.push(program.jump_if(If::Equal, R0, By::Value(0)));
}

/// Ends with the packet forwarded.
fn send(program: &mut Assembly, own: i16, no: &mut Vec<Jump>) {
    load_bytes(program, ADDRESSES_AT, FLOW, 12, no);
    for at in [0, 4, 8] {
        program.load(Width::Word, R1, R10, FLOW + at);
        program.load(Width::Word, R2, R7, own + FLOW_IN + at);
        no.push(program.jump_if(If::Differs, R1, By::Register(R2)));
    }
    store_bytes(program, 0, (R7, own + MACS_OUT), 12);
    program.load(Width::Word, R1, R7, own + HOPS);
    let same = program.jump_if(If::Equal, R1, By::Value(0));
    load_bytes(program, TTL_AT, TTL, 1, no);
    program.load(Width::Byte, R1, R10, TTL);
    program.alu(Alu::Sub, R1, By::Value(1));
    program.store(Width::Byte, R10, TTL, R1);
    store_bytes(program, TTL_AT, (R10, TTL), 1);
    program.land(same);
    program.alu(Alu::Move, R1, By::Register(R6));
    program.alu(Alu::Move, R2, By::Value(IP_CHECKSUM_AT));
    program.alu(Alu::Move, R3, By::Value(0));
    program.load(Width::Word, R4, R7, own + IP_CHANGE);
    program.alu(Alu::Move, R5, By::Value(0));
    program.call(Function::ReplaceIpChecksum);
    program.load(Width::Word, R1, R7, own + TRANSLATES);
    let kept = program.jump_if(If::Equal, R1, By::Value(0));
    for (change, flags) in [(PSEUDO_CHANGE, PSEUDO), (PORT_CHANGE, 0)] {
        program.alu(Alu::Move, R1, By::Register(R6));
        program.load(Width::Word, R2, R7, CHECKSUM_AT);
        program.alu(Alu::Move, R3, By::Value(0));
        program.load(Width::Word, R4, R7, own + change);
        program.load(Width::Word, R5, R7, CHECKSUM_FLAGS);
        program.alu(Alu::Or, R5, By::Value(flags));
        program.call(Function::ReplaceChecksum);
    }
    store_bytes(program, ADDRESSES_AT, (R7, own + ADDRESSES_OUT), 8);
    store_bytes(program, PORTS_AT, (R7, own + PORTS_OUT), 4);
    program.land(kept);
    program.load(Width::Word, R1, R7, own + INTERFACE);
    program.alu(Alu::Move, R2, By::Value(0));
    program.call(Function::Redirect);
    program.exit();
}

fn load_bytes(program: &mut Assembly, from: i32, to: i16, len: i32, no: &mut Vec<Jump>) {
    program.alu(Alu::Move, R1, By::Register(R6));
    program.alu(Alu::Move, R2, By::Value(from));
    program.alu(Alu::Move, R3, By::Register(R10));
    program.alu(Alu::Add, R3, By::Value(i32::from(to)));
    program.alu(Alu::Move, R4, By::Value(len));
    program.call(Function::LoadBytes);
    no.push(program.jump_if(If::Differs, R0, By::Value(0)));
}

fn store_bytes(program: &mut Assembly, at: i32, (base, from): (Register, i16), len: i32) {
    program.alu(Alu::Move, R1, By::Register(R6));
    program.alu(Alu::Move, R2, By::Value(at));
    program.alu(Alu::Move, R3, By::Register(base));
    program.alu(Alu::Add, R3, By::Value(i32::from(from)));
    program.alu(Alu::Move, R4, By::Value(len));
    program.alu(Alu::Move, R5, By::Value(0));
    program.call(Function::StoreBytes);
}
