//! What the paper prints of a model, beside what its printed formulas give.
//!
//! Its rates in packets a second take 3.6 GHz for 3.6 x 1024 MHz; turning them into bits a second
//! it divides by 1024 again. Its rates of memory, of the switches, leave out the factor of two of
//! its formula. Taken so, the rates follow from the cycles and accesses that it prints; what does
//! not is said in the models' files.

use super::mapping::{Cost, Mapping};
use super::model::{Flow, Model};
use super::printed::{Printed, PrintedRate, Resource};
use super::rates::{WIRE_BYTES, rates};
use crate::hardware::Hardware;

/// What the paper's giga is of a thousand mega.
const GIGA: f64 = 1.024;

/// A unit of the last digit printed, by which a figure that was rounded or cut off may differ; for
/// those with one digit after the point, a thousandth.
const ROUNDING: f64 = 0.01;

/// A printed rate beside ours.
#[derive(Debug, Clone, PartialEq)]
pub struct Checked<'a> {
    /// As printed.
    pub printed: &'a PrintedRate,
    /// Packets a second by the printed formulas.
    pub ours: f64,
    /// Packets a second by the paper's cycles, accesses and arithmetic.
    pub redone: f64,
    /// Bits a second of these.
    pub redone_bits: f64,
}

impl Checked<'_> {
    /// Whether the paper's arithmetic gives what it prints, up to rounding.
    pub fn is_explained(&self) -> bool {
        let near =
            |redone: f64, printed: f64| (redone - printed).abs() <= ROUNDING.max(printed * 1e-3);
        near(self.redone / 1e6, self.printed.mpps)
            && self.printed.gbps.is_none_or(|gbps| near(self.redone_bits / 1e9, gbps))
    }
}

impl Model {
    /// What the paper says, if it says it of this host.
    pub fn printed_for(&self, hardware: &Hardware) -> Option<&Printed> {
        self.printed.as_ref().filter(|printed| printed.hardware == hardware.name)
    }

    /// What a packet costs as the paper counts: by the formulas and the differences.
    pub fn printed_cost(&self, mapping: &Mapping, frame: u32) -> Cost {
        let cost = |flow: &Flow| {
            let difference = flow.printed.as_ref().map(Printed::difference).unwrap_or_default();
            (flow.cost(mapping, frame) + difference) * flow.share
        };
        self.flows.iter().map(cost).sum()
    }

    /// Each rate that the paper prints beside ours; none where it speaks of another host.
    pub fn checked<'a>(&'a self, hardware: &Hardware, mapping: &Mapping) -> Vec<Checked<'a>> {
        let Some(printed) = self.printed_for(hardware) else { return Vec::new() };
        let check = |rate: &'a PrintedRate| {
            let frame = rate.frame;
            let ours = rates(hardware, mapping, &self.run, self.cost(mapping, frame), frame);
            let cost = self.printed_cost(mapping, frame);
            let cycles = rate.cycles.unwrap_or(cost.cycles);
            let (ours, redone) = match rate.of {
                Resource::Cores => {
                    let clock = hardware.clock_hz.value * GIGA;
                    (ours.cores, f64::from(self.run.cores) * clock / cycles)
                }
                Resource::Memory => {
                    let seconds = cost.accesses * mapping.printed_memory_seconds();
                    (ours.memory, f64::from(self.run.memories) / seconds)
                }
            };
            let redone_bits = redone * (f64::from(frame) + WIRE_BYTES) * 8.0 / GIGA;
            Checked { printed: rate, ours, redone, redone_bits }
        };
        printed.rate.iter().map(check).collect()
    }
}
