//! Packets made in bulk from bytes that lie side by side in memory: what a replay needs.

use crate::anno::Anno;
use crate::meta::{Meta, NO_HEADER, PacketKind};
use crate::packet::Packet;
use crate::pool::{self, Memory, SMALL_FRAME};

/// Bytes that are copied at a time where the source has them: a processor's line.
const LINE: usize = 64;
/// The longest image that fits a small frame behind the largest head room; a multiple of `LINE`,
/// so that copying whole lines stays within the frame too.
const SMALL_MAX: usize = SMALL_FRAME - pool::MAX_HEADROOM;
const _: () = assert!(SMALL_MAX.is_multiple_of(LINE));

/// What is known of a packet besides its bytes and its time, so that many packets can share it.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Marks {
    /// Header offsets from the packet's first byte, or `NO_HEADER`.
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
        let from_start = |mark: u16| match mark {
            NO_HEADER => NO_HEADER,
            at => u32::from(at)
                .checked_sub(meta.start)
                .and_then(|offset| u16::try_from(offset).ok())
                .unwrap_or(NO_HEADER),
        };
        Marks {
            l2: from_start(meta.l2),
            l3: from_start(meta.l3),
            l4: from_start(meta.l4),
            kind: meta.kind,
            fcb: meta.fcb,
            anno: meta.anno,
        }
    }

    /// Makes this packet, of a small frame, into the image; false when no frame holds it.
    #[inline]
    pub(crate) fn become_image(&mut self, image: &Image<'_>) -> bool {
        let len = image.len.min(image.bytes.len());
        if len > SMALL_MAX {
            return self.become_large(image, len);
        }
        let start = pool::small_headroom(self.meta().buffer);
        image.describe(self.meta_mut(), start, len);
        if image.bytes.len() < len.next_multiple_of(LINE) {
            self.data_mut().copy_from_slice(&image.bytes[..len]);
            return true;
        }
        let mut at = 0;
        while at < len {
            // JUSTIFICATION: copies of a known size need no call; for short packets the call is
            // most of the work.
            // SAFETY: `at` is a multiple of LINE below `len`, so the source has LINE bytes there
            // (checked above), and the frame has them too: start is at most MAX_HEADROOM, and
            // SMALL_MAX is a multiple of LINE. The frame is this packet's alone.
            unsafe {
                let to = self.meta().buffer.add(start as usize + at);
                to.copy_from_nonoverlapping(image.bytes.as_ptr().add(at), LINE);
            }
            at += LINE;
        }
        true
    }

    #[cold]
    fn become_large(&mut self, image: &Image<'_>, len: usize) -> bool {
        let Some(mut packet) = Memory::get().packet(&image.bytes[..len]) else { return false };
        let start = packet.meta().start;
        image.describe(packet.meta_mut(), start, len);
        *self = packet;
        true
    }
}

impl Image<'_> {
    /// Writes all of a metadata line but `buffer` and `pool`; the frame holds `start + len`.
    #[inline]
    fn describe(&self, meta: &mut Meta, start: u32, len: usize) {
        // Saturating: NO_HEADER stays what it is. Heads are far below 64 kB.
        let place = |offset: u16| offset.saturating_add(start as u16);
        meta.start = start;
        meta.len = len as u32;
        meta.l2 = place(self.marks.l2);
        meta.l3 = place(self.marks.l3);
        meta.l4 = place(self.marks.l4);
        meta.kind = self.marks.kind;
        meta.timestamp = self.timestamp;
        meta.fcb = self.marks.fcb;
        meta.anno = self.marks.anno;
    }
}
