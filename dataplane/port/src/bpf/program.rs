//! The programs of the ports; see ADR 9.

use super::assembly::{Alu, Assembly, By, Function, Register, Width};
use std::os::fd::BorrowedFd;

/// `XDP_PASS`: on to the host's stack.
const PASS: i32 = 2;
/// Offset of `rx_queue_index` in `struct xdp_md`.
const QUEUE_AT: i16 = 16;

/// Hands each frame to the socket of its queue in a socket map. Frames of a queue whose socket is
/// not in the map go to the host's stack.
pub(crate) fn steering(map: BorrowedFd<'_>) -> Assembly {
    let mut program = Assembly::default();
    program.load(Width::Word, Register::R2, Register::R1, QUEUE_AT);
    program.map(Register::R1, map);
    // The lower bits of the flags are the verdict where the map has no socket (Linux 5.3).
    program.alu(Alu::Move, Register::R3, By::Value(PASS));
    program.call(Function::RedirectMap);
    program.exit();
    program
}

/// Drops every packet on its way to the host's stack.
pub(crate) fn drop_all() -> Assembly {
    /// `TCX_DROP`.
    const DROP: i32 = 2;
    let mut program = Assembly::default();
    program.give(DROP);
    program
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::fd::{AsFd, AsRawFd};

    /// `return bpf_redirect_map(&map, ctx->rx_queue_index, XDP_PASS);` in the encoding of RFC 9669.
    #[cfg(target_endian = "little")]
    #[test]
    fn the_bytes_are_those_of_the_instruction_set() {
        let file = tempfile::tempfile().expect("a file");
        let program = steering(file.as_fd());
        let bytes: Vec<u8> = program.instructions().iter().flat_map(|i| i.bytes()).collect();
        let [f0, f1, f2, f3] = file.as_raw_fd().to_le_bytes();
        let expected = [
            [0x61, 0x12, 0x10, 0x00, 0, 0, 0, 0], // r2 = *(u32 *)(r1 + 16)
            [0x18, 0x11, 0x00, 0x00, f0, f1, f2, f3], // r1 = map
            [0x00, 0x00, 0x00, 0x00, 0, 0, 0, 0], //
            [0xB7, 0x03, 0x00, 0x00, 2, 0, 0, 0], // r3 = 2
            [0x85, 0x00, 0x00, 0x00, 0x33, 0, 0, 0], // call 51
            [0x95, 0x00, 0x00, 0x00, 0, 0, 0, 0], // exit
        ];
        assert_eq!(bytes, expected.concat());
    }
}
