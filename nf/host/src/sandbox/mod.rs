//! The sandbox that a function's process is started in.
//!
//! Everything is prepared here in the host: strings, filters, rules, descriptors (`script`). The
//! new process (`birth`) only carries out a list of steps, none of which allocates or locks
//! (`child`), tells through a pipe which step failed with which error, and becomes the program. A
//! thread of the host meanwhile does what the process may not do itself and reads the pipe
//! (`attend`); what it heard becomes a [`SandboxReport`] or an error (`launch`).

mod attend;
mod birth;
mod calls;
mod cgroup;
mod child;
mod elf;
mod fence;
mod files;
mod filter;
mod lasting;
mod launch;
mod measure;
mod script;

pub use filter::allowed_calls;
pub use measure::{Isolation, Measure, Outcome, SandboxReport};

pub(crate) use cgroup::{Groups, Hierarchies};
pub(crate) use files::Grants;
pub(crate) use lasting::moved_up;
pub(crate) use launch::{Launched, is_privileged, launch};
pub(crate) use script::cpus as cpu_set;

use crate::machine::Machine;
use std::path::PathBuf;
use std::time::Duration;

/// The user and group that a function runs as inside: nobody's, of which a system has no files.
/// Outside, where the host may choose, each has [its own](own_user).
pub const NOBODY: u32 = 65534;

/// The first number of users and groups of functions, 0x7800_0000. Numbers from 0x7000_0000 up to
/// 2^31 are nobody's by systemd's list of users and groups (UIDS-GIDS: containers end below, files
/// of foreign images begin at 0x7ffe_0000), and sssd's map of directory users ends at
/// 2 000 200 000. Those above 2^31 are negative to some file systems and tools.
pub const USERS_FIRST: u32 = 0x7800_0000;

/// How many numbers of users there are: the kernel's limit to numbers of processes (PID_MAX_LIMIT).
pub const USERS: u32 = 1 << 22;

/// The user and group of the function with this process number: no two that run at once have the
/// same, whoever started them, since no two processes have the same number.
pub fn own_user(pid: i32) -> Option<u32> {
    u32::try_from(pid).ok().filter(|pid| *pid < USERS).map(|pid| USERS_FIRST + pid)
}

/// The descriptor at which a function's program finds its control socket.
pub const CONTROL_FD: i32 = 3;

/// Longest time that setting up a process may take; it takes a few milliseconds.
pub(crate) const SETUP_TIMEOUT: Duration = Duration::from_secs(10);

/// What is run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Program {
    /// The program's file (64-bit ELF).
    pub path: PathBuf,
    /// Its arguments, without the program's name.
    pub args: Vec<String>,
    /// Its environment; nothing else is inherited but `LD_LIBRARY_PATH`, which the host sets.
    pub env: Vec<(String, String)>,
    /// Directories with libraries of its own, searched before the system's.
    pub library_dirs: Vec<PathBuf>,
    /// Files and directories that it may read besides, at the same paths.
    pub readable: Vec<PathBuf>,
}

impl Program {
    /// A program without arguments.
    pub fn new(path: impl Into<PathBuf>) -> Program {
        Program {
            path: path.into(),
            args: Vec::new(),
            env: Vec::new(),
            library_dirs: Vec::new(),
            readable: Vec::new(),
        }
    }
}

/// What a function may use.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Limits {
    /// Its own memory (code, libraries, heap and stacks as address space), in bytes.
    pub memory_bytes: u64,
    /// Regions that will be handed to it and which it maps, in bytes; not counted in its memory.
    pub regions_bytes: u64,
    /// Memory that it may lock, in bytes; the system may allow less.
    pub locked_bytes: u64,
    /// Threads, the first included. It can make no processes.
    pub threads: u64,
    /// Open descriptors, those it is handed included.
    pub open_files: u64,
    /// Share of one CPU's time, in percent (200 is two CPUs); unlimited if `None`.
    pub cpu_percent: Option<u32>,
    /// Its part of a CPU that others want, too, against theirs: 1 to 10,000, where 100 is what
    /// everybody has who gives none.
    pub cpu_weight: Option<u32>,
    /// The CPUs it runs on; if empty, those of the thread that starts it (which should not be one
    /// that is pinned to a core: the function would share it).
    pub cpus: Vec<usize>,
}

impl Default for Limits {
    /// 256 MB, 16 threads, 64 descriptors, any CPU.
    fn default() -> Limits {
        Limits {
            memory_bytes: 256 << 20,
            regions_bytes: 0,
            locked_bytes: 64 << 10,
            threads: 16,
            open_files: 64,
            cpu_percent: None,
            cpu_weight: None,
            cpus: Vec::new(),
        }
    }
}

impl Limits {
    /// All that the process may map, in bytes.
    pub(crate) fn address_space(&self) -> u64 {
        self.memory_bytes.saturating_add(self.regions_bytes)
    }
}

/// A function to be started.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Order {
    /// What is run.
    pub program: Program,
    /// The virtual machine that it runs in; none for a process of this system.
    pub machine: Option<Machine>,
    /// What it may use.
    pub limits: Limits,
    /// What happens where a measure cannot be applied.
    pub isolation: Isolation,
    /// Measures left out on purpose, with relaxed isolation: to look for the fault of a function
    /// with a debugger, or to run one that makes code. Not namespaces.
    pub omit: Vec<Measure>,
}

impl Order {
    /// A program with the default limits, strictly isolated.
    pub fn new(program: Program) -> Order {
        Order {
            program,
            machine: None,
            limits: Limits::default(),
            isolation: Isolation::Strict,
            omit: Vec::new(),
        }
    }
}
