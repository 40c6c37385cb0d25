//! Runs of a program on a frame, for tests and measurements: nothing is received or sent.

use super::{Attributes, PROGRAM_RUN, number, pointer};
use std::io;
use std::os::fd::BorrowedFd;

/// Longest that a program may make a frame.
const GROWTH_MAX: usize = 256;

/// What a program gives for a frame.
pub(crate) struct TestRun {
    pub(crate) verdict: u32,
    /// The frame as the program leaves it; of XDP, its metadata before it.
    pub(crate) frame: Vec<u8>,
    /// Nanoseconds of a run, on average.
    pub(crate) nanos: u32,
}

/// Runs a program so many times on a frame of at least 14 bytes.
pub(crate) fn test_run(program: BorrowedFd<'_>, frame: &[u8], times: u32) -> io::Result<TestRun> {
    let mut out = vec![0_u8; frame.len() + GROWTH_MAX];
    let ([f0, f1], [o0, o1]) = (pointer(frame.as_ptr()), pointer(out.as_mut_ptr()));
    let (len, room) = (frame.len() as u32, out.len() as u32);
    let mut attributes = Attributes::new(&[number(program), 0, len, room, f0, f1, o0, o1, times]);
    let (pointer, size) = (std::ptr::from_mut(&mut attributes), size_of::<Attributes>());
    // JUSTIFICATION: as for `call`; the kernel writes its answer to the attributes and to `out`.
    // SAFETY: they are writable for their lengths, and the frame is readable for its own.
    let result = unsafe { libc::syscall(libc::SYS_bpf, PROGRAM_RUN, pointer, size) };
    crate::system::check(result as i32)?;
    // The second word of a pair.
    let second = |pair: usize| {
        let bytes = attributes.0[pair].to_ne_bytes();
        u32::from_ne_bytes([bytes[4], bytes[5], bytes[6], bytes[7]])
    };
    out.truncate(second(1) as usize);
    Ok(TestRun { verdict: second(0), frame: out, nanos: second(4) })
}
