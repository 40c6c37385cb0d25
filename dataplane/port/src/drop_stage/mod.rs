//! An XDP program in front of a port: it drops the packets that the chain behind would drop, before
//! the kernel makes packets of its own of them, and notes the classes of others for a chain that
//! receives by AF_XDP.
//!
//! A table of tests, which the process puts into a map, says what is dropped. The program reads a
//! packet's headers and walks through the table. A packet that it is not asked to drop goes on as
//! without it: to the sockets of AF_XDP, if the port uses those, else to the host's stack and
//! packet sockets. The program hangs on a link that goes with its descriptor, so it does not
//! outlive the process, however that ends.

mod program;

pub use crate::notes::Notes;

use crate::af_xdp::{Attached, Device, Mode, Steering};
use crate::bpf::area::Area;
use crate::bpf::assembly::Assembly;
use crate::bpf::test_run::test_run;
use crate::bpf::{self, Hook};
use crate::classes::steering::steer;
use crate::error::PortError;
use crate::interface::{self, Interface};
use crate::interface_driver;
use crate::system;
use program::{COUNTER_WORDS, ENDS, Parts, TEST_WORDS, XDP_DROP, is_class};
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Weak;
use std::time::Duration;

/// `XDP_PASS`.
const XDP_PASS: i32 = 2;
/// Most tests of a table.
pub const TESTS_MAX: usize = 1 << 20;
/// Most tests one after the other.
pub const DEPTH_MAX: u32 = 255;

/// A table of tests, as the process that classifies makes it.
#[derive(Debug, Clone)]
pub struct DropTests {
    /// Each as eight words: offset, whether it counts from the transport header (all bits or none),
    /// mask, smallest value, largest less the smallest, and where packets go on that pass, that do
    /// not, and that are too short. An index of a test, or an end: 2^31 to leave a packet to the
    /// chain, 2^31 + 1 to drop it, 2^31 + 2^16 + N where its class is N.
    pub tests: Vec<[u32; TEST_WORDS]>,
    /// Where IPv4 packets begin, IPv6 packets, and others.
    pub starts: [u32; 3],
    /// Whether ICMP errors are left to the chain.
    pub leaves_errors: bool,
    /// Maximum number of tests on a packet's path; beyond them the chain decides.
    pub depth: u32,
}

impl DropTests {
    /// Whether an end of the table stands for a class.
    pub fn has_classes(&self) -> bool {
        let ends = self.tests.iter().flat_map(|test| &test[ENDS]);
        self.starts.iter().chain(ends).any(|end| is_class(*end))
    }

    /// Notes of a new program, if the table has classes to note.
    fn notes(&self) -> Option<Notes> {
        self.has_classes().then(Notes::new)
    }
}

/// What the program does with a frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fate {
    /// It drops it.
    Dropped,
    /// It passes it on, with a note of its class where it found one.
    Passed(Option<u16>),
}

/// The program and its maps, in the kernel.
pub struct DropProgram {
    program: OwnedFd,
    counters: Area,
    notes: Option<Notes>,
}

impl DropProgram {
    /// Loads the program of a table, which is attached nowhere. It passes the frames that it does
    /// not drop to the host's stack, with notes if the table has classes.
    ///
    /// # Errors
    /// The table is too large, the process may not load programs, or the kernel refuses it.
    pub fn load(tests: &DropTests) -> io::Result<DropProgram> {
        DropProgram::with_rest(tests, tests.notes(), |program| program.give(XDP_PASS))
    }

    fn with_rest(
        tests: &DropTests,
        notes: Option<Notes>,
        rest: impl FnOnce(&mut Assembly),
    ) -> io::Result<DropProgram> {
        if tests.tests.len() > TESTS_MAX || tests.depth > DEPTH_MAX {
            return Err(io::Error::from_raw_os_error(libc::E2BIG));
        }
        let count = tests.tests.len().next_power_of_two();
        let area = Area::new(count * TEST_WORDS)?;
        area.set(tests.tests.as_flattened())?;
        let processors = processors().next_power_of_two();
        let counters = Area::new(processors * COUNTER_WORDS)?;
        let parts = Parts {
            tests: &area,
            tests_mask: (count - 1) as i32,
            counters: &counters,
            counters_mask: (processors - 1) as i32,
            starts: tests.starts,
            depth: tests.depth,
            leaves_errors: tests.leaves_errors,
            notes,
        };
        let program = bpf::load(Hook::Xdp, &program::program(&parts, rest))?;
        // The program keeps the tests.
        Ok(DropProgram { program, counters, notes })
    }

    /// What it does with a frame of at least 14 bytes, and how long that takes. The run counts.
    ///
    /// # Errors
    /// The kernel runs no such frame.
    pub fn run(&self, frame: &[u8]) -> io::Result<(Fate, Duration)> {
        let run = test_run(self.program.as_fd(), frame, 1)?;
        let metadata = run.frame.len().saturating_sub(frame.len());
        let fate = match run.verdict == XDP_DROP {
            true => Fate::Dropped,
            false => Fate::Passed(self.notes.and_then(|of| of.of_run(&run.frame[..metadata]))),
        };
        Ok((fate, Duration::from_nanos(u64::from(run.nanos))))
    }

