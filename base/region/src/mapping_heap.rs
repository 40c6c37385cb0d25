//! Stand-in for the memfd mapping under the interpreter, which has no memfd: zeroed heap memory, so
//! that code built on regions can be checked there.

use crate::{NoHuge, RegionError};
use std::alloc::{Layout, alloc_zeroed, dealloc};
use std::ptr::NonNull;

#[derive(Debug)]
pub(crate) struct Mapping {
    ptr: NonNull<u8>,
    layout: Layout,
}

pub(crate) fn page_len() -> usize {
    4096
}

impl Mapping {
    pub(crate) fn huge(_len: usize) -> Result<Mapping, NoHuge> {
        Err(NoHuge::Unsupported)
    }

    pub(crate) fn normal(len: usize) -> Result<Mapping, RegionError> {
        let layout =
            Layout::from_size_align(len, page_len()).map_err(|_| RegionError::BadLength { len })?;
        // JUSTIFICATION: a page-aligned block of a length known at run time.
        // SAFETY: `len` is at least one page: `round_up` refused zero.
        let ptr = unsafe { alloc_zeroed(layout) };
        match NonNull::new(ptr) {
            Some(ptr) => Ok(Mapping { ptr, layout }),
            None => Err(RegionError::BadLength { len }),
        }
    }

    pub(crate) fn private(len: usize) -> Result<Mapping, RegionError> {
        Mapping::normal(len)
    }

    pub(crate) fn ptr(&self) -> NonNull<u8> {
        self.ptr
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // JUSTIFICATION: the counterpart of `alloc_zeroed`.
        // SAFETY: `ptr` came from `alloc_zeroed` with this layout and is freed once.
        unsafe { dealloc(self.ptr.as_ptr(), self.layout) };
    }
}
