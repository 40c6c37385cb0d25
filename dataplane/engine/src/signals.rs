//! Signals of the process that elements wait for, and their recipients.
//!
//! The engine installs no signal handlers: the owner of the process does, and passes each signal to
//! [`crate::Control::signal`].

use parking_lot::Mutex;
use rustix::process::Signal;

/// Signals that a process cannot take (KILL, STOP), or that report a fault of its own code.
const NOT_TO_BE_TAKEN: [Signal; 6] =
    [Signal::KILL, Signal::STOP, Signal::ILL, Signal::FPE, Signal::SEGV, Signal::BUS];

/// An element that waits for a signal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Taker {
    pub signal: i32,
    pub thread: usize,
    pub node: u32,
}

/// A taker and how far it is with its signal.
#[derive(Debug)]
struct Waiting {
    taker: Taker,
    /// It has been reported, and not begun: more of the same signal are one with it.
    notified: bool,
    /// It still wants the next one.
    armed: bool,
}

/// All elements that wait for signals.
#[derive(Default)]
pub(crate) struct Takers(Mutex<Vec<Waiting>>);

impl Takers {
    /// Notes that an element wants the next signal of this number.
    ///
    /// # Errors
    /// For signals that no program can take.
    pub fn take(&self, taker: Taker) -> Result<(), String> {
        if NOT_TO_BE_TAKEN.iter().any(|signal| signal.as_raw() == taker.signal) {
            return Err(format!("signal {} cannot be taken", taker.signal));
        }
        let mut all = self.0.lock();
        match all.iter_mut().find(|waiting| waiting.taker == taker) {
            Some(waiting) => waiting.armed = true,
            None => all.push(Waiting { taker, notified: false, armed: true }),
        }
        Ok(())
    }

    /// The numbers that elements wait for, ascending.
    pub fn wanted(&self) -> Vec<i32> {
        self.numbers(|_| true)
    }

    /// The numbers that came and that some element has not begun with, ascending.
    pub fn left(&self) -> Vec<i32> {
        self.numbers(|waiting| waiting.notified)
    }

    fn numbers(&self, of: impl Fn(&Waiting) -> bool) -> Vec<i32> {
        let all = self.0.lock();
        let numbers = all.iter().filter(|waiting| of(waiting)).map(|waiting| waiting.taker.signal);
        let mut numbers: Vec<i32> = numbers.collect();
        numbers.sort_unstable();
        numbers.dedup();
        numbers
    }

    /// Delivers a signal: calls `notify` for each element that waits for it now. Returns whether
    /// any element waits for it at all. None of them begins ([`Takers::begin`]) before all have
    /// been notified: a taker may end the run.
    pub fn came(&self, signal: i32, mut notify: impl FnMut(Taker)) -> bool {
        let mut all = self.0.lock();
        let mut any = false;
        for waiting in all.iter_mut().filter(|waiting| waiting.taker.signal == signal) {
            any = true;
            if !std::mem::replace(&mut waiting.notified, true) {
                notify(waiting.taker);
            }
        }
        any
    }

    /// The taker's thread got the message; whether the taker still waits.
    pub fn begin(&self, taker: Taker) -> bool {
        let mut all = self.0.lock();
        let Some(waiting) = all.iter_mut().find(|waiting| waiting.taker == taker) else {
            return false;
        };
        waiting.notified = false;
        std::mem::take(&mut waiting.armed)
    }

    /// The taker has been called; if it did not ask again, it no longer waits.
    pub fn end(&self, taker: Taker) {
        self.0.lock().retain(|waiting| waiting.taker != taker || waiting.armed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ON_USR1: Taker = Taker { signal: 10, thread: 0, node: 3 };

    #[test]
    fn a_taker_is_notified_once_and_may_ask_again() {
        let takers = Takers::default();
        let came = |signal| {
            let mut notified = Vec::new();
            let any = takers.came(signal, |taker| notified.push(taker));
            (notified, any)
        };
        assert_eq!(came(10), (vec![], false));
        takers.take(ON_USR1).unwrap();
        assert_eq!(takers.wanted(), [10]);
        assert_eq!(came(12), (vec![], false));
        assert_eq!(came(10), (vec![ON_USR1], true));
        assert_eq!(came(10), (vec![], true), "one with the first");
        assert_eq!(takers.left(), [10]);
        assert!(takers.begin(ON_USR1));
        assert!(takers.left().is_empty());
        assert_eq!(came(10), (vec![ON_USR1], true), "it came while the element runs");
        takers.take(ON_USR1).unwrap();
        takers.end(ON_USR1);
        assert!(takers.begin(ON_USR1));
        takers.end(ON_USR1);
        assert_eq!(came(10), (vec![], false));
        assert!(!takers.begin(ON_USR1));
    }

    #[test]
    fn what_cannot_be_taken_is_refused() {
        let takers = Takers::default();
        assert!(takers.take(Taker { signal: 9, ..ON_USR1 }).is_err());
        assert!(takers.wanted().is_empty());
    }
}