    /// Packets dropped so far.
    pub fn dropped(&self) -> u64 {
        let words = self.counters.get().unwrap_or_default();
        let counters = words.chunks(COUNTER_WORDS).filter_map(|words| words.first_chunk::<2>());
        let numbers = counters.map(|[low, high]| {
            let [l0, l1, l2, l3] = low.to_ne_bytes();
            let [h0, h1, h2, h3] = high.to_ne_bytes();
            u64::from_ne_bytes([l0, l1, l2, l3, h0, h1, h2, h3])
        });
        numbers.sum()
    }
}

/// How the program comes to run.
enum Hold {
    /// By a link of its own.
    Link(Attached),
    /// As part of the steering program of AF_XDP.
    Steering(Weak<Steering>),
}

/// A program in front of an interface; it goes with this value.
pub struct DropStage {
    program: DropProgram,
    hold: Hold,
    interface: Interface,
}

impl DropStage {
    /// Puts the program of a table in front of an interface. If this process receives from the
    /// interface by AF_XDP, packets that are not dropped go to its sockets. If the table has
    /// classes, notes go with them, and [`Receiver::notes`](crate::af_xdp::Receiver::notes)
    /// identifies these. The host's stack and packet sockets cannot see notes, and get none.
    ///
    /// # Errors
    /// There is no such interface, another program has it, VLAN tags are taken out of its frames
    /// before the program sees them, the process may not load programs, or the kernel refuses a
    /// step.
    pub fn install(name: &str, tests: &DropTests) -> Result<DropStage, PortError> {
        let interface = interface::find(name)?;
        if let Some(weak) = Device::steering_of(&interface)
            && let Some(steering) = weak.upgrade()
        {
            let map = steering.map();
            let notes = tests.notes();
            let program = DropProgram::with_rest(tests, notes, |rest| steer(rest, map))
                .map_err(|e| refused(name, e))?;
            let failed = |e| PortError::xdp(name, "bpf(BPF_LINK_UPDATE)", e);
            // First, so that no frame with a note is read as one that has none.
            steering.set_notes(notes);
            if let Err(error) = steering.replace(program.program.as_fd()) {
                steering.set_notes(None);
                return Err(failed(error));
            }
            return Ok(DropStage { program, hold: Hold::Steering(weak), interface });
        }
        if interface_driver::strips_tags(name) {
            let before = match interface_driver::is_virtual(name) {
                true => {
                    "at its other end: ethtool -K PEER txvlan off tx-vlan-stag-hw-insert off; then: "
                }
                false => "",
            };
            let what = format!(
                "XDP cannot see VLAN tags stripped by hardware offload; {before}ethtool -K {name} \
                 rxvlan off"
            );
            return Err(PortError::unfit(name, what));
        }
        let program = DropProgram::with_rest(tests, None, |rest| rest.give(XDP_PASS))
            .map_err(|e| refused(name, e))?;
        let queues = interface_driver::rx_queues(name)?;
        let modes = &[Mode::Native, Mode::Generic];
        let attached = Attached::new(&interface, program.program.as_fd(), queues, modes)?;
        Ok(DropStage { program, hold: Hold::Link(attached), interface })
    }

    /// Packets dropped so far.
    pub fn dropped(&self) -> u64 {
        self.program.dropped()
    }

    /// Whether packets still come by it: the interface is the same, and so is what steers its
    /// frames.
    pub fn is_attached(&self) -> bool {
        let is_there = interface::index(&self.interface.name) == Some(self.interface.index);
        let is_held = match &self.hold {
            Hold::Link(_) => true,
            Hold::Steering(steering) => steering.strong_count() > 0,
        };
        is_there && is_held
    }

    /// "native mode", and why not a better one.
    pub fn describe(&self) -> String {
        match &self.hold {
            Hold::Link(attached) => attached.describe(),
            Hold::Steering(steering) => {
                let steering = steering.upgrade();
                steering.map_or_else(|| "detached".to_owned(), |steering| steering.describe())
            }
        }
    }

    /// Takes the program off, and gives how many packets it dropped in all: it drops none
    /// afterwards.
    pub fn remove(mut self) -> u64 {
        self.detach();
        self.program.dropped()
    }

    fn detach(&mut self) {
        let hold = std::mem::replace(&mut self.hold, Hold::Steering(Weak::new()));
        let steering = match hold {
            Hold::Steering(steering) => {
                let Some(steering) = steering.upgrade() else { return };
                // It fails only where the interface went.
                let _ = steering.restore();
                Some(steering)
            }
            Hold::Link(attached) => {
                drop(attached);
                None
            }
        };
        // It may still run for packets that came before.
        system::wait_for_kernel();
        if let Some(steering) = steering {
            steering.set_notes(None);
        }
    }
}

impl Drop for DropStage {
    fn drop(&mut self) {
        self.detach();
    }
}

/// Why the kernel does not take the program or its maps.
fn refused(name: &str, error: io::Error) -> PortError {
    PortError::xdp(name, "bpf(BPF_PROG_LOAD) of the program that drops packets", error)
}

/// How many processors there may be; their numbers are below.
fn processors() -> usize {
    let text = std::fs::read_to_string("/sys/devices/system/cpu/possible").unwrap_or_default();
    let last = text.trim().rsplit(['-', ',']).next().and_then(|last| last.parse::<usize>().ok());
    last.map_or(1024, |last| last + 1).min(1 << 16)
}
