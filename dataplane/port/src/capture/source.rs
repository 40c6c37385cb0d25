//! Bytes of a capture, looked at in place: a buffer over any reader.
//!
//! The buffer grows only as bytes arrive, so a length that a hostile file claims costs no memory
//! unless the bytes are really there.

use crate::error::CaptureError;
use std::io::{ErrorKind, Read};
use std::sync::Arc;

/// Bytes asked of the reader at a time.
const CHUNK_LEN: usize = 256 * 1024;

/// A record larger than this is taken for damage. 802.11 and USB captures stay below 1 MB; the
/// largest snapshot length that libpcap grants any link type is 128 MB, for D-Bus, which no NIC
/// carries.
pub(super) const RECORD_LEN_MAX: usize = 16 << 20;

pub(super) struct Source {
    input: Box<dyn Read + Send>,
    pub(super) path: Arc<str>,
    buffer: Vec<u8>,
    /// First byte of `buffer` not yet consumed.
    start: usize,
    /// Bytes of `buffer` that hold data.
    end: usize,
    /// Where `start` lies in the file.
    offset: u64,
    at_end: bool,
}

impl Source {
    pub(super) fn new(path: Arc<str>, input: Box<dyn Read + Send>) -> Source {
        Source { input, path, buffer: Vec::new(), start: 0, end: 0, offset: 0, at_end: false }
    }

    /// Bytes consumed so far.
    pub(super) fn offset(&self) -> u64 {
        self.offset
    }

    /// Bytes that the buffer takes in memory.
    #[cfg(test)]
    pub(super) fn capacity(&self) -> usize {
        self.buffer.capacity()
    }

    /// Tries to have `count` bytes at hand, and says how many there are: fewer only at the end.
    pub(super) fn fill(&mut self, count: usize) -> Result<usize, CaptureError> {
        while self.end - self.start < count && !self.at_end {
            self.make_room();
            match self.input.read(&mut self.buffer[self.end..]) {
                Ok(0) => self.at_end = true,
                Ok(read) => self.end += read,
                Err(e) if e.kind() == ErrorKind::Interrupted => {}
                Err(e) => {
                    let offset = self.offset + (self.end - self.start) as u64;
                    return Err(CaptureError::Read {
                        path: self.path.clone(),
                        offset,
                        source: Arc::new(e),
                    });
                }
            }
        }
        Ok((self.end - self.start).min(count))
    }

    /// Moves what is left to the front, and doubles the buffer if it is full of one record.
    fn make_room(&mut self) {
        if self.start > 0 {
            self.buffer.copy_within(self.start..self.end, 0);
            self.end -= self.start;
            self.start = 0;
        }
        if self.end == self.buffer.len() {
            self.buffer.resize((self.buffer.len() * 2).max(CHUNK_LEN), 0);
        }
    }

    /// The bytes that [`Source::fill`] made sure of.
    pub(super) fn peek(&self, count: usize) -> &[u8] {
        &self.buffer[self.start..][..count]
    }

    /// Gives the next `count` bytes, which `fill` made sure of, and moves past them.
    pub(super) fn take(&mut self, count: usize) -> &[u8] {
        let from = self.start;
        self.start += count;
        self.offset += count as u64;
        &self.buffer[from..][..count]
    }

    /// Moves past `count` bytes without keeping them; the number passed is less only at the end.
    pub(super) fn skip(&mut self, count: u64) -> Result<u64, CaptureError> {
        let mut left = count;
        while left > 0 {
            let step = left.min(CHUNK_LEN as u64) as usize;
            let there = self.fill(step)?;
            self.take(there);
            left -= there as u64;
            if there < step {
                break;
            }
        }
        Ok(count - left)
    }
}

/// Byte order of a file, and the integers in it.
#[derive(Clone, Copy)]
pub(super) struct Endian {
    pub(super) big: bool,
}

impl Endian {
    /// The 16-bit integer at `at`; the caller has checked that it is there.
    pub(super) fn u16(self, bytes: &[u8], at: usize) -> u16 {
        let raw = [bytes[at], bytes[at + 1]];
        if self.big { u16::from_be_bytes(raw) } else { u16::from_le_bytes(raw) }
    }

    /// The 32-bit integer at `at`; the caller has checked that it is there.
    pub(super) fn u32(self, bytes: &[u8], at: usize) -> u32 {
        let raw = [bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]];
        if self.big { u32::from_be_bytes(raw) } else { u32::from_le_bytes(raw) }
    }
}
