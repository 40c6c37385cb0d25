//! Huge pages.

/// Size of a huge page, in bytes (x86-64 and arm64 with 4 KB granules).
pub const HUGE_PAGE_LEN: usize = 2 << 20;
