//! Elementary operations: Table 1 of the paper, section 2.1.

use std::fmt;

/// A number of bytes, fixed or by the length of the frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Size {
    /// Bytes, to be added to the frame's length where that counts; may be negative then.
    pub bytes: i64,
    /// Whether the frame's length counts.
    pub by_frame: bool,
}

/// Where the data of an operation lies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MemoryLevel {
    /// First level of cache.
    L1,
    /// Second level of cache.
    L2,
    /// Neither: lines have to be brought in first.
    Memory,
}

/// A hash table.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct HashTable {
    /// Components of the key (`N`).
    pub components: u32,
    /// Bytes of an entry (`HE`).
    pub entry: Size,
    /// Entries at most (`max`).
    pub max: u64,
    /// Probability of a collision (`p`), 0 to 1.
    pub collision: f64,
}

/// An elementary operation with its parameters.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Operation {
    /// A packet from an I/O buffer: `hdr` bytes to the fastest memory, `data` bytes wherever.
    IoMem {
        /// To the fastest memory.
        hdr: Size,
        /// To the last-level cache or memory.
        data: Size,
    },
    /// A packet to an I/O buffer.
    MemIo {
        /// From the fastest memory.
        hdr: Size,
        /// From the last-level cache or memory.
        data: Size,
    },
    /// A field of `b` bytes read into registers.
    Parse {
        /// Bytes.
        b: Size,
        /// Where the field is.
        from: MemoryLevel,
    },
    /// Fields of `b` bytes written.
    Deparse {
        /// Bytes.
        b: Size,
        /// Where they go.
        from: MemoryLevel,
    },
    /// A parsed field of `b` bytes made larger.
    Increase {
        /// Bytes.
        b: Size,
    },
    /// A parsed field of `b` bytes made smaller.
    Decrease {
        /// Bytes.
        b: Size,
    },
    /// Two operands of `b` bytes added.
    Sum {
        /// Bytes.
        b: Size,
    },
    /// The Internet checksum over `b` bytes.
    Checksum {
        /// Bytes.
        b: Size,
        /// Where they are.
        from: MemoryLevel,
    },
    /// The Internet checksum brought up to date for `b` changed bytes (RFC 1624).
    IncChecksum {
        /// Changed bytes.
        b: Size,
        /// Where they are.
        from: MemoryLevel,
    },
    /// An element of an array, by its index.
    ArrayAccess {
        /// Bytes of an element.
        es: Size,
        /// Elements at most.
        max: u64,
    },
    /// A lookup in a hash table.
    HtLookup(HashTable),
    /// A longest prefix match, by DIR-24-8.
    LpmLookup {
        /// Bytes of the prefix that matches, on average.
        b: Size,
        /// Bytes of an entry.
        es: Size,
    },
    /// An entry of a hash table put in, or its time stamp renewed.
    CtInsertion(HashTable),
}

/// How an operation is written in a model.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Syntax {
    /// In the field `do`.
    pub name: &'static str,
    /// Parameters that must be given.
    pub required: &'static [&'static str],
    /// Parameters that may be given.
    pub optional: &'static [&'static str],
    /// What it does.
    pub about: &'static str,
}

const fn syntax(
    name: &'static str,
    required: &'static [&'static str],
    optional: &'static [&'static str],
    about: &'static str,
) -> Syntax {
    Syntax { name, required, optional, about }
}

/// All of Table 1, and how each is written.
pub const OPERATIONS: &[Syntax] = &[
    syntax("io_mem", &["hdr", "data"], &[], "copies a packet from an I/O buffer to memory"),
    syntax("mem_io", &["hdr", "data"], &[], "copies a packet from memory to an I/O buffer"),
    syntax("parse", &["b"], &["from"], "reads a field of b bytes"),
    syntax("deparse", &["b"], &["from"], "writes fields of b bytes"),
    syntax("increase", &["b"], &[], "makes a field of b bytes larger"),
    syntax("decrease", &["b"], &[], "makes a field of b bytes smaller"),
    syntax("sum", &["b"], &[], "adds two operands of b bytes"),
    syntax("checksum", &["b"], &["from"], "the Internet checksum over b bytes"),
    syntax("inc_checksum", &["b"], &["from"], "brings a checksum up to date for b changed bytes"),
    syntax("array_access", &["es", "max"], &[], "an element of es bytes, by its index"),
    syntax("ht_lookup", &["N", "HE", "max"], &["p"], "looks up in a hash table"),
    syntax("lpm_lookup", &["b", "es"], &[], "longest prefix match by DIR-24-8"),
    syntax("ct_insertion", &["N", "HE", "max"], &["p"], "inserts or renews an entry"),
];

