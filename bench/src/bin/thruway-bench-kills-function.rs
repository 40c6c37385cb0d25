//! The function that `thruway-bench kills` kills: counts each session's packets in its scratch, and
//! writes that count and which process it is into the packet.
//!
//! A program of its own, as functions are: what a process has touched, the kernel takes apart at
//! its end.

#[path = "../kills/stamp.rs"]
mod stamp;

use std::process::ExitCode;

use stamp::{COUNT, NUMBER, PROCESS};
use thruway_nf::{Config, Verdict};

fn main() -> ExitCode {
    let config = Config { name: "kills", scratch_len: 8, ..Config::DEFAULT };
    thruway_nf::run(&config, |start| {
        // In its own namespace its number says nothing; no two begin at the same time.
        let process = start.now_ns().to_be_bytes();
        Ok(move |batch: &mut thruway_nf::Batch<'_>| {
            batch.each(|packet| {
                let count = packet.scratch::<u64>().map_or(0, |count| {
                    *count += 1;
                    *count
                });
                let bytes = packet.bytes_mut();
                if bytes.len() >= NUMBER.end {
                    bytes[PROCESS].copy_from_slice(&process);
                    bytes[COUNT].copy_from_slice(&(count as u32).to_be_bytes());
                }
                Verdict::Next(0)
            });
        })
    })
}
