//! Functions in virtual machines: QEMU is the process, and an agent in the machine its end of the
//! control socket.
//!
//! The keeper sees a process with a control socket, as of any function. A thread (`relay`) passes
//! messages on to the machine's serial port; when it comes upon WELCOME, it has QEMU (by its
//! monitor, `monitor`) plug in an ivshmem device for each region, whose memory is the region's own.
//! So a machine that waits, booted, is worth as much as a process that waits; it stands still
//! until then. `launch` starts QEMU (`birth`: between fork and exec), `initramfs` makes what the
//! machine boots from: the image's, and behind it the function's program with its libraries.
//! `standard` starts a machine that knows nothing of Thruway.
//!
//! What a machine writes is a stranger's: on its port as much as in its regions. What it may see is
//! what was plugged in, and that is its own.

mod birth;
mod initramfs;
mod launch;
mod monitor;
mod options;
mod relay;
mod standard;

pub(crate) use launch::launch;
pub(crate) use monitor::Monitor;
pub use standard::StandardOrder;
pub(crate) use standard::launch as launch_vm;

use std::fmt;
use std::fs::{File, OpenOptions};
use std::path::{Path, PathBuf};

use crate::error::HostError;

/// A virtual machine that a function runs in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Machine {
    /// The directory of its image: a file `kernel`, and `initramfs` with the agent
    /// (`scripts/guest-image` makes one).
    pub image: PathBuf,
    /// What runs it.
    pub acceleration: Acceleration,
}

/// What runs a machine's instructions.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Acceleration {
    /// The processor where it can (KVM), else an emulator.
    #[default]
    Auto,
    /// The processor, or an error.
    Kvm,
    /// An emulator (TCG), some seven times slower.
    Emulated,
}

/// What runs a machine in fact.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Runs {
    Kvm,
    /// And why the processor does not.
    Emulated(String),
}

impl fmt::Display for Runs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Runs::Kvm => f.write_str("accelerated by KVM"),
            Runs::Emulated(why) => write!(f, "emulated, not accelerated: {why}"),
        }
    }
}

impl Machine {
    /// What is in its image.
    ///
    /// # Errors
    /// [`HostError::Image`] where a file is missing.
    pub fn check(&self) -> Result<(), HostError> {
        [self.kernel(), self.initramfs()].iter().try_for_each(|path| open(path).map(drop))
    }

    fn kernel(&self) -> PathBuf {
        self.image.join("kernel")
    }

    fn initramfs(&self) -> PathBuf {
        self.image.join("initramfs")
    }

    /// What will run it.
    pub(crate) fn runs(&self) -> Result<Runs, HostError> {
        match (self.acceleration, no_kvm()) {
            (Acceleration::Emulated, _) => Ok(Runs::Emulated("ACCELERATION emulated".into())),
            (_, None) => Ok(Runs::Kvm),
            (Acceleration::Auto, Some(why)) => Ok(Runs::Emulated(why)),
            (Acceleration::Kvm, Some(why)) => {
                let why = format!("{why}; ACCELERATION auto emulates the machine then");
                Err(HostError::Argument { what: "ACCELERATION kvm", why })
            }
        }
    }
}

/// Why this host's processor cannot run machines, if so.
fn no_kvm() -> Option<String> {
    if let Err(error) = OpenOptions::new().read(true).write(true).open("/dev/kvm") {
        return Some(format!("/dev/kvm cannot be opened ({error})"));
    }
    let about = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    // KVM without them is one that runs no kernel but those made for it.
    let has_it = about
        .lines()
        .filter(|line| line.starts_with("flags"))
        .any(|line| line.split_whitespace().any(|flag| matches!(flag, "vmx" | "svm")));
    (!has_it).then(|| "/dev/kvm is there, but the processor has no flag vmx or svm".into())
}

/// Opens a file of an image.
fn open(path: &Path) -> Result<File, HostError> {
    File::open(path).map_err(|source| HostError::Image { path: path.into(), source })
}
