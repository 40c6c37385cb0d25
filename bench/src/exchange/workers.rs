//! Workers: starting them as processes or threads, and sending them home.

use std::os::fd::{AsRawFd as _, BorrowedFd, OwnedFd};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use anyhow::Context as _;
use thruway_bench_baseline::{PairWorker, PointerWorker, Variant};
use thruway_exchange::{Control, Doorbell, Worker, ring};
use thruway_nf_abi::LinkShape;
use thruway_nf_abi::control::{DRAIN, Figure};

use super::duty::{Duty, Transport, WorkerArgs};
use super::worker::{self, serve};
use crate::machine;

/// The frames of the memory that all share.
pub fn pool_shape(packet_len: u32) -> LinkShape {
    LinkShape { packet_len_max: packet_len, headroom: 0, ..LinkShape::DEFAULT }
}

/// How long a Worker may take to start, or to go home.
const PATIENCE: Duration = Duration::from_secs(60);

/// The descriptors of a Worker's regions: the control region's, then those of its transport.
type Fds = Vec<OwnedFd>;

/// Works until it is sent home.
fn work(fds: Fds, duty: &Duty) -> anyhow::Result<()> {
    if let Some(core) = duty.core {
        machine::bind(core);
    }
    let mut fds = fds.into_iter();
    let mut next = || fds.next().context("a region is missing");
    let control = Control::open(next()?)?;
    let threshold = duty.threshold;
    match duty.transport {
        // Only the Master's side reads shared indices in another manner.
        Transport::Exchange if duty.packed_indices => {
            serve(Variant::<true, false>::worker(next()?, threshold)?, &control, duty);
        }
        Transport::Exchange => serve(Worker::open(next()?, threshold)?, &control, duty),
        Transport::Pair => {
            serve(PairWorker::open([next()?, next()?], threshold)?, &control, duty);
        }
        Transport::Pointers => {
            let fds = [next()?, next()?, next()?];
            let shape = pool_shape(duty.packet_len);
            serve(PointerWorker::open(fds, duty.slots, &shape, threshold)?, &control, duty);
        }
    }
    Ok(())
}

/// The hidden command that a Worker's process runs.
pub fn worker_main(args: &WorkerArgs) -> anyhow::Result<()> {
    // A Worker must not outlive a bench that was killed.
    rustix::process::set_parent_process_death_signal(Some(rustix::process::Signal::KILL))?;
    work(args.open()?, &args.duty)
}

enum Body {
    Process(Child),
    Thread(JoinHandle<anyhow::Result<()>>),
}

/// A Worker that runs.
struct Hand {
    control: Control,
    body: Body,
}

/// What a Worker says when it goes home.
#[derive(Debug, Default, Clone, Copy)]
pub struct Report {
    /// Packets it worked on.
    pub packets: u64,
    /// Sum of what it computed.
    pub result: u64,
    /// Times it went to sleep.
    pub sleeps: u64,
}

/// All Workers of a measurement.
#[derive(Default)]
pub struct WorkerSet {
    hands: Vec<Hand>,
}

