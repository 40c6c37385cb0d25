//! The frames of a zstd body (RFC 8878). This module reads the parts around blocks; a block is
//! decompressed once it has come as a whole (at most 128 KiB), and its content is available at
//! once.
//!
//! The crate that decompresses blocks keeps a whole window back, up to 8 MiB, unless the last block
//! of a frame has come. So each block is passed to it as the last one, and the new content is read
//! without being taken: a writer that takes nothing sees all content. When that has become twice a
//! window, all is taken out, and the last window is put back in raw blocks, which change no table
//! and no remembered offset.

use std::hash::Hasher;
use std::io::{Read, Write};
use std::panic::{AssertUnwindSafe, catch_unwind};

use ruzstd::decoding::{BlockDecodingStrategy, FrameDecoder};
use twox_hash::XxHash64;

use super::fault::Fault;
use super::inflate::OutputBuffer;

/// RFC 8878 sections 3.1.1 and 3.1.2.
const MAGIC: u32 = 0xFD2F_B528;
const SKIPPABLE: core::ops::RangeInclusive<u32> = 0x184D_2A50..=0x184D_2A5F;
/// RFC 9659 section 3: receivers need not take larger windows.
const WINDOW_MAX: u64 = 8 << 20;
/// RFC 8878 section 3.1.1.2.4.
const BLOCK_MAX: usize = 128 << 10;
/// A sequence copies at least so many bytes (RFC 8878 section 3.1.1.3.2.1.1).
const MATCH_MIN: usize = 3;
/// The memory of a sequence in the crate's list, twice as the list doubles, bytes.
const SEQUENCE_COST: usize = 2 * 12;
/// Above this the crate doubles its window's room.
const WINDOW_SLACK: usize = 2 * BLOCK_MAX;
/// Work, in bytes that decompress in the same time: of a frame, and of a block, including its
/// tables.
const FRAME_WORK: usize = 4 << 10;
const BLOCK_WORK: usize = 1 << 10;
/// Types of blocks (RFC 8878 section 3.1.1.2.2).
const RAW: u8 = 0;
const RLE: u8 = 1;
const COMPRESSED: u8 = 2;

/// Kind of the bytes being collected.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Part {
    /// A frame's first four bytes.
    Magic,
    /// The length of the skipped part.
    SkipLen,
    /// So many bytes that are skipped.
    Skip(u32),
    /// The descriptor of the header's fields.
    Descriptor,
    /// These, with the descriptor.
    Fields(u8),
    BlockHeader,
    /// The block, with its header.
    Block,
    /// The frame's sum.
    Sum,
}

/// The current frame.
struct Frame {
    decoder: FrameDecoder,
    window: usize,
    /// Number of bytes that its header declares.
    declared: Option<u64>,
    made: u64,
    /// A sum follows the last block.
    hash: Option<XxHash64>,
    is_last: bool,
    /// Bytes that the decoder has now.
    has: usize,
}

/// See the module.
pub(super) struct Zstd {
    part: Part,
    /// Bytes of it so far, and how many there are to be.
    held: Vec<u8>,
    need: usize,
    frame: Option<Frame>,
    /// At least one frame is complete.
    has_frame: bool,
    /// The most that there was: bytes in a decoder's window, bytes of a block, sequences.
    most: (usize, usize, usize),
}

impl Default for Zstd {
    fn default() -> Zstd {
        Zstd {
            part: Part::Magic,
            held: Vec::new(),
            need: 4,
            frame: None,
            has_frame: false,
            most: (0, 0, 0),
        }
    }
}

impl Zstd {
    /// Its memory before anything has come, bytes: tables, and literals of a block.
    pub(super) const COST: usize = 64 * 1024 + BLOCK_MAX;

    /// Bytes of memory that it takes at most.
    pub(super) fn cost(&self) -> usize {
        let (window, block, sequences) = self.most;
        // A block is in the decoder, and here, in a buffer that doubles.
        Zstd::COST + window_capacity(window) + 3 * block + sequences * SEQUENCE_COST
    }

