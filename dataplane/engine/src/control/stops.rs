//! Requests to stop: who may end a run, and when its threads do.

use thruway_sync::RunNumber;
use thruway_sync::atomic::Ordering;

use super::{Control, NOBODY};

impl Control {
    /// Ends the router's runs for good: the present one after the threads' present round, and no
    /// other one begins. Nothing takes this back.
    pub fn end(&self) {
        self.level.end();
        self.wake_all();
    }

    /// Stops the present run, or the next one if none goes on, after the threads' present round,
    /// whatever a DriverManager says.
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

    /// The run that goes on, or the next one.
    pub fn run(&self) -> RunNumber {
        self.level.current()
    }

    /// Whether [`Control::end`] was called.
    pub fn is_ended(&self) -> bool {
        self.level.is_ended()
    }

    /// The threads of the present run have ended. Says whether that was only a pause. A stop that
    /// waits for packets under way then goes on to wait in the next run.
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
        let managed = self.manager.load(Ordering::Acquire) != NOBODY;
        if !managed && !self.drain {
            self.halt();
        } else {
            self.stopping.fetch_or(!managed, Ordering::AcqRel);
            self.wake_all();
        }
    }

    /// Whether the threads are to end once nothing is under way.
    #[inline]
    pub fn is_stopping(&self) -> bool {
        self.stopping.load(Ordering::Relaxed)
    }

    /// One thread (each says so once) has nothing under way any more.
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

    /// Lets element `node` take up stops, or no longer; the other element that does, if there is
    /// one.
    pub(crate) fn manage(&self, node: u32, on: bool) -> Result<(), u32> {
        let (from, to) = if on { (NOBODY, node) } else { (node, NOBODY) };
        // AcqRel: stops asked for before the change are seen by the one who takes them up after it.
        let change =
            self.manager.compare_exchange(from, to, Ordering::AcqRel, Ordering::Acquire).map(drop);
        change.or_else(|other| if on && other != node { Err(other) } else { Ok(()) })
    }
}
