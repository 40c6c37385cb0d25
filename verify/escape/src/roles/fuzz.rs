//! Random system calls with random arguments, in a thread beside one that serves packets.
//!
//! Which call is the n-th follows from the seed and n alone. How many were made is kept in the
//! function's scratch, which outlives its process: one that killed itself goes on behind the call
//! that did it.

use std::os::fd::AsRawFd;
use std::sync::Arc;
use std::time::Duration;

use thruway_exchange::Attached;
use thruway_hostile::Dice;
use thruway_sync::atomic::{AtomicU64, Ordering};

use super::honest::{begin, serve};
use crate::call::{address, call};

/// Numbers of system calls that there may be.
const NUMBERS: u32 = 470;

/// Looks without a new call after which a call does not come back, whatever signal comes.
const STUCK: u32 = 500;

/// Threads that make calls.
const THREADS: usize = 3;

/// What calls may be about.
struct Aims {
    /// Calls that the filter allows with some arguments.
    allowed: Vec<libc::c_long>,
    /// No others: without the filter they could reach what is not its host's.
    only: bool,
    /// Memory: first address and length.
    areas: Vec<(usize, usize)>,
}

/// Makes calls until it is ended. `words`: the seed, `any` or `only` (whether it makes other calls
/// than those that are allowed), and the numbers of these.
///
/// # Errors
/// When it cannot attach, or the words are no numbers.
pub fn fuzz(words: &[String]) -> Result<(), Box<dyn std::error::Error>> {
    let [seed, others, allowed @ ..] = words else {
        return Err("role fuzz SEED any|only CALL ...".into());
    };
    let seed: u64 = seed.parse()?;
    let allowed = allowed.iter().map(|word| word.parse()).collect::<Result<_, _>>()?;
    let mut host = begin("fuzz", 8)?;
    let counter = counter(&mut host).ok_or("its host gives it no scratch")?;
    let aims = Aims { allowed, only: others == "only", areas: areas(&mut host) };
    on_signal();
    let (aims, own) = (Arc::new(aims), Arc::new(<[Own; THREADS]>::default()));
    for index in 0..THREADS {
        let (aims, own) = (Arc::clone(&aims), Arc::clone(&own));
        std::thread::spawn(move || {
            let number = call(libc::SYS_gettid, &[]).unwrap_or(0);
            own[index].number.store(number as u64, Ordering::Relaxed);
            loop {
                // Before the call: one that ends the process is not made again.
                let nth = counter.fetch_add(1, Ordering::Relaxed);
                one(&mut Dice::new(seed ^ nth.wrapping_mul(0x9e37_79b9_7f4a_7c15)), &aims);
                own[index].calls.fetch_add(1, Ordering::Relaxed);
            }
        });
    }
    let watched = Arc::clone(&own);
    std::thread::spawn(move || watch(&watched));
    loop {
        if !serve(&mut host) {
            std::thread::sleep(Duration::from_micros(20));
        }
    }
}

/// Ends calls that wait by a signal, and the process if a thread is lost.
fn watch(threads: &[Own; THREADS]) {
    let mut seen = [(0, 0); THREADS];
    loop {
        std::thread::sleep(Duration::from_micros(200));
        for (thread, (calls, stuck)) in threads.iter().zip(&mut seen) {
            let now = thread.calls.load(Ordering::Relaxed);
            *stuck = if now == *calls { *stuck + 1 } else { 0 };
            *calls = now;
            if *stuck > STUCK {
                std::process::exit(1);
            }
            if *stuck > 1 {
                let number = thread.number.load(Ordering::Relaxed) as usize;
                let _ = call(libc::SYS_tgkill, &[1, number, libc::SIGUSR1 as usize]);
            }
        }
    }
}

/// A thread that makes calls.
#[derive(Default)]
struct Own {
    /// Its number, for a signal.
    number: AtomicU64,
    /// Calls that came back.
    calls: AtomicU64,
}

/// Calls made so far, by all generations: a page far from all others, since calls that are given a
/// length write past what they were aimed at.
fn counter(host: &mut Attached) -> Option<&'static AtomicU64> {
    const FAR: usize = 0x1234_5000_0000;
    let arena = host.arena.take()?;
    let fd = arena.fd().as_raw_fd() as usize;
    let protection = (libc::PROT_READ | libc::PROT_WRITE) as usize;
    let flags = (libc::MAP_SHARED | libc::MAP_FIXED_NOREPLACE) as usize;
    let at = call(libc::SYS_mmap, &[FAR, 4096, protection, flags, fd, 0]).ok()?;
    // JUSTIFICATION: a thread that may be killed at any moment counts in shared memory.
    // SAFETY: the page was just mapped, is never unmapped (or the process dies of what it did to
    // itself), and nothing else uses it.
    Some(unsafe { AtomicU64::from_ptr(std::ptr::with_exposed_provenance_mut(at)) })
}

