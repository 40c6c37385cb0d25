//! What the paper prints of a model.

use serde::Deserialize;

use super::mapping::Cost;

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

impl Printed {
    /// All differences together.
    pub fn difference(&self) -> Cost {
        let cost = |it: &Difference| Cost { cycles: it.cycles, accesses: it.accesses };
        self.difference.iter().map(cost).sum()
    }
}
