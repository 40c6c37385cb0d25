//! Starts a machine that knows nothing of Thruway: an image of any system, and network cards whose
//! other ends are this process's (vhost-user).

use std::fs::File;
use std::io::Read as _;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::os::unix::process::CommandExt as _;
use std::process::{Command, Stdio};

use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair};
use rustix::pipe::PipeFlags;
use rustix::process::{Pid, PidfdFlags};

use super::birth::Plan;
use super::launch::{KERNEL_LINE, QEMU, check_host, confine, warn_if_emulated};
use super::options::options;
use super::{Machine, Runs, open};
use crate::error::HostError;
use crate::sandbox::{Launched, Limits, SandboxReport, moved_up};

/// A machine that knows nothing of Thruway, to be started.
#[derive(Debug, Clone)]
pub struct StandardOrder {
    /// The name that lines of the log have for it: that of its element.
    pub label: String,
    /// Its image, a directory with `kernel` and `initramfs` or a disk, and what runs it.
    pub machine: Machine,
    /// What it may use.
    pub limits: Limits,
    /// Network cards.
    pub cards: usize,
    /// Words at the end of the kernel's command line, where the image has a kernel.
    pub append: String,
}

/// The number at which QEMU finds its monitor; files of the image follow, then cards.
const MONITOR: RawFd = 3;

/// What a copy-on-write disk begins with.
const QCOW2: [u8; 4] = *b"QFI\xfb";

/// Bytes that a machine may write to its disk, which are thrown away at its end.
const DISK_WRITES_MAX: u64 = 4 << 30;

/// What a machine boots from.
enum Boot {
    /// Kernel and initramfs.
    Kernel(File, File),
    /// A disk with a boot loader, in this format.
    Disk(File, &'static str),
}

impl Boot {
    fn of(machine: &Machine) -> Result<Boot, HostError> {
        if machine.image.is_dir() {
            return Ok(Boot::Kernel(open(&machine.kernel())?, open(&machine.initramfs())?));
        }
        let mut start = [0; 4];
        let is_qcow2 = open(&machine.image)?.read_exact(&mut start).is_ok() && start == QCOW2;
        Ok(Boot::Disk(open(&machine.image)?, if is_qcow2 { "qcow2" } else { "raw" }))
    }

    /// QEMU's arguments; the first file is at this number.
    fn arguments(&self, first: RawFd, append: &str) -> Vec<String> {
        match self {
            Boot::Kernel(..) => vec![
                "-kernel".into(),
                format!("/proc/self/fd/{first}"),
                "-initrd".into(),
                format!("/proc/self/fd/{}", first + 1),
                "-append".into(),
                format!("{KERNEL_LINE} {append}"),
            ],
            Boot::Disk(_, format) => vec![
                "-add-fd".into(),
                format!("fd={first},set=1"),
                "-drive".into(),
                // What is written goes to a file without a name.
                format!("file=/dev/fdset/1,format={format},if=virtio,snapshot=on"),
            ],
        }
    }

