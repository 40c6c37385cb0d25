//! The function of `thruway-bench isolated`: counts packets and bytes, as `Counter` does in the
//! host's process.

use std::process::ExitCode;

use thruway_nf::{Config, Verdict};

fn main() -> ExitCode {
    let config = Config { name: "count", ..Config::DEFAULT };
    thruway_nf::run(&config, |_| {
        let (mut packets, mut bytes) = (0_u64, 0_u64);
        Ok(move |batch: &mut thruway_nf::Batch<'_>| {
            batch.each(|packet| {
                packets += 1;
                bytes += packet.bytes().len() as u64;
                Verdict::Next(0)
            });
            std::hint::black_box((packets, bytes));
        })
    })
}
