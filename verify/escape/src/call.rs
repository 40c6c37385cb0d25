//! Any system call with any arguments.

/// A system call; the error's number if it fails.
///
/// Callers pass addresses of what lives over the call, or addresses on purpose wrong: the kernel
/// checks them. None of the calls of this program changes memory that it was not given.
pub fn call(number: libc::c_long, args: &[usize]) -> Result<usize, i32> {
    let arg = |index: usize| args.get(index).copied().unwrap_or(0);
    // JUSTIFICATION: calls that no library offers are the point of this program.
    // SAFETY: see above.
    let result = unsafe { libc::syscall(number, arg(0), arg(1), arg(2), arg(3), arg(4), arg(5)) };
    // JUSTIFICATION: errno is the only place of the error.
    // SAFETY: the C library gives a valid address.
    if result == -1 { Err(unsafe { *libc::__errno_location() }) } else { Ok(result as usize) }
}

/// The address of a value, as an argument.
pub fn address<T: ?Sized>(value: &T) -> usize {
    (&raw const *value).cast::<()>().addr()
}

/// getpid by the 32-bit entry of the kernel, which has other call numbers.
#[cfg(target_arch = "x86_64")]
pub fn call_32_bit() {
    // JUSTIFICATION: a filter that knows 64-bit numbers only could be passed by.
    // SAFETY: getpid changes no memory; the clobbers of the entry are declared.
    unsafe {
        std::arch::asm!("int 0x80", inout("eax") 20 => _, out("r8") _, out("r9") _,
            out("r10") _, out("r11") _, options(nostack));
    }
}
