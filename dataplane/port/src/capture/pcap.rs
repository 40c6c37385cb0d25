//! The classic capture format: a 24-byte header, then records of 16 bytes and the frame
//! (draft-ietf-opsawg-pcap).

use super::linktype::LinkType;
use super::source::{Endian, RECORD_LEN_MAX, Source};
use super::step::{Located, Step};
use crate::error::CaptureError;

pub(super) const HEADER_LEN: usize = 24;
const RECORD_HEADER_LEN: usize = 16;

/// What the header of the file says.
pub(super) struct Pcap {
    endian: Endian,
    /// Nanoseconds in a unit of the records' sub-second field.
    unit_ns: u64,
    pub(super) link: LinkType,
    /// Old writers (version 2.3 and before) had the two lengths in the other order.
    minor: u16,
}

/// The byte order and the unit that a magic number stands for.
pub(super) fn magic(first: [u8; 4]) -> Option<(Endian, u64)> {
    match u32::from_be_bytes(first) {
        0xA1B2_C3D4 => Some((Endian { big: true }, 1000)),
        0xD4C3_B2A1 => Some((Endian { big: false }, 1000)),
        0xA1B2_3C4D => Some((Endian { big: true }, 1)),
        0x4D3C_B2A1 => Some((Endian { big: false }, 1)),
        _ => None,
    }
}

impl Pcap {
    /// Reads the file header of a source that begins with a [`magic`].
    pub(super) fn open(
        source: &mut Source,
        (endian, unit_ns): (Endian, u64),
    ) -> Result<Pcap, CaptureError> {
        let present = source.fill(HEADER_LEN)?;
        if present < HEADER_LEN {
            return Err(source.truncated(0, HEADER_LEN as u64, present as u64));
        }
        let header = source.take(HEADER_LEN);
        // The upper half of the last word has flags about frame check sequences.
        let link = LinkType::from_number((endian.u32(header, 20) & 0xFFFF) as u16);
        let (major, minor) = (endian.u16(header, 4), endian.u16(header, 6));
        if major != 2 {
            return Err(source.malformed(0, "only version 2 of the pcap format is known"));
        }
        Ok(Pcap { endian, unit_ns, link, minor })
    }

    /// Moves to the next record: its frame is the next `Located::len` bytes of the source.
    pub(super) fn step(&self, source: &mut Source, record: u64) -> Result<Step, CaptureError> {
        let present = source.fill(RECORD_HEADER_LEN)?;
        if present == 0 {
            return Ok(Step::End);
        }
        if present < RECORD_HEADER_LEN {
            return Err(source.truncated(record, RECORD_HEADER_LEN as u64, present as u64));
        }
        let header = source.peek(RECORD_HEADER_LEN);
        let word = |at| self.endian.u32(header, at);
        let (mut len, mut wire_len) = (word(8), word(12));
        if self.minor < 3 || (self.minor == 3 && len > wire_len) {
            std::mem::swap(&mut len, &mut wire_len);
        }
        let timestamp_ns = u64::from(word(0)) * 1_000_000_000 + u64::from(word(4)) * self.unit_ns;
        let len = len as usize;
        if len > RECORD_LEN_MAX {
            return Err(source.malformed(record, "a frame of more than 16 MB"));
        }
        let needed = RECORD_HEADER_LEN + len;
        let present = source.fill(needed)?;
        if present < needed {
            return Err(source.truncated(record, needed as u64, present as u64));
        }
        source.take(RECORD_HEADER_LEN);
        let (link, interface) = (self.link, 0);
        Ok(Step::Frame(Located { len, wire_len, timestamp_ns, link, interface, padding: 0 }))
    }
}
