//! What elementary operations cost on a host: section 2.2 of the paper.

use std::iter::Sum;
use std::ops::{Add, Mul};

use super::operation::{HashTable, MemoryLevel, Operation, Size};
use crate::hardware::{Hardware, HardwareError};

/// Clock cycles of a core, and accesses to memory.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Cost {
    /// Clock cycles.
    pub cycles: f64,
    /// Accesses to memory, each of a line.
    pub accesses: f64,
}

impl Add for Cost {
    type Output = Cost;

    fn add(self, other: Cost) -> Cost {
        Cost { cycles: self.cycles + other.cycles, accesses: self.accesses + other.accesses }
    }
}

impl Mul<f64> for Cost {
    type Output = Cost;

    fn mul(self, times: f64) -> Cost {
        Cost { cycles: self.cycles * times, accesses: self.accesses * times }
    }
}

impl Sum for Cost {
    fn sum<I: Iterator<Item = Cost>>(costs: I) -> Cost {
        costs.fold(Cost::default(), Add::add)
    }
}

macro_rules! constants {
    ($($name:ident: $about:literal;)*) => {
        /// The constants that `[paper]` of a hardware description must have, and what each is.
        pub const CONSTANTS: &[(&str, &str)] = &[$((stringify!($name), $about)),*];

        #[derive(Debug, Clone, PartialEq)]
        struct Constants { $($name: f64),* }

        impl Constants {
            fn of(hardware: &Hardware, path: &str) -> Result<Constants, HardwareError> {
                Ok(Constants { $($name: constant(hardware, path, stringify!($name))?),* })
            }
        }
    };
}

constants! {
    line_bytes: "bytes of a line of the caches";
    register_bytes: "bytes of a register";
    l3_access: "cycles to reach the last-level cache";
    line_in: "cycles to write a line of L1 or L2";
    line_out: "cycles to write a line back to the last-level cache";
    load_l1: "cycles per register loaded from L1";
    load_l2: "cycles per register loaded from L2";
    add: "cycles per addition";
    checksum_word: "cycles per two bytes of a checksum";
    checksum_fold: "cycles after the loop of a checksum";
    array_index: "cycles to compute an element's address";
    array_load: "cycles per register of an element";
    hash_base: "cycles of a lookup in a hash table, whatever the key and the entry";
    hash_key: "cycles per component of the key";
    hash_load: "cycles per register of the entry";
    hash_store: "cycles per part of the entry that is put in L1";
    hash_store_bytes: "bytes of such a part";
    insert_base: "cycles of an insertion, whatever the key and the entry";
    insert_load: "cycles per register of the entry, of an insertion";
    remote_access: "cycles, beside the memory's, to reach a frame of the other socket";
    dram_cas: "CAS latency of the memory";
    dram_rate: "transfers a second of the memory";
}

/// A host's constants for the formulas.
#[derive(Debug, Clone, PartialEq)]
pub struct Mapping {
    at: Constants,
    /// Bytes of L1 and L2 together.
    near_bytes: f64,
}

/// Parts of so many bytes that hold so many; the small number takes back what floating point adds.
fn parts(bytes: f64, each: f64) -> f64 {
    up(bytes / each)
}

fn up(number: f64) -> f64 {
    (number - 1e-9).ceil().max(0.0)
}

fn constant(hardware: &Hardware, path: &str, name: &str) -> Result<f64, HardwareError> {
    let Some(constant) = hardware.paper.get(name) else {
        return Err(HardwareError::Missing {
            path: path.to_owned(),
            what: format!("paper.{name}"),
            remedy: "the paper's formulas need it; see hardware/xeon-e5-2690v2.toml for its meaning",
        });
    };
    let is_divisor = name.ends_with("_bytes") || name == "dram_rate";
    if is_divisor && constant.value <= 0.0 {
        return Err(HardwareError::Value {
            path: path.to_owned(),
            field: format!("paper.{name}.value"),
            value: constant.value,
            remedy: "give a number above zero",
        });
    }
    Ok(constant.value)
}

impl Mapping {
    /// Takes the constants from a description; `path` is what errors call it.
    ///
    /// # Errors
    /// When one of [`CONSTANTS`] or a level L1 or L2 is missing, or what the formulas divide by is
    /// zero.
    pub fn of(hardware: &Hardware, path: &str) -> Result<Mapping, HardwareError> {
        let bytes = |name: &str| {
            let level = hardware.levels.iter().find(|level| level.name == name);
            level.map(|level| level.bytes).ok_or_else(|| HardwareError::Missing {
                path: path.to_owned(),
                what: format!("level {name}"),
                remedy: "add it as a [[levels]] table: which tables stay in cache depends on it",
            })
        };
        let near_bytes = bytes("L1")? + bytes("L2")?;
        Ok(Mapping { at: Constants::of(hardware, path)?, near_bytes })
    }

