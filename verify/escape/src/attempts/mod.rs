//! What a hostile function might try.

mod attempt;
mod descriptors;
mod files;
mod identity;
mod kernel;
mod memory;
mod others;
mod own;
mod power;
mod threads;

pub use attempt::{Attempt, Prey};

use crate::call::{address, call};
use attempt::at;

/// Everything that is tried, in its order.
pub fn all() -> impl Iterator<Item = &'static Attempt> {
    [
        files::ALL,
        others::ALL,
        own::ALL,
        memory::ALL,
        descriptors::ALL,
        threads::ALL,
        identity::ALL,
        power::ALL,
        kernel::ALL,
    ]
    .into_iter()
    .flatten()
}

/// Attempts that end the process, by a signal or otherwise.
pub fn last(name: &str) {
    match name {
        #[cfg(target_arch = "x86_64")]
        "32-bit" => {
            crate::call::call_32_bit();
            println!("ESCAPED");
        }
        // The loader may be executed; what it loads must be readable and mapped.
        "loader" => {
            let loader = c"/lib64/ld-linux-x86-64.so.2";
            let argv = [at(loader), at(c"/bin/sh"), at(c"-c"), at(c"echo ESCAPED"), 0];
            let result = call(libc::SYS_execve, &[at(loader), address(&argv), address(&0_usize)]);
            println!("{result:?}");
        }
        "memory" => {
            let mut kept = Vec::new();
            for _ in 0..64 {
                kept.push(vec![1_u8; 64 << 20]);
            }
            println!("ESCAPED with {} GB", kept.len() / 16);
        }
        "exit" | "exit_group" | "rt_sigreturn" => {
            let number = match name {
                "exit" => libc::SYS_exit,
                "exit_group" => libc::SYS_exit_group,
                _ => libc::SYS_rt_sigreturn,
            };
            let result = call(number, &[7]);
            println!("ESCAPED {result:?}");
        }
        "pause" => loop {
            std::thread::sleep(std::time::Duration::from_secs(1));
        },
        other => println!("no attempt {other}"),
    }
}
