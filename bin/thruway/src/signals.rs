//! Signals: Ctrl-C and `kill` stop cleanly, with all output and reports written; a signal that an
//! element waits for is passed to it.

use std::io::{IsTerminal as _, Write as _};
use std::sync::Arc;
use std::time::{Duration, Instant};

use nix::sys::signal::{SigSet, SigmaskHow, Signal};
use parking_lot::Mutex;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM, SIGUSR1, SIGUSR2};
use signal_hook::iterator::{Handle, Signals};
use signal_hook::low_level::emulate_default_handler;
use thruway_engine::Control;
use thruway_sync::atomic::{AtomicBool, Ordering};

/// How long the program may take to end after a signal: then it ends as it is.
const GRACE: Duration = Duration::from_secs(10);
/// How often [`wait`] looks whether it is to end.
const LOOK: Duration = Duration::from_millis(20);
/// How long the line that says so may take: nobody may be reading it.
const LAST_WORDS: Duration = Duration::from_millis(200);

/// Where signals go.
struct Target {
    /// The router; none before the first one is initialised, and another one after a hot swap.
    control: Option<Arc<Control>>,
    /// Whether a signal has ended the program: whatever router comes, it does not run.
    ended: bool,
    /// Whether standard input was a terminal at the start.
    begun_at_terminal: bool,
}

/// Receives the process's signals, from now on to its end.
pub struct Receiver {
    target: Arc<Mutex<Target>>,
    handle: Handle,
}

impl Receiver {
    /// Begins to receive SIGINT, SIGTERM and SIGHUP. The first SIGINT or SIGTERM that no element
    /// waits for ends the program: the router that runs, or the one that is to run next. The second
    /// ends the process at once, and so does [`GRACE`]. SIGHUP reads the configuration file again
    /// where there is one. Any other signal does what it does to a program that knows nothing of
    /// it. SIGUSR1 and SIGUSR2 are received from now on, too: elements of a later configuration may
    /// wait for them, and one that came while it registers for them would be lost.
    pub fn new() -> std::io::Result<Receiver> {
        let received = [SIGHUP, SIGINT, SIGTERM, SIGUSR1, SIGUSR2];
        let mut signals = with_signals_held(|| Signals::new(received))?;
        let begun_at_terminal = std::io::stdin().is_terminal();
        let target = Target { control: None, ended: false, begun_at_terminal };
        let target = Arc::new(Mutex::new(target));
        let receiver = Receiver { target: Arc::clone(&target), handle: signals.handle() };
        std::thread::Builder::new().name("signals".into()).spawn(move || {
            for signal in signals.forever() {
                let reload = target.lock().deliver(signal);
                // Without the lock: reading a configuration takes time; it logs what came of it.
                let _ = reload.map(|control| control.reload(""));
            }
        })?;
        Ok(receiver)
    }

    /// Lets signals go to this router, which is initialised, from now on; those too that its
    /// predecessor has not begun with.
    pub fn follow(&self, control: &Arc<Control>) -> std::io::Result<()> {
        let mut target = self.target.lock();
        let before = target.control.replace(Arc::clone(control));
        if target.ended {
            control.end();
        }
        let mut reload = None;
        if let Some(before) = before.filter(|before| !Arc::ptr_eq(before, control)) {
            for signal in before.signals_left() {
                reload = target.deliver(signal).or(reload);
            }
        }
        drop(target);
        let _ = reload.map(|control| control.reload(""));
        control.wanted_signals().into_iter().try_for_each(|signal| self.handle.add_signal(signal))
    }
}

/// Registers for signals. Those that this program receives wait meanwhile: the caller's is the only
/// thread.
///
/// A signal that arrives when its handler is installed, but its receiver is not registered yet, is
/// lost:
/// `signal-hook-registry` 1.4 then does what was done before, of which the default action is no
/// part.
///
/// # Errors
/// Those of `register`; what the system says of the thread's signal mask.
pub fn with_signals_held<T>(register: impl FnOnce() -> std::io::Result<T>) -> std::io::Result<T> {
    let all = [Signal::SIGHUP, Signal::SIGINT, Signal::SIGTERM, Signal::SIGUSR1, Signal::SIGUSR2];
    let held: SigSet = all.into_iter().collect();
    let before = held.thread_swap_mask(SigmaskHow::SIG_BLOCK)?;
    let registered = register();
    before.thread_set_mask()?;
    registered
}

/// A flag that SIGINT and SIGTERM raise from now on.
pub fn end_flag() -> std::io::Result<Arc<AtomicBool>> {
    with_signals_held(|| {
        let over = Arc::new(AtomicBool::new(false));
        for signal in [SIGINT, SIGTERM] {
            signal_hook::flag::register(signal, Arc::clone(&over))?;
        }
        Ok(over)
    })
}

/// Waits for so long; says whether to go on. It ends early where `end` is raised or `is_over`
/// holds, and then says no.
pub fn wait(time: Duration, end: &AtomicBool, is_over: impl Fn() -> bool) -> bool {
    let begin = Instant::now();
    while begin.elapsed() < time && !end.load(Ordering::Relaxed) {
        std::thread::sleep(LOOK.min(time));
        if is_over() {
            return false;
        }
    }
    !end.load(Ordering::Relaxed)
}

impl Target {
    /// Does what a signal asks for; gives the router that is to read its configuration again.
    fn deliver(&mut self, signal: i32) -> Option<Arc<Control>> {
        if self.control.as_ref().is_some_and(|control| control.signal(signal)) {
            return None;
        }
        // The end of a session sends the same signal as `kill -HUP`: then the terminal has gone.
        let is_hangup = self.begun_at_terminal && !std::io::stdin().is_terminal();
        if signal == SIGHUP && !is_hangup {
            let reload = self.control.as_ref().filter(|control| control.reloads());
            if let Some(control) = reload {
                return Some(Arc::clone(control));
            }
        }
        if ![SIGINT, SIGTERM].contains(&signal) {
            // Only a signal that may not be caught fails, and such a one does not come here.
            let _ = emulate_default_handler(signal);
        } else if std::mem::replace(&mut self.ended, true) {
            std::process::exit(128 + signal);
        } else {
            if let Some(control) = &self.control {
                control.end();
            }
            limit(signal);
        }
        None
    }
}

/// Ends the process in a while, unless it has ended by then: an element may wait for something that
/// does not come, such as the reader of a pipe.
fn limit(signal: i32) {
    let limit = std::thread::Builder::new().name("grace".into());
    // Without the thread a second signal still ends the process.
    let _ = limit.spawn(move || {
        std::thread::sleep(GRACE);
        let words = std::thread::Builder::new();
        let _ = words.spawn(|| {
            let grace = GRACE.as_secs();
            let mut stderr = std::io::stderr();
            let _ = writeln!(
                stderr,
                "not ended {grace} s after the signal: an element waits for a file, a pipe or a \
                 device. Ending now; what it writes may be incomplete"
            );
        });
        std::thread::sleep(LAST_WORDS);
        std::process::exit(128 + signal);
    });
}
