//! What a host is, as far as estimates need it: a description in TOML, measured by
//! `thruway calibrate` or written from data sheets.
//!
//! All cycles are ticks of the time stamp counter ([`Hardware::clock_hz`]): the core's own clock
//! may be faster or slower, and changes.

use std::collections::BTreeMap;
use std::path::Path;

use serde::{Deserialize, Serialize};
use thruway_element::Operation;

use crate::file_error::{self, FileError};
use crate::observed::{Observed, ObservedError};

/// A number, how far its measurements lay apart, and where it comes from.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Constant {
    /// In the unit of the field that it stands in.
    pub value: f64,
    /// Half of the distance between the quartiles of the measurements, in the same unit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub spread: Option<f64>,
    /// A document and its section, or how it was measured.
    pub source: String,
}

impl Constant {
    /// A number from a document.
    pub fn from_source(value: f64, source: &str) -> Constant {
        Constant { value, spread: None, source: source.to_owned() }
    }
}

/// A host.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Hardware {
    /// What people call it.
    pub name: String,
    /// Ticks of the time stamp counter in a second.
    pub clock_hz: Constant,
    /// Cores that packets may be handled on, over all sockets.
    pub cores: u32,
    /// Processors; each with its own last-level cache and memory.
    #[serde(default = "one")]
    pub sockets: u32,
    /// The caches from the first level on, then memory (with its size in `bytes`).
    pub levels: Vec<CacheLevel>,
    /// What moves from one core to another.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub between_cores: Option<BetweenCores>,
    /// Ports, by name.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub links: BTreeMap<String, Link>,
    /// What elementary operations cost, by name, with all their data in the first level.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub operations: BTreeMap<String, OperationCost>,
    /// The same of the path to isolated functions, where the function's process and the thread are
    /// on one core. [`operations`](Hardware::operations) has what it costs on cores of their own.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub shared_core: BTreeMap<String, OperationCost>,
    /// The constants of the paper's mapping (its section 2.2), by name.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub paper: BTreeMap<String, Constant>,
    /// What running configurations showed on this host; in a file of its own.
    #[serde(skip)]
    pub observed: Observed,
}

/// A level of the memory hierarchy, as one core sees it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CacheLevel {
    /// `L1`, `L2`, `L3`, `DRAM`.
    pub name: String,
    /// Size; of a shared cache the share that a core can count on.
    pub bytes: f64,
    /// Cycles until a line arrives if its address comes from the previous line.
    pub dependent: Constant,
    /// Cycles per line, of lines anywhere that are asked for in advance.
    pub prefetched: Constant,
    /// Cycles per line, of lines one after the other.
    pub stream: Constant,
    /// Cycles per line that is copied, source and destination both being there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub copy: Option<Constant>,
    /// The same as `dependent` over huge pages, where there are any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dependent_huge: Option<Constant>,
    /// The same as `prefetched` over huge pages.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub prefetched_huge: Option<Constant>,
    /// The same as `stream` over huge pages.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stream_huge: Option<Constant>,
    /// Bytes a second that all cores together read of it, line after line.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bandwidth: Option<Constant>,
}

impl CacheLevel {
    /// Every constant with its name.
    pub fn constants(&self) -> impl Iterator<Item = (&'static str, &Constant)> {
        let measured = [
            ("dependent", &self.dependent),
            ("prefetched", &self.prefetched),
            ("stream", &self.stream),
        ];
        let perhaps = [
            ("copy", &self.copy),
            ("dependent_huge", &self.dependent_huge),
            ("prefetched_huge", &self.prefetched_huge),
            ("stream_huge", &self.stream_huge),
            ("bandwidth", &self.bandwidth),
        ];
        let perhaps = perhaps.into_iter().filter_map(|(name, it)| Some((name, it.as_ref()?)));
        measured.into_iter().chain(perhaps)
    }
}

/// What moves from one core to another.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BetweenCores {
    /// Cycles until a line that one core wrote is read by another.
    pub line: Constant,
    /// Cycles that waking a sleeping thread costs the waking thread.
    pub wake: Constant,
    /// Cycles from waking until the woken thread runs.
    pub woken: Constant,
}

/// A port.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Link {
    /// Bits a second on the wire.
    pub bits: f64,
    /// Bytes that a frame takes on the wire beside its own: preamble, check sequence, gap.
    #[serde(default)]
    pub overhead: f64,
}

/// What an elementary operation costs.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct OperationCost {
    /// Cycles each time.
    pub each: Constant,
    /// Cycles per batch in which it is done at all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub batch: Option<Constant>,
}

