//! The members of a gzip body: parses their headers and verifies their sums (RFC 1952).

use flate2::{Crc, Decompress};

use super::fault::Fault;
use super::inflate::{OutputBuffer, inflate};

/// Flags of a header (RFC 1952 section 2.3.1).
const HEADER_CRC: u8 = 1 << 1;
const EXTRA: u8 = 1 << 2;
const NAME: u8 = 1 << 3;
const COMMENT: u8 = 1 << 4;
const RESERVED: u8 = 0b1110_0000;

/// Kind of the next byte.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Part {
    /// Of the fixed header, which has 10 bytes.
    Fixed(u8),
    /// Of the extra field's length.
    ExtraLen(u8),
    Extra(u16),
    Name,
    Comment,
    HeaderCrc(u8),
    Data,
    /// Of the sums, which have 8 bytes.
    Sums(u8),
}

/// See the module.
pub struct Gzip {
    part: Part,
    flags: u8,
    extra_len: u16,
    inflate: Decompress,
    crc: Crc,
    sums: [u8; 8],
    /// At least one member is complete.
    has_member: bool,
}

impl Default for Gzip {
    fn default() -> Gzip {
        Gzip {
            part: Part::Fixed(0),
            flags: 0,
            extra_len: 0,
            inflate: Decompress::new(false),
            crc: Crc::new(),
            sums: [0; 8],
            has_member: false,
        }
    }
}

impl Gzip {
    /// Decompresses `bytes`; `true`: the input so far is complete, though another member may
    /// follow.
    pub(super) fn feed(&mut self, bytes: &[u8], out: &mut OutputBuffer<'_>) -> Result<bool, Fault> {
        let mut left = bytes;
        while !left.is_empty() {
            if self.part == Part::Data {
                let (taken, made, is_over) = inflate(&mut self.inflate, left, out)?;
                self.crc.update(made);
                left = &left[taken..];
                if is_over {
                    self.part = Part::Sums(0);
                }
                continue;
            }
            self.byte(left[0])?;
            left = &left[1..];
        }
        Ok(self.has_member && self.part == Part::Fixed(0))
    }

    /// A byte of a header or of the sums.
    fn byte(&mut self, byte: u8) -> Result<(), Fault> {
        self.part = match self.part {
            Part::Fixed(at) => self.fixed(at, byte)?,
            Part::ExtraLen(0) => {
                self.extra_len = byte.into();
                Part::ExtraLen(1)
            }
            Part::ExtraLen(_) => {
                self.extra_len |= u16::from(byte) << 8;
                if self.extra_len > 0 { Part::Extra(0) } else { self.behind(EXTRA) }
            }
            Part::Extra(at) if at + 1 < self.extra_len => Part::Extra(at + 1),
            Part::Extra(_) => self.behind(EXTRA),
            Part::Name | Part::Comment if byte != 0 => self.part,
            Part::Name => self.behind(NAME),
            Part::Comment => self.behind(COMMENT),
            Part::HeaderCrc(0) => Part::HeaderCrc(1),
            Part::HeaderCrc(_) => Part::Data,
            Part::Sums(at) => {
                self.sums[usize::from(at)] = byte;
                if at < 7 { Part::Sums(at + 1) } else { self.member_ends()? }
            }
            Part::Data => Part::Data,
        };
        Ok(())
    }

    fn fixed(&mut self, at: u8, byte: u8) -> Result<Part, Fault> {
        let is_right = match at {
            0 => byte == 0x1f,
            1 => byte == 0x8b,
            2 => byte == 8,
            3 => byte & RESERVED == 0,
            _ => true,
        };
        if !is_right {
            return Err(Fault::BadCoding);
        }
        if at == 3 {
            self.flags = byte;
        }
        Ok(if at < 9 { Part::Fixed(at + 1) } else { self.behind(0) })
    }

    /// The part after the part of the header with this flag.
    fn behind(&self, flag: u8) -> Part {
        let order = [
            (EXTRA, Part::ExtraLen(0)),
            (NAME, Part::Name),
            (COMMENT, Part::Comment),
            (HEADER_CRC, Part::HeaderCrc(0)),
        ];
        let at = order.iter().position(|(of, _)| *of == flag).map_or(0, |at| at + 1);
        let next = order[at..].iter().find(|(of, _)| self.flags & of != 0);
        next.map_or(Part::Data, |(_, part)| *part)
    }

    fn member_ends(&mut self) -> Result<Part, Fault> {
        let [a, b, c, d, e, f, g, h] = self.sums;
        let (sum, len) = (u32::from_le_bytes([a, b, c, d]), u32::from_le_bytes([e, f, g, h]));
        if (sum, len) != (self.crc.sum(), self.crc.amount()) {
            return Err(Fault::BadCoding);
        }
        self.inflate.reset(false);
        self.crc.reset();
        self.has_member = true;
        Ok(Part::Fixed(0))
    }
}
