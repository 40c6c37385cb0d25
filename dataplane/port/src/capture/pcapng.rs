//! The next-generation capture format: blocks with a type and a length before and after
//! (draft-ietf-opsawg-pcapng). Sections may differ in byte order and each has its own interfaces.

use super::linktype::LinkType;
use super::source::{Endian, RECORD_LEN_MAX, Source};
use super::step::{Located, Step};
use crate::error::CaptureError;

/// Type of a section header block; the same in both byte orders.
pub(super) const SECTION: u32 = 0x0A0D_0D0A;
const BYTE_ORDER_MAGIC: u32 = 0x1A2B_3C4D;
const INTERFACE: u32 = 1;
const PACKET_OBSOLETE: u32 = 2;
const PACKET_SIMPLE: u32 = 3;
const PACKET_ENHANCED: u32 = 6;

const BLOCK_HEADER_LEN: usize = 8;
/// Type, length, length again.
const BLOCK_LEN_MIN: usize = 12;
/// Section header: block header, byte-order magic, version, section length, trailing length.
const SECTION_LEN_MIN: usize = 28;
const INTERFACES_MAX: usize = 65_536;

const OPTION_END: u16 = 0;
const OPTION_TSRESOL: u16 = 9;
const OPTION_TSOFFSET: u16 = 14;

/// How an interface counts time.
#[derive(Clone, Copy)]
enum Unit {
    /// Nanoseconds per unit.
    Nanoseconds(u64),
    /// Units per second, where a unit is not a whole number of nanoseconds.
    PerSecond(u64),
}

struct Interface {
    link: LinkType,
    /// Zero: no limit.
    snaplen: u32,
    unit: Unit,
    /// Seconds to add to every timestamp.
    offset_s: i64,
}

impl Interface {
    fn timestamp_ns(&self, units: u64) -> u64 {
        let ns = match self.unit {
            Unit::Nanoseconds(ns) => units.saturating_mul(ns),
            Unit::PerSecond(per_second) => {
                let ns = u128::from(units) * 1_000_000_000 / u128::from(per_second);
                u64::try_from(ns).unwrap_or(u64::MAX)
            }
        };
        ns.saturating_add_signed(self.offset_s.saturating_mul(1_000_000_000))
    }
}

/// The state of the section being read.
pub(super) struct Pcapng {
    endian: Endian,
    interfaces: Vec<Interface>,
}

impl Pcapng {
    pub(super) fn new() -> Pcapng {
        Pcapng { endian: Endian { big: false }, interfaces: Vec::new() }
    }

    /// The link type of the section's first interface, once it is known.
    pub(super) fn link(&self) -> Option<LinkType> {
        self.interfaces.first().map(|i| i.link)
    }

    /// Reads one block; a frame's bytes, if it is one, are the next `Located::len` of the source.
    pub(super) fn step(&mut self, source: &mut Source, record: u64) -> Result<Step, CaptureError> {
        let present = source.fill(BLOCK_HEADER_LEN)?;
        if present == 0 {
            return Ok(Step::End);
        }
        if present < BLOCK_HEADER_LEN {
            return Err(source.truncated(record, BLOCK_LEN_MIN as u64, present as u64));
        }
        if self.endian.u32(source.peek(4), 0) == SECTION {
            self.section(source, record)?;
        }
        let header = source.peek(BLOCK_HEADER_LEN);
        let (kind, len) = (self.endian.u32(header, 0), self.endian.u32(header, 4) as usize);
        if len < BLOCK_LEN_MIN || len % 4 != 0 {
            return Err(source.malformed(record, "a block whose length is not a multiple of 4"));
        }
        match kind {
            SECTION | INTERFACE | PACKET_OBSOLETE | PACKET_SIMPLE | PACKET_ENHANCED => {
                self.whole_block(source, record, (kind, len))
            }
            _ => {
                let passed = source.skip(len as u64)?;
                if passed < len as u64 {
                    return Err(source.truncated(record, len as u64, passed));
                }
                Ok(Step::Other)
            }
        }
    }

    /// A new section: its byte order holds from here on, its interfaces start anew.
    fn section(&mut self, source: &mut Source, record: u64) -> Result<(), CaptureError> {
        let present = source.fill(SECTION_LEN_MIN)?;
        if present < SECTION_LEN_MIN {
            return Err(source.truncated(record, SECTION_LEN_MIN as u64, present as u64));
        }
        let header = source.peek(SECTION_LEN_MIN);
        let order = [Endian { big: false }, Endian { big: true }];
        let Some(&endian) = order.iter().find(|e| e.u32(header, 8) == BYTE_ORDER_MAGIC) else {
            return Err(source.malformed(record, "a section without its byte-order magic"));
        };
        if endian.u16(header, 12) != 1 {
            return Err(source.malformed(record, "only version 1 of the pcapng format is known"));
        }
        if (endian.u32(header, 4) as usize) < SECTION_LEN_MIN {
            return Err(source.malformed(record, "a section header that is too short"));
        }
        self.endian = endian;
        self.interfaces.clear();
        Ok(())
    }

