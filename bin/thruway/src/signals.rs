//! Signals: Ctrl-C and `kill` stop cleanly, with everything written and told; scripts may wait for
//! them and for others.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use signal_hook::consts::{FORBIDDEN, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
use thruway_engine::{Caught, Control};
use thruway_sync::atomic::{AtomicBool, Ordering};

/// The signals that elements have waited for in this process; their handlers stay.
static CAUGHT: Mutex<BTreeMap<i32, Caught>> = Mutex::new(BTreeMap::new());

/// The router that signals stop: another one after a hot swap.
pub struct Stop(Arc<Mutex<Arc<Control>>>);

impl Stop {
    /// Lets signals stop this router from now on.
    pub fn follow(&self, control: &Arc<Control>) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Arc::clone(control);
    }
}

/// Lets elements of this router wait for signals.
pub fn pass_to(control: &Control) {
    control.pass_signals(Box::new(catch));
}

fn catch(signal: i32) -> Result<Caught, String> {
    let mut all = CAUGHT.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(caught) = all.get(&signal) {
        return Ok(caught.clone());
    }
    if FORBIDDEN.contains(&signal) {
        return Err(format!("signal {signal} cannot be caught"));
    }
    let flag = |value| Arc::new(AtomicBool::new(value));
    let caught = Caught { came: flag(false), unwanted: flag(true) };
    if signal != SIGINT && signal != SIGTERM {
        // In the signal handler itself, so that a signal that a script sends to this process has
        // come when the sending is over.
        let (came, unwanted) = (Arc::clone(&caught.came), Arc::clone(&caught.unwanted));
        signal_hook::flag::register_conditional_default(signal, unwanted)
            .and_then(|_| signal_hook::flag::register(signal, came))
            .map_err(|error| format!("cannot catch signal {signal}: {error}"))?;
    }
    all.insert(signal, caught.clone());
    Ok(caught)
}

/// Whether an element waits for the signal, which is then told that it came.
fn wanted(signal: i32) -> bool {
    let all = CAUGHT.lock().unwrap_or_else(PoisonError::into_inner);
    let caught = all.get(&signal).filter(|caught| !caught.unwanted.load(Ordering::Acquire));
    if let Some(caught) = caught {
        caught.came.store(true, Ordering::Release);
    }
    caught.is_some()
}

/// Stops the router at the first SIGINT or SIGTERM that no element waits for; the second ends the
/// process at once.
pub fn stop_on_signal(control: &Arc<Control>) -> anyhow::Result<Stop> {
    let mut signals = Signals::new([SIGINT, SIGTERM])?;
    let current = Arc::new(Mutex::new(Arc::clone(control)));
    let stop = Stop(Arc::clone(&current));
    std::thread::Builder::new().name("signals".into()).spawn(move || {
        let mut stopped = false;
        for signal in signals.forever() {
            let control = Arc::clone(&current.lock().unwrap_or_else(PoisonError::into_inner));
            if wanted(signal) {
                control.wake();
            } else if stopped {
                std::process::exit(128 + signal);
            } else {
                stopped = true;
                control.halt();
            }
        }
    })?;
    Ok(stop)
}
