//! Making the process.
//!
//! As vfork does: the new process borrows the host's memory, on a stack of its own, and the thread
//! that made it waits until it is the program. A copy of the memory instead (fork) takes 230 ms for
//! a host with 1 GB of tables, and every page that the packet path writes afterwards is a fault:
//! `cargo test -p thruway-nf-host --test process big -- --nocapture`.

use super::child::{self, Body};
use super::measure::Measure;
use super::script::NamespaceMode;
use nix::sys::signal::{SigSet, SigmaskHow};
use rustix::process::DumpableBehavior;
use std::ffi::{c_int, c_void};
use std::io;
use thruway_sync::atomic::AtomicU32;

/// Stack of the new process until it is the program, in bytes. Its steps need a few kilobytes.
const STACK_LEN: usize = 256 << 10;

/// Namespaces that are made at once.
pub(super) const NAMESPACES: [(Measure, c_int); 6] = [
    (Measure::MountNamespace, libc::CLONE_NEWNS),
    (Measure::PidNamespace, libc::CLONE_NEWPID),
    (Measure::NetworkNamespace, libc::CLONE_NEWNET),
    (Measure::IpcNamespace, libc::CLONE_NEWIPC),
    (Measure::UtsNamespace, libc::CLONE_NEWUTS),
    (Measure::CgroupNamespace, libc::CLONE_NEWCGROUP),
];

/// Where the number of a descriptor is to come, while there is none: -1.
pub(super) const NO_NUMBER: u32 = u32::MAX;

/// Makes a process that carries out its plan, and waits until it is the program or has ended.
/// `pidfd` gets its descriptor before its first step; it is the caller's. Gives its number.
///
/// # Errors
/// Of clone(2): there is no process then.
pub(super) fn clone(
    mode: NamespaceMode,
    body: &mut Body<'_>,
    pidfd: &AtomicU32,
) -> io::Result<i32> {
    let mut flags = libc::CLONE_VM | libc::CLONE_VFORK | libc::CLONE_PIDFD | libc::SIGCHLD;
    if mode != NamespaceMode::Without {
        flags |= NAMESPACES.iter().fold(0, |all, (_, flag)| all | flag);
    }
    if mode == NamespaceMode::Unprivileged {
        flags |= libc::CLONE_NEWUSER;
    }
    // A change of user in the new process makes the memory, which is the host's too, one that is
    // not dumped and whose /proc files are root's.
    let dumpable = rustix::process::dumpable_behavior();
    let mut stack = vec![0_u128; STACK_LEN / size_of::<u128>()];
    let top = stack.as_mut_ptr_range().end.cast::<c_void>();
    let arg = (&raw mut *body).cast::<c_void>();
    let pid = {
        let _blocked = Blocked::all()?;
        // JUSTIFICATION: making a process in namespaces, with a descriptor of it.
        // SAFETY: with CLONE_VM the new process uses this memory: the stack above, from its
        // aligned end, which nobody else uses; and `body`, which is this function's alone. With
        // CLONE_VFORK this thread stands still until the new process has its own memory or is
        // gone, so that both live long enough, and thread-local data (errno) has one user at a
        // time. What it does is `child::run`, which takes no locks and frees nothing. The kernel
        // writes the descriptor's number to `pidfd`, which outlives the call.
        unsafe { libc::clone(enter, top, flags, arg, pidfd.as_ptr().cast::<c_int>()) }
    };
    let error = io::Error::last_os_error();
    if let Ok(before @ DumpableBehavior::Dumpable) = dumpable {
        // It was so before; there is no reason to be refused.
        let _ = rustix::process::set_dumpable_behavior(before);
    }
    if pid == -1 { Err(error) } else { Ok(pid) }
}

extern "C" fn enter(arg: *mut c_void) -> c_int {
    // JUSTIFICATION: clone(2) hands over an address.
    // SAFETY: the address is that of the `body` of `clone`, which waits and does not use it.
    let body = unsafe { &mut *arg.cast::<Body<'_>>() };
    child::run(body)
}

/// All signals blocked in this thread, so that no handler of the host's runs in the new process.
struct Blocked {
    before: SigSet,
}

impl Blocked {
    fn all() -> io::Result<Blocked> {
        let before = SigSet::all().thread_swap_mask(SigmaskHow::SIG_SETMASK)?;
        Ok(Blocked { before })
    }
}

impl Drop for Blocked {
    fn drop(&mut self) {
        // What was this thread's mask may be it again.
        let _ = self.before.thread_set_mask();
    }
}
