//! What happens between fork and exec of QEMU: descriptors to their numbers, limits, rights.

use std::fs::File;
use std::io;
use std::os::fd::RawFd;

use rustix::fs::{Mode, fstat};
use rustix::process::{Gid, Resource, Rlimit, Signal, Uid};
use rustix::thread::CpuSet;

use super::Runs;
use crate::error::HostError;
use crate::sandbox::{Limits, cpu_set, is_privileged, own_user};

/// Addresses that QEMU needs besides the machine's memory, bytes.
const QEMU_ADDRESSES: u64 = 4 << 30;

/// The group whose members may use KVM.
fn kvm_group(runs: &Runs) -> Option<Gid> {
    let file = File::open("/dev/kvm").ok().filter(|_| *runs == Runs::Kvm)?;
    fstat(&file).ok().map(|about| Gid::from_raw(about.st_gid))
}

/// What happens between fork and exec.
pub(super) struct Plan {
    limits: [(Resource, u64); 7],
    cpus: Option<CpuSet>,
    is_privileged: bool,
    kvm: Option<Gid>,
    /// The last number at which QEMU finds something.
    last: RawFd,
}

impl Plan {
    /// Limits and rights of QEMU, which may write files of so many bytes.
    ///
    /// # Errors
    /// A CPU that is none.
    pub fn new(
        limits: &Limits,
        runs: &Runs,
        file_bytes: u64,
        last: RawFd,
    ) -> Result<Plan, HostError> {
        let cpus = cpu_set(limits)?;
        let limits = [
            (Resource::Core, 1),
            (Resource::Fsize, file_bytes),
            (Resource::Msgqueue, 0),
            (Resource::Nice, 0),
            (Resource::Rtprio, 0),
            (Resource::Nofile, limits.open_files + 64),
            (Resource::As, limits.address_space().saturating_add(QEMU_ADDRESSES)),
        ];
        Ok(Plan { limits, cpus, is_privileged: is_privileged(), kvm: kvm_group(runs), last })
    }

    /// What the new process does: descriptors to their numbers, limits, rights.
    pub fn carry_out(&self, handed: &[(RawFd, RawFd)]) -> io::Result<()> {
        rustix::process::setsid()?;
        rustix::process::umask(Mode::RWXG | Mode::RWXO);
        for (from, to) in handed {
            // JUSTIFICATION: the numbers are the point, and a safe dup2 needs their owners.
            // SAFETY: what the forked process had at these numbers is used no more but for the
            // standard library's pipe, by which it would report an error of execve; the ends'
            // own numbers are higher.
            if unsafe { libc::dup2(*from, *to) } == -1 {
                return Err(io::Error::last_os_error());
            }
        }
        // JUSTIFICATION: no safe call for close_range.
        // SAFETY: descriptors are marked to be closed by execve and none is closed now.
        let marked = unsafe {
            libc::syscall(
                libc::SYS_close_range,
                self.last + 1,
                libc::c_uint::MAX,
                libc::CLOSE_RANGE_CLOEXEC,
            )
        };
        if marked == -1 {
            return Err(io::Error::last_os_error());
        }
        if let Some(cpus) = &self.cpus {
            rustix::thread::sched_setaffinity(None, cpus)?;
        }
        if self.is_privileged {
            self.become_nobody()?;
        }
        rustix::thread::set_no_new_privs(true)?;
        // After the change of user, which would undo it.
        rustix::process::set_parent_process_death_signal(Some(Signal::KILL))?;
        for (resource, most) in self.limits {
            let most =
                rustix::process::getrlimit(resource).maximum.map_or(most, |now| now.min(most));
            rustix::process::setrlimit(
                resource,
                Rlimit { current: Some(most), maximum: Some(most) },
            )?;
        }
        Ok(())
    }

    /// A network without interfaces, a user without files.
    fn become_nobody(&self) -> io::Result<()> {
        let spaces = rustix::thread::UnshareFlags::NEWNET
            | rustix::thread::UnshareFlags::NEWIPC
            | rustix::thread::UnshareFlags::NEWUTS;
        // JUSTIFICATION: the safe call is deprecated for what descriptors might be unshared.
        // SAFETY: no flag for descriptors is given.
        unsafe { rustix::thread::unshare_unsafe(spaces)? };
        let groups = self.kvm;
        rustix::thread::set_thread_groups(groups.as_slice())?;
        let pid = rustix::process::getpid().as_raw_pid();
        let number = own_user(pid).unwrap_or(crate::sandbox::NOBODY);
        let (user, group) = (Uid::from_raw(number), Gid::from_raw(number));
        rustix::thread::set_thread_res_gid(group, group, group)?;
        // With the last of root's numbers goes every right.
        rustix::thread::set_thread_res_uid(user, user, user)?;
        Ok(())
    }
}
