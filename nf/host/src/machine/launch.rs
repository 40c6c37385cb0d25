//! Starts QEMU: as a user of its own without rights, with a network of its own that has nothing,
//! with QEMU's own system call filter, and with nothing plugged in but a console and a port.

use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Once;

use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair};
use rustix::pipe::PipeFlags;
use rustix::process::{Pid, PidfdFlags};
use thruway_nf_abi::machine::PORT_NAME;

use super::birth::Plan;
use super::monitor::Monitor;
use super::options::options;
use super::relay::{Pause, Relay};
use super::{Machine, Runs, initramfs};
use crate::error::HostError;
use crate::sandbox::{
    Grants, Groups, Hierarchies, Launched, Limits, Measure, Order, Outcome, SandboxReport,
    is_privileged, moved_up,
};

/// QEMU, as Debian's package qemu-system-x86 and others install it.
pub(super) const QEMU: &str = "/usr/bin/qemu-system-x86_64";

/// Memory that QEMU needs besides the machine's, bytes.
const QEMU_MEMORY: u64 = 256 << 20;

/// Threads that QEMU may have.
const QEMU_THREADS: u64 = 64;

/// Least memory of a machine: the kernel, what it unpacks, and something to work with.
const MEMORY_MIN: u64 = 128 << 20;

/// The numbers at which QEMU finds what it is handed.
const PORT: RawFd = 3;
const MONITOR: RawFd = 4;
const INITRAMFS: RawFd = 5;
const KERNEL: RawFd = 6;

/// What a machine's kernel is told: its console; to end when it fails; no measures that keep its
/// own programs apart, of which there is one.
pub(super) const KERNEL_LINE: &str = "console=ttyS0 quiet panic=-1 mitigations=off random.trust_cpu=on \
                           tsc=reliable no_timer_check rdinit=/init";

/// Starts a machine, as [`launch`](crate::sandbox::launch) starts a process.
///
/// # Errors
/// What is wrong with the image, the program, the order; what the system refuses.
pub(crate) fn launch(order: &Order, machine: &Machine) -> Result<Launched, HostError> {
    let runs = machine.runs()?;
    check_host(&order.limits)?;
    machine.check()?;
    let grants = Grants::of(&order.program)?;
    if let Some(grant) = grants.files.iter().find(|grant| grant.directory) {
        let why = format!("{} is a directory: name files", grant.path.display());
        return Err(HostError::Argument { what: "READABLE in a virtual machine", why });
    }
    let mut report = SandboxReport::new();
    report.note(format!("virtual machine, {runs}"));
    warn_if_emulated(&runs);
    let start = start_line(order, &grants);
    let ends = Ends::new(machine, &grants)
        .map_err(|error| HostError::system("making the ends of a machine", error))??;
    let (mut command, ours) = ends.command(order, &runs)?;
    let mut child = command.spawn().map_err(|source| HostError::system("starting QEMU", source))?;
    // What is left of the other ends is the process's.
    drop(command);
    let launched = attend(order, &child, ours, start, report);
    if launched.is_err() {
        // An error of one that ended by itself is as good.
        let _ = child.kill();
        let _ = child.wait();
    }
    launched
}

/// Whether a machine with these limits can be run here at all.
///
/// # Errors
/// Why not.
pub(super) fn check_host(limits: &Limits) -> Result<(), HostError> {
    if !cfg!(target_arch = "x86_64") {
        let why = "virtual machines are run on x86-64 only".into();
        return Err(HostError::Argument { what: "VM", why });
    }
    if limits.memory_bytes < MEMORY_MIN {
        let why = format!("a virtual machine needs {} MB at least", MEMORY_MIN >> 20);
        return Err(HostError::Argument { what: "MEMORY", why });
    }
    if !Path::new(QEMU).is_file() {
        let why = format!("there is no {QEMU}; install the package qemu-system-x86");
        return Err(HostError::Argument { what: "VM", why });
    }
    Ok(())
}

