//! Hosts to test between: threads, each in a network namespace of its own that goes with it.

use std::io::Write;
use std::process::Command;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;

type Job = Box<dyn FnOnce() + Send>;

/// A thread in its own network namespace, which runs closures in order.
pub struct Host {
    jobs: Sender<Job>,
    /// The thread's id: `ip link set ... netns` takes it.
    pub tid: i32,
}

impl Host {
    /// A new namespace, with its loopback up.
    pub fn new() -> Host {
        let (jobs, queue) = channel::<Job>();
        let (sender, receiver) = channel();
        thread::spawn(move || {
            // JUSTIFICATION: a test needs it, and the standard library does not offer it.
            // SAFETY: changes this thread's namespace only.
            assert_eq!(unsafe { libc::unshare(libc::CLONE_NEWNET) }, 0, "unshare");
            // JUSTIFICATION: a test needs it, and the standard library does not offer it.
            // SAFETY: has no arguments and cannot fail.
            sender.send(unsafe { libc::gettid() }).expect("someone waits");
            for job in queue {
                job();
            }
        });
        let host = Host { jobs, tid: receiver.recv().expect("the thread lives") };
        host.run(|| ip("link set lo up"));
        host
    }

    /// Starts a job; its result comes later.
    pub fn start<T: Send + 'static>(
        &self,
        job: impl FnOnce() -> T + Send + 'static,
    ) -> Receiver<T> {
        let (sender, receiver) = channel();
        let job = move || {
            // A receiver that is gone does not want the result.
            let _ = sender.send(job());
        };
        self.jobs.send(Box::new(job)).expect("the thread lives");
        receiver
    }

    /// Does a job and waits for its result.
    pub fn run<T: Send + 'static>(&self, job: impl FnOnce() -> T + Send + 'static) -> T {
        self.start(job).recv().expect("the job does not panic")
    }
}

/// Runs `ip` with these arguments in the namespace of this thread.
pub fn ip(arguments: &str) {
    let output = Command::new("ip").args(arguments.split_whitespace()).output();
    let output = output.expect("iproute2 is installed");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "ip {arguments}: {said}");
}

/// A cable: `near` on this thread's side, `far` with the host of thread `tid`.
pub fn cable(near: &str, far: &str, tid: i32) {
    ip(&format!("link add {near} type veth peer name {far} netns {tid}"));
    ip(&format!("link set {near} up"));
}

/// Whether the tests may make namespaces. Says so loudly if not, and fails if they must.
pub fn privileged(test: &str) -> bool {
    // JUSTIFICATION: a test needs it, and the standard library does not offer it.
    // SAFETY: has no arguments and cannot fail.
    if unsafe { libc::geteuid() } == 0 {
        return true;
    }
    let required = std::env::var("THRUWAY_REQUIRE_PRIVILEGES").is_ok_and(|v| v == "1");
    assert!(!required, "{test} must run as root");
    // Not `eprintln`: that would be kept from sight in a test that passes.
    writeln!(std::io::stderr(), "SKIPPED: {test}: needs root").expect("standard error");
    false
}