    /// Decompresses the input, in at most `memory` bytes; `true`: the input so far is complete,
    /// though another frame may follow.
    pub(super) fn feed(
        &mut self,
        bytes: &[u8],
        memory: usize,
        out: &mut OutputBuffer<'_>,
    ) -> Result<bool, Fault> {
        let mut left = bytes;
        loop {
            if let Part::Skip(len) = self.part {
                let here = (len as usize).min(left.len());
                left = &left[here..];
                self.part = Part::Skip(len - here as u32);
                if here < len as usize {
                    break;
                }
                (self.has_frame, self.part, self.need) = (true, Part::Magic, 4);
            }
            let here = (self.need - self.held.len()).min(left.len());
            self.held.extend_from_slice(&left[..here]);
            left = &left[here..];
            if self.held.len() < self.need {
                break;
            }
            self.part_ends(memory, out)?;
        }
        Ok(self.has_frame && self.part == Part::Magic && self.held.is_empty())
    }

    /// The collected part is complete.
    fn part_ends(&mut self, memory: usize, out: &mut OutputBuffer<'_>) -> Result<(), Fault> {
        match self.part {
            Part::Magic => match self.number() {
                MAGIC => self.next(Part::Descriptor, 1),
                number if SKIPPABLE.contains(&number) => self.next(Part::SkipLen, 4),
                _ => return Err(Fault::BadCoding),
            },
            Part::SkipLen => self.next(Part::Skip(self.number()), 0),
            Part::Skip(_) => {}
            Part::Descriptor => {
                let descriptor = self.held[0];
                self.next(Part::Fields(descriptor), fields_len(descriptor)?);
            }
            Part::Fields(descriptor) => {
                out.spend(FRAME_WORK);
                self.frame = Some(Frame::begin(descriptor, &self.held)?);
                self.next(Part::BlockHeader, 3);
            }
            Part::BlockHeader => {
                let frame = self.frame.as_mut().ok_or(Fault::BadCoding)?;
                self.need = 3 + frame.block_len(&self.held)?;
                self.part = Part::Block;
            }
            Part::Block => {
                self.charge(memory)?;
                out.spend(BLOCK_WORK);
                let frame = self.frame.as_mut().ok_or(Fault::BadCoding)?;
                frame.block(&mut self.held, out)?;
                match (frame.is_last, frame.hash.is_some()) {
                    (false, _) => self.next(Part::BlockHeader, 3),
                    (true, true) => self.next(Part::Sum, 4),
                    (true, false) => self.frame_ends()?,
                }
            }
            Part::Sum => {
                let sum = self.frame.as_ref().and_then(|frame| frame.hash.as_ref());
                // Its lower half (RFC 8878 section 3.1.1).
                if sum.is_none_or(|sum| sum.finish() as u32 != self.number()) {
                    return Err(Fault::BadCoding);
                }
                self.frame_ends()?;
            }
        }
        Ok(())
    }

    /// The collected bytes as a number.
    fn number(&self) -> u32 {
        self.held.iter().rev().fold(0, |number, byte| number << 8 | u32::from(*byte))
    }

    fn next(&mut self, part: Part, need: usize) {
        self.held.clear();
        (self.part, self.need) = (part, need);
    }

    fn frame_ends(&mut self) -> Result<(), Fault> {
        let frame = self.frame.take().ok_or(Fault::BadCoding)?;
        if frame.declared.is_some_and(|declared| declared != frame.made) {
            return Err(Fault::BadCoding);
        }
        self.has_frame = true;
        self.next(Part::Magic, 4);
        Ok(())
    }

