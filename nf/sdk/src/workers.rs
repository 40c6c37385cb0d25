//! A function that is several Workers: one process, a thread for each.

use std::process::ExitCode;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::{Scope, scope};

use thruway_exchange::{Attached, WorkerPart, attach};
use thruway_nf_abi::features::Offer;

use crate::config::Config;
use crate::function::{Function, Start};
use crate::host::Host;
use crate::responder::{Inbox, Responder};
use crate::rounds::{Rounds, RunError, begin, report};

/// How a process ends of which a thread panicked: as if it were the main thread.
const PANICKED: i32 = 101;

/// Runs a function as so many Workers as WORKERS of its element says, until its host ends it: the
/// `main` of its program. `make` makes the function of one Worker, in that Worker's thread; one
/// after the other in the order of their [numbers](Start::worker), the first in the calling thread.
/// What it gives as an error is what the host shows its user.
///
/// A Worker serves some of the threads that run the element, alone. So it alone sees the packets of
/// a session, and their order is kept, without a lock. Each Worker has a function, counters and
/// timers of its own; the host adds counters of one name up. Handlers are asked of all Workers.
///
/// The process is what is started, supervised and started again: a Worker that panics or hangs
/// takes the others with it.
pub fn run_workers<F: Function>(
    config: &Config,
    make: impl Fn(&mut Start<'_>) -> Result<F, String> + Sync,
) -> ExitCode {
    let result = attach(&config.hello(Offer::ALL)).map_err(RunError::from);
    report(config, result.and_then(|attached| serve(config, attached, &make)))
}

/// Ends the process if its thread panics: a function of which a part is missing looks as if it
/// were well.
struct EndsAll;

impl Drop for EndsAll {
    fn drop(&mut self) {
        if std::thread::panicking() {
            std::process::exit(PANICKED);
        }
    }
}

fn serve<F: Function>(
    config: &Config,
    attached: Attached,
    make: &(impl Fn(&mut Start<'_>) -> Result<F, String> + Sync),
) -> Result<(), RunError> {
    let (host, first, others) = Host::of(attached);
    let inboxes: Vec<Inbox> =
        others.iter().map(|part| Inbox::new(part.number, part.control.clone())).collect();
    scope(|scope| {
        let _ends_all = EndsAll;
        let mut made = begin(&host, first, make);
        let mut waiting = Vec::new();
        for (part, inbox) in others.into_iter().zip(&inboxes) {
            let thread = WorkerThread { config, host: &host, inbox };
            if made.is_ok()
                && let Err(why) = thread.start(scope, part, make, &mut waiting)
            {
                made = Err(why);
            }
        }
        let made = match made {
            Ok(made) => made,
            Err(why) => {
                host.socket.send_failed(&why)?;
                return Err(RunError::Begin(why));
            }
        };
        host.socket.send_ready()?;
        for go in &waiting {
            // One that is gone has ended the process.
            let _ = go.send(());
        }
        let result = Rounds::new(config, made, Responder::First(&host, &inboxes)).run();
        inboxes.iter().for_each(Inbox::end);
        Ok(result?)
    })
}

/// What a Worker beyond the first one works with.
#[derive(Clone, Copy)]
struct WorkerThread<'env> {
    config: &'env Config,
    host: &'env Host,
    inbox: &'env Inbox,
}

impl<'env> WorkerThread<'env> {
    /// Starts the Worker's thread and waits until its function is made, or gives why there is none.
    /// The thread begins when the sender that is put into `waiting` sends, and ends when that is
    /// dropped.
    fn start<'scope, F: Function>(
        self,
        scope: &'scope Scope<'scope, 'env>,
        part: WorkerPart,
        make: &'env (impl Fn(&mut Start<'_>) -> Result<F, String> + Sync),
        waiting: &mut Vec<Sender<()>>,
    ) -> Result<(), String> {
        let number = part.number;
        let (report, reported) = channel();
        let (go, may_begin) = channel();
        // The host knows a Worker's thread by this name, where it pins it to a CPU.
        std::thread::Builder::new()
            .name(format!("worker-{number}"))
            .spawn_scoped(scope, move || self.work(part, make, &report, &may_begin))
            .map_err(|error| format!("no thread for Worker {number}: {error}; raise MEMORY"))?;
        waiting.push(go);
        // Its thread says it, or has ended the process.
        reported.recv().unwrap_or_else(|_| Err(format!("Worker {number} is gone")))
    }

    fn work<F: Function>(
        self,
        part: WorkerPart,
        make: &impl Fn(&mut Start<'_>) -> Result<F, String>,
        report: &Sender<Result<(), String>>,
        may_begin: &Receiver<()>,
    ) {
        let _ends_all = EndsAll;
        let WorkerThread { config, host, inbox } = self;
        let made = begin(host, part, make);
        // The first Worker waits for it.
        let _ = report.send(made.as_ref().map(drop).map_err(String::clone));
        let (Ok(made), Ok(())) = (made, may_begin.recv()) else { return };
        if let Err(error) = Rounds::new(config, made, Responder::Other(host, inbox)).run() {
            eprintln!("{}: {error}", config.name);
            std::process::exit(1);
        }
    }
}
