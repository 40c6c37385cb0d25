//! Traffic for measurements and tests: millions of numbered frames a second from one core, made in
//! the kernel, and a sink that counts them and looks at their order.
//!
//! Frames are those of `BPF_PROG_RUN` with live frames (Linux 5.18): a small program writes each
//! one whole, since the pages are used again, and redirects it to an interface; on a virtual link
//! it comes out at the other end, which must have NAPI on (an XDP program, or GRO). They are UDP
//! over IPv4; which flow they belong to and their number within it stand in the payload, so a sink
//! finds them whatever translated their addresses. Frames of a paced stream say when they were
//! made, and the sink records the latency of each.
//!
//! Both ends stand in the network namespace of the thread that opens them, and the generator runs
//! there.

mod latency;
mod program;
mod sink;
mod stream;

pub use latency::Histogram;
use program::STATE_WORDS;
pub use sink::{Sink, SinkCounts};
pub use stream::{FRAME_LEN_MIN, Stream};

use crate::bpf::{self, Array, Hook};
use crate::error::PortError;
use crate::interface;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Frames in flight in the kernel at once: the most that it allows
/// (`TEST_XDP_MAX_BATCH`).
const BATCH: u32 = 256;
/// And of a paced stream: a frame that is made waits for the end of the runs that it is among, most
/// of which make none; 8 take less than a microsecond.
const PACED_BATCH: u32 = 8;

/// What a run of a paced stream is taken to last at first, nanoseconds.
const RUN_NS: f64 = 100.0;
/// A shorter call says nothing about it: its start and end take some 25 ms.
const LONG_CALL: Duration = Duration::from_millis(250);
/// Runs of one call, at least.
const RUNS_MIN: f64 = 10_000.0;

/// Sends a stream of frames to an interface.
pub struct Generator {
    program: OwnedFd,
    count: GeneratorCount,
    /// Kept open: the program sends by it.
    _interfaces: OwnedFd,
    frame: Vec<u8>,
    /// Nanoseconds of a run of a paced stream, of the last long call.
    run_ns: f64,
}

/// What a generator made, also while it sends.
#[derive(Clone)]
pub struct GeneratorCount {
    state: Arc<Array<STATE_WORDS>>,
    flows: u32,
    name: Arc<str>,
}

impl Generator {
    /// Prepares a stream to the interface `name`.
    ///
    /// # Errors
    /// There is no such interface, the stream cannot be, the process may not load programs, or the
    /// kernel is too old.
    pub fn new(name: &str, stream: &Stream) -> Result<Generator, PortError> {
        stream.check(name)?;
        let interface = interface::find(name)?;
        let failed = |step| move |error| PortError::xdp(name, step, error);
        let interfaces = bpf::interface_map(interface.index)
            .map_err(failed("bpf(BPF_MAP_CREATE) of a map of interfaces"))?;
        let state = Array::new(1).map_err(failed("bpf(BPF_MAP_CREATE) of a generator's state"))?;
        state
            .set(0, &program::initial_state(&stream.head()))
            .map_err(failed("bpf(BPF_MAP_UPDATE_ELEM) of a generator's state"))?;
        let program = program::generating(stream, state.as_fd(), interfaces.as_fd());
        let program =
            bpf::load(Hook::Xdp, &program).map_err(failed("bpf(BPF_PROG_LOAD) of a generator"))?;
        let (state, flows, name) = (Arc::new(state), stream.flows, name.into());
        let count = GeneratorCount { state, flows, name };
        let frame = stream.frame();
        Ok(Generator { program, count, _interfaces: interfaces, frame, run_ns: RUN_NS })
    }

    /// Makes and sends so many frames, the next of the stream, as fast as it can, and then comes
    /// back. What the interface does not take is lost, and counted there.
    ///
    /// # Errors
    /// The kernel has no live frames (before Linux 5.18), or the interface is gone.
    pub fn send(&mut self, count: u32) -> Result<(), PortError> {
        self.set(count, 0)?;
        self.run(count, BATCH)
    }

    /// As [`Generator::send`], so many a second, evenly: what is missed in 50 us is made up for,
    /// what is missed in longer pauses is not. It takes a core all the time, and may come back some
    /// time after the last frame; or it has to call the kernel again, which is a pause of some 25
    /// ms near the end.
    ///
    /// # Errors
    /// As those of [`Generator::send`].
    pub fn send_at(&mut self, count: u32, per_second: u32) -> Result<(), PortError> {
        let interval_ns = 1_000_000_000 / u64::from(per_second.max(1));
        self.set(count, interval_ns)?;
        let end = self.made()? + u64::from(count);
        loop {
            let left = end.saturating_sub(self.made()?);
            if left == 0 {
                return Ok(());
            }
            let runs = (left * interval_ns) as f64 / self.run_ns;
            let (runs, begin) = (runs.max(RUNS_MIN) as u32, Instant::now());
            self.run(runs, PACED_BATCH)?;
            let took = begin.elapsed();
            if took >= LONG_CALL {
                self.run_ns = took.as_nanos() as f64 / f64::from(runs);
            }
        }
    }

    /// Sets what is to be made.
    fn set(&mut self, count: u32, interval_ns: u64) -> Result<(), PortError> {
        let mut state = self.count.state()?;
        (state[program::INTERVAL], state[program::LEFT]) = (interval_ns, count.into());
        self.count.state.set(0, &state).map_err(|error| {
            let step = "bpf(BPF_MAP_UPDATE_ELEM) of a generator's state";
            PortError::xdp(&self.count.name, step, error)
        })
    }

    /// Runs the program so many times, with so many frames at once.
    fn run(&self, times: u32, batch: u32) -> Result<(), PortError> {
        if times == 0 {
            return Ok(());
        }
        match bpf::run(self.program.as_fd(), &self.frame, times, batch.min(times)) {
            // A signal; what was not sent is not in the count of frames made.
            Err(error) if error.raw_os_error() == Some(libc::EINTR) => Ok(()),
            Err(error) if error.raw_os_error() == Some(libc::EINVAL) => {
                let what = "the kernel has no live frames for BPF_PROG_RUN; Linux 5.18 has";
                Err(PortError::unfit(&self.count.name, what))
            }
            result => {
                result.map_err(|error| PortError::xdp(&self.count.name, "bpf(BPF_PROG_RUN)", error))
            }
        }
    }

    /// Frames made since the beginning.
    ///
    /// # Errors
    /// The kernel does not report.
    pub fn made(&self) -> Result<u64, PortError> {
        self.count.made()
    }

    /// Returns [`Generator::made`], also while it sends.
    pub fn count(&self) -> GeneratorCount {
        self.count.clone()
    }
}

impl GeneratorCount {
    /// Frames made since the beginning, those that the interface did not take included.
    ///
    /// # Errors
    /// The kernel does not report.
    pub fn made(&self) -> Result<u64, PortError> {
        Ok(program::made(&self.state()?, self.flows))
    }

    fn state(&self) -> Result<[u64; STATE_WORDS], PortError> {
        self.state.get(0).map_err(|error| {
            PortError::xdp(&self.name, "bpf(BPF_MAP_LOOKUP_ELEM) of a generator's state", error)
        })
    }
}
