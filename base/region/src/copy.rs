//! Volatile copies: for bytes that another process may change at any moment.
//!
//! Eight bytes at a time where the region's side is aligned; the compiler may neither merge, repeat
//! nor invent accesses, so a value that was checked is the value that was read.

const WORD: usize = size_of::<u64>();

/// Bytes to go one by one before `address` is aligned to a word.
fn misaligned(address: usize, len: usize) -> usize {
    address.wrapping_neg().rem_euclid(WORD).min(len)
}

/// Writes `bytes` to `to`.
///
/// # Safety
/// `bytes.len()` bytes from `to` must be mapped and writable, and not overlap `bytes`.
pub(crate) unsafe fn write(to: *mut u8, bytes: &[u8]) {
    let (head, rest) = bytes.split_at(misaligned(to.addr(), bytes.len()));
    let words = rest.chunks_exact(WORD);
    let tail = words.remainder();
    // JUSTIFICATION: the bytes before the first whole word.
    // SAFETY: the head lies within the caller's range.
    let mut at = unsafe { write_bytes(to, head) };
    for word in words {
        let value = u64::from_ne_bytes(word.try_into().expect("chunks_exact gives whole words"));
        // JUSTIFICATION: only a volatile access is defined on bytes that another process may
        // change.
        // SAFETY: `at` is aligned (the head saw to it) and a whole word is left in the range.
        unsafe { at.cast::<u64>().write_volatile(value) };
        at = at.wrapping_add(WORD);
    }
    // JUSTIFICATION: the bytes after the last whole word.
    // SAFETY: the tail is what is left of the caller's range.
    unsafe { write_bytes(at, tail) };
}

/// Reads into `bytes` from `from`.
///
/// # Safety
/// `bytes.len()` bytes from `from` must be mapped and readable, and not overlap `bytes`.
pub(crate) unsafe fn read(from: *const u8, bytes: &mut [u8]) {
    let head_len = misaligned(from.addr(), bytes.len());
    let (head, rest) = bytes.split_at_mut(head_len);
    // JUSTIFICATION: the bytes before the first whole word.
    // SAFETY: the head lies within the caller's range.
    let mut at = unsafe { read_bytes(from, head) };
    let mut words = rest.chunks_exact_mut(WORD);
    for word in &mut words {
        // JUSTIFICATION: only a volatile access is defined on bytes that another process may
        // change.
        // SAFETY: `at` is aligned (the head saw to it) and a whole word is left in the range.
        let value = unsafe { at.cast::<u64>().read_volatile() };
        word.copy_from_slice(&value.to_ne_bytes());
        at = at.wrapping_add(WORD);
    }
    // JUSTIFICATION: the bytes after the last whole word.
    // SAFETY: the tail is what is left of the caller's range.
    unsafe { read_bytes(at, words.into_remainder()) };
}

/// # Safety
/// As [`write()`].
unsafe fn write_bytes(to: *mut u8, bytes: &[u8]) -> *mut u8 {
    for (i, &byte) in bytes.iter().enumerate() {
        // JUSTIFICATION: only a volatile access is defined on bytes that another process may
        // change.
        // SAFETY: `i` is within the range that the caller vouches for.
        unsafe { to.wrapping_add(i).write_volatile(byte) };
    }
    to.wrapping_add(bytes.len())
}

/// # Safety
/// As [`read`].
unsafe fn read_bytes(from: *const u8, bytes: &mut [u8]) -> *const u8 {
    for (i, byte) in bytes.iter_mut().enumerate() {
        // JUSTIFICATION: only a volatile access is defined on bytes that another process may
        // change.
        // SAFETY: `i` is within the range that the caller vouches for.
        *byte = unsafe { from.wrapping_add(i).read_volatile() };
    }
    from.wrapping_add(bytes.len())
}
