//! One run of a program on a frame, for tests and measurements: nothing is received or sent.

use super::{Attributes, PROGRAM_RUN, number, pointer};
use std::io;
use std::os::fd::BorrowedFd;

/// What an XDP program gives for a frame of at least 14 bytes, and the nanoseconds that a run takes
/// on average of so many.
pub(crate) fn test_run(
    program: BorrowedFd<'_>,
    frame: &[u8],
    times: u32,
) -> io::Result<(u32, u32)> {
    let [f0, f1] = pointer(frame.as_ptr());
    let mut attributes =
        Attributes::new(&[number(program), 0, frame.len() as u32, 0, f0, f1, 0, 0, times]);
    let (pointer, len) = (std::ptr::from_mut(&mut attributes), size_of::<Attributes>());
    // JUSTIFICATION: as for `call`; the kernel writes its answer to the attributes.
    // SAFETY: they are writable for their length, and the frame is readable for its own.
    let result = unsafe { libc::syscall(libc::SYS_bpf, PROGRAM_RUN, pointer, len) };
    crate::system::check(result as i32)?;
    // The second word of a pair.
    let second = |pair: u64| {
        let bytes = pair.to_ne_bytes();
        u32::from_ne_bytes([bytes[4], bytes[5], bytes[6], bytes[7]])
    };
    Ok((second(attributes.0[0]), second(attributes.0[4])))
}
