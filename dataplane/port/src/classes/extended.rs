//! The filters of classes ([`super::socket_filter`]) in extended BPF, as the end of a program that
//! does more: instruction by instruction, as the kernel translates classic BPF, too.

use super::{Class, socket_filter};
use crate::bpf::assembly::{Alu, Assembly, By, If, Jump, Register, Width};
use libc::{
    BPF_ABS, BPF_ADD, BPF_AND, BPF_B, BPF_H, BPF_IND, BPF_JEQ, BPF_JGE, BPF_JGT, BPF_JSET, BPF_LEN,
    BPF_MSH, sock_filter,
};

/// The accumulator, which loads from the frame are to, and the index register.
const A: Register = Register::R0;
const X: Register = Register::R7;
/// The context, where loads from the frame expect it, and the frame's length in it.
const CONTEXT: Register = Register::R6;
const LEN_AT: i16 = 0;

/// Ends a program with the filter of a class for Ethernet frames; its context is in R6.
pub(crate) fn filter(program: &mut Assembly, class: Class) {
    let steps = socket_filter::filter(class, true);
    let mut landing: Vec<Vec<Jump>> = steps.iter().map(|_| Vec::new()).collect();
    for (at, step) in steps.iter().enumerate() {
        std::mem::take(&mut landing[at]).into_iter().for_each(|jump| program.land(jump));
        for (to, jump) in translate(program, step, at) {
            landing[to].push(jump);
        }
    }
}

/// Writes one instruction; gives where its jumps are to land.
fn translate(program: &mut Assembly, step: &sock_filter, at: usize) -> Vec<(usize, Jump)> {
    let (code, value) = (u32::from(step.code), step.k.cast_signed());
    // What the classes of <linux/bpf_common.h> have in the lowest three bits.
    match code & 0x07 {
        libc::BPF_LD => load(program, code, value),
        // The length of an IPv4 header: the only such load.
        libc::BPF_LDX => {
            debug_assert_eq!(code & 0xE0, BPF_MSH);
            program.load_frame(Width::Byte, value);
            program.alu(Alu::And, A, By::Value(0x0F));
            program.alu(Alu::ShiftLeft, A, By::Value(2));
            program.alu(Alu::Move, X, By::Register(A));
        }
        libc::BPF_ALU => {
            debug_assert!(matches!(code & 0xF0, BPF_AND | BPF_ADD));
            let operation = if code & 0xF0 == BPF_AND { Alu::And } else { Alu::Add };
            program.alu(operation, A, By::Value(value));
        }
        libc::BPF_MISC => {
            let (to, from) = if code & 0xF8 == libc::BPF_TXA { (A, X) } else { (X, A) };
            program.alu(Alu::Move, to, By::Register(from));
        }
        libc::BPF_RET => program.give(value),
        _ => return branch(program, step, at),
    }
    Vec::new()
}

fn load(program: &mut Assembly, code: u32, value: i32) {
    let width = match code & 0x18 {
        BPF_B => Width::Byte,
        BPF_H => Width::Half,
        _ => Width::Word,
    };
    match code & 0xE0 {
        BPF_LEN => program.load(Width::Word, A, CONTEXT, LEN_AT),
        BPF_IND => program.load_frame_behind(width, X, value),
        mode => {
            debug_assert_eq!(mode, BPF_ABS);
            program.load_frame(width, value);
        }
    }
}

fn branch(program: &mut Assembly, step: &sock_filter, at: usize) -> Vec<(usize, Jump)> {
    let code = u32::from(step.code);
    let what = match code & 0xF0 {
        BPF_JEQ => If::Equal,
        BPF_JGT => If::Greater,
        BPF_JGE => If::NotLess,
        condition => {
            debug_assert_eq!(condition, BPF_JSET);
            If::Meets
        }
    };
    let by = match code & libc::BPF_X {
        0 => By::Value(step.k.cast_signed()),
        _ => By::Register(X),
    };
    let yes = program.jump_if(what, A, by);
    let no = program.jump();
    let to = |distance: u8| at + 1 + usize::from(distance);
    vec![(to(step.jt), yes), (to(step.jf), no)]
}
