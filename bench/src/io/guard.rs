//! The kernel's forwarding time that belongs to no process.
//!
//! An interrupt hands received packets to the forwarding core, and soft interrupts forward them
//! there: the kernel charges their time to the running thread. Here that is a thread with the
//! core to itself. It repeats a small operation, and its cost is measured without
//! load. Its additional time under load, by the kernel's account, is the soft interrupts' time. The
//! operation is a system call that ends with a check for soft interrupts, so they have the thread's
//! priority, too; the kernel's own thread for them would wait for other programs. The core
//! never sleeps meanwhile, so forwarding is not charged with waking it.

use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::Duration;

use anyhow::bail;
use rustix::net::{AddressFamily, SocketType, socket, sockopt};
use rustix::time::{ClockId, clock_gettime};
use thruway_sync::atomic::{AtomicU64, Ordering};

use super::companion::Companion;
use super::site::PROCESS_PRIORITY;

/// Until it runs evenly, and how long its cost is measured.
const STEADY_AFTER: Duration = Duration::from_millis(50);
const MEASURE: Duration = Duration::from_millis(200);

/// Runs until it is dropped.
pub struct Guard {
    measured: Arc<Measured>,
    thread: Companion,
    /// What one turn costs, nanoseconds.
    turn_ns: f64,
    busy_before: f64,
}

/// Counters of the thread. All relaxed: values are a turn old at most, which is a millionth of
/// the measurement.
#[derive(Default)]
struct Measured {
    turns: AtomicU64,
    /// Its processor time.
    ns: AtomicU64,
}

impl Guard {
    /// Takes a core, which has no load, and measures itself.
    pub fn begin(core: usize) -> anyhow::Result<Guard> {
        let measured = Arc::new(Measured::default());
        let counters = Arc::clone(&measured);
        let socket = socket(AddressFamily::INET, SocketType::DGRAM, None)?;
        let (mut turns, mut begin) = (0, None);
        let thread = Companion::begin((core, PROCESS_PRIORITY), move || {
            // Of its own thread.
            let begin = *begin.get_or_insert_with(used_ns);
            turn(&socket)?;
            turns += 1;
            counters.turns.store(turns, Ordering::Relaxed);
            counters.ns.store(used_ns() - begin, Ordering::Relaxed);
            Ok(())
        });
        let mut guard = Guard { measured, thread, turn_ns: 0.0, busy_before: 0.0 };
        std::thread::sleep(STEADY_AFTER);
        let (turns, ns) = guard.passed();
        guard.turn_ns = ns / turns;
        if !guard.turn_ns.is_finite() {
            guard.thread.end()?;
            bail!("it does not get core {core}");
        }
        let (turns, ns) = guard.passed();
        guard.busy_before = 1.0 - turns * guard.turn_ns / ns;
        Ok(guard)
    }

    /// What part of its time did not seem its own, without load: how exact it is.
    pub fn busy_before(&self) -> f64 {
        self.busy_before
    }

    /// Nanoseconds that others took so far, on top of it. Only differences have a meaning.
    pub fn taken_ns(&self) -> u64 {
        let (turns, ns) = self.now();
        // A little before the beginning perhaps.
        (ns as f64 - turns as f64 * self.turn_ns).max(0.0) as u64
    }

    fn now(&self) -> (u64, u64) {
        (self.measured.turns.load(Ordering::Relaxed), self.measured.ns.load(Ordering::Relaxed))
    }

    /// Turns in some time, and its processor time in it.
    fn passed(&self) -> (f64, f64) {
        let before = self.now();
        std::thread::sleep(MEASURE);
        let after = self.now();
        ((after.0 - before.0) as f64, (after.1 - before.1) as f64)
    }
}

/// Unlocking a socket runs pending soft interrupts.
fn turn(socket: &OwnedFd) -> anyhow::Result<()> {
    Ok(sockopt::set_socket_keepalive(socket, false)?)
}

/// This thread's processor time, with that of the interrupts on top of it.
fn used_ns() -> u64 {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    time.tv_sec.cast_unsigned() * 1_000_000_000 + time.tv_nsec.cast_unsigned()
}
