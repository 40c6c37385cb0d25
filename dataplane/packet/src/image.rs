//! Packets made in bulk from contiguous bytes in memory, for replay.

use core::ptr::NonNull;

use crate::meta::{Meta, NO_HEADER};
use crate::packet::Packet;
use crate::pool::{HEADROOM, SMALL, SMALL_FRAME};

/// Bytes that are copied at a time where the source has them: a processor's line.
const LINE: usize = 64;
/// The longest image that fits a small frame; a multiple of `LINE`, so that copying whole lines
/// stays within the frame too.
const SMALL_MAX: usize = SMALL_FRAME - HEADROOM;
const _: () = assert!(SMALL_MAX.is_multiple_of(LINE));

/// A packet's metadata without its time, so that many packets can share it: the part of a metadata
/// line behind the length.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
#[repr(align(16))]
pub struct Marks([u8; MARKS]);

/// Where the marks begin in a metadata line, and how many bytes they are.
const MARKS_AT: usize = core::mem::offset_of!(Meta, l2);
const MARKS: usize = size_of::<Meta>() - MARKS_AT;
const _: () = assert!(MARKS_AT == 16 && core::mem::offset_of!(Meta, len) == 12);

/// A packet to be made: bytes, time and marks.
#[derive(Debug, Clone, Copy)]
pub struct Image<'a> {
    /// The packet's bytes, and the bytes that follow them in memory: with up to 63 bytes more, they
    /// are copied by whole lines.
    pub bytes: &'a [u8],
    /// How many of `bytes` are the packet's.
    pub len: usize,
    /// Nanoseconds since the Unix epoch, 0 when unset.
    pub timestamp: i64,
    /// The other metadata.
    pub marks: &'a Marks,
}

impl Packet {
    /// The metadata of this packet. Headers that were pulled off are forgotten.
    pub fn marks(&self) -> Marks {
        let meta = self.meta();
        let usual = |mark| shifted(mark, i64::from(meta.start), HEADROOM as i64);
        let line = Meta {
            buffer: NonNull::dangling(),
            l2: usual(meta.l2),
            l3: usual(meta.l3),
            l4: usual(meta.l4),
            pool: SMALL,
            timestamp: 0,
            ..*meta
        };
        let mut marks = Marks([0; MARKS]);
        // JUSTIFICATION: the marks are compared, hashed and copied as bytes.
        // SAFETY: a line has no padding (its fields fill 64 bytes), and MARKS bytes lie behind
        // MARKS_AT.
        unsafe {
            let from = core::ptr::from_ref(&line).cast::<u8>().add(MARKS_AT);
            core::ptr::copy_nonoverlapping(from, marks.0.as_mut_ptr(), MARKS);
        }
        marks
    }

    /// Makes this packet, of a small frame, into the image; false when no frame holds it.
    #[inline]
    pub(crate) fn become_image(&mut self, image: Image<'_>) -> bool {
        let len = image.len.min(image.bytes.len());
        if len > SMALL_MAX {
            return self.become_large(image, len);
        }
        image.describe(self.meta_mut(), len);
        let lines = (len + LINE - 1) & !(LINE - 1);
        if lines > image.bytes.len() {
            self.data_mut().copy_from_slice(&image.bytes[..len]);
            return true;
        }
        // JUSTIFICATION: whole lines may reach beyond the packet's end, up to the frame's.
        // SAFETY: `lines` bytes are in `image.bytes` (tested above) and in the frame behind its
        // head room (len <= SMALL_MAX, a multiple of a line); the frame is this packet's alone.
        unsafe {
            let (from, to) = (image.bytes.as_ptr(), self.meta().frame().add(HEADROOM));
            if lines == LINE {
                // PERF: benches and acknowledgements consist of these: no call.
                core::ptr::copy_nonoverlapping(from, to, LINE);
            } else {
                core::ptr::copy_nonoverlapping(from, to, lines);
            }
        }
        true
    }

    #[cold]
    fn become_large(&mut self, image: Image<'_>, len: usize) -> bool {
        let Some(mut packet) = Packet::new(&image.bytes[..len]) else { return false };
        let meta = packet.meta_mut();
        let (start, pool) = (meta.start, meta.pool);
        image.describe(meta, len);
        meta.start = start;
        meta.pool = pool;
        for mark in [&mut meta.l2, &mut meta.l3, &mut meta.l4] {
            *mark = shifted(*mark, HEADROOM as i64, i64::from(start));
        }
        *self = packet;
        true
    }
}

impl Image<'_> {
    /// Writes all of a small frame's metadata line but `buffer`, as of a packet of `len` bytes
    /// behind the usual head room.
    #[inline]
    fn describe(&self, meta: &mut Meta, len: usize) {
        // JUSTIFICATION: two vector moves instead of a move per field.
        // SAFETY: marks are the bytes of a valid line's fields behind `len` (only `Packet::marks`
        // makes them), and go to the same place of a line.
        unsafe {
            let to = core::ptr::from_mut(meta).cast::<u8>().add(MARKS_AT);
            core::ptr::copy_nonoverlapping(self.marks.0.as_ptr(), to, MARKS);
        }
        meta.start = HEADROOM as u32;
        meta.len = len as u32;
        meta.timestamp = self.timestamp;
    }
}

/// A header offset of a packet that begins at `from`, when it begins at `to` instead. Headers that
/// lay before the packet are forgotten.
fn shifted(mark: u16, from: i64, to: i64) -> u16 {
    match i64::from(mark) - from {
        offset if mark != NO_HEADER && offset >= 0 => {
            u16::try_from(offset + to).unwrap_or(NO_HEADER)
        }
        _ => NO_HEADER,
    }
}
