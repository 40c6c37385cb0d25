//! Traffic for measurements and tests: millions of numbered frames a second from one core, made in
//! the kernel, and a sink that counts them and looks at their order.
//!
//! Frames are those of `BPF_PROG_RUN` with live frames (Linux 5.18): a small program writes each one
//! whole, since the pages are used again, and redirects it to an interface; on a virtual link it
//! comes out at the other end, which must have NAPI on (an XDP program, or GRO). They are UDP over
//! IPv4; which flow they belong to and their number within it stand in the payload, so a sink finds
//! them whatever translated their addresses.
//!
//! Both ends stand in the network namespace of the thread that opens them, and the generator runs
//! there.

mod program;
mod sink;
mod stream;

pub use sink::{Sink, SinkCounts};
pub use stream::{FRAME_LEN_MIN, Stream};

use crate::bpf::{self, Array, Hook};
use crate::error::PortError;
use crate::interface;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;

/// Frames that are under way in the kernel at once: the most that it allows
/// (`TEST_XDP_MAX_BATCH`).
const BATCH: u32 = 256;

/// Words of the program's state: what it counts, and the head of all frames.
const STATE_WORDS: usize = 8;

/// Sends a stream of frames to an interface.
pub struct Generator {
    program: OwnedFd,
    count: GeneratorCount,
    /// Kept open: the program sends by it.
    _interfaces: OwnedFd,
    frame: Vec<u8>,
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
        Ok(Generator { program, count, _interfaces: interfaces, frame: stream.frame() })
    }

    /// Makes and sends so many frames, the next of the stream, and then comes back. What the
    /// interface does not take is lost, and counted there.
    ///
    /// # Errors
    /// The kernel has no live frames (before Linux 5.18), or the interface is gone.
    pub fn send(&mut self, count: u32) -> Result<(), PortError> {
        if count == 0 {
            return Ok(());
        }
        match bpf::run(self.program.as_fd(), &self.frame, count, BATCH.min(count)) {
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
    /// The kernel does not tell.
    pub fn made(&self) -> Result<u64, PortError> {
        self.count.made()
    }

    /// Tells [`Generator::made`], also while it sends.
    pub fn count(&self) -> GeneratorCount {
        self.count.clone()
    }
}

impl GeneratorCount {
    /// Frames made since the beginning, those that the interface did not take included.
    ///
    /// # Errors
    /// The kernel does not tell.
    pub fn made(&self) -> Result<u64, PortError> {
        let state = self.state.get(0);
        let state = state.map_err(|error| {
            PortError::xdp(&self.name, "bpf(BPF_MAP_LOOKUP_ELEM) of a generator's state", error)
        })?;
        Ok(program::made(&state, self.flows))
    }
}
