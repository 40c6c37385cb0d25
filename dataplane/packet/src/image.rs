//! Packets made in bulk from bytes that lie side by side in memory: what a replay needs.

use crate::anno::Anno;
use crate::meta::{Meta, NO_HEADER, PacketKind};
use crate::packet::Packet;
use crate::pool::{HEADROOM, Memory, SMALL_ROOM};

/// Bytes that are copied at a time where the source has them: a processor's line.
const LINE: usize = 64;
/// The longest image that fits a small frame; a multiple of `LINE`, so that copying whole lines
/// stays within the frame too.
const SMALL_MAX: usize = SMALL_ROOM - HEADROOM;
const _: () = assert!(SMALL_MAX.is_multiple_of(LINE));

/// What is known of a packet besides its bytes and its time, so that many packets can share it.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Marks {
    /// Header offsets as of a packet behind the usual head room, so that they need no sums; or
    /// `NO_HEADER`.
    l2: u16,
    l3: u16,
    l4: u16,
    kind: PacketKind,
    fcb: u32,
    anno: [u8; Anno::SPACE],
}

/// A packet to be made: bytes, time and marks.
#[derive(Debug, Clone, Copy)]
pub struct Image<'a> {
    /// The packet's bytes, and whatever follows them in memory: with up to 63 bytes more, they are
    /// copied by whole lines.
    pub bytes: &'a [u8],
    /// How many of `bytes` are the packet's.
    pub len: usize,
    /// Nanoseconds since the Unix epoch, 0 when unset.
    pub timestamp: i64,
    /// What else is known of it.
    pub marks: &'a Marks,
}

impl Packet {
    /// What is known of this packet. Headers that were pulled off are forgotten.
    pub fn marks(&self) -> Marks {
        let meta = self.meta();
        let usual = |mark| shifted(mark, i64::from(meta.start), HEADROOM as i64);
        Marks {
            l2: usual(meta.l2),
            l3: usual(meta.l3),
            l4: usual(meta.l4),
            kind: meta.kind,
            fcb: meta.fcb,
            anno: meta.anno,
        }
    }

    /// Makes this packet, of a small frame, into the image; false when no frame holds it.
    #[inline]
    pub(crate) fn become_image(&mut self, image: &Image<'_>) -> bool {
        let len = image.len.min(image.bytes.len());
        if let (true, Some(line)) = (len <= LINE, image.bytes.first_chunk::<LINE>()) {
            // What benches are made of, and acknowledgements: one line, no loop.
            image.describe(self.meta_mut(), LINE);
            if let Some(to) = self.data_mut().first_chunk_mut() {
                *to = *line;
            }
            self.truncate(len);
            return true;
        }
        if len > SMALL_MAX {
            return self.become_large(image, len);
        }
        let lines = len.next_multiple_of(LINE);
        let Some(bytes) = image.bytes.get(..lines) else {
            image.describe(self.meta_mut(), len);
            self.data_mut().copy_from_slice(&image.bytes[..len]);
            return true;
        };
        // At first with the length of whole lines, which the frame holds.
        image.describe(self.meta_mut(), lines);
        for (to, from) in self.data_mut().chunks_exact_mut(LINE).zip(bytes.chunks_exact(LINE)) {
            to.copy_from_slice(from);
        }
        self.truncate(len);
        true
    }

    #[cold]
    fn become_large(&mut self, image: &Image<'_>, len: usize) -> bool {
        let Some(mut packet) = Memory::get().packet(&image.bytes[..len]) else { return false };
        let meta = packet.meta_mut();
        let start = meta.start;
        image.describe(meta, len);
        meta.start = start;
        for mark in [&mut meta.l2, &mut meta.l3, &mut meta.l4] {
            *mark = shifted(*mark, HEADROOM as i64, i64::from(start));
        }
        *self = packet;
        true
    }
}

impl Image<'_> {
    /// Writes all of a metadata line but `buffer` and `pool`, as of a packet of `len` bytes behind
    /// the usual head room.
    #[inline]
    fn describe(&self, meta: &mut Meta, len: usize) {
        // PERF: field by field from the reference. A copy of the marks on the way would be written
        // and read back in pieces that overlap, which stalls: 5 of 13 ns a packet (perf annotate on
        // `bench path --case replay/fits`).
        let marks = self.marks;
        meta.start = HEADROOM as u32;
        meta.len = len as u32;
        meta.l2 = marks.l2;
        meta.l3 = marks.l3;
        meta.l4 = marks.l4;
        meta.kind = marks.kind;
        meta.timestamp = self.timestamp;
        meta.fcb = marks.fcb;
        meta.anno.copy_from_slice(&marks.anno);
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
