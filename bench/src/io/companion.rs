//! A thread beside the measurement, bound to a core, until it is stopped.

use std::sync::Arc;
use std::thread::JoinHandle;

use thruway_sync::atomic::{AtomicBool, Ordering};

use super::site::first_thread;
use crate::machine;

/// Runs until its end, or until it is dropped.
pub struct Companion {
    /// Relaxed: nothing else depends on it.
    is_over: Arc<AtomicBool>,
    /// Taken out by the end only.
    thread: Option<JoinHandle<anyhow::Result<()>>>,
}

impl Companion {
    /// Does `turn` over and over on a core, with this real-time priority.
    pub fn begin(
        (core, priority): (usize, u32),
        mut turn: impl FnMut() -> anyhow::Result<()> + Send + 'static,
    ) -> Companion {
        let is_over = Arc::new(AtomicBool::new(false));
        let ends = Arc::clone(&is_over);
        let run = move || {
            machine::bind(core);
            first_thread(priority)?;
            while !ends.load(Ordering::Relaxed) {
                turn()?;
            }
            Ok(())
        };
        Companion { is_over, thread: Some(std::thread::spawn(run)) }
    }

    /// Says what went wrong, if it did.
    pub fn end(mut self) -> anyhow::Result<()> {
        self.finish()
    }

    fn finish(&mut self) -> anyhow::Result<()> {
        self.is_over.store(true, Ordering::Relaxed);
        let Some(thread) = self.thread.take() else { return Ok(()) };
        thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    }
}

impl Drop for Companion {
    fn drop(&mut self) {
        // An earlier error is reported, or the measurement shows it.
        let _ = self.finish();
    }
}