    /// Accounts for the memory that the present block needs before it is decompressed.
    fn charge(&mut self, memory: usize) -> Result<(), Fault> {
        let kind = self.held[0] >> 1 & 3;
        let sequences = if kind == COMPRESSED { sequences(&self.held[3..]) } else { 0 };
        if sequences > BLOCK_MAX / MATCH_MIN {
            return Err(Fault::BadCoding);
        }
        let has = self.frame.as_ref().map_or(0, |frame| frame.has);
        let (window, block, most) = self.most;
        self.most = (window.max(has + BLOCK_MAX), block.max(self.need), most.max(sequences));
        if self.cost() > memory { Err(Fault::UnpackMemory) } else { Ok(()) }
    }
}

impl Frame {
    /// A frame with this header.
    fn begin(descriptor: u8, fields: &[u8]) -> Result<Frame, Fault> {
        let is_single = descriptor & 0x20 != 0;
        let (window, rest) = fields.split_at(usize::from(!is_single));
        let (dictionary, content) = rest.split_at(dictionary_len(descriptor));
        if dictionary.iter().any(|byte| *byte != 0) {
            return Err(Fault::BadCoding);
        }
        let number =
            content.iter().rev().fold(0, |number: u64, byte| number << 8 | u64::from(*byte));
        let declared = match content.len() {
            0 => None,
            2 => Some(number + 256),
            _ => Some(number),
        };
        let window = match window {
            [window] => window_of(*window),
            _ => declared.unwrap_or(0),
        };
        if window > WINDOW_MAX {
            return Err(Fault::BadCoding);
        }
        // A header of our own: no sum, no dictionary, no length; the window as it is, or the next
        // one that can be written.
        let at_least = (0..=u8::MAX).find(|byte| window_of(*byte) >= window).unwrap_or(u8::MAX);
        let [a, b, c, d] = MAGIC.to_le_bytes();
        let mut decoder = FrameDecoder::new();
        decoder.reset(&[a, b, c, d, 0, at_least][..]).map_err(|_| Fault::BadCoding)?;
        let hash = (descriptor & 4 != 0).then(|| XxHash64::with_seed(0));
        let window = window_of(at_least) as usize;
        Ok(Frame { decoder, window, declared, made: 0, hash, is_last: false, has: 0 })
    }

    /// How many bytes follow a block's header.
    fn block_len(&mut self, header: &[u8]) -> Result<usize, Fault> {
        let &[a, b, c, ..] = header else { return Err(Fault::BadCoding) };
        let (kind, size) =
            (a >> 1 & 3, usize::from(a >> 3) | usize::from(b) << 5 | usize::from(c) << 13);
        self.is_last = a & 1 != 0;
        match kind {
            _ if size > self.window.min(BLOCK_MAX) => Err(Fault::BadCoding),
            RAW | COMPRESSED => Ok(size),
            RLE => Ok(1),
            _ => Err(Fault::BadCoding),
        }
    }

    /// Unpacks a block, with its header.
    fn block(&mut self, block: &mut [u8], out: &mut OutputBuffer<'_>) -> Result<(), Fault> {
        block[0] |= 1;
        self.put(&block[..])?;
        let now = self.decoder.can_collect();
        let (before, decoder) = (std::mem::replace(&mut self.has, now), &mut self.decoder);
        let made = out.append(|out| {
            let mut peek = PeekWriter { out, skip: before };
            decoder.collect_to_writer(&mut peek).map(|_| ()).map_err(|_| Fault::BadCoding)
        })?;
        // Else the decoder violates an assumption of this module.
        if made.len() != now - before || self.decoder.can_collect() != now {
            return Err(Fault::BadCoding);
        }
        self.made += made.len() as u64;
        if let Some(hash) = &mut self.hash {
            hash.write(made);
        }
        if self.declared.is_some_and(|declared| self.made > declared) {
            return Err(Fault::BadCoding);
        }
        if now >= 2 * self.window.max(BLOCK_MAX) { self.forget_old() } else { Ok(()) }
    }

