//! The paper's dummy Worker: it takes every packet and touches none.
#![forbid(unsafe_code)]

use std::process::ExitCode;

use thruway_nf::{Batch, Config, Verdict};

fn main() -> ExitCode {
    // Without a look at bytes there is nothing to fetch ahead.
    let config = Config { name: "dummy", prefetch: 0, ..Config::DEFAULT };
    thruway_nf::run(&config, |start| {
        let packets = start.counter("packets");
        Ok(move |batch: &mut Batch<'_>| {
            packets.add(batch.len() as u64);
            batch.each(|_packet| Verdict::Next(0));
        })
    })
}
