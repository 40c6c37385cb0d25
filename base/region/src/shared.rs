//! Bytes of a region that a peer may change.

use core::marker::PhantomData;

use crate::copy;

/// A range of a region. Another process may change the bytes at any moment, so they cannot be read
/// in place: copy them, and read the copy.
#[derive(Debug, Clone, Copy)]
pub struct SharedBytes<'a> {
    at: *mut u8,
    len: usize,
    region: PhantomData<&'a ()>,
}

impl<'a> SharedBytes<'a> {
    /// # Safety
    /// `len` bytes from `at` are mapped, readable and writable for `'a`, and no reference to them
    /// exists in this process meanwhile, except one that its maker knows to be unused.
    pub(crate) unsafe fn new(at: *mut u8, len: usize) -> SharedBytes<'a> {
        SharedBytes { at, len, region: PhantomData }
    }

    /// Bytes in the range.
    #[inline]
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether the range has no bytes.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Part of the range; `None` when it is not within.
    #[inline]
    pub fn slice(&self, start: usize, len: usize) -> Option<SharedBytes<'a>> {
        let end = start.checked_add(len)?;
        (end <= self.len).then(|| SharedBytes { at: self.at.wrapping_add(start), len, ..*self })
    }

    /// Copies the beginning of the range, as many bytes as `bytes` has.
    ///
    /// # Panics
    /// When the range is shorter: a bug of the caller, which chose both lengths.
    #[inline]
    pub fn copy_to(&self, bytes: &mut [u8]) {
        assert!(bytes.len() <= self.len, "a copy from outside of a region");
        // JUSTIFICATION: a peer may write meanwhile.
        // SAFETY: the range is mapped (by `new`) and at least as long; `bytes` is a reference to
        // private memory and cannot overlap it.
        unsafe { copy::copy(bytes.as_mut_ptr(), self.at, bytes.len()) };
    }

    /// Copies `bytes` to the beginning of the range.
    ///
    /// # Panics
    /// When the range is shorter: a bug of the caller, which chose both lengths.
    #[inline]
    pub fn copy_from(&self, bytes: &[u8]) {
        assert!(bytes.len() <= self.len, "a copy to outside of a region");
        // JUSTIFICATION: a peer may read meanwhile.
        // SAFETY: as in `copy_to`.
        unsafe { copy::copy(self.at, bytes.as_ptr(), bytes.len()) };
    }

    /// Copies the beginning of this range to the beginning of another, of another region.
    ///
    /// # Panics
    /// When either range is shorter than `len`, or they are of one region: a bug of the caller.
    #[inline]
    pub fn copy_across(&self, to: SharedBytes<'_>, len: usize) {
        assert!(len <= self.len && len <= to.len, "a copy outside of a region");
        let distance = self.at.addr().abs_diff(to.at.addr());
        assert!(distance >= len, "a copy onto itself");
        // JUSTIFICATION: peers may read and write both meanwhile.
        // SAFETY: both ranges are mapped and long enough, and were just seen not to overlap.
        unsafe { copy::copy(to.at, self.at, len) };
    }

    /// Reads a word of eight bytes at `offset`, a multiple of eight, with one access.
    ///
    /// # Panics
    /// When the word is not aligned or not within the range: a bug of the caller.
    #[inline]
    pub fn read_word(&self, offset: usize) -> u64 {
        // JUSTIFICATION: a peer may write meanwhile; one access gives one value.
        // SAFETY: `word` proved that the address is mapped and aligned.
        unsafe { self.word(offset).read_volatile() }
    }

    /// Writes a word of eight bytes, as [`read_word`](Self::read_word) reads it.
    ///
    /// # Panics
    /// As `read_word`.
    #[inline]
    pub fn write_word(&self, offset: usize, value: u64) {
        // JUSTIFICATION: a peer may read meanwhile.
        // SAFETY: `word` proved that the address is mapped and aligned.
        unsafe { self.word(offset).write_volatile(value) }
    }

    /// Writes a word of eight bytes at any `offset`, little-endian.
    ///
    /// # Panics
    /// When the word is not within the range: a bug of the caller.
    #[inline]
    pub fn copy_word(&self, offset: usize, value: u64) {
        assert!(offset <= self.len.wrapping_sub(8) && self.len >= 8, "a word outside of a region");
        // JUSTIFICATION: a peer may read meanwhile.
        // SAFETY: the word lies within the range, which is mapped (by `new`).
        unsafe { copy::copy_word(self.at.wrapping_add(offset), value) };
    }

    #[inline]
    fn word(&self, offset: usize) -> *mut u64 {
        let at = self.at.wrapping_add(offset).cast::<u64>();
        assert!(offset <= self.len.wrapping_sub(8) && self.len >= 8, "a word outside of a region");
        assert!(at.is_aligned(), "a word across words");
        at
    }

    /// The bytes themselves, to be changed in place.
    ///
    /// # Safety
    /// No thread of any process accesses the range while the reference lives: the protocol of the
    /// shared region assigns it to the caller, and the peer is trusted to keep to it. (A Worker
    /// trusts its host; a host never trusts a Worker.)
    #[inline]
    #[allow(clippy::mut_from_ref, reason = "exclusive by the caller's promise")]
    pub unsafe fn as_mut_slice(&self) -> &'a mut [u8] {
        // JUSTIFICATION: functions change packets in place; copying would undo the benefit of
        // sharing.
        // SAFETY: the range is mapped for `'a`; exclusiveness is the caller's promise.
        unsafe { core::slice::from_raw_parts_mut(self.at, self.len) }
    }

    /// Asks the processor to fetch the line where the range begins, without waiting for it.
    #[inline]
    pub fn prefetch(&self) {
        prefetch(self.at);
    }

    /// Asks the processor to fetch the line where the range begins for writing.
    #[inline]
    pub fn prefetch_write(&self) {
        prefetch_write(self.at);
    }
}

#[inline(always)]
pub(crate) fn prefetch(at: *mut u8) {
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    // JUSTIFICATION: only an intrinsic requests a line without stalling on it.
    // SAFETY: a prefetch never faults, whatever the address.
    unsafe {
        core::arch::x86_64::_mm_prefetch::<{ core::arch::x86_64::_MM_HINT_T0 }>(
            at.cast_const().cast(),
        );
    }
    #[cfg(not(all(target_arch = "x86_64", not(miri))))]
    let _ = at;
}

#[inline(always)]
pub(crate) fn prefetch_write(at: *mut u8) {
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    // JUSTIFICATION: the compiler's own hint becomes a plain prefetch on processors for which it
    // does not know the instruction, which all x86-64 processors run, some as nothing.
    // SAFETY: a prefetch never faults, whatever the address, and changes no memory.
    unsafe {
        core::arch::asm!(
            "prefetchw [{at}]",
            at = in(reg) at,
            options(nostack, preserves_flags, readonly)
        );
    }
    #[cfg(not(all(target_arch = "x86_64", not(miri))))]
    let _ = at;
}
