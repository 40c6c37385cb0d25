//! Seats: each thread's own place in a structure that has one for each.

use std::sync::Arc;

use crate::atomic::{AtomicBool, Ordering};

/// Which seats of a structure are taken.
#[derive(Debug)]
pub struct Seats(Box<[AtomicBool]>);

impl Seats {
    /// So many, all free.
    pub(crate) fn new(count: usize) -> Self {
        Seats((0..count).map(|_| AtomicBool::new(false)).collect())
    }

    fn take(&self) -> Option<usize> {
        // Acquire: what the one before did in his seat is seen, by his release.
        self.0.iter().position(|taken| {
            taken.compare_exchange(false, true, Ordering::Acquire, Ordering::Relaxed).is_ok()
        })
    }

    fn leave(&self, at: usize) {
        self.0[at].store(false, Ordering::Release);
    }
}

/// A structure with seats.
pub trait Seated {
    /// Its seats.
    fn seats(&self) -> &Seats;
}

/// The only one to sit at his place in an `S`: what is done there by `&mut self` is done by one
/// thread at a time. Dropping it frees the place, and what is in it stays for the next.
#[derive(Debug)]
pub struct Seat<S: Seated> {
    of: Arc<S>,
    at: usize,
}

impl<S: Seated> Seat<S> {
    /// A free seat, if there is one.
    pub fn take(of: &Arc<S>) -> Option<Seat<S>> {
        let at = of.seats().take()?;
        Some(Seat { of: of.clone(), at })
    }

    /// What it is a seat of.
    #[inline]
    pub fn of(&self) -> &S {
        &self.of
    }

    /// The number of the place.
    #[inline]
    pub(crate) fn at(&self) -> usize {
        self.at
    }
}

impl<S: Seated> Drop for Seat<S> {
    fn drop(&mut self) {
        self.of.seats().leave(self.at);
    }
}
