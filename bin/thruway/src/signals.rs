//! Signals: Ctrl-C and `kill` stop cleanly, with everything written and told; what an element
//! waits for is handed to it.

use std::io::IsTerminal as _;
use std::sync::{Arc, Mutex, MutexGuard};

use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::{Handle, Signals};
use signal_hook::low_level::emulate_default_handler;
use thruway_engine::Control;

/// The router that signals are for: another one after a hot swap.
pub struct Receiver {
    router: Arc<Mutex<Arc<Control>>>,
    handle: Handle,
}

impl Receiver {
    /// Lets signals go to this router, which is initialised, from now on.
    pub fn follow(&self, control: &Arc<Control>) -> std::io::Result<()> {
        *lock(&self.router) = Arc::clone(control);
        control.wanted_signals().into_iter().try_for_each(|signal| self.handle.add_signal(signal))
    }
}

fn lock(router: &Mutex<Arc<Control>>) -> MutexGuard<'_, Arc<Control>> {
    router.lock().unwrap_or_else(|poison| poison.into_inner())
}

/// Hands signals to the elements of an initialised router that wait for them. Otherwise the first
/// SIGINT or SIGTERM stops the router, the second ends the process at once, SIGHUP reads the
/// configuration file again where there is one, and any other signal does what it does to a program
/// that knows nothing of it.
pub fn receive(control: &Arc<Control>) -> std::io::Result<Receiver> {
    let mut signals = Signals::new([SIGHUP, SIGINT, SIGTERM])?;
    let router = Arc::new(Mutex::new(Arc::clone(control)));
    let receiver = Receiver { router: Arc::clone(&router), handle: signals.handle() };
    receiver.follow(control)?;
    std::thread::Builder::new().name("signals".into()).spawn(move || {
        let mut stopping = false;
        // The end of a session sends the same signal as `kill -HUP`: then the terminal has gone.
        let begun_at_terminal = std::io::stdin().is_terminal();
        for signal in signals.forever() {
            let control = Arc::clone(&lock(&router));
            if control.signal(signal) {
                continue;
            }
            let is_hangup = begun_at_terminal && !std::io::stdin().is_terminal();
            if signal == SIGHUP && control.reloads() && !is_hangup {
                // What came of it is logged where it is done.
                let _ = control.reload();
            } else if ![SIGINT, SIGTERM].contains(&signal) {
                // Only a signal that may not be caught fails, and such a one does not come here.
                let _ = emulate_default_handler(signal);
            } else if std::mem::replace(&mut stopping, true) {
                std::process::exit(128 + signal);
            } else {
                control.halt();
            }
        }
    })?;
    Ok(receiver)
}
