//! A bridge: learns which station is at which input, and floods what is for others out of all
//! outputs but the one where it came from: one copy is the packet itself, the others are packets
//! made in consequence of it.
//!
//! `Nf(EXEC "bridge", OUTPUTS 3)` with three inputs.
#![forbid(unsafe_code)]

use std::collections::HashMap;
use std::process::ExitCode;

use thruway_nf::{Batch, Config, Packet, Verdict};

/// Stations that are remembered; others are flooded.
const STATIONS_MAX: usize = 4096;

type Station = [u8; 6];

fn station(packet: &Packet<'_>, at: usize) -> Option<Station> {
    packet.bytes().get(at..at + 6)?.try_into().ok()
}

fn main() -> ExitCode {
    let config = Config { name: "bridge", outputs: 2, ..Config::DEFAULT };
    thruway_nf::run(&config, |start| {
        let outputs = u8::try_from(start.welcome().outputs).unwrap_or(u8::MAX);
        let mut places: HashMap<Station, u8> = HashMap::with_capacity(STATIONS_MAX);
        let flooded = start.counter("flooded");
        let lost = start.counter("lost-copies");
        Ok(move |batch: &mut Batch<'_>| {
            batch.each(|packet| {
                let input = packet.input() as u8;
                let (Some(to), Some(from)) = (station(packet, 0), station(packet, 6)) else {
                    return Verdict::Drop;
                };
                // A group's address is nobody's source (IEEE 802.3, clause 3.2.3).
                let is_new = !places.contains_key(&from);
                if from[0] & 1 == 0 && (!is_new || places.len() < STATIONS_MAX) {
                    places.insert(from, input);
                }
                if let Some(&place) = places.get(&to) {
                    return if place == input { Verdict::Drop } else { Verdict::Next(place) };
                }
                flooded.add(1);
                let mut others = (0..outputs).filter(|output| *output != input);
                let Some(first) = others.next() else { return Verdict::Drop };
                for other in others {
                    lost.add(u64::from(packet.emit_copy(other).is_err()));
                }
                Verdict::Next(first)
            });
        })
    })
}