    /// A block that matters: all of it is at hand and its two lengths agree.
    fn whole_block(
        &mut self,
        source: &mut Source,
        record: u64,
        (kind, len): (u32, usize),
    ) -> Result<Step, CaptureError> {
        if len > RECORD_LEN_MAX {
            return Err(source.malformed(record, "a block of more than 16 MB"));
        }
        let present = source.fill(len)?;
        if present < len {
            return Err(source.truncated(record, len as u64, present as u64));
        }
        let block = source.peek(len);
        if self.endian.u32(block, len - 4) as usize != len {
            return Err(source.malformed(record, "a block whose two lengths differ"));
        }
        let body = &block[BLOCK_HEADER_LEN..len - 4];
        let found = match kind {
            SECTION => Ok(None),
            INTERFACE => self.interface(body).map(|()| None),
            PACKET_SIMPLE => self.simple(body).map(Some),
            PACKET_ENHANCED => self.packet(body, self.endian_u32(body, 0)).map(Some),
            // The obsolete block differs only in its first word: a 16-bit interface, then drops.
            _ => self.packet(body, self.endian_u16(body, 0).map(u32::from)).map(Some),
        };
        match found {
            Err(what) => Err(source.malformed(record, what)),
            Ok(None) => {
                source.take(len);
                Ok(Step::Other)
            }
            Ok(Some((before, frame))) => {
                source.take(BLOCK_HEADER_LEN + before);
                let padding = len - BLOCK_HEADER_LEN - before - frame.len;
                Ok(Step::Frame(Located { padding, ..frame }))
            }
        }
    }

    fn endian_u16(&self, body: &[u8], at: usize) -> Option<u16> {
        (body.len() >= at + 2).then(|| self.endian.u16(body, at))
    }

    fn endian_u32(&self, body: &[u8], at: usize) -> Option<u32> {
        (body.len() >= at + 4).then(|| self.endian.u32(body, at))
    }

    fn interface(&mut self, body: &[u8]) -> Result<(), &'static str> {
        if self.interfaces.len() >= INTERFACES_MAX {
            return Err("more than 65,536 interfaces in a section");
        }
        let (Some(link), Some(snaplen)) = (self.endian_u16(body, 0), self.endian_u32(body, 4))
        else {
            return Err("an interface block that is too short");
        };
        let link = LinkType::from_number(link);
        let mut interface = Interface { link, snaplen, unit: Unit::Nanoseconds(1000), offset_s: 0 };
        self.options(&body[8..], &mut interface)?;
        self.interfaces.push(interface);
        Ok(())
    }

    fn options(&self, mut rest: &[u8], interface: &mut Interface) -> Result<(), &'static str> {
        while rest.len() >= 4 {
            let (code, len) = (self.endian.u16(rest, 0), self.endian.u16(rest, 2) as usize);
            if code == OPTION_END {
                break;
            }
            let Some(value) = rest[4..].get(..len) else {
                return Err("an interface option that runs past its block");
            };
            match (code, value) {
                (OPTION_TSRESOL, &[resolution, ..]) => interface.unit = unit(resolution)?,
                (OPTION_TSOFFSET, value) if len == 8 => {
                    let halves = (self.endian.u32(value, 0), self.endian.u32(value, 4));
                    let (low, high) = if self.endian.big { (halves.1, halves.0) } else { halves };
                    interface.offset_s = (u64::from(high) << 32 | u64::from(low)).cast_signed();
                }
                _ => {}
            }
            rest = rest.get(4 + len.next_multiple_of(4)..).unwrap_or(&[]);
        }
        Ok(())
    }

    /// An enhanced or an obsolete packet block: bytes before the frame, and the frame.
    fn packet(&self, body: &[u8], id: Option<u32>) -> Result<(usize, Located), &'static str> {
        const FRAME_AT: usize = 20;
        if body.len() < FRAME_AT {
            return Err("a packet block that is too short");
        }
        let id = id.unwrap_or(u32::MAX);
        let interface = self.interfaces.get(id as usize);
        let interface = interface.ok_or("a packet of an interface that was not described")?;
        let word = |at| self.endian.u32(body, at);
        let units = u64::from(word(4)) << 32 | u64::from(word(8));
        let len = word(12) as usize;
        if len > body.len() - FRAME_AT {
            return Err("a packet that is longer than its block");
        }
        let frame = Located {
            len,
            wire_len: word(16),
            timestamp_ns: interface.timestamp_ns(units),
            link: interface.link,
            interface: id,
            padding: 0,
        };
        Ok((FRAME_AT, frame))
    }

    /// A simple packet block: of the first interface, cut at its snapshot length, without a time.
    fn simple(&self, body: &[u8]) -> Result<(usize, Located), &'static str> {
        const FRAME_AT: usize = 4;
        let interface = self.interfaces.first();
        let interface = interface.ok_or("a packet of an interface that was not described")?;
        let wire_len = self.endian_u32(body, 0).ok_or("a packet block that is too short")?;
        let limit = if interface.snaplen == 0 { u32::MAX } else { interface.snaplen };
        let len = wire_len.min(limit) as usize;
        if len > body.len() - FRAME_AT {
            return Err("a packet that is longer than its block");
        }
        let link = interface.link;
        let (timestamp_ns, interface, padding) = (0, 0, 0);
        Ok((FRAME_AT, Located { len, wire_len, timestamp_ns, link, interface, padding }))
    }
}

/// The unit that an `if_tsresol` option stands for: a negative power of 10, or of 2 if the top bit
/// is set.
fn unit(resolution: u8) -> Result<Unit, &'static str> {
    let exponent = u32::from(resolution & 0x7F);
    let base: u64 = if resolution & 0x80 == 0 { 10 } else { 2 };
    let per_second = base.checked_pow(exponent).ok_or("a time resolution that is too fine")?;
    Ok(match 1_000_000_000 % per_second {
        0 => Unit::Nanoseconds(1_000_000_000 / per_second),
        _ => Unit::PerSecond(per_second),
    })
}
