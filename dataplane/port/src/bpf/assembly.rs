//! Programs for the kernel, written instruction by instruction; the encoding is that of RFC 9669.

use std::os::fd::{AsRawFd, BorrowedFd};

/// One instruction (`struct bpf_insn`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(C)]
pub(crate) struct Instruction {
    code: u8,
    /// Destination in the low, source in the high half (on a little-endian machine).
    registers: u8,
    offset: i16,
    immediate: i32,
}

#[cfg(all(test, target_endian = "little"))]
impl Instruction {
    pub(super) fn bytes(&self) -> [u8; 8] {
        let ([o0, o1], [i0, i1, i2, i3]) =
            (self.offset.to_le_bytes(), self.immediate.to_le_bytes());
        [self.code, self.registers, o0, o1, i0, i1, i2, i3]
    }
}

/// A register: R0 is what a function or the program returns, R1 to R5 are arguments, which a call
/// loses, R10 is the top of the stack.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Register {
    R0,
    R1,
    R2,
    R3,
    R4,
    R5,
    R6,
    R7,
    R8,
    R9,
    R10,
}

/// How much is loaded or stored: the bits of the code.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Width {
    Word = 0x00,
    Half = 0x08,
    Byte = 0x10,
    Double = 0x18,
}

/// What is done to a 64-bit register: the bits of the code.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Alu {
    Add = 0x00,
    Sub = 0x10,
    Multiply = 0x20,
    Divide = 0x30,
    Or = 0x40,
    And = 0x50,
    ShiftLeft = 0x60,
    ShiftRight = 0x70,
    Xor = 0xA0,
    Move = 0xB0,
}

/// When to jump, comparing without signs: the bits of the code.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum If {
    Equal = 0x10,
    Greater = 0x20,
    NotLess = 0x30,
    /// They have a bit in common.
    Meets = 0x40,
    Differs = 0x50,
    Less = 0xA0,
}

/// The other side of an operation or comparison.
#[derive(Debug, Clone, Copy)]
pub(crate) enum By {
    Register(Register),
    /// Extended to 64 bits with its sign.
    Value(i32),
}

/// A function of the kernel that programs may call, as numbered in <linux/bpf.h>.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Function {
    /// `bpf_map_lookup_elem(map, key)`.
    Lookup = 1,
    /// `bpf_ktime_get_ns()`.
    Now = 5,
    /// `bpf_get_smp_processor_id()`.
    Cpu = 8,
    /// `bpf_skb_store_bytes(skb, offset, from, len, flags)`.
    StoreBytes = 9,
    /// `bpf_l3_csum_replace(skb, offset, from, to, flags)`.
    ReplaceIpChecksum = 10,
    /// `bpf_l4_csum_replace(skb, offset, from, to, flags)`.
    ReplaceChecksum = 11,
    /// `bpf_redirect(ifindex, flags)`.
    Redirect = 23,
    /// `bpf_skb_load_bytes(skb, offset, to, len)`.
    LoadBytes = 26,
    /// `bpf_redirect_map(map, key, flags)`.
    RedirectMap = 51,
    /// `bpf_xdp_adjust_meta(xdp, bytes behind)`.
    AdjustMeta = 54,
}

/// A jump with a target that is not set yet.
#[must_use]
pub(crate) struct Jump(usize);

/// An instruction that jumps can go back to.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Label(usize);

/// A program that is being written.
#[derive(Debug, Default)]
pub(crate) struct Assembly(Vec<Instruction>);

// Classes and codes of <linux/bpf_common.h> and <linux/bpf.h>.
const LOAD_CONSTANT: u8 = 0x18;
const LOAD: u8 = 0x61;
const STORE_VALUE: u8 = 0x62;
const STORE: u8 = 0x63;
const LOAD_FRAME: u8 = 0x20;
const LOAD_FRAME_INDEXED: u8 = 0x40;
/// An addition to 64 bits of memory that is atomic.
const ADD_ATOMICALLY: u8 = 0xDB;
const ALU64: u8 = 0x07;
const JUMP: u8 = 0x05;
const BY_REGISTER: u8 = 0x08;
const TO_BIG_ENDIAN: u8 = 0xDC;
const CALL: u8 = 0x85;
const EXIT: u8 = 0x95;
// What the source register says of 64 bits that stand in two instructions.
const MAP_DESCRIPTOR: u8 = 1;
const MAP_VALUE: u8 = 2;