/// A line of the log, once.
pub(super) fn warn_if_emulated(runs: &Runs) {
    if let Runs::Emulated(why) = runs {
        static WARNED: Once = Once::new();
        WARNED.call_once(|| tracing::warn!(why, "virtual machines are emulated, which is slow"));
    }
}

/// What is done for QEMU once it is there.
fn attend(
    order: &Order,
    child: &Child,
    ours: Ours,
    start: Vec<u8>,
    mut report: SandboxReport,
) -> Result<Launched, HostError> {
    let pid = i32::try_from(child.id()).unwrap_or(0);
    let pidfd = Pid::from_raw(pid)
        .ok_or(rustix::io::Errno::SRCH)
        .and_then(|pid| rustix::process::pidfd_open(pid, PidfdFlags::empty()))
        .map_err(|error| HostError::system("opening QEMU's process", error))?;
    let groups = confine(&order.limits, pid, &mut report);
    let (control, output) = ours.watch(start, &pidfd)?;
    Ok(Launched { pid, pidfd, control, output, groups, report })
}

/// What the agent is to start: where libraries are, the program, its arguments.
fn start_line(order: &Order, grants: &Grants) -> Vec<u8> {
    let dirs: Vec<String> =
        grants.library_path.iter().map(|dir| dir.display().to_string()).collect();
    let program = grants.files[0].path.display().to_string();
    let words = [dirs.join(":"), program].into_iter().chain(order.program.args.iter().cloned());
    words.flat_map(|word| word.into_bytes().into_iter().chain([0])).collect()
}

/// Control groups, and who ends first for want of memory.
pub(super) fn confine(limits: &Limits, pid: i32, report: &mut SandboxReport) -> Groups {
    let all = Limits {
        memory_bytes: limits.memory_bytes.saturating_add(QEMU_MEMORY),
        threads: QEMU_THREADS,
        ..limits.clone()
    };
    let hierarchies = Hierarchies::of_this_process();
    let groups = Groups::confine(&hierarchies, &all, pid, report);
    let score = std::fs::write(format!("/proc/{pid}/oom_score_adj"), "1000");
    report.set(Measure::OomScore, outcome(score.map_err(|error| error.to_string())));
    let of_its_own = if is_privileged() { Ok(()) } else { Err("only root can give it".into()) };
    for measure in [
        Measure::UnprivilegedUser,
        Measure::OwnUser,
        Measure::Capabilities,
        Measure::NetworkNamespace,
        Measure::IpcNamespace,
        Measure::UtsNamespace,
    ] {
        report.set(measure, outcome(of_its_own.clone()));
    }
    for measure in [
        Measure::NoNewPrivileges,
        Measure::DiesWithParent,
        Measure::ResourceLimits,
        Measure::Seccomp,
    ] {
        report.set(measure, Outcome::Applied);
    }
    if !limits.cpus.is_empty() {
        report.set(Measure::CpuAffinity, Outcome::Applied);
    }
    for measure in [
        Measure::UserNamespace,
        Measure::MountNamespace,
        Measure::PidNamespace,
        Measure::PrivateRoot,
        Measure::Landlock,
    ] {
        let why = "the machine keeps the function apart; QEMU needs its firmware and devices";
        report.set(measure, Outcome::Missing(why.into()));
    }
    groups
}

fn outcome(done: Result<(), String>) -> Outcome {
    done.map_or_else(Outcome::Missing, |()| Outcome::Applied)
}

/// QEMU's ends of all that leads to it.
struct Ends {
    port: OwnedFd,
    monitor: OwnedFd,
    initramfs: OwnedFd,
    kernel: OwnedFd,
    output: OwnedFd,
    ours: Ours,
}

/// The host's ends.
struct Ours {
    port: OwnedFd,
    monitor: OwnedFd,
    /// The keeper's end of the control socket, and the relay's.
    control: OwnedFd,
    relay_control: OwnedFd,
    output: OwnedFd,
    /// For what the relay has to say.
    console: OwnedFd,
}

