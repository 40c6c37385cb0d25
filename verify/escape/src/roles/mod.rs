//! Functions that attach to their host as honest ones do, and then attack it.

mod fuzz;
mod honest;

use std::time::Duration;

use self::honest::{begin, serve};
use crate::call::{address, call};

/// Runs a role.
///
/// # Errors
/// When it cannot attach.
pub fn run(words: &[String]) -> Result<(), Box<dyn std::error::Error>> {
    match words.split_first().map(|(role, rest)| (role.as_str(), rest)) {
        Some(("neighbour", _)) => thruway_hostile::worker::neighbour(),
        Some(("freeze", _)) => freeze(),
        Some(("fuzz", rest)) => fuzz::fuzz(rest),
        Some(("traced", _)) => traced(),
        _ => Err("roles: neighbour, freeze, fuzz, traced".into()),
    }
}

/// Has every descriptor that it was given wait where its host may not: clears O_NONBLOCK of all,
/// empties and overfills them, and otherwise serves its packets.
fn freeze() -> Result<(), Box<dyn std::error::Error>> {
    let mut host = begin("freeze", 0)?;
    loop {
        for fd in 1..20_usize {
            if let Ok(flags) = call(libc::SYS_fcntl, &[fd, libc::F_GETFL as usize]) {
                let flags = flags & !(libc::O_NONBLOCK as usize);
                let _ = call(libc::SYS_fcntl, &[fd, libc::F_SETFL as usize, flags]);
            }
        }
        for _ in 0..1_000 {
            if !serve(&mut host) {
                std::thread::sleep(Duration::from_micros(20));
            }
        }
        // Not the control socket, on which this would be a message.
        for fd in 5..20_usize {
            if call(libc::SYS_fcntl, &[fd, libc::F_GET_SEALS as usize]) == Err(libc::EINVAL) {
                overfill(fd);
            }
        }
    }
}

/// Has its host trace a thread of it, which therefore is its host's to take leave of.
fn traced() -> Result<(), Box<dyn std::error::Error>> {
    const TRACE_ME: usize = 0;
    let mut host = begin("traced", 0)?;
    std::thread::spawn(|| {
        let _ = call(libc::SYS_ptrace, &[TRACE_ME]);
        std::thread::park();
    });
    loop {
        if !serve(&mut host) {
            std::thread::sleep(Duration::from_micros(20));
        }
    }
}

/// Writes as much as goes in without waiting.
fn overfill(fd: usize) {
    let nearly_full = u64::MAX - 1;
    for _ in 0..64 {
        let mut ready = libc::pollfd { fd: fd as i32, events: libc::POLLOUT, revents: 0 };
        let now = [0_i64; 2];
        let polled = call(libc::SYS_ppoll, &[(&raw mut ready).addr(), 1, address(&now), 0, 8]);
        if polled != Ok(1) || ready.revents & libc::POLLOUT == 0 {
            break;
        }
        let _ = call(libc::SYS_write, &[fd, address(&nearly_full), 8]);
    }
}
