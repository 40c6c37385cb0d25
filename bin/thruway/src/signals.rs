//! Ctrl-C and `kill`: a clean stop, with everything written and told.

use std::sync::{Arc, Mutex};

use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
use thruway_engine::Control;

/// The router that signals stop: another one after a hot swap.
pub struct Stop(Arc<Mutex<Arc<Control>>>);

impl Stop {
    /// Lets signals stop this router from now on.
    pub fn follow(&self, control: &Arc<Control>) {
        *self.0.lock().unwrap_or_else(|poison| poison.into_inner()) = Arc::clone(control);
    }
}

/// Stops the router at the first SIGINT or SIGTERM; the second ends the process at once.
pub fn stop_on_signal(control: &Arc<Control>) -> anyhow::Result<Stop> {
    let mut signals = Signals::new([SIGINT, SIGTERM])?;
    let current = Arc::new(Mutex::new(Arc::clone(control)));
    let stop = Stop(Arc::clone(&current));
    std::thread::Builder::new().name("signals".into()).spawn(move || {
        for (count, signal) in signals.forever().enumerate() {
            if count > 0 {
                std::process::exit(128 + signal);
            }
            current.lock().unwrap_or_else(|poison| poison.into_inner()).halt();
        }
    })?;
    Ok(stop)
}
