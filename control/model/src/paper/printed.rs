//! What the paper prints of a model, beside what its printed formulas give.
//!
//! Its rates in packets a second take 3.6 GHz for 3.6 x 1024 MHz; turning them into bits a second
//! it divides by 1024 again. Its rates of memory, of the switches, leave out the factor of two of
//! its formula. Taken so, the rates follow from the cycles and accesses that it prints; what does
//! not is said in the models' files.

use serde::Deserialize;

use super::mapping::{Cost, Mapping};
use super::model::Model;
use super::rates::{WIRE_BYTES, rates};
use crate::hardware::Hardware;

/// What the paper's giga is of a thousand mega.
const GIGA: f64 = 1.024;

/// A unit of the last digit printed, by which a figure that was rounded or cut off may differ; for
/// those with one digit after the point, a thousandth.
const ROUNDING: f64 = 0.01;

/// What the paper prints of a model.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Printed {
    /// Section.
    pub source: String,
    /// Name of the description that the figures are for.
    pub hardware: String,
    /// The figure that shows rates by size of frame, if one does.
    #[serde(default)]
    pub figure: String,
    /// Bytes of the frame that cycles and accesses are for.
    pub frame: u32,
    /// Clock cycles per packet.
    #[serde(default)]
    pub cycles: Option<f64>,
    /// Accesses to memory per packet.
    #[serde(default)]
    pub accesses: Option<f64>,
    /// From the printed formulas to the printed figures.
    #[serde(default)]
    pub difference: Vec<Difference>,
    /// Rates.
    #[serde(default)]
    pub rate: Vec<PrintedRate>,
}

/// A step from what the formulas give to what the paper prints.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Difference {
    /// Clock cycles to add.
    #[serde(default)]
    pub cycles: f64,
    /// Accesses to add.
    #[serde(default)]
    pub accesses: f64,
    /// Where it seems to come from.
    pub why: String,
}

/// What a rate is of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Resource {
    /// The cores that the function runs on.
    Cores,
    /// The memory.
    Memory,
}

/// A rate that the paper prints.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PrintedRate {
    /// Section or figure.
    #[serde(rename = "where")]
    pub section: String,
    /// What it is of.
    pub of: Resource,
    /// Bytes of a frame.
    pub frame: u32,
    /// Millions of packets a second.
    pub mpps: f64,
    /// Thousands of millions of bits a second.
    #[serde(default)]
    pub gbps: Option<f64>,
    /// Clock cycles that it was computed from, where these are not the paper's own.
    #[serde(default)]
    pub cycles: Option<f64>,
    /// What is behind it, or why it cannot be determined.
    #[serde(default)]
    pub why: String,
}

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

impl Printed {
    /// All differences together.
    pub fn difference(&self) -> Cost {
        let cost = |it: &Difference| Cost { cycles: it.cycles, accesses: it.accesses };
        self.difference.iter().map(cost).sum()
    }
}

impl Model {
    /// What the paper says, if it says it of this host.
    pub fn printed_for(&self, hardware: &Hardware) -> Option<&Printed> {
        self.printed.as_ref().filter(|printed| printed.hardware == hardware.name)
    }

    /// What a packet costs as the paper counts: by the formulas and the differences.
    pub fn printed_cost(&self, mapping: &Mapping, frame: u32) -> Cost {
        let cost = |flow: &super::model::Flow| {
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
