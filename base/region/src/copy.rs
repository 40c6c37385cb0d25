//! Copies of bytes that another process may change at any moment.
//!
//! Written in assembly where there is one: the compiler may then neither merge, repeat nor invent
//! accesses, and a race with another process is a race of the hardware's, which has an outcome, not
//! the language's, which has none. Data is copied to private memory before it is examined.

/// Copies `len` bytes.
///
/// # Safety
/// `len` bytes from `to` must be mapped and writable, `len` bytes from `from` mapped and readable,
/// and the two must not overlap.
#[inline]
pub(crate) unsafe fn copy(to: *mut u8, from: *const u8, len: usize) {
    // JUSTIFICATION: only opaque or volatile accesses are defined on bytes that another process
    // may change.
    // SAFETY: the caller's promise.
    unsafe { imp::copy(to, from, len) }
}

/// Writes eight bytes, little-endian, at an address of any alignment.
///
/// # Safety
/// Eight bytes from `to` must be mapped and writable.
#[inline]
pub(crate) unsafe fn copy_word(to: *mut u8, word: u64) {
    // JUSTIFICATION: as in `copy`.
    // SAFETY: the caller's promise.
    unsafe { imp::copy_word(to, word) }
}

#[cfg(all(target_arch = "x86_64", target_feature = "avx", not(miri)))]
mod imp {
    use core::arch::asm;

    /// Bytes that one step moves.
    const STEP: usize = 64;

    /// # Safety
    /// As `copy` of the module above.
    #[inline]
    pub(super) unsafe fn copy(to: *mut u8, from: *const u8, len: usize) {
        if len < STEP {
            // JUSTIFICATION: see the module.
            // SAFETY: the caller's promise.
            return unsafe { short(to, from, len) };
        }
        // The last step ends at the last byte and may overlap the one before: no rest to handle.
        let mut at = 0;
        while at < len - STEP {
            // SAFETY: `at + STEP < len`.
            unsafe { step(to.wrapping_add(at), from.wrapping_add(at)) };
            at += STEP;
        }
        // SAFETY: `len - STEP` is not negative and a step ends at `len`.
        unsafe { step(to.wrapping_add(len - STEP), from.wrapping_add(len - STEP)) };
    }

    /// # Safety
    /// As `copy_word` of the module above.
    #[inline]
    pub(super) unsafe fn copy_word(to: *mut u8, word: u64) {
        // JUSTIFICATION: see the module.
        // SAFETY: writes exactly the eight bytes that the caller vouches for.
        unsafe {
            asm!(
                "mov [{to}], {word}", to = in(reg) to, word = in(reg) word,
                options(nostack, preserves_flags)
            );
        }
    }

    /// Moves 64 bytes.
    ///
    /// # Safety
    /// As `copy` for 64 bytes.
    #[inline]
    unsafe fn step(to: *mut u8, from: *const u8) {
        // JUSTIFICATION: see the module.
        // SAFETY: reads and writes exactly the 64 bytes that the caller vouches for.
        unsafe {
            asm!(
                "vmovdqu {a}, [{from}]",
                "vmovdqu {b}, [{from} + 32]",
                "vmovdqu [{to}], {a}",
                "vmovdqu [{to} + 32], {b}",
                a = out(ymm_reg) _, b = out(ymm_reg) _, from = in(reg) from, to = in(reg) to,
                options(nostack, preserves_flags)
            );
        }
    }

    /// Moves fewer than 64 bytes: two accesses that overlap in the middle.
    ///
    /// # Safety
    /// As `copy`.
    #[inline]
    unsafe fn short(to: *mut u8, from: *const u8, len: usize) {
        match len {
            32.. => {
                let back = len - 32;
                // JUSTIFICATION: see the module.
                // SAFETY: 32 bytes from the first and 32 up to the last, of at least 32.
                unsafe {
                    asm!(
                        "vmovdqu {a}, [{from}]",
                        "vmovdqu {b}, [{from} + {back}]",
                        "vmovdqu [{to}], {a}",
                        "vmovdqu [{to} + {back}], {b}",
                        a = out(ymm_reg) _, b = out(ymm_reg) _, from = in(reg) from,
                        to = in(reg) to, back = in(reg) back, options(nostack, preserves_flags)
                    );
                }
            }
            16.. => {
                let back = len - 16;
                // SAFETY: as above with 16 bytes.
                unsafe {
                    asm!(
                        "vmovdqu {a}, [{from}]",
                        "vmovdqu {b}, [{from} + {back}]",
                        "vmovdqu [{to}], {a}",
                        "vmovdqu [{to} + {back}], {b}",
                        a = out(xmm_reg) _, b = out(xmm_reg) _, from = in(reg) from,
                        to = in(reg) to, back = in(reg) back, options(nostack, preserves_flags)
                    );
                }
            }
            8.. => {
                let back = len - 8;
                // SAFETY: as above with 8 bytes.
                unsafe {
                    asm!(
                        "mov {a}, [{from}]",
                        "mov {b}, [{from} + {back}]",
                        "mov [{to}], {a}",
                        "mov [{to} + {back}], {b}",
                        a = out(reg) _, b = out(reg) _, from = in(reg) from,
                        to = in(reg) to, back = in(reg) back, options(nostack, preserves_flags)
                    );
                }
            }
            _ => {
                // SAFETY: the caller's promise.
                unsafe { super::by_byte(to, from, len) };
            }
        }
    }
}

#[cfg(not(all(target_arch = "x86_64", target_feature = "avx", not(miri))))]
mod imp {
    pub(super) use super::by_byte as copy;

    /// # Safety
    /// As `copy_word` of the module above.
    #[inline]
    pub(super) unsafe fn copy_word(to: *mut u8, word: u64) {
        // JUSTIFICATION: see the module.
        // SAFETY: the caller's promise; the bytes are this function's own.
        unsafe { super::by_byte(to, word.to_le_bytes().as_ptr(), 8) };
    }
}

/// Byte by byte, as volatile accesses.
///
/// # Safety
/// As [`copy`].
#[inline]
unsafe fn by_byte(to: *mut u8, from: *const u8, len: usize) {
    for i in 0..len {
        // JUSTIFICATION: only a volatile access is defined on bytes that another process may
        // change.
        // SAFETY: `i` is within both ranges.
        let byte = unsafe { from.wrapping_add(i).read_volatile() };
        // SAFETY: as above.
        unsafe { to.wrapping_add(i).write_volatile(byte) };
    }
}
