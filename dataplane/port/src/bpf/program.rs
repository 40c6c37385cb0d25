//! Programs that run in the kernel for what an interface receives, written by hand; see ADR 12.

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

// Codes of <linux/bpf_common.h> and <linux/bpf.h>.
/// `BPF_LDX | BPF_MEM | BPF_W`: load a 32-bit word.
const LOAD_WORD: u8 = 0x61;
/// `BPF_LD | BPF_IMM | BPF_DW`: load 64 bits that stand in this and the next instruction.
const LOAD_DOUBLE: u8 = 0x18;
/// `BPF_ALU64 | BPF_MOV | BPF_K`: move a constant.
const MOVE: u8 = 0xB7;
/// `BPF_JMP | BPF_CALL`.
const CALL: u8 = 0x85;
/// `BPF_JMP | BPF_EXIT`.
const EXIT: u8 = 0x95;
/// `BPF_PSEUDO_MAP_FD`, as source register: the 64 bits are a map, named by its descriptor.
const MAP_DESCRIPTOR: u8 = 1;
/// `bpf_redirect_map(map, key, flags)`.
const REDIRECT_MAP: i32 = 51;
/// `XDP_PASS`: on to the host's stack.
const PASS: i32 = 2;
/// Offset of `rx_queue_index` in `struct xdp_md`.
const QUEUE_AT: i16 = 16;

const fn instruction(code: u8, to: u8, from: u8, offset: i16, immediate: i32) -> Instruction {
    let registers = if cfg!(target_endian = "big") { to << 4 | from } else { from << 4 | to };
    Instruction { code, registers, offset, immediate }
}

/// Hands each frame to the socket of its queue in the socket map of this descriptor. Frames of a
/// queue whose socket is not in the map go to the host's stack.
pub(crate) fn steering(map: i32) -> [Instruction; 6] {
    [
        instruction(LOAD_WORD, 2, 1, QUEUE_AT, 0),
        instruction(LOAD_DOUBLE, 1, MAP_DESCRIPTOR, 0, map),
        instruction(0, 0, 0, 0, 0),
        // The lower bits of the flags are the verdict where the map has no socket (Linux 5.3).
        instruction(MOVE, 3, 0, 0, PASS),
        instruction(CALL, 0, 0, 0, REDIRECT_MAP),
        instruction(EXIT, 0, 0, 0, 0),
    ]
}

/// Drops every packet on its way to the host's stack.
pub(crate) fn drop_all() -> [Instruction; 2] {
    /// `TCX_DROP`.
    const DROP: i32 = 2;
    [instruction(MOVE, 0, 0, 0, DROP), instruction(EXIT, 0, 0, 0, 0)]
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `return bpf_redirect_map(&map, ctx->rx_queue_index, XDP_PASS);` in the encoding of RFC 9669.
    #[cfg(target_endian = "little")]
    #[test]
    fn the_bytes_are_those_of_the_instruction_set() {
        let bytes: Vec<u8> = steering(0x0102)
            .iter()
            .flat_map(|i| {
                let (offset, immediate) = (i.offset.to_le_bytes(), i.immediate.to_le_bytes());
                [&[i.code, i.registers][..], &offset, &immediate].concat()
            })
            .collect();
        let expected = [
            [0x61, 0x12, 0x10, 0x00, 0, 0, 0, 0], // r2 = *(u32 *)(r1 + 16)
            [0x18, 0x11, 0x00, 0x00, 2, 1, 0, 0], // r1 = map
            [0x00, 0x00, 0x00, 0x00, 0, 0, 0, 0], //
            [0xB7, 0x03, 0x00, 0x00, 2, 0, 0, 0], // r3 = 2
            [0x85, 0x00, 0x00, 0x00, 0x33, 0, 0, 0], // call 51
            [0x95, 0x00, 0x00, 0x00, 0, 0, 0, 0], // exit
        ];
        assert_eq!(bytes, expected.concat());
    }

    #[test]
    fn an_instruction_has_eight_bytes() {
        assert_eq!(size_of::<Instruction>(), 8);
    }
}
