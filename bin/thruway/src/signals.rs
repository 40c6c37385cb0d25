//! Ctrl-C and `kill`: a clean stop, with everything written and told.

use std::sync::Arc;

use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
use thruway_engine::Control;

/// Stops the router at the first SIGINT or SIGTERM; the second ends the process at once.
pub fn stop_on_signal(control: &Arc<Control>) -> anyhow::Result<()> {
    let mut signals = Signals::new([SIGINT, SIGTERM])?;
    let control = Arc::clone(control);
    std::thread::Builder::new().name("signals".into()).spawn(move || {
        for (count, signal) in signals.forever().enumerate() {
            if count > 0 {
                std::process::exit(128 + signal);
            }
            control.halt();
        }
    })?;
    Ok(())
}
