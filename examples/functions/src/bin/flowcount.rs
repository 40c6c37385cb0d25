//! Counts the packets and bytes of each session, in both directions, in the session's scratch.
//!
//! `FlowClassifier -> Nf(EXEC "flowcount", SESSION connection)`
//!
//! With WORKERS it is as many Workers: each counts its sessions, the host adds the counters up.
//!
//! What it has counted is in memory that the host keeps for it: it outlives this process. When a
//! session ends, its counts are added to the counters `ended-...`.
#![forbid(unsafe_code)]

use std::process::ExitCode;

use thruway_nf::{Batch, Config, Counter, Function, Session, Verdict};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// Of one session, by direction.
#[derive(FromBytes, IntoBytes, KnownLayout, Immutable)]
#[repr(C)]
struct Counts {
    packets: [u64; 2],
    bytes: [u64; 2],
}

struct FlowCount {
    /// Sessions that began, as far as this process saw.
    begun: Counter,
    ended: Counter,
    ended_packets: Counter,
    ended_bytes: Counter,
    /// Most packets of a session so far, of each Worker.
    packets_max: Counter,
    /// Packets without a session.
    without: Counter,
}

impl Function for FlowCount {
    fn batch(&mut self, batch: &mut Batch<'_>) {
        batch.each(|packet| {
            let (len, direction) = (packet.len() as u64, usize::from(packet.direction() & 1));
            match packet.scratch::<Counts>() {
                Some(counts) => {
                    counts.packets[direction] += 1;
                    counts.bytes[direction] += len;
                    let packets = counts.packets[0] + counts.packets[1];
                    self.packets_max.set(self.packets_max.get().max(packets));
                }
                None => self.without.add(1),
            }
            Verdict::Next(0)
        });
    }

    fn new_session(&mut self, _session: &mut Session<'_>) {
        self.begun.add(1);
    }

    fn released_session(&mut self, session: &mut Session<'_>) {
        self.ended.add(1);
        if let Some(counts) = session.scratch::<Counts>() {
            self.ended_packets.add(counts.packets.iter().sum());
            self.ended_bytes.add(counts.bytes.iter().sum());
        }
    }
}

fn main() -> ExitCode {
    let scratch_len = size_of::<Counts>() as u32;
    let config = Config { name: "flowcount", scratch_len, ..Config::DEFAULT };
    thruway_nf::run_workers(&config, |start| {
        // Counters of one name are added up, which a level is not.
        let packets_max = match start.workers() {
            1 => "packets-max".to_owned(),
            _ => format!("packets-max-{}", start.worker()),
        };
        Ok(FlowCount {
            begun: start.counter("begun"),
            ended: start.counter("ended"),
            ended_packets: start.counter("ended-packets"),
            ended_bytes: start.counter("ended-bytes"),
            packets_max: start.counter(&packets_max),
            without: start.counter("without"),
        })
    })
}