impl Size {
    /// So many bytes.
    pub const fn fixed(bytes: u32) -> Size {
        Size { bytes: bytes as i64, by_frame: false }
    }

    /// The frame's length and so many bytes.
    pub const fn frame(bytes: i64) -> Size {
        Size { bytes, by_frame: true }
    }

    /// Bytes for a frame of this length; never less than none.
    pub fn of(self, frame: u32) -> f64 {
        let frame = if self.by_frame { i64::from(frame) } else { 0 };
        frame.saturating_add(self.bytes).max(0) as f64
    }

    /// Reads `30`, `frame`, `frame + 12` or `frame - 10`.
    pub fn parse(text: &str) -> Option<Size> {
        let text = text.trim();
        let Some(rest) = text.strip_prefix("frame") else {
            return text.parse().ok().map(Size::fixed);
        };
        let rest = rest.trim();
        if rest.is_empty() {
            return Some(Size::frame(0));
        }
        let (sign, digits) = rest.split_at_checked(1)?;
        let bytes = i64::from(digits.trim().parse::<u32>().ok()?);
        match sign {
            "+" => Some(Size::frame(bytes)),
            "-" => Some(Size::frame(-bytes)),
            _ => None,
        }
    }
}

impl fmt::Display for Size {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.by_frame, self.bytes) {
            (false, bytes) => write!(f, "{bytes}"),
            (true, 0) => write!(f, "frame"),
            (true, bytes) if bytes < 0 => write!(f, "frame - {}", -bytes),
            (true, bytes) => write!(f, "frame + {bytes}"),
        }
    }
}

impl fmt::Display for MemoryLevel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            MemoryLevel::L1 => "L1",
            MemoryLevel::L2 => "L2",
            MemoryLevel::Memory => "memory",
        })
    }
}

impl Operation {
    /// Its name in models.
    pub fn name(&self) -> &'static str {
        match self {
            Operation::IoMem { .. } => "io_mem",
            Operation::MemIo { .. } => "mem_io",
            Operation::Parse { .. } => "parse",
            Operation::Deparse { .. } => "deparse",
            Operation::Increase { .. } => "increase",
            Operation::Decrease { .. } => "decrease",
            Operation::Sum { .. } => "sum",
            Operation::Checksum { .. } => "checksum",
            Operation::IncChecksum { .. } => "inc_checksum",
            Operation::ArrayAccess { .. } => "array_access",
            Operation::HtLookup(_) => "ht_lookup",
            Operation::LpmLookup { .. } => "lpm_lookup",
            Operation::CtInsertion(_) => "ct_insertion",
        }
    }
}

/// As the paper writes it: `ht_lookup(1, 12, 2097152, 0)`.
impl fmt::Display for Operation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = self.name();
        match self {
            Operation::IoMem { hdr, data } | Operation::MemIo { hdr, data } => {
                write!(f, "{name}({hdr}, {data})")
            }
            Operation::Parse { b, .. }
            | Operation::Deparse { b, .. }
            | Operation::Increase { b }
            | Operation::Decrease { b }
            | Operation::Sum { b }
            | Operation::Checksum { b, .. }
            | Operation::IncChecksum { b, .. } => write!(f, "{name}({b})"),
            Operation::ArrayAccess { es, max } => write!(f, "{name}({es}, {max})"),
            Operation::LpmLookup { b, es } => write!(f, "{name}({b}, {es})"),
            Operation::HtLookup(it) | Operation::CtInsertion(it) => {
                write!(f, "{name}({}, {}, {}, {})", it.components, it.entry, it.max, it.collision)
            }
        }
    }
}
