//! Lists of what a thing in the middle must pass.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Instant;

/// A name, and a function that panics if what it tries in a place does not work.
pub type Trial<P> = (&'static str, fn(&P));

/// Does all trials, also after one that failed; panics if one did.
#[track_caller]
pub fn undergo<P>(place: &P, trials: &[Trial<P>]) {
    let mut failed = Vec::new();
    for (name, trial) in trials {
        let begin = Instant::now();
        if catch_unwind(AssertUnwindSafe(|| trial(place))).is_err() {
            failed.push(*name);
        }
        println!("{name}: {:.2} s", begin.elapsed().as_secs_f64());
    }
    assert!(failed.is_empty(), "failed: {failed:?}");
}