    /// Seconds that an access to memory takes: `(CAS latency x 2 + 3) / data rate`, section 3.1.1.
    pub fn memory_seconds(&self) -> f64 {
        (self.at.dram_cas * 2.0 + 3.0) / self.at.dram_rate
    }

    /// The same as the paper computed it, without the factor of two.
    pub fn printed_memory_seconds(&self) -> f64 {
        (self.at.dram_cas + 3.0) / self.at.dram_rate
    }

    /// What an operation costs for a frame of this length.
    pub fn cost(&self, operation: &Operation, frame: u32) -> Cost {
        let at = &self.at;
        let cycles = |cycles| Cost { cycles, accesses: 0.0 };
        match operation {
            Operation::IoMem { hdr, .. } => {
                cycles(at.l3_access + at.line_in * self.lines(hdr.of(frame)))
            }
            Operation::MemIo { hdr, .. } => {
                cycles(at.l3_access + at.line_out * self.lines(hdr.of(frame)))
            }
            Operation::Parse { b, from } | Operation::Deparse { b, from } => {
                let load = if *from == MemoryLevel::L2 { at.load_l2 } else { at.load_l1 };
                let cycles = load * self.registers(b.of(frame));
                Cost { cycles, accesses: self.brought(*b, *from, frame) }
            }
            Operation::Increase { b } | Operation::Decrease { b } | Operation::Sum { b } => {
                cycles(up(at.add * b.of(frame) / at.register_bytes))
            }
            Operation::Checksum { b, from } | Operation::IncChecksum { b, from } => Cost {
                cycles: at.checksum_word * parts(b.of(frame), 2.0) + at.checksum_fold,
                accesses: self.brought(*b, *from, frame),
            },
            Operation::ArrayAccess { es, .. } => self.array_access(es.of(frame)),
            Operation::HtLookup(table) => self.lookup(table, frame),
            // Two levels of DIR-24-8: a prefix of up to 24 bits is found in the first.
            Operation::LpmLookup { b, es } => {
                let levels = if b.of(frame) <= 3.0 { 1.0 } else { 2.0 };
                self.array_access(es.of(frame)) * levels
            }
            Operation::CtInsertion(table) => self.insertion(table, frame),
        }
    }

    /// What taking in a frame costs that lies in the cache of the other socket (section 4.2): all
    /// of it comes through memory. None for other operations.
    pub fn remote_cost(&self, operation: &Operation, frame: u32) -> Option<Cost> {
        let Operation::IoMem { hdr, data } = operation else { return None };
        let lines = self.lines(hdr.of(frame) + data.of(frame));
        Some(Cost { cycles: self.at.remote_access + self.at.line_in * lines, accesses: lines })
    }

    fn lines(&self, bytes: f64) -> f64 {
        parts(bytes, self.at.line_bytes)
    }

    fn registers(&self, bytes: f64) -> f64 {
        parts(bytes, self.at.register_bytes)
    }

    fn brought(&self, bytes: Size, from: MemoryLevel, frame: u32) -> f64 {
        if from == MemoryLevel::Memory { self.lines(bytes.of(frame)) } else { 0.0 }
    }

    fn array_access(&self, element: f64) -> Cost {
        Cost {
            cycles: self.at.array_index + self.at.array_load * self.registers(element),
            accesses: self.lines(element),
        }
    }

    fn lookup(&self, table: &HashTable, frame: u32) -> Cost {
        let (at, entry) = (&self.at, table.entry.of(frame));
        let fixed = at.hash_key * f64::from(table.components) + at.hash_base;
        self.probe(table, entry, fixed + at.hash_load * self.registers(entry))
    }

    fn insertion(&self, table: &HashTable, frame: u32) -> Cost {
        let (at, entry) = (&self.at, table.entry.of(frame));
        let fixed = at.hash_key * f64::from(table.components) + at.insert_base;
        let cost = self.probe(table, entry, fixed + at.insert_load * self.registers(entry));
        // The entry is read and written back.
        Cost { accesses: cost.accesses * 2.0, ..cost }
    }

    /// Cycles for the entry's transfer into L1 are added, and accesses, unless all of the table is
    /// there.
    fn probe(&self, table: &HashTable, entry: f64, cycles: f64) -> Cost {
        let tries = 1.0 + table.collision;
        if table.max as f64 * entry <= self.near_bytes {
            return Cost { cycles: up(cycles * tries), accesses: 0.0 };
        }
        let store = self.at.hash_store * parts(entry, self.at.hash_store_bytes);
        Cost { cycles: up((cycles + store) * tries), accesses: up(self.lines(entry) * tries) }
    }
}
