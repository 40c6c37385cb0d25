//! Signals: Ctrl-C and `kill` stop cleanly, with everything written and told; what an element
//! waits for is handed to it.

use std::io::Write as _;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::iterator::{Handle, Signals};
use signal_hook::low_level::emulate_default_handler;
use thruway_engine::Control;

/// How long the program may take to end after a signal: then it ends as it is.
const GRACE: Duration = Duration::from_secs(10);
/// How long the line that says so may take: nobody may be reading it.
const LAST_WORDS: Duration = Duration::from_millis(200);

/// Where signals go.
#[derive(Default)]
struct Target {
    /// The router; none before the first one is initialised, and another one after a hot swap.
    control: Option<Arc<Control>>,
    /// Whether a signal has ended the program: whatever router comes, it does not run.
    ended: bool,
}

/// Receives the process's signals, from now on to its end.
pub struct Receiver {
    target: Arc<Mutex<Target>>,
    handle: Handle,
}

impl Receiver {
    /// Begins to receive SIGINT and SIGTERM. The first one that no element waits for ends the
    /// program: the router that runs, or the one that is to run next. The second ends the process
    /// at once, and so does [`GRACE`]. Any other signal does what it does to a program that knows
    /// nothing of it.
    pub fn new() -> std::io::Result<Receiver> {
        let mut signals = Signals::new([SIGINT, SIGTERM])?;
        let target = Arc::new(Mutex::new(Target::default()));
        let receiver = Receiver { target: Arc::clone(&target), handle: signals.handle() };
        std::thread::Builder::new().name("signals".into()).spawn(move || {
            signals.forever().for_each(|signal| lock(&target).deliver(signal));
        })?;
        Ok(receiver)
    }

    /// Lets signals go to this router, which is initialised, from now on; those too that its
    /// predecessor has not begun with.
    pub fn follow(&self, control: &Arc<Control>) -> std::io::Result<()> {
        let mut target = lock(&self.target);
        let before = target.control.replace(Arc::clone(control));
        if target.ended {
            control.end();
        }
        if let Some(before) = before.filter(|before| !Arc::ptr_eq(before, control)) {
            before.signals_left().into_iter().for_each(|signal| target.deliver(signal));
        }
        drop(target);
        control.wanted_signals().into_iter().try_for_each(|signal| self.handle.add_signal(signal))
    }
}

fn lock(target: &Mutex<Target>) -> MutexGuard<'_, Target> {
    target.lock().unwrap_or_else(|poison| poison.into_inner())
}

impl Target {
    fn deliver(&mut self, signal: i32) {
        if self.control.as_ref().is_some_and(|control| control.signal(signal)) {
            return;
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