impl Ends {
    fn new(machine: &Machine, grants: &Grants) -> rustix::io::Result<Result<Ends, HostError>> {
        let stream = || {
            let flags = SocketFlags::CLOEXEC;
            socketpair(AddressFamily::UNIX, SocketType::STREAM, flags, None)
        };
        let ((port, their_port), (monitor, their_monitor)) = (stream()?, stream()?);
        rustix::io::ioctl_fionbio(&port, true)?;
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let (control, relay_control) =
            socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None)?;
        let (output, their_output) = rustix::pipe::pipe_with(PipeFlags::CLOEXEC)?;
        rustix::io::ioctl_fionbio(&output, true)?;
        let console = rustix::io::fcntl_dupfd_cloexec(&their_output, 0)?;
        let files = initramfs::file(machine, grants)
            .and_then(|initramfs| Ok((initramfs, super::open(&machine.kernel())?)));
        let (initramfs, kernel) = match files {
            Ok((initramfs, kernel)) => (initramfs, OwnedFd::from(kernel)),
            Err(error) => return Ok(Err(error)),
        };
        let ours = Ours { port, monitor, control, relay_control, output, console };
        Ok(Ok(Ends {
            port: moved_up(their_port)?,
            monitor: moved_up(their_monitor)?,
            initramfs: moved_up(initramfs)?,
            kernel: moved_up(kernel)?,
            output: their_output,
            ours,
        }))
    }

    /// QEMU with its arguments, which owns its ends.
    fn command(self, order: &Order, runs: &Runs) -> Result<(Command, Ours), HostError> {
        let Ends { port, monitor, initramfs, kernel, output, ours } = self;
        let mut command = Command::new(QEMU);
        command.env_clear().args(arguments(order, runs)).stdin(Stdio::null());
        let error = output
            .try_clone()
            .map_err(|source| HostError::system("making the ends of a machine", source))?;
        command.stdout(output).stderr(error);
        let plan = Plan::new(&order.limits, runs, 0, KERNEL)?;
        let before = move || {
            let handed =
                [(&port, PORT), (&monitor, MONITOR), (&initramfs, INITRAMFS), (&kernel, KERNEL)];
            plan.carry_out(&handed.map(|(fd, number)| (fd.as_raw_fd(), number)))
        };
        // JUSTIFICATION: limits, user and descriptors are set between fork and exec.
        // SAFETY: the closure makes system calls on what was prepared here; it allocates nothing
        // and takes no locks.
        unsafe { command.pre_exec(before) };
        Ok((command, ours))
    }
}

impl Ours {
    /// Begins to pass messages on. Gives the keeper's ends: control socket and output.
    fn watch(self, start: Vec<u8>, pidfd: &OwnedFd) -> Result<(OwnedFd, OwnedFd), HostError> {
        let Ours { port, monitor, control, relay_control, output, console } = self;
        let copy = pidfd
            .try_clone()
            .map_err(|source| HostError::system("copying a descriptor", source))?;
        let relay = Relay {
            control: relay_control.into(),
            port,
            monitor: Monitor::new(monitor),
            pidfd: copy,
            start,
            rest: Vec::new(),
            lines: Vec::new(),
            pause: Pause::No,
        };
        std::thread::Builder::new()
            .name("nf-machine".into())
            .stack_size(512 << 10)
            .spawn(move || relay.run(&console))
            .map_err(|error| HostError::system("starting a thread", error))?;
        Ok((control, output))
    }
}

fn arguments(order: &Order, runs: &Runs) -> Vec<String> {
    let own = [
        ("-kernel", format!("/proc/self/fd/{KERNEL}")),
        ("-initrd", format!("/proc/self/fd/{INITRAMFS}")),
        ("-append", KERNEL_LINE.into()),
        // Room for large regions above 4 GB, where memory is cached.
        ("-global", "i440FX-pcihost.pci-hole64-size=64G".into()),
        ("-chardev", format!("socket,id=port,fd={PORT}")),
        ("-device", "virtio-serial-pci,addr=3,max_ports=2".into()),
        ("-device", format!("virtserialport,chardev=port,name={PORT_NAME}")),
    ];
    options("pc,usb=off,vmport=off", (&order.limits, runs), MONITOR, own)
}
