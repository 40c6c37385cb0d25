//! Models as text: the TOML of a file, and what is wrong with one.

use serde::de::{Deserializer, Error as _, Visitor};
use serde::{Deserialize, de};
use toml::Spanned;

use super::operation::{HashTable, MemoryLevel, OPERATIONS, Operation, Size, Syntax};
use super::printed::Printed;
use super::run::Run;
use crate::file_error::FileError;

/// Why a model is not used.
#[derive(Debug, thiserror::Error)]
pub enum ModelError {
    /// The file cannot be read, or is not such a file.
    #[error(transparent)]
    File(#[from] FileError),
    /// An operation that is none of Table 1, or that lacks something.
    #[error("{path}: line {line}: {what}: {remedy}")]
    Operation {
        /// Which file.
        path: String,
        /// From 1.
        line: usize,
        /// What is wrong.
        what: String,
        /// What to do.
        remedy: String,
    },
    /// A value that cannot be, or a part that is missing.
    #[error("{path}: {what}: {remedy}")]
    Value {
        /// Which file.
        path: String,
        /// What is wrong.
        what: String,
        /// What to do.
        remedy: String,
    },
    /// No model of this name.
    #[error("no model '{name}': name a file that ends in .toml, or one of {known}")]
    Unknown {
        /// As asked for.
        name: String,
        /// Names that there are.
        known: String,
    },
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ModelRow {
    pub name: String,
    pub title: String,
    pub source: String,
    #[serde(default)]
    pub run: Run,
    #[serde(default)]
    pub operation: Vec<Spanned<OperationRow>>,
    #[serde(default)]
    pub part: Vec<Spanned<PartRow>>,
    #[serde(default)]
    pub paper: Option<Printed>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct PartRow {
    pub model: String,
    pub share: f64,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct OperationRow {
    #[serde(rename = "do")]
    name: String,
    #[serde(default)]
    pub about: String,
    hdr: Option<Size>,
    data: Option<Size>,
    b: Option<Size>,
    es: Option<Size>,
    max: Option<u64>,
    #[serde(rename = "N")]
    components: Option<u32>,
    #[serde(rename = "HE")]
    entry: Option<Size>,
    p: Option<f64>,
    from: Option<MemoryLevel>,
}

/// What is wrong, and what to do.
type Wrong = (String, String);

const LONGEST: u32 = 1 << 20;

impl OperationRow {
    /// The operation that the row writes.
    pub fn operation(&self) -> Result<Operation, Wrong> {
        let syntax = self.syntax()?;
        self.check_fields(syntax)?;
        let (b, es) = (self.b, self.es);
        let near = self.from.unwrap_or(MemoryLevel::L1);
        let given = |size: Option<Size>| size.unwrap_or(Size::fixed(0));
        Ok(match self.name.as_str() {
            "io_mem" => Operation::IoMem { hdr: given(self.hdr), data: given(self.data) },
            "mem_io" => Operation::MemIo { hdr: given(self.hdr), data: given(self.data) },
            "parse" => Operation::Parse { b: given(b), from: near },
            "deparse" => Operation::Deparse { b: given(b), from: near },
            "increase" => Operation::Increase { b: given(b) },
            "decrease" => Operation::Decrease { b: given(b) },
            "sum" => Operation::Sum { b: given(b) },
            // The paper takes data to sum over to be in no near cache, what changed to be there.
            "checksum" => {
                Operation::Checksum { b: given(b), from: self.from.unwrap_or(MemoryLevel::Memory) }
            }
            "inc_checksum" => Operation::IncChecksum { b: given(b), from: near },
            "array_access" => {
                Operation::ArrayAccess { es: given(es), max: self.max.unwrap_or_default() }
            }
            "lpm_lookup" => Operation::LpmLookup { b: given(b), es: given(es) },
            "ht_lookup" => Operation::HtLookup(self.table()?),
            _ => Operation::CtInsertion(self.table()?),
        })
    }

    fn syntax(&self) -> Result<&'static Syntax, Wrong> {
        OPERATIONS.iter().find(|syntax| syntax.name == self.name).ok_or_else(|| {
            let known: Vec<&str> = OPERATIONS.iter().map(|syntax| syntax.name).collect();
            (format!("no operation '{}'", self.name), format!("take one of {}", known.join(", ")))
        })
    }

    fn fields(&self) -> [(&'static str, bool); 9] {
        [
            ("hdr", self.hdr.is_some()),
            ("data", self.data.is_some()),
            ("b", self.b.is_some()),
            ("es", self.es.is_some()),
            ("max", self.max.is_some()),
            ("N", self.components.is_some()),
            ("HE", self.entry.is_some()),
            ("p", self.p.is_some()),
            ("from", self.from.is_some()),
        ]
    }

    fn check_fields(&self, syntax: &Syntax) -> Result<(), Wrong> {
        let all = syntax.required.join(", ");
        for (field, is_given) in self.fields() {
            let is_required = syntax.required.contains(&field);
            if is_required && !is_given {
                let what = format!("{} without {field}", syntax.name);
                return Err((what, format!("it needs {all}")));
            }
            if is_given && !is_required && !syntax.optional.contains(&field) {
                let what = format!("{} has no parameter {field}", syntax.name);
                return Err((what, format!("it takes {all}")));
            }
        }
        let sizes = [("hdr", self.hdr), ("data", self.data), ("b", self.b), ("es", self.es)];
        for (field, size) in sizes.into_iter().chain([("HE", self.entry)]) {
            let bytes = size.map_or(0, |size| size.bytes.unsigned_abs());
            if bytes > u64::from(LONGEST) {
                return Err((format!("{field} is {bytes}"), format!("bytes go to {LONGEST}")));
            }
        }
        if self.max == Some(0) {
            return Err(("max is 0".into(), "a table has at least one entry".into()));
        }
        Ok(())
    }

    fn table(&self) -> Result<HashTable, Wrong> {
        let collision = self.p.unwrap_or(0.0);
        if !(0.0..=1.0).contains(&collision) {
            return Err((format!("p is {collision}"), "a probability is from 0 to 1".into()));
        }
        let components = self.components.unwrap_or_default();
        if !(1..=64).contains(&components) {
            return Err((format!("N is {components}"), "a key has 1 to 64 components".into()));
        }
        let entry = self.entry.unwrap_or(Size::fixed(0));
        if !entry.by_frame && entry.bytes == 0 {
            return Err(("HE is 0".into(), "an entry has at least one byte".into()));
        }
        Ok(HashTable { components, entry, max: self.max.unwrap_or(1), collision })
    }
}

/// The number of the line that byte `at` of `text` is in, from 1.
pub(super) fn line(text: &str, at: usize) -> usize {
    1 + text.bytes().take(at).filter(|byte| *byte == b'\n').count()
}

const SIZE: &str = "bytes as 30, or text as \"frame\", \"frame + 12\", \"frame - 10\"";

impl<'de> Deserialize<'de> for Size {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Size, D::Error> {
        struct Bytes;
        impl Visitor<'_> for Bytes {
            type Value = Size;

            fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str(SIZE)
            }

            fn visit_i64<E: de::Error>(self, bytes: i64) -> Result<Size, E> {
                let wrong = || E::custom(format!("{bytes} is no size: {SIZE}"));
                u32::try_from(bytes).map(Size::fixed).map_err(|_| wrong())
            }

            fn visit_str<E: de::Error>(self, text: &str) -> Result<Size, E> {
                Size::parse(text).ok_or_else(|| E::custom(format!("'{text}' is no size: {SIZE}")))
            }
        }
        deserializer.deserialize_any(Bytes)
    }
}

impl<'de> Deserialize<'de> for MemoryLevel {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<MemoryLevel, D::Error> {
        let text = String::deserialize(deserializer)?;
        let levels = [MemoryLevel::L1, MemoryLevel::L2, MemoryLevel::Memory];
        let found = levels.into_iter().find(|level| level.to_string() == text);
        found.ok_or_else(|| D::Error::custom(format!("no memory level '{text}': L1, L2 or memory")))
    }
}
