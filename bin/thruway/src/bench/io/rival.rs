//! Somebody who takes the core that forwards for most of the time.
//!
//! Where the core of the load receives for the middle as well, it offers less than a forwarder can take,
//! which then looks in vain, sleeps and wakes for a few packets each: that is not what a packet costs
//! under load. With the core for a third of the time the forwarder finds more than it can take, every
//! time that it has it. Its rate per second is a third then; what counts is that of its processor time.

use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use thruway_sync::atomic::{AtomicBool, Ordering};

use super::site::{RIVAL_PRIORITY, first_thread};
use crate::bench::machine;

/// How long it has the core, and the forwarder then: what that sends at two million a second fits the
/// 256 frames of a cable, and what comes meanwhile its rings.
const TAKES: Duration = Duration::from_micros(200);
const LEAVES: Duration = Duration::from_micros(100);

/// Runs until its end.
pub struct Rival {
    is_over: Arc<AtomicBool>,
    /// Taken out by the end only.
    thread: Option<JoinHandle<anyhow::Result<()>>>,
}

impl Rival {
    /// From now on.
    pub fn begin(core: usize) -> Rival {
        let is_over = Arc::new(AtomicBool::new(false));
        let told = Arc::clone(&is_over);
        let thread = Some(std::thread::spawn(move || run(core, &told)));
        Rival { is_over, thread }
    }

    /// Says what went wrong, if it did.
    pub fn end(mut self) -> anyhow::Result<()> {
        self.finish()
    }

    fn finish(&mut self) -> anyhow::Result<()> {
        // Relaxed: nothing else depends on it.
        self.is_over.store(true, Ordering::Relaxed);
        let Some(thread) = self.thread.take() else { return Ok(()) };
        thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    }
}

impl Drop for Rival {
    fn drop(&mut self) {
        // Something else went wrong before.
        let _ = self.finish();
    }
}

fn run(core: usize, is_over: &AtomicBool) -> anyhow::Result<()> {
    machine::bind(core);
    first_thread(RIVAL_PRIORITY)?;
    // Relaxed: see the end.
    while !is_over.load(Ordering::Relaxed) {
        let begin = Instant::now();
        while begin.elapsed() < TAKES {
            std::hint::spin_loop();
        }
        std::thread::sleep(LEAVES);
    }
    Ok(())
}
