//! Requests to stop: permissions to end a run, and the end of its threads.

use thruway_sync::RunNumber;
use thruway_sync::atomic::Ordering;

use super::{Control, NO_ELEMENT};

impl Control {
    /// Ends the router's runs for good: the present one after the threads' present round, and no
    /// other one begins. Nothing takes this back.
    pub fn end(&self) {
        self.level.end();
        self.wake_all();
    }

    /// Stops the present run, or the next one if there is none, after the threads' present round,
    /// regardless of a DriverManager.
    pub fn halt(&self) {
        self.halt_run(self.run());
    }

    /// Stops this run. No effect on later ones.
    pub fn halt_run(&self, run: RunNumber) {
        self.level.stop(run);
        self.wake_all();
    }

    /// Ends the present run, which the owner may continue: a hot swap. If someone stops the run as
    /// well, it is stopped.
    pub fn pause(&self) {
        self.level.pause(self.level.current());
        self.wake_all();
    }

    /// The present run, or the next one.
    pub fn run(&self) -> RunNumber {
        self.level.current()
    }

    /// Whether [`Control::end`] was called.
    pub fn is_ended(&self) -> bool {
        self.level.is_ended()
    }

    /// Called when the threads of the present run have ended. Returns whether that was only a
    /// pause. A stop that waits for packets in flight then continues to wait in the next run.
    pub(crate) fn finish_run(&self) -> bool {
        let run = self.level.current();
        let paused = !self.level.is_stopped(run);
        if !paused {
            self.stopping.store(false, Ordering::Release);
        }
        self.drained.store(0, Ordering::Release);
        self.level.finish(run);
        paused
    }

    /// Whether the threads are to end.
    #[inline]
    pub(crate) fn halted(&self) -> bool {
        self.level.is_due()
    }

    /// Asks for a stop as an element does: a DriverManager may have other plans.
    pub fn stop(&self) {
        self.stops.fetch_add(1, Ordering::AcqRel);
        let managed = self.manager.load(Ordering::Acquire) != NO_ELEMENT;
        if !managed && !self.drain {
            self.halt();
        } else {
            self.stopping.fetch_or(!managed, Ordering::AcqRel);
            self.wake_all();
        }
    }

    /// Whether the threads must end once no packet is in flight.
    #[inline]
    pub fn is_stopping(&self) -> bool {
        self.stopping.load(Ordering::Relaxed)
    }

    /// One thread (each reports once) has no packet in flight any more.
    pub(crate) fn drained(&self) {
        if self.drained.fetch_add(1, Ordering::AcqRel) + 1 >= self.boxes.len() as u32 {
            self.halt();
        }
    }

    /// Stops asked for and not taken up; takes one up if `take`.
    pub(crate) fn pending_stops(&self, take: bool) -> u32 {
        let pending = self.stops.load(Ordering::Acquire);
        if take && pending > 0 {
            // Only DriverManagers take, all in one thread: no other taker can come between.
            self.stops.fetch_sub(1, Ordering::AcqRel);
        }
        pending
    }

    /// Registers element `node` to take up stops, or unregisters it; returns the other registered
    /// element, if there is one.
    pub(crate) fn manage(&self, node: u32, on: bool) -> Result<(), u32> {
        let (from, to) = if on { (NO_ELEMENT, node) } else { (node, NO_ELEMENT) };
        // AcqRel: the thread that takes up stops after the change sees those that were requested
        // before it.
        let change =
            self.manager.compare_exchange(from, to, Ordering::AcqRel, Ordering::Acquire).map(drop);
        change.or_else(|other| if on && other != node { Err(other) } else { Ok(()) })
    }
}
