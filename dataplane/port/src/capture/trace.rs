//! A whole capture in memory, for replay.

use super::{CaptureReader, CapturedFrame, LinkType};
use crate::error::CaptureError;

/// Where a frame lies, and what is known of it.
#[derive(Debug, Clone, Copy)]
struct Entry {
    offset: usize,
    timestamp_ns: u64,
    len: u32,
    wire_len: u32,
    interface: u32,
    link: LinkType,
}

/// Frames side by side in one block of memory.
#[derive(Debug, Default)]
pub struct Trace {
    bytes: Vec<u8>,
    entries: Vec<Entry>,
    damage: Option<CaptureError>,
}

impl Trace {
    /// Loads the capture at `path` (`-`: standard input), up to `frames_max` frames.
    ///
    /// A capture that is cut off or damaged after its first frame is loaded up to there, and
    /// [`Trace::damage`] says so.
    ///
    /// # Errors
    /// The file cannot be opened, is not a capture, or has no whole frame and is damaged.
    pub fn load(path: &str, frames_max: usize) -> Result<Trace, CaptureError> {
        Self::read(&mut CaptureReader::open(path)?, frames_max)
    }

    /// As [`Trace::load`], from a reader.
    ///
    /// # Errors
    /// As [`Trace::load`].
    pub fn read(reader: &mut CaptureReader, frames_max: usize) -> Result<Trace, CaptureError> {
        let mut trace = Trace::default();
        while trace.len() < frames_max {
            match reader.next_frame() {
                Ok(Some(frame)) => trace.push(&frame),
                Ok(None) => break,
                Err(damage) if trace.is_empty() => return Err(damage),
                Err(damage) => trace.damage = Some(damage),
            }
        }
        Ok(trace)
    }

    /// Adds a frame at the end.
    pub fn push(&mut self, frame: &CapturedFrame<'_>) {
        self.entries.push(Entry {
            offset: self.bytes.len(),
            timestamp_ns: frame.timestamp_ns,
            // Lossless: a reader's frame is at most 16 MB.
            len: frame.bytes.len() as u32,
            wire_len: frame.wire_len,
            interface: frame.interface,
            link: frame.link,
        });
        self.bytes.extend_from_slice(frame.bytes);
    }

    /// The frame at `index`.
    pub fn get(&self, index: usize) -> Option<CapturedFrame<'_>> {
        let &Entry { offset, timestamp_ns, len, wire_len, interface, link } =
            self.entries.get(index)?;
        let bytes = &self.bytes[offset..][..len as usize];
        Some(CapturedFrame { bytes, wire_len, timestamp_ns, link, interface })
    }

    /// The frames in order.
    pub fn iter(&self) -> impl Iterator<Item = CapturedFrame<'_>> {
        (0..self.len()).filter_map(|i| self.get(i))
    }

    /// Number of frames.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether there are no frames.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Captured bytes of all frames.
    pub fn byte_count(&self) -> usize {
        self.bytes.len()
    }

    /// Why the capture was not loaded to its end, if it was damaged.
    pub fn damage(&self) -> Option<&CaptureError> {
        self.damage.as_ref()
    }
}
