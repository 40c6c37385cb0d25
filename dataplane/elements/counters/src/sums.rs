//! Packets and bytes counted by several threads, each for itself or together.

use std::sync::Arc;

use thruway_element::{ArgError, Args};
use thruway_sync::atomic::{AtomicBool, Ordering};
use thruway_sync::{Structure, Tallies, Tally};

/// Words of the argument SYNC, which [`Sums::build`] reads; the first is the default.
pub const SYNC: &[&str] = Structure::NAMES;

/// Packets and bytes.
pub enum Sums {
    /// Each thread has its own, and handlers add them up.
    Own([u64; 2]),
    /// All threads have the same.
    Shared {
        tally: Box<dyn Tally>,
        common: Arc<Common>,
        /// The totals at the last reset.
        base: [u64; 2],
        /// Handlers' answers are added up over threads: one of them speaks for all.
        speaks: bool,
    },
}

/// The shared state of the threads of one element.
pub struct Common {
    tallies: Tallies<2>,
    /// Whether a thread speaks for all.
    has_speaker: AtomicBool,
    /// Whether the call at a number of packets, and that at one of bytes, was made.
    called: [AtomicBool; 2],
}

/// The meaning of FastClick's name of a counter.
fn of_class(class: &str) -> Structure {
    let word = match class {
        "CounterAtomic" => "atomic",
        "CounterLock" | "CounterLockMP" => "lock",
        "CounterPLockMP" => "per-thread-lock",
        "CounterPRW" | "CounterPRWMP" => "per-thread-rw",
        "CounterRCU" => "rcu",
        "CounterRW" | "CounterRWMP" => "rw",
        "CounterRxWMP" => "rxw",
        "CounterRxWMPPR" => "rxw-read",
        "CounterRxWMPPW" => "rxw-write",
        _ => "per-thread",
    };
    let at = Structure::NAMES.iter().position(|name| *name == word).unwrap_or_default();
    Structure::ALL[at]
}

impl Sums {
    /// Zeros, as SYNC says; where nothing is said, and something is to be done at a count that is
    /// `common` to all threads, they count together.
    ///
    /// # Errors
    /// SYNC is none of the words.
    pub fn build(args: &Args<'_>, common: bool) -> Result<Sums, ArgError> {
        let said = args.text("SYNC").map(|_| args.choice("SYNC")).transpose()?;
        let structure = said.map_or(of_class(args.class()), |at| Structure::ALL[at]);
        let alone = args.env().threads < 2;
        let structure = match structure {
            Structure::PerThread if common && !alone && said.is_none() => Structure::Atomic,
            structure => structure,
        };
        if structure == Structure::PerThread {
            return Ok(Sums::Own([0; 2]));
        }
        let common = args.shared("sums", || Common::new(structure, args.env().threads));
        Sums::join(common).ok_or_else(|| args.error("SYNC", "more threads than were announced"))
    }

    fn join(common: Arc<Common>) -> Option<Sums> {
        let tally = common.tallies.join()?;
        // Relaxed, like all of these flags: they say nothing about anything else.
        let speaks = !common.has_speaker.swap(true, Ordering::Relaxed);
        Some(Sums::Shared { tally, common, base: [0; 2], speaks })
    }

    /// Counts packets and bytes.
    #[inline]
    pub fn add(&mut self, by: [u64; 2]) {
        match self {
            Sums::Own(own) => *own = [own[0].wrapping_add(by[0]), own[1].wrapping_add(by[1])],
            Sums::Shared { tally, .. } => tally.add(by),
        }
    }

    /// Of this thread, or of all where they count together.
    pub fn totals(&mut self) -> [u64; 2] {
        match self {
            Sums::Own(own) => *own,
            Sums::Shared { tally, base, .. } => {
                let totals = tally.totals();
                [totals[0].wrapping_sub(base[0]), totals[1].wrapping_sub(base[1])]
            }
        }
    }

    /// What this thread says, for what all say to add up.
    pub fn part(&mut self) -> [u64; 2] {
        match self {
            Sums::Shared { speaks: false, .. } => [0; 2],
            _ => self.totals(),
        }
    }

    /// Begins again at zero.
    pub fn reset(&mut self) {
        match self {
            Sums::Own(own) => *own = [0; 2],
            Sums::Shared { tally, base, .. } => *base = tally.totals(),
        }
        (0..2).for_each(|which| self.rearm(which));
    }

    /// Whether no thread but this one made the call at packets (0) or bytes (1); for each call
    /// once.
    pub fn is_first(&self, which: usize) -> bool {
        match self {
            Sums::Own(_) => true,
            Sums::Shared { common, .. } => !common.called[which].swap(true, Ordering::Relaxed),
        }
    }

    /// The call at packets (0) or bytes (1) is to be made again.
    pub fn rearm(&self, which: usize) {
        if let Sums::Shared { common, .. } = self {
            common.called[which].store(false, Ordering::Relaxed);
        }
    }
}

impl Common {
    fn new(structure: Structure, threads: usize) -> Common {
        Common {
            tallies: Tallies::new(structure, threads),
            has_speaker: AtomicBool::new(false),
            called: [const { AtomicBool::new(false) }; 2],
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_add_up_to_the_totals() {
        for structure in Structure::ALL {
            let common = Arc::new(Common::new(*structure, 2));
            let mut all = [(); 2].map(|()| Sums::join(common.clone()).expect("two threads"));
            all[0].add([1, 10]);
            all[1].add([2, 20]);
            for sums in &mut all {
                assert_eq!(sums.totals(), [3, 30], "{structure:?}");
            }
            let parts = all.each_mut().map(Sums::part);
            assert!(parts == [[3, 30], [0, 0]], "{structure:?}: {parts:?}");
            assert!(all[1].is_first(0) && !all[0].is_first(0) && all[0].is_first(1));
            all.iter_mut().for_each(Sums::reset);
            assert!(all[0].is_first(0));
            all[1].add([1, 5]);
            assert_eq!(all.each_mut().map(Sums::part), [[1, 5], [0, 0]], "{structure:?}");
        }
    }
}