impl Assembly {
    fn push(&mut self, code: u8, [to, from]: [u8; 2], offset: i16, immediate: i32) -> usize {
        let registers = if cfg!(target_endian = "big") { to << 4 | from } else { from << 4 | to };
        self.0.push(Instruction { code, registers, offset, immediate });
        self.0.len() - 1
    }

    /// `to = *(from + offset)`
    pub(crate) fn load(&mut self, width: Width, to: Register, from: Register, offset: i16) {
        self.push(LOAD + width as u8, [to as u8, from as u8], offset, 0);
    }

    /// `*(to + offset) = from`
    pub(crate) fn store(&mut self, width: Width, to: Register, offset: i16, from: Register) {
        self.push(STORE + width as u8, [to as u8, from as u8], offset, 0);
    }

    /// `*(to + offset) = value`
    pub(crate) fn store_value(&mut self, width: Width, to: Register, offset: i16, value: i32) {
        self.push(STORE_VALUE + width as u8, [to as u8, 0], offset, value);
    }

    /// `*(to + offset) += from`, 64 bits, atomically.
    pub(crate) fn add_atomically(&mut self, to: Register, offset: i16, from: Register) {
        self.push(ADD_ATOMICALLY, [to as u8, from as u8], offset, 0);
    }

    /// R0 = bytes of the packet with its context in R6, in the host's byte order; the program ends
    /// with 0 where the packet is shorter. R1 to R5 are lost.
    pub(crate) fn load_frame(&mut self, width: Width, at: i32) {
        self.push(LOAD_FRAME + width as u8, [0, 0], 0, at);
    }

    /// The same, so many bytes behind the number in a register.
    pub(crate) fn load_frame_behind(&mut self, width: Width, index: Register, at: i32) {
        self.push(LOAD_FRAME_INDEXED + width as u8, [0, index as u8], 0, at);
    }

    /// `to = to OP by`
    pub(crate) fn alu(&mut self, operation: Alu, to: Register, by: By) {
        let code = ALU64 + operation as u8;
        match by {
            By::Register(from) => self.push(code + BY_REGISTER, [to as u8, from as u8], 0, 0),
            By::Value(value) => self.push(code, [to as u8, 0], 0, value),
        };
    }

    /// The lower 16 bits of a register, and nothing else, in the network's byte order.
    pub(crate) fn network16(&mut self, register: Register) {
        self.push(TO_BIG_ENDIAN, [register as u8, 0], 0, 16);
    }

    /// The lower 32 bits of a register, and nothing else, in the network's byte order.
    pub(crate) fn network32(&mut self, register: Register) {
        self.push(TO_BIG_ENDIAN, [register as u8, 0], 0, 32);
    }

    /// `to` = 64 bits.
    pub(crate) fn constant(&mut self, to: Register, value: u64) {
        let [low, high] = [value as u32, (value >> 32) as u32].map(u32::cast_signed);
        self.push(LOAD_CONSTANT, [to as u8, 0], 0, low);
        self.push(0, [0, 0], 0, high);
    }

    /// `to` = a map, for calls.
    pub(crate) fn map(&mut self, to: Register, map: BorrowedFd<'_>) {
        self.push(LOAD_CONSTANT, [to as u8, MAP_DESCRIPTOR], 0, map.as_raw_fd());
        self.push(0, [0, 0], 0, 0);
    }

    /// `to` = where the value of an array map of one entry stands.
    pub(crate) fn map_value(&mut self, to: Register, map: BorrowedFd<'_>) {
        self.push(LOAD_CONSTANT, [to as u8, MAP_VALUE], 0, map.as_raw_fd());
        self.push(0, [0, 0], 0, 0);
    }

