//! Which thread goes on for which, where a router with another number of threads takes over.

use crate::manager::ownership::owners_replaced;

/// The threads that go on for those of another router.
#[derive(Clone, Debug)]
pub struct Heirs<'a> {
    /// By old thread.
    threads: &'a [u16],
    /// Of the old thread that sessions are taken of.
    me: u16,
}

impl<'a> Heirs<'a> {
    /// By old thread, as old thread `of` sees it; `None` if there is no such one.
    pub fn new(threads: &'a [u16], of: usize) -> Option<Heirs<'a>> {
        Some(Heirs { threads, me: *threads.get(of)? })
    }

    /// The thread that takes the sessions.
    pub(super) fn me(&self) -> u16 {
        self.me
    }

    /// The owners in a record's first word.
    pub(super) fn owners(&self, word: u64) -> u64 {
        owners_replaced(word, |thread| self.threads.get(usize::from(thread)).copied())
    }
}
