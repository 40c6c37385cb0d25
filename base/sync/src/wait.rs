//! Waiting for another thread that is about to be done.

/// Pauses before the processor is offered to others. Some 10 ns to 50 ns each, so all of them
/// are longer than a few words take to read or write, and far shorter than the milliseconds for
/// which the system takes a processor away from a thread.
#[cfg(not(loom))]
const PAUSES: u32 = 100;

/// Under loom: two waiters could give way to each other forever. Longer waits are run to their end,
/// but their interleavings are not explored.
#[cfg(loom)]
const PAUSES: u32 = 3;

/// A busy waiter.
#[derive(Default)]
pub(crate) struct Wait {
    pauses: u32,
}

impl Wait {
    /// Lets a moment pass. The awaited thread may have lost the processor to this very thread:
    /// after [`PAUSES`] this yields it.
    #[cfg(not(loom))]
    #[inline]
    pub(crate) fn pause(&mut self) {
        if self.pauses < PAUSES {
            self.pauses += 1;
            core::hint::spin_loop();
        } else {
            std::thread::yield_now();
        }
    }

    /// Lets the model's other threads continue.
    #[cfg(loom)]
    pub(crate) fn pause(&mut self) {
        self.pauses += 1;
        if self.pauses == PAUSES {
            loom::skip_branch();
        }
        loom::thread::yield_now();
    }
}