impl WorkerSet {
    /// Starts one more, and gives what wakes it.
    pub fn start(
        &mut self,
        regions: &[BorrowedFd<'_>],
        duty: Duty,
        is_process: bool,
    ) -> anyhow::Result<Doorbell> {
        let control = Control::create()?;
        let fds = std::iter::once(control.fd()).chain(regions.iter().copied());
        let body = if is_process {
            Body::Process(spawn(fds, &duty)?)
        } else {
            let fds = fds.map(|fd| fd.try_clone_to_owned()).collect::<Result<Fds, _>>()?;
            let thread = std::thread::Builder::new().name("worker".to_owned());
            Body::Thread(thread.spawn(move || work(fds, &duty))?)
        };
        self.hands.push(Hand { control: control.clone(), body });
        Ok(Doorbell::new(control, None))
    }

    /// Waits until all said that they are ready.
    pub fn ready(&mut self) -> anyhow::Result<()> {
        let begin = Instant::now();
        for hand in &mut self.hands {
            while hand.control.heartbeat() == 0 {
                anyhow::ensure!(!hand.body.has_ended(), "a Worker ended at once");
                anyhow::ensure!(begin.elapsed() < PATIENCE, "a Worker does not start");
                std::thread::sleep(Duration::from_micros(200));
            }
        }
        Ok(())
    }

    /// Sends all home, after the work that waits.
    pub fn dismiss(&mut self) -> anyhow::Result<Vec<Report>> {
        for hand in &self.hands {
            hand.control.set_command(DRAIN);
            ring(&Doorbell::new(hand.control.clone(), None));
        }
        self.hands.drain(..).map(Hand::finish).collect()
    }
}

impl Drop for WorkerSet {
    /// Leaves no process behind when a measurement fails.
    fn drop(&mut self) {
        for hand in &mut self.hands {
            match &mut hand.body {
                Body::Process(child) => {
                    let _ = child.kill();
                    let _ = child.wait();
                }
                Body::Thread(_) => {
                    hand.control.set_command(DRAIN);
                    ring(&Doorbell::new(hand.control.clone(), None));
                }
            }
        }
    }
}

impl Body {
    fn has_ended(&mut self) -> bool {
        match self {
            Body::Process(child) => !matches!(child.try_wait(), Ok(None)),
            Body::Thread(thread) => thread.is_finished(),
        }
    }
}

impl Hand {
    fn finish(mut self) -> anyhow::Result<Report> {
        let begin = Instant::now();
        while !self.body.has_ended() && begin.elapsed() < PATIENCE {
            std::thread::sleep(Duration::from_micros(200));
        }
        match self.body {
            Body::Process(mut child) => {
                if let Ok(None) = child.try_wait() {
                    let _ = child.kill();
                }
                let status = child.wait()?;
                anyhow::ensure!(status.success(), "a Worker failed: {status}");
            }
            Body::Thread(thread) if thread.is_finished() => match thread.join() {
                Ok(result) => result?,
                Err(_) => anyhow::bail!("a Worker panicked"),
            },
            Body::Thread(_) => anyhow::bail!("a Worker does not end"),
        }
        let value = |counter: u32| {
            let counters = self.control.counters();
            let name = worker::COUNTERS[counter as usize];
            counters.into_iter().find(|(n, _)| n == name).map_or(0, |(_, value)| value)
        };
        Ok(Report {
            packets: value(worker::PACKETS),
            result: value(worker::RESULT),
            sleeps: self.control.figure(Figure::Sleeps),
        })
    }
}

/// Starts this program again as a Worker. It reaches the regions through this process's
/// descriptors.
fn spawn<'a>(fds: impl Iterator<Item = BorrowedFd<'a>>, duty: &Duty) -> anyhow::Result<Child> {
    let path = |fd: BorrowedFd<'_>| format!("/proc/{}/fd/{}", std::process::id(), fd.as_raw_fd());
    let paths: Vec<String> = fds.map(path).collect();
    let mut command = Command::new("/proc/self/exe");
    command.args(["exchange-worker"]).args(duty.to_args());
    command.args(["--regions", &paths.join(",")]).stdin(Stdio::null()).stdout(Stdio::null());
    command.spawn().context("a Worker's process cannot be started")
}

/// Cores: the Master's, and those of its Workers, which are neighbours when they are near each
/// other in their chain.
#[derive(Debug, Clone)]
pub struct Cores(Arc<[usize]>);

impl Cores {
    /// Those that this process may use.
    pub fn allowed() -> Cores {
        Cores(machine::allowed().into())
    }

    /// The Master's.
    pub fn master(&self) -> Option<usize> {
        self.0.first().copied()
    }

    /// That of one of so many Workers.
    pub fn worker(&self, nth: usize, workers: usize) -> Option<usize> {
        let others = self.0.len().saturating_sub(1);
        if others == 0 {
            return self.master();
        }
        self.0.get(1 + nth * others / workers.max(1)).copied()
    }

    /// How many there are.
    pub fn count(&self) -> usize {
        self.0.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn workers_are_spread_over_all_cores_but_the_masters() {
        let cores = Cores([4, 5, 9].into());
        assert_eq!((cores.master(), cores.count()), (Some(4), 3));
        let spread: Vec<_> = (0..4).filter_map(|nth| cores.worker(nth, 4)).collect();
        assert_eq!(spread, [5, 5, 9, 9]);
        assert_eq!(Cores([4].into()).worker(3, 4), Some(4));
        assert_eq!(Cores([].into()).worker(0, 1), None);
    }
}
