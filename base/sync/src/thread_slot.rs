//! Thread slots: each thread's own part of a structure.

use std::sync::Arc;

use crate::atomic::{AtomicBool, Ordering};

/// Which thread slots of a structure are taken.
#[derive(Debug)]
pub struct ThreadSlots(Box<[AtomicBool]>);

impl ThreadSlots {
    /// So many, all free.
    pub(crate) fn new(count: usize) -> Self {
        ThreadSlots((0..count).map(|_| AtomicBool::new(false)).collect())
    }

    fn take(&self) -> Option<usize> {
        // Acquire: sees the previous thread's writes in this slot, by its release.
        self.0.iter().position(|taken| {
            taken.compare_exchange(false, true, Ordering::Acquire, Ordering::Relaxed).is_ok()
        })
    }

    fn leave(&self, at: usize) {
        self.0[at].store(false, Ordering::Release);
    }
}

/// A structure with thread slots.
pub trait HasThreadSlots {
    /// Its thread slots.
    fn thread_slots(&self) -> &ThreadSlots;
}

/// Exclusive use of one thread slot of an `S`: one thread at a time uses `&mut self`. Dropping it
/// frees the slot; its contents stay for the next thread.
#[derive(Debug)]
pub struct ThreadSlot<S: HasThreadSlots> {
    of: Arc<S>,
    at: usize,
}

impl<S: HasThreadSlots> ThreadSlot<S> {
    /// Takes a free thread slot, if there is one.
    pub fn take(of: &Arc<S>) -> Option<ThreadSlot<S>> {
        let at = of.thread_slots().take()?;
        Some(ThreadSlot { of: of.clone(), at })
    }

    /// The structure.
    #[inline]
    pub fn of(&self) -> &S {
        &self.of
    }

    /// The number of the slot.
    #[inline]
    pub(crate) fn at(&self) -> usize {
        self.at
    }
}

impl<S: HasThreadSlots> Drop for ThreadSlot<S> {
    fn drop(&mut self) {
        self.of.thread_slots().leave(self.at);
    }
}
