//! The steering program of an interface, attached, with its map of sockets.

use super::Mode;
use crate::bpf::{self, Hook};
use crate::classes::{Class, steering};
use crate::error::PortError;
use crate::interface::Interface;
use crate::notes::Notes;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::{Duration, Instant};
use thruway_sync::atomic::{AtomicU64, Ordering};

// Flags of <linux/if_link.h>.
const XDP_FLAGS_SKB_MODE: u32 = 1 << 1;
const XDP_FLAGS_DRV_MODE: u32 = 1 << 2;

/// Time for which another program may stay attached before it is reported, and the interval of
/// checks.
const BUSY_MAX: Duration = Duration::from_millis(300);
const BUSY_PAUSE: Duration = Duration::from_millis(10);

/// Detaches on drop, and when the process ends for any other reason.
pub(crate) struct Steering {
    map: OwnedFd,
    program: OwnedFd,
    attached: Attached,
    /// [`Notes::bits`] of the program in front; 0: it writes none.
    notes: AtomicU64,
}

/// An XDP program's link to an interface.
pub(crate) struct Attached {
    /// Kept open: a program is attached as long as it is.
    link: OwnedFd,
    mode: Mode,
    /// Why it is in no mode that was to be tried first.
    passed_over: Option<String>,
}

impl Attached {
    /// Attaches a program in the first of `modes` that works.
    pub(crate) fn new(
        interface: &Interface,
        program: BorrowedFd<'_>,
        queues: u32,
        modes: &[Mode],
    ) -> Result<Attached, PortError> {
        let name = &interface.name;
        let mut last = None;
        for &mode in modes {
            let flags = match mode {
                Mode::Native => XDP_FLAGS_DRV_MODE,
                Mode::Generic => XDP_FLAGS_SKB_MODE,
            };
            match link(program, interface.index, flags) {
                Ok(link) => {
                    let passed_over = last.map(|(error, _): (PortError, bool)| error.reason());
                    return Ok(Attached { link, mode, passed_over });
                }
                Err(error) => last = Some(refusal(name, (mode, queues), error)),
            }
            if last.as_ref().is_some_and(|(_, is_final)| *is_final) {
                break;
            }
        }
        let none = || PortError::unfit(name, "no mode of XDP to try");
        Err(last.map_or_else(none, |(error, _)| error))
    }

    /// "native mode", and why not a better one.
    pub(crate) fn describe(&self) -> String {
        let mode = self.mode;
        match &self.passed_over {
            None => format!("{mode} mode"),
            Some(why) => format!("{mode} mode ({why})"),
        }
    }
}

impl Steering {
    /// Attaches in the first of `modes` that works.
    pub(super) fn attach(
        interface: &Interface,
        queues: u32,
        modes: &[Mode],
    ) -> Result<Steering, PortError> {
        let name = &interface.name;
        let map = bpf::socket_map(2 * queues)
            .map_err(|e| PortError::xdp(name, "bpf(BPF_MAP_CREATE) of a socket map", e))?;
        let program = bpf::load(Hook::Xdp, &steering::program(map.as_fd()))
            .map_err(|e| PortError::xdp(name, "bpf(BPF_PROG_LOAD) of the steering program", e))?;
        let attached = Attached::new(interface, program.as_fd(), queues, modes)?;
        Ok(Steering { map, program, attached, notes: AtomicU64::new(0) })
    }

    /// The notes that the program in front writes, if it writes any.
    #[inline]
    pub(crate) fn notes(&self) -> Option<Notes> {
        // Relaxed: a number on its own. It was set before the kernel got the program, so a thread
        // that receives a frame with a note by the kernel's ring sees it.
        Notes::of_bits(self.notes.load(Ordering::Relaxed))
    }

    /// Sets [`Steering::notes`].
    pub(crate) fn set_notes(&self, notes: Option<Notes>) {
        // Relaxed: see `notes`.
        self.notes.store(notes.map_or(0, Notes::bits), Ordering::Relaxed);
    }

    /// The sockets, by queue and class.
    pub(crate) fn map(&self) -> BorrowedFd<'_> {
        self.map.as_fd()
    }

    /// Has the interface run another program; it must steer by [`Steering::map`].
    pub(crate) fn replace(&self, program: BorrowedFd<'_>) -> io::Result<()> {
        bpf::replace(self.attached.link.as_fd(), program)
    }

    /// Has the interface run the steering program alone again.
    pub(crate) fn restore(&self) -> io::Result<()> {
        self.replace(self.program.as_fd())
    }

    pub(super) fn mode(&self) -> Mode {
        self.attached.mode
    }

    /// See [`Attached::describe`].
    pub(crate) fn describe(&self) -> String {
        self.attached.describe()
    }

    /// From now on the queue's frames of a class go to this socket.
    pub(super) fn set(&self, queue: u32, class: Class, socket: BorrowedFd<'_>) -> io::Result<()> {
        bpf::set_socket(self.map.as_fd(), steering::index(queue, class), socket)
    }

    /// From now on the queue's frames go to the host's stack.
    pub(super) fn clear(&self, queue: u32) {
        for class in Class::ALL {
            // It fails only where there is no entry any more.
            let _ = bpf::clear_socket(self.map.as_fd(), steering::index(queue, class));
        }
    }
}

/// Links the program. Where another one is attached it is tried again for a moment: a link ends a
/// little after its owner if that was starting a process, which has the descriptor until it runs.
fn link(program: BorrowedFd<'_>, interface: u32, flags: u32) -> io::Result<OwnedFd> {
    let begin = Instant::now();
    loop {
        match bpf::link(Hook::Xdp, program, interface, flags) {
            Err(error)
                if error.raw_os_error() == Some(libc::EBUSY) && begin.elapsed() < BUSY_MAX =>
            {
                std::thread::sleep(BUSY_PAUSE);
            }
            done => return done,
        }
    }
}

/// Why the program cannot be attached, and whether that holds for every mode.
fn refusal(name: &str, (mode, queues): (Mode, u32), error: io::Error) -> (PortError, bool) {
    let error = match error.raw_os_error() {
        Some(libc::EBUSY | libc::EEXIST) => {
            let what = format!(
                "another XDP program is attached to it (ip link show {name}); stop its owner, or \
                 take it off: ip link set {name} xdp off"
            );
            return (PortError::unfit(name, what), true);
        }
        Some(libc::EPERM | libc::EACCES) => {
            return (PortError::xdp(name, "bpf(BPF_LINK_CREATE)", error), true);
        }
        Some(libc::EOPNOTSUPP) => {
            PortError::unfit(name, format!("its driver has no {mode} mode of XDP"))
        }
        // What veth says of another count than it wants; other drivers speak of memory or slots.
        Some(libc::ENOSPC) => {
            let what = format!(
                "its driver refuses XDP with its number of receive queues, {queues}; a veth \
                 interface needs at least as many as its other end has transmit queues: \
                 ethtool -L {name} rx N, or at the other end: ethtool -L PEER tx {queues}"
            );
            PortError::unfit(name, what)
        }
        Some(libc::ERANGE) => {
            let what = "its MTU, or its peer's, is too large for XDP; make it smaller: ip link set";
            PortError::unfit(name, format!("{what} {name} mtu 1500"))
        }
        _ => PortError::xdp(name, "bpf(BPF_LINK_CREATE)", error),
    };
    (error, false)
}