    fn files(self) -> Vec<OwnedFd> {
        match self {
            Boot::Kernel(kernel, initramfs) => vec![kernel.into(), initramfs.into()],
            Boot::Disk(disk, _) => vec![disk.into()],
        }
    }
}

/// Starts a machine; `cards` are where QEMU connects its network cards.
///
/// # Errors
/// What is wrong with the image, the limits; what the system refuses.
pub(crate) fn launch(order: &StandardOrder, cards: Vec<OwnedFd>) -> Result<Launched, HostError> {
    let runs = order.machine.runs()?;
    check_host(&order.limits)?;
    let boot = Boot::of(&order.machine)?;
    let mut report = SandboxReport::new();
    report.note(format!("virtual machine with standard drivers, {runs}"));
    warn_if_emulated(&runs);
    let files_first = MONITOR + 1;
    let writes = if matches!(boot, Boot::Disk(..)) { DISK_WRITES_MAX } else { 0 };
    let boot_arguments = boot.arguments(files_first, &order.append);
    let files = boot.files();
    let cards_first = files_first + files.len() as RawFd;
    let system = |error| HostError::system("making the ends of a machine", error);
    let (control, monitor) =
        socketpair(AddressFamily::UNIX, SocketType::STREAM, SocketFlags::CLOEXEC, None)
            .map_err(system)?;
    let (output, their_output) = rustix::pipe::pipe_with(PipeFlags::CLOEXEC).map_err(system)?;
    rustix::io::ioctl_fionbio(&output, true).map_err(system)?;
    let handed: Vec<OwnedFd> = std::iter::once(monitor)
        .chain(files)
        .chain(cards)
        .map(moved_up)
        .collect::<rustix::io::Result<_>>()
        .map_err(system)?;
    let mut command = Command::new(QEMU);
    command.env_clear().args(arguments(order, &runs)).args(boot_arguments);
    command.args(cards_of(order, &runs, cards_first)).stdin(Stdio::null());
    let their_error = their_output
        .try_clone()
        .map_err(|error| HostError::System { what: "a pipe", source: error })?;
    command.stdout(their_output).stderr(their_error);
    let last = MONITOR + handed.len() as RawFd - 1;
    // Its memory is a file, too.
    let plan = Plan::new(&order.limits, &runs, order.limits.memory_bytes.max(writes), last)?;
    let numbers: Vec<(RawFd, RawFd)> =
        handed.iter().zip(MONITOR..).map(|(fd, number)| (fd.as_raw_fd(), number)).collect();
    // JUSTIFICATION: limits, user and descriptors are set between fork and exec.
    // SAFETY: the closure makes system calls on what was prepared here; it allocates nothing
    // and takes no locks.
    unsafe { command.pre_exec(move || plan.carry_out(&numbers)) };
    let child =
        command.spawn().map_err(|source| HostError::System { what: "starting QEMU", source })?;
    // QEMU has its own: of a card whose QEMU has ended, no end is left.
    drop((command, handed));
    let pid = i32::try_from(child.id()).unwrap_or(0);
    let pidfd = Pid::from_raw(pid)
        .ok_or(rustix::io::Errno::SRCH)
        .and_then(|pid| rustix::process::pidfd_open(pid, PidfdFlags::empty()))
        .map_err(|error| HostError::system("opening QEMU's process", error))?;
    let groups = confine(&order.limits, pid, &mut report);
    Ok(Launched { pid, pidfd, control, output, groups, report })
}

fn arguments(order: &StandardOrder, runs: &Runs) -> Vec<String> {
    let megabytes = order.limits.memory_bytes >> 20;
    let own = [("-object", format!("memory-backend-memfd,id=memory,size={megabytes}M,share=on"))];
    let machine = "pc,usb=off,vmport=off,memory-backend=memory";
    options(machine, (&order.limits, runs), MONITOR, own)
}

/// The network cards, whose ends are at the numbers from `first` on.
fn cards_of(order: &StandardOrder, runs: &Runs, first: RawFd) -> Vec<String> {
    // QEMU 7.2 ends by SIGSEGV where it emulates a card by vhost-user that has MSI-X.
    let vectors = if *runs == Runs::Kvm { "" } else { ",vectors=0" };
    let card = |number: usize| {
        let fd = first + number as RawFd;
        let mac = mac(&order.label, number);
        [
            "-chardev".to_owned(),
            format!("socket,id=card{number},path=/proc/self/fd/{fd}"),
            "-netdev".into(),
            format!("vhost-user,id=net{number},chardev=card{number}"),
            "-device".into(),
            format!(
                "virtio-net-pci,netdev=net{number},mac={mac},addr={},romfile={vectors}",
                number + 4
            ),
        ]
    };
    (0..order.cards).flat_map(card).collect()
}

/// An address of a card that stays the same: of the machine's name, administered locally.
fn mac(label: &str, number: usize) -> String {
    // FNV-1a, 32 bits (draft-eastlake-fnv): spreads short names well.
    let hash = label
        .bytes()
        .fold(0x811c_9dc5_u32, |hash, byte| (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193));
    let [a, b, c, d] = hash.to_be_bytes();
    format!("02:{a:02x}:{b:02x}:{c:02x}:{d:02x}:{number:02x}")
}

impl Machine {
    /// Whether its image is there, of a machine that knows nothing of Thruway: a directory with
    /// `kernel` and `initramfs`, or a disk.
    ///
    /// # Errors
    /// [`HostError::Image`] where a file is missing.
    pub fn check_standard(&self) -> Result<(), HostError> {
        Boot::of(self).map(drop)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::machine::Acceleration;

    #[test]
    fn disks_are_known_by_how_they_begin() {
        let dir = tempfile::tempdir().expect("a directory");
        let machine = |image| Machine { image, acceleration: Acceleration::Auto };
        let none = machine(dir.path().to_owned()).check_standard();
        assert!(none.is_err_and(|error| error.to_string().contains("has no")));
        for (bytes, format) in [(&b"QFI\xfb..."[..], "qcow2"), (b"boot", "raw"), (b"", "raw")] {
            let disk = dir.path().join("disk");
            std::fs::write(&disk, bytes).expect("a file");
            let boot = Boot::of(&machine(disk)).expect("a disk");
            let words = boot.arguments(7, "").join(" ");
            let as_wanted = format!("fd=7,set=1 -drive file=/dev/fdset/1,format={format}");
            assert!(words.contains(&as_wanted), "{words}");
        }
    }

    #[test]
    fn addresses_of_cards_differ_and_stay() {
        let all = [mac("a", 0), mac("a", 1), mac("b", 0), mac("b", 1)];
        let distinct: std::collections::BTreeSet<_> = all.iter().collect();
        assert_eq!(distinct.len(), 4);
        assert_eq!(mac("a", 0), all[0]);
        assert!(all.iter().all(|mac| mac.starts_with("02:") && mac.len() == 17));
    }
}