/// Why a description is not used.
#[derive(Debug, thiserror::Error)]
pub enum HardwareError {
    /// The file cannot be read, or is not such a file.
    #[error(transparent)]
    File(#[from] FileError),
    /// The observed costs beside it cannot be read.
    #[error(transparent)]
    Observed(#[from] ObservedError),
    /// A value that cannot be.
    #[error("{path}: {field} is {value}: {remedy}")]
    Value {
        /// Which file.
        path: String,
        /// Dotted name of the field.
        field: String,
        /// What it is.
        value: f64,
        /// What it should be.
        remedy: &'static str,
    },
    /// Something is not there.
    #[error("{path}: no {what}: {remedy}")]
    Missing {
        /// Which file.
        path: String,
        /// What.
        what: String,
        /// What to do.
        remedy: &'static str,
    },
}

fn one() -> u32 {
    1
}

impl Hardware {
    /// Reads a description from a file, and what was observed on its host.
    ///
    /// # Errors
    /// When there is none, it is not one, or it has impossible values; or the same of the file of
    /// observations beside it.
    pub fn load(path: &Path) -> Result<Hardware, HardwareError> {
        let text = file_error::read(path)?;
        let hardware = Hardware::parse(&path.display().to_string(), &text)?;
        Ok(Hardware { observed: Observed::load(path, &text)?, ..hardware })
    }

    /// Reads a description; `path` is what errors call it.
    ///
    /// # Errors
    /// When the text is none, or has impossible values.
    pub fn parse(path: &str, text: &str) -> Result<Hardware, HardwareError> {
        let hardware: Hardware = file_error::parse(path, text)?;
        hardware.check(path)?;
        Ok(hardware)
    }

    /// The description as text.
    ///
    /// # Panics
    /// Never: every value of these types can be written as TOML.
    pub fn to_toml(&self) -> String {
        toml::to_string_pretty(self).expect("a description is plain tables and numbers")
    }

    /// What an operation costs; `shares_core`: by a thread, or a function's process, that has the
    /// other one on its core.
    pub fn cost(&self, operation: Operation, shares_core: bool) -> Option<&OperationCost> {
        let is_shared = shares_core && operation.is_of_isolation();
        let table = if is_shared { &self.shared_core } else { &self.operations };
        table.get(operation.name())
    }

    /// Seconds that so many cycles take.
    pub fn seconds(&self, cycles: f64) -> f64 {
        cycles / self.clock_hz.value
    }

    fn check(&self, path: &str) -> Result<(), HardwareError> {
        let value = |field: &str, value: f64, remedy| {
            Err(HardwareError::Value { path: path.into(), field: field.into(), value, remedy })
        };
        if !(1e6..1e12).contains(&self.clock_hz.value) {
            return value("clock_hz.value", self.clock_hz.value, "give ticks a second, as 3.0e9");
        }
        if self.cores == 0 || self.sockets == 0 {
            return value("cores or sockets", 0.0, "a host has at least one");
        }
        if self.levels.is_empty() {
            return Err(HardwareError::Missing {
                path: path.into(),
                what: "levels".into(),
                remedy: "describe the caches and the memory, each as a [[levels]] table",
            });
        }
        for (field, constant) in self.constants() {
            if !(constant.value.is_finite() && constant.value >= 0.0) {
                return value(&field, constant.value, "give a number that is not negative");
            }
        }
        let mut before = 0.0;
        for level in &self.levels {
            if level.bytes.is_nan() || level.bytes <= before {
                let field = format!("levels.{}.bytes", level.name);
                return value(&field, level.bytes, "each level is larger than the one before it");
            }
            before = level.bytes;
        }
        for (name, link) in &self.links {
            if !(link.bits > 0.0 && link.bits.is_finite()) {
                return value(&format!("links.{name}.bits"), link.bits, "give bits a second");
            }
        }
        Ok(())
    }

    /// Every constant under its dotted name.
    pub fn constants(&self) -> Vec<(String, &Constant)> {
        let mut all = Vec::new();
        for level in &self.levels {
            let named = |(field, it)| (format!("levels.{}.{field}.value", level.name), it);
            all.extend(level.constants().map(named));
        }
        if let Some(between) = &self.between_cores {
            all.push(("between_cores.line.value".into(), &between.line));
            all.push(("between_cores.wake.value".into(), &between.wake));
            all.push(("between_cores.woken.value".into(), &between.woken));
        }
        for (table, costs) in [("operations", &self.operations), ("shared_core", &self.shared_core)]
        {
            for (name, cost) in costs {
                all.push((format!("{table}.{name}.each.value"), &cost.each));
                let batch = cost.batch.iter();
                all.extend(batch.map(|it| (format!("{table}.{name}.batch.value"), it)));
            }
        }
        all.extend(self.paper.iter().map(|(name, it)| (format!("paper.{name}.value"), it)));
        all
    }
}

#[cfg(test)]
mod tests;