    /// Goes on elsewhere if a comparison holds.
    pub(crate) fn jump_if(&mut self, what: If, left: Register, right: By) -> Jump {
        let code = JUMP + what as u8;
        Jump(match right {
            By::Register(right) => self.push(code + BY_REGISTER, [left as u8, right as u8], 0, 0),
            By::Value(value) => self.push(code, [left as u8, 0], 0, value),
        })
    }

    /// Goes on elsewhere.
    pub(crate) fn jump(&mut self) -> Jump {
        Jump(self.push(JUMP, [0, 0], 0, 0))
    }

    /// The next instruction.
    pub(crate) fn here(&self) -> Label {
        Label(self.0.len())
    }

    /// Goes on at an instruction before this one.
    pub(crate) fn jump_back(&mut self, to: Label) {
        let offset = to.0 as i64 - self.0.len() as i64 - 1;
        self.push(JUMP, [0, 0], offset as i16, 0);
    }

    /// The jump lands here.
    pub(crate) fn land(&mut self, jump: Jump) {
        // Programs are some dozens of instructions.
        self.0[jump.0].offset = (self.0.len() - jump.0 - 1) as i16;
    }

    /// Calls a function with R1 to R5; R0 is what it returns.
    pub(crate) fn call(&mut self, function: Function) {
        self.push(CALL, [0, 0], 0, function as i32);
    }

    /// Ends the program with this value.
    pub(crate) fn give(&mut self, value: i32) {
        self.alu(Alu::Move, Register::R0, By::Value(value));
        self.exit();
    }

    /// Ends the program with what is in R0.
    pub(crate) fn exit(&mut self) {
        self.push(EXIT, [0, 0], 0, 0);
    }

    /// The program.
    pub(crate) fn instructions(&self) -> &[Instruction] {
        &self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_instruction_has_eight_bytes() {
        assert_eq!(size_of::<Instruction>(), 8);
    }

    #[cfg(target_endian = "little")]
    #[test]
    fn the_bytes_are_those_of_the_instruction_set() {
        use Register::{R0, R1, R2, R8};
        let mut program = Assembly::default();
        program.load(Width::Half, R2, R1, 4);
        program.store(Width::Double, R1, -8, R2);
        program.store_value(Width::Word, R1, 2, -1);
        let jump = program.jump_if(If::Greater, R2, By::Register(R8));
        program.alu(Alu::Sub, R2, By::Value(3));
        program.network16(R8);
        program.land(jump);
        program.give(1);
        program.constant(R8, 0x0102_0304_0506_0708);
        let bytes: Vec<[u8; 8]> = program.instructions().iter().map(Instruction::bytes).collect();
        let expected = [
            [0x69, 0x12, 4, 0, 0, 0, 0, 0],             // r2 = *(u16 *)(r1 + 4)
            [0x7B, 0x21, 0xF8, 0xFF, 0, 0, 0, 0],       // *(u64 *)(r1 - 8) = r2
            [0x62, 0x01, 2, 0, 0xFF, 0xFF, 0xFF, 0xFF], // *(u32 *)(r1 + 2) = -1
            [0x2D, 0x82, 2, 0, 0, 0, 0, 0],             // if r2 > r8 goto +2
            [0x17, 0x02, 0, 0, 3, 0, 0, 0],             // r2 -= 3
            [0xDC, 0x08, 0, 0, 16, 0, 0, 0],            // r8 = be16 r8
            [0xB7, R0 as u8, 0, 0, 1, 0, 0, 0],         // r0 = 1
            [0x95, 0, 0, 0, 0, 0, 0, 0],                // exit
            [0x18, 0x08, 0, 0, 8, 7, 6, 5],             // r8 = 0x0102030405060708 ll
            [0, 0, 0, 0, 4, 3, 2, 1],
        ];
        assert_eq!(bytes, expected);
    }
}