/// What it shares with its host, and memory of its own.
fn areas(host: &mut Attached) -> Vec<(usize, usize)> {
    // JUSTIFICATION: lying is what this process is for.
    // SAFETY: no reference to a frame lives across this.
    let link = unsafe { host.links[0].worker.storage() }.region();
    let control = host.control.region();
    let own = vec![0_u8; 64 << 10].leak();
    vec![
        (link.as_ptr().as_ptr().addr(), link.len()),
        (control.as_ptr().as_ptr().addr(), control.len()),
        (own.as_ptr().addr(), own.len()),
        // Which is rarely what a call wants.
        (fuzz as *const () as usize, 4096),
        (0xffff_8000_0000_0000, 1 << 20),
        (0, 4096),
    ]
}

/// A signal ends a call that waits.
fn on_signal() {
    extern "C" fn nothing(_: libc::c_int) {}
    let action = [nothing as *const () as usize, 0, 0, 0];
    // The C library's, for it knows how a handler returns.
    // JUSTIFICATION: there is no safe call.
    // SAFETY: the handler does nothing; the structure begins with its address, and is no longer
    // than 256 bytes, of which zero means no flags and nothing blocked.
    unsafe {
        let mut bytes = [0_usize; 32];
        bytes[..4].copy_from_slice(&action);
        libc::sigaction(libc::SIGUSR1, bytes.as_ptr().cast(), std::ptr::null_mut());
    }
}

/// One call.
fn one(dice: &mut Dice, aims: &Aims) {
    let number = match dice.below(4) {
        0 if !aims.only => libc::c_long::from(dice.below(NUMBERS)),
        _ if aims.allowed.is_empty() => return,
        _ => aims.allowed[dice.below(aims.allowed.len() as u32) as usize],
    };
    if (ends_soon(number) && dice.below(64) != 0) || (waits(number) && dice.below(16) != 0) {
        return;
    }
    let mut args: [usize; 6] = std::array::from_fn(|_| argument(dice, aims));
    // Mostly a descriptor comes first, and what to do with it second.
    if dice.below(2) == 0 {
        args[0] = dice.below(16) as usize;
        args[1] = if dice.below(2) == 0 { dice.below(40) as usize } else { args[1] };
    }
    known(number, &mut args, dice, aims);
    let _ = call(number, &args);
}

/// Arguments that get further in calls of many commands than random ones do.
fn known(number: libc::c_long, args: &mut [usize; 6], dice: &mut Dice, aims: &Aims) {
    match number {
        libc::SYS_fcntl => {
            args[0] = dice.below(16) as usize;
            args[1] = (dice.below(40) | (1024 * u32::from(dice.below(4) == 0))) as usize;
        }
        libc::SYS_madvise => {
            let (start, len) = aims.areas[dice.below(3) as usize];
            args[0] = start + (dice.below(len as u32) as usize & !4095);
            let advice = [25, 110][dice.below(2) as usize];
            (args[1], args[2]) = (4096 << dice.below(9), dice.below(advice) as usize);
        }
        libc::SYS_futex => args[1] = (dice.below(16) | (128 * dice.below(4))) as usize,
        libc::SYS_prctl => args[0] = dice.below(80) as usize,
        _ => {}
    }
}

/// Calls that often end the process, or take from it what all others need.
fn ends_soon(number: libc::c_long) -> bool {
    matches!(
        number,
        libc::SYS_exit
            | libc::SYS_exit_group
            | libc::SYS_rt_sigreturn
            | libc::SYS_execve
            | libc::SYS_munmap
            | libc::SYS_mremap
            | libc::SYS_mprotect
            | libc::SYS_brk
            | libc::SYS_close
            | libc::SYS_rt_sigaction
            | libc::SYS_rt_sigprocmask
            | libc::SYS_seccomp
    )
}

/// Calls that mostly wait.
fn waits(number: libc::c_long) -> bool {
    matches!(
        number,
        libc::SYS_nanosleep
            | libc::SYS_clock_nanosleep
            | libc::SYS_futex
            | libc::SYS_ppoll
            | libc::SYS_pselect6
            | libc::SYS_recvfrom
            | libc::SYS_recvmsg
            | libc::SYS_rt_sigtimedwait
    ) || waits_on_this_machine(number)
}

#[cfg(target_arch = "x86_64")]
fn waits_on_this_machine(number: libc::c_long) -> bool {
    matches!(number, libc::SYS_poll | libc::SYS_select)
}

#[cfg(not(target_arch = "x86_64"))]
fn waits_on_this_machine(_: libc::c_long) -> bool {
    false
}

fn argument(dice: &mut Dice, aims: &Aims) -> usize {
    match dice.below(16) {
        0..4 => dice.below(16) as usize,
        4..9 => {
            let (start, len) = aims.areas[dice.below(aims.areas.len() as u32) as usize];
            let at = start + dice.bits() as usize % len;
            // A page, a word, anywhere.
            at & [!4095, !7, !0][dice.below(3) as usize]
        }
        9 => usize::MAX - dice.below(4) as usize,
        10 => [0, 8, 4096, 65_536, 1 << 20, 1 << 30][dice.below(6) as usize],
        11..13 => 1 << dice.below(32) | 1 << dice.below(32),
        13 => dice.below(64) as usize,
        14 => address(&[0_u64; 16]),
        _ => dice.bits() as usize,
    }
}
