//! The thread that starts the processes of a function, and lets go of what they leave behind.
//!
//! A start takes tens of milliseconds, and the kernel may take as long to remove the mounts and
//! control groups of a process that ended: the supervisor would notice the next end only after
//! that. A process dies with the thread that started it, so this thread lives until the last one
//! has ended.

use std::sync::mpsc::{Receiver, Sender, TryRecvError, channel};
use std::thread::JoinHandle;

use rustix::io::Errno;

use crate::error::HostError;
use crate::process::Process;
use crate::sandbox::Order;

/// Stack of a thread that serves a function, in bytes; a host may have thousands of them.
pub(super) const STACK_LEN: usize = 256 << 10;

/// What the thread does, in the order in which it was asked for.
enum Work {
    Start,
    Release(Box<dyn Send>),
}

/// The result of a start.
type Started = Result<Process, HostError>;

/// The supervisor's end.
pub(super) struct Spawner {
    /// `None` once the thread is to end.
    work: Option<Sender<Work>>,
    started: Receiver<Started>,
    /// A start was asked for, and its result was not taken yet.
    is_starting: bool,
    thread: Option<JoinHandle<()>>,
}

impl Spawner {
    /// Starts the thread. It calls `wake` after each start.
    ///
    /// # Errors
    /// [`HostError::System`].
    pub fn new(order: Order, wake: impl Fn() + Send + 'static) -> Result<Spawner, HostError> {
        let (work, asked) = channel();
        let (result, started) = channel();
        let run = move || {
            for work in asked {
                match work {
                    Work::Start => {
                        // The supervisor takes each result, or ends every process itself.
                        let _ = result.send(Process::spawn(&order));
                        wake();
                    }
                    Work::Release(remains) => drop(remains),
                }
            }
        };
        let thread = std::thread::Builder::new()
            .name("nf-spawner".into())
            .stack_size(STACK_LEN)
            .spawn(run)
            .map_err(|error| HostError::system("starting a thread", error))?;
        Ok(Spawner { work: Some(work), started, is_starting: false, thread: Some(thread) })
    }

    /// Begins a start, unless one is under way.
    pub fn begin(&mut self) {
        if !self.is_starting {
            self.ask(Work::Start);
            self.is_starting = true;
        }
    }

    /// The process of a start that is over, if there is one.
    pub fn started(&mut self) -> Option<Started> {
        if !self.is_starting {
            return None;
        }
        let started = match self.started.try_recv() {
            Ok(started) => started,
            Err(TryRecvError::Empty) => return None,
            Err(TryRecvError::Disconnected) => Err(gone()),
        };
        self.is_starting = false;
        Some(started)
    }

    /// The process of the start that is under way, or of a new one. Waits for it.
    ///
    /// # Errors
    /// Those of [`Process::spawn`].
    pub fn start(&mut self) -> Started {
        self.begin();
        self.is_starting = false;
        self.started.recv().unwrap_or_else(|_| Err(gone()))
    }

    /// Lets go of what an ended process left behind, when there is time.
    pub fn release(&self, remains: impl Send + 'static) {
        self.ask(Work::Release(Box::new(remains)));
    }

    fn ask(&self, work: Work) {
        if let Some(queue) = &self.work {
            // A thread that panicked is noticed by the next start; its processes died with it.
            let _ = queue.send(work);
        }
    }
}

/// The thread has panicked.
fn gone() -> HostError {
    HostError::system("starting a function", Errno::CANCELED)
}

impl Drop for Spawner {
    fn drop(&mut self) {
        self.work = None;
        if self.is_starting {
            // Ended by this thread, before its own starter ends.
            drop(self.started.recv());
        }
        if let Some(thread) = self.thread.take() {
            // A panic was reported by the panic itself.
            let _ = thread.join();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::exit::Exit;
    use crate::sandbox::{Isolation, Program};
    use std::sync::mpsc::channel;
    use std::time::Duration;

    const SOON: Duration = Duration::from_secs(20);

    fn spawner(program: &str, args: &[&str]) -> (Spawner, Receiver<()>) {
        let mut program = Program::new(program);
        program.args = args.iter().map(ToString::to_string).collect();
        let mut order = Order::new(program);
        order.isolation = Isolation::Relaxed;
        let (wake, woken) = channel();
        let spawner = Spawner::new(order, move || wake.send(()).unwrap_or_default());
        (spawner.unwrap_or_else(|error| panic!("{error}")), woken)
    }

    #[test]
    fn one_start_is_under_way_at_a_time_and_wakes_its_supervisor() {
        let (mut spawner, woken) = spawner("/bin/true", &[]);
        assert!(spawner.started().is_none());
        spawner.begin();
        spawner.begin();
        woken.recv_timeout(SOON).expect("it was woken");
        let mut process = spawner.started().expect("it is over").expect("it started");
        assert_eq!(process.wait(SOON).unwrap(), Some(Exit::Status(0)));
        spawner.begin();
        let next = spawner.start().expect("the one that was under way");
        assert_ne!(next.pid(), process.pid());
        // The result comes before its wake-up.
        woken.recv_timeout(SOON).expect("it was woken again");
        assert_eq!(woken.try_iter().count(), 0);
        assert!(spawner.started().is_none());
    }

    #[test]
    fn a_start_that_fails_is_its_result() {
        let (mut spawner, _woken) = spawner("/nonexistent", &[]);
        assert!(matches!(spawner.start(), Err(HostError::NoProgram { .. })));
        assert!(matches!(spawner.start(), Err(HostError::NoProgram { .. })));
    }

    #[test]
    fn a_start_under_way_leaves_no_process_behind() {
        let word = format!("98765{}", std::process::id());
        let (mut spawner, woken) = spawner("/bin/sleep", &[&word]);
        spawner.begin();
        woken.recv_timeout(SOON).expect("it runs");
        let is_there = || {
            let all = std::fs::read_dir("/proc").expect("it is there").flatten();
            let mut lines = all.filter_map(|one| std::fs::read(one.path().join("cmdline")).ok());
            lines.any(|line| String::from_utf8_lossy(&line).contains(&word))
        };
        assert!(is_there());
        drop(spawner);
        assert!(!is_there());
    }
}
