//! A ring that carries pointers from one thread to one other, many at a time.
//!
//! Each end keeps its own position and a copy of the other's, which it renews only when the copy
//! shows no room, or no pointers. So if both are busy a line with a position moves between cores
//! once for many pointers, not once for each.

use std::ptr::NonNull;
use std::sync::Arc;

use crate::CachePadded;
use crate::atomic::{AtomicPtr, AtomicUsize, Ordering};

/// The shared part of both ends.
struct Ring<T> {
    slots: Box<[AtomicPtr<T>]>,
    /// Pointers in it at most; there are as many slots or more, a power of two.
    capacity: usize,
    /// Disposes of pointers that are never taken.
    abandon: fn(NonNull<T>),
    /// Pointers ever put in; only the producer writes it.
    put: CachePadded<AtomicUsize>,
    /// Pointers ever taken; only the consumer writes it.
    taken: CachePadded<AtomicUsize>,
}

impl<T> Ring<T> {
    #[inline]
    fn slot(&self, position: usize) -> &AtomicPtr<T> {
        &self.slots[position & (self.slots.len() - 1)]
    }

    /// Pointers in it: a moment ago, if the other end is at work.
    fn len(&self) -> usize {
        let taken = self.taken.0.load(Ordering::Relaxed);
        self.put.0.load(Ordering::Relaxed).wrapping_sub(taken).min(self.capacity)
    }
}

impl<T> Drop for Ring<T> {
    fn drop(&mut self) {
        // Acquire: the ends may have been dropped by other threads. (The count of references orders
        // that, too; this says it where it is used.)
        let put = self.put.0.load(Ordering::Acquire);
        let mut position = self.taken.0.load(Ordering::Acquire);
        while position != put {
            let left = NonNull::new(self.slot(position).load(Ordering::Relaxed));
            left.into_iter().for_each(self.abandon);
            position = position.wrapping_add(1);
        }
    }
}

/// The end that puts in.
///
/// It has cache lines of its own: its thread writes it for each put, and the other end, which may
/// lie beside it in memory, is written by another thread.
#[repr(align(128))]
pub struct Producer<T> {
    ring: Arc<Ring<T>>,
    /// `put`, and the last known `taken`.
    put: usize,
    taken: usize,
}

/// The end that takes out. It has cache lines of its own, as [`Producer`] has.
#[repr(align(128))]
pub struct Consumer<T> {
    ring: Arc<Ring<T>>,
    /// `taken`, and the last known `put`.
    taken: usize,
    put: usize,
}

/// A ring of so many pointers (at least one), and the disposal of those in it when both ends are
/// gone.
pub fn spsc<T>(capacity: usize, abandon: fn(NonNull<T>)) -> (Producer<T>, Consumer<T>) {
    let capacity = capacity.max(1);
    let slots = (0..capacity.next_power_of_two()).map(|_| AtomicPtr::new(std::ptr::null_mut()));
    let ring = Arc::new(Ring {
        slots: slots.collect(),
        capacity,
        abandon,
        put: CachePadded(AtomicUsize::new(0)),
        taken: CachePadded(AtomicUsize::new(0)),
    });
    let consumer = Consumer { ring: Arc::clone(&ring), taken: 0, put: 0 };
    (Producer { ring, put: 0, taken: 0 }, consumer)
}

impl<T> Producer<T> {
    /// How many of `wanted` pointers fit.
    #[inline]
    pub fn room(&mut self, wanted: usize) -> usize {
        let capacity = self.ring.capacity;
        let free = |taken| capacity - self.put.wrapping_sub(taken);
        if free(self.taken) < wanted {
            // T0: synchronises with the release store T1, so that a store into a slot now comes
            // after the load that emptied it.
            self.taken = self.ring.taken.0.load(Ordering::Acquire);
        }
        wanted.min(free(self.taken))
    }

    /// Puts as many pointers in as fit, and shows them to the other end all at once. Returns their
    /// number; the others are still in `items`.
    #[inline]
    pub fn put(&mut self, items: &mut impl ExactSizeIterator<Item = NonNull<T>>) -> usize {
        let room = self.room(items.len());
        let mut position = self.put;
        for item in items.by_ref().take(room) {
            // Relaxed: P1 publishes it.
            self.ring.slot(position).store(item.as_ptr(), Ordering::Relaxed);
            position = position.wrapping_add(1);
        }
        let count = position.wrapping_sub(self.put);
        self.put = position;
        // P1: synchronises with the acquire load P0: a thread that sees the position sees the slots
        // before it and this thread's writes to their targets.
        self.ring.put.0.store(position, Ordering::Release);
        count
    }

    /// Pointers in the ring.
    pub fn len(&self) -> usize {
        self.ring.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Pointers in it at most.
    pub fn capacity(&self) -> usize {
        self.ring.capacity
    }
}

impl<T> Consumer<T> {
    /// Takes up to `max` pointers, in the order in which they were put in. Their room is free when
    /// what this returns is dropped; pointers not taken from it stay in the ring.
    #[inline]
    pub fn take(&mut self, max: usize) -> Take<'_, T> {
        if self.put.wrapping_sub(self.taken) < max {
            // P0: see P1.
            self.put = self.ring.put.0.load(Ordering::Acquire);
        }
        let left = self.put.wrapping_sub(self.taken).min(max);
        Take { consumer: self, left }
    }

    /// Pointers in the ring.
    pub fn len(&self) -> usize {
        self.ring.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// Pointers being taken; see [`Consumer::take`].
pub struct Take<'a, T> {
    consumer: &'a mut Consumer<T>,
    left: usize,
}

impl<T> Iterator for Take<'_, T> {
    type Item = NonNull<T>;

    #[inline]
    fn next(&mut self) -> Option<NonNull<T>> {
        self.left = self.left.checked_sub(1)?;
        let at = self.consumer.taken;
        self.consumer.taken = at.wrapping_add(1);
        // Relaxed: P0 has made it visible. Never null, for only pointers are put in.
        NonNull::new(self.consumer.ring.slot(at).load(Ordering::Relaxed))
    }

    #[inline]
    fn size_hint(&self) -> (usize, Option<usize>) {
        (self.left, Some(self.left))
    }
}

impl<T> ExactSizeIterator for Take<'_, T> {}

impl<T> Drop for Take<'_, T> {
    #[inline]
    fn drop(&mut self) {
        // T1: synchronises with T0: the loads of these slots come before any later store to them.
        self.consumer.ring.taken.0.store(self.consumer.taken, Ordering::Release);
    }
}
