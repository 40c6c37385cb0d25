//! What the loop of a function costs per packet. The packets wait already when the function is let
//! go, and nobody takes them back meanwhile: so this is the function's side alone, without the
//! lines that travel between cores.
//!
//! `cargo run --release -p thruway-nf --example pace`
#![forbid(unsafe_code)]

use std::time::Instant;

use thruway_exchange::SlotTag;
use thruway_nf::trial::{Setup, TrialError};
use thruway_nf::{Batch, Config, Verdict};
use thruway_nf_abi::LinkShape;
use thruway_nf_abi::message::WaitMode;

/// Packets of a turn: all of a ring.
const SLOTS: u32 = 1024;
/// Turns of which the median is reported.
const TURNS: usize = 401;

fn main() -> Result<(), TrialError> {
    println!("ns per packet, median of {TURNS} turns of {SLOTS} packets of 64 bytes");
    pace("callback that does nothing", 0, |_| {})?;
    pace("each: pass", 0, |batch| batch.each(|_| Verdict::Next(0)))?;
    pace("each: drop", 0, |batch| batch.each(|_| Verdict::Drop))?;
    pace("each: read one byte", 6, |batch| {
        batch.each(|packet| match packet.bytes().first() {
            Some(7) => Verdict::Drop,
            _ => Verdict::Next(0),
        });
    })?;
    pace("each: write one byte", 6, |batch| {
        batch.each(|packet| {
            if let Some(byte) = packet.bytes_mut().first_mut() {
                *byte = byte.wrapping_add(1);
            }
            Verdict::Next(0)
        });
    })
}

fn pace(
    name: &str,
    prefetch: u32,
    treat: impl Fn(&mut Batch<'_>) + Send + 'static,
) -> Result<(), TrialError> {
    let (tell, told) = std::sync::mpsc::channel();
    let shape = LinkShape { slots: SLOTS, ..LinkShape::DEFAULT };
    let setup = Setup { shape, wait: WaitMode::Block, worker_threshold: 64, ..Setup::DEFAULT };
    let config = Config { batch_len_max: SLOTS, prefetch, ..Config::DEFAULT };
    let mut trial = setup.thread(config, move |_| {
        Ok(move |batch: &mut Batch<'_>| {
            let len = batch.len();
            let begin = Instant::now();
            treat(batch);
            let _ = tell.send((len, begin.elapsed()));
        })
    })?;
    let mut nanoseconds = Vec::new();
    for _ in 0..TURNS {
        for _ in 0..SLOTS {
            trial.put(SlotTag::NONE, &[1; 64])?;
        }
        trial.publish();
        let mut back = 0;
        while back < SLOTS as usize {
            let (len, time) = told.recv().expect("the function runs");
            nanoseconds.push(time.as_nanos() as f64 / len as f64);
            back += len;
        }
        while !trial.is_idle() {
            trial.poll()?;
        }
    }
    nanoseconds.sort_by(f64::total_cmp);
    println!("{:8.2}  {name}", nanoseconds[nanoseconds.len() / 2]);
    trial.finish().map(drop)
}