    /// Has the decoder take a block.
    fn put(&mut self, block: impl Read) -> Result<(), Fault> {
        let decoder = &mut self.decoder;
        // The crate asserts some assumptions about hostile bytes: that must not end this thread.
        let done = catch_unwind(AssertUnwindSafe(|| {
            decoder.decode_blocks(block, BlockDecodingStrategy::UptoBlocks(1))
        }));
        matches!(done, Ok(Ok(_))).then_some(()).ok_or(Fault::BadCoding)
    }

    /// Has the decoder keep one window and no more.
    fn forget_old(&mut self) -> Result<(), Fault> {
        let all = self.decoder.collect().unwrap_or_default();
        let window = all.len().saturating_sub(self.window);
        for chunk in all[window..].chunks(self.window.min(BLOCK_MAX)) {
            let header = (chunk.len() as u32) << 3 | u32::from(RAW) << 1 | 1;
            self.put(header.to_le_bytes()[..3].chain(chunk))?;
        }
        self.has = self.decoder.can_collect();
        if self.has == all.len() - window { Ok(()) } else { Err(Fault::BadCoding) }
    }
}

/// Shows the written data, behind the first bytes, and takes nothing.
struct PeekWriter<'a> {
    out: &'a mut Vec<u8>,
    skip: usize,
}

impl Write for PeekWriter<'_> {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.out.extend_from_slice(bytes.get(self.skip..).unwrap_or_default());
        Ok(0)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

/// Bytes that the crate's window takes when it holds so many.
fn window_capacity(len: usize) -> usize {
    match len.checked_sub(WINDOW_SLACK) {
        None => len.next_power_of_two() + 1,
        Some(more) => more.next_power_of_two() + WINDOW_SLACK + 1,
    }
}

/// The window of a descriptor (RFC 8878 section 3.1.1.1.2).
fn window_of(descriptor: u8) -> u64 {
    let base = 1 << (10 + (descriptor >> 3));
    base + base / 8 * u64::from(descriptor & 7)
}

fn dictionary_len(descriptor: u8) -> usize {
    [0, 1, 2, 4][usize::from(descriptor & 3)]
}

/// Bytes of a frame's header behind its descriptor (RFC 8878 section 3.1.1.1.1).
fn fields_len(descriptor: u8) -> Result<usize, Fault> {
    if descriptor & 8 != 0 {
        return Err(Fault::BadCoding);
    }
    let is_single = descriptor & 0x20 != 0;
    let content = match descriptor >> 6 {
        0 => usize::from(is_single),
        flag => 1 << flag,
    };
    Ok(usize::from(!is_single) + dictionary_len(descriptor) + content)
}

/// The number of sequences that a compressed block declares (RFC 8878 sections 3.1.1.3.1.1 and
/// 3.1.1.3.2.1); none if it is too short for that.
fn sequences(block: &[u8]) -> usize {
    let byte = |at: usize| block.get(at).copied().map_or(0, usize::from);
    let head = (0..5).fold(0, |all, at| all | byte(at) << (8 * at));
    let literals = match (head & 3, head >> 2 & 3) {
        (0, 0 | 2) => 1 + (head >> 3 & 0x1f),
        (0, 1) => 2 + (head >> 4 & 0xfff),
        (0, _) => 3 + (head >> 4 & 0xf_ffff),
        (1, 0 | 2) => 2,
        (1, 1) => 3,
        (1, _) => 4,
        (_, 0 | 1) => 3 + (head >> 14 & 0x3ff),
        (_, 2) => 4 + (head >> 18 & 0x3fff),
        _ => 5 + (head >> 22 & 0x3_ffff),
    };
    match byte(literals) {
        few @ 0..128 => few,
        many @ 128..255 => (many - 128) << 8 | byte(literals + 1),
        _ => 0x7f00 + byte(literals + 1) + (byte(literals + 2) << 8),
    }
}

#[cfg(test)]
#[path = "zstd/tests.rs"]
mod tests;
