//! Bodies with a content coding, unpacked as they come (RFC 9110 section 8.4.1): with little
//! memory, and within bounds of size, ratio and work.

use brotli_decompressor::{BrotliDecompressStream, BrotliResult, BrotliState, StandardAlloc};
use flate2::Decompress;

use super::fault::Fault;
use super::gzip::Gzip;
use super::head::View;
use super::inflate::{OutputBuffer, inflate};
use super::zstd::Zstd;

/// The memory of an inflating decompressor, bytes: its window of 32 KiB, and tables.
const INFLATE_COST: usize = 48 << 10;
/// The memory of a Brotli decompressor besides its window, bytes: tables (measured: up to 150 kB).
const BROTLI_COST: usize = 192 << 10;
/// Bytes that a message may decompress to at any ratio: short texts compress best.
const RATIO_FREE: u64 = 1 << 20;
/// Bytes that a packet may decompress to, and more for each of its bytes: about 1 ms of work, as
/// such compressible data decompresses at 1 GB/s and more.
const PACKET_FREE: usize = 1 << 20;
const PACKET_RATIO: usize = 8;

/// Bounds of decompression.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Bounds {
    /// Most bytes that a message unpacks to.
    pub bytes: u64,
    /// Most bytes for each that came, beyond the first MiB.
    pub ratio: u32,
    /// Most bytes of memory of all unpackers.
    pub memory: usize,
}

impl Bounds {
    /// 1 GiB, 200 bytes for one, 64 MiB.
    pub const DEFAULT: Bounds = Bounds { bytes: 1 << 30, ratio: 200, memory: 64 << 20 };

    /// Most bytes that a packet with so many bytes of payload may unpack to.
    pub fn of_packet(len: usize) -> usize {
        PACKET_FREE + len.saturating_mul(PACKET_RATIO)
    }
}

/// A coding that is unpacked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Coding {
    /// RFC 1952.
    Gzip,
    /// RFC 1950, and RFC 1951 as some servers send it.
    Deflate,
    /// RFC 7932.
    Brotli,
    /// RFC 8878, with windows of at most 8 MiB (RFC 9659).
    Zstd,
}

impl Coding {
    /// The supported codings, as a field's value.
    pub const KNOWN: &'static [u8] = b"gzip, deflate, br, zstd";

    fn named(name: &[u8]) -> Option<Coding> {
        let is = |known: &[u8]| name.eq_ignore_ascii_case(known);
        match () {
            () if is(b"gzip") || is(b"x-gzip") => Some(Coding::Gzip),
            () if is(b"deflate") => Some(Coding::Deflate),
            () if is(b"br") => Some(Coding::Brotli),
            () if is(b"zstd") => Some(Coding::Zstd),
            () => None,
        }
    }

    /// Whether a member of a list is one of them, or none at all.
    pub(super) fn is_known(member: &[u8]) -> bool {
        let name = super::line::trim(member.split(|byte| *byte == b';').next().unwrap_or(&[]));
        name.eq_ignore_ascii_case(b"identity") || Coding::named(name).is_some()
    }

    /// The coding of the body behind a head that has one.
    ///
    /// # Errors
    /// It is none of these, there are several, or the coding is one of the transfer.
    pub fn of(view: View<'_>) -> Result<Coding, Fault> {
        if view.declared().coded {
            return Err(Fault::Encoded);
        }
        let members = view.values(b"content-encoding").flat_map(|v| v.split(|byte| *byte == b','));
        let mut known = None;
        for member in members.map(super::line::trim) {
            if member.is_empty() || member.eq_ignore_ascii_case(b"identity") {
                continue;
            }
            let coding = Coding::named(member).ok_or(Fault::Encoded)?;
            if known.replace(coding).is_some() {
                return Err(Fault::Encoded);
            }
        }
        known.ok_or(Fault::Encoded)
    }
}

type Brotli = BrotliState<StandardAlloc, StandardAlloc, StandardAlloc>;

enum Format {
    Gzip(Box<Gzip>),
    /// With a header (RFC 1950), or without; the byte is the input so far, if that does not decide
    /// it.
    Deflate(Option<Decompress>, Option<u8>),
    Brotli(Box<Brotli>),
    Zstd(Box<Zstd>),
}

/// Unpacks one message's body.
pub struct Unpacker {
    format: Format,
    /// Bytes of memory that are counted for it.
    cost: usize,
    came: u64,
    made: u64,
    /// The packed content is complete.
    is_over: bool,
}

impl Unpacker {
    /// For a body.
    pub fn new(coding: Coding) -> Unpacker {
        let (format, cost) = match coding {
            Coding::Gzip => (Format::Gzip(Box::default()), INFLATE_COST),
            Coding::Deflate => (Format::Deflate(None, None), INFLATE_COST),
            Coding::Brotli => {
                let alloc = StandardAlloc::default;
                let state = BrotliState::new_strict(alloc(), alloc(), alloc());
                (Format::Brotli(Box::new(state)), BROTLI_COST)
            }
            Coding::Zstd => (Format::Zstd(Box::default()), Zstd::COST),
        };
        Unpacker { format, cost, came: 0, made: 0, is_over: false }
    }

    /// Bytes of memory accounted to it: Brotli's window by its first byte, and zstd's present
    /// memory, as it grows.
    pub fn cost(&self) -> usize {
        self.cost
    }

    /// Decompresses the input: appends to `out` at most `most` bytes and the output of one step of
    /// the decompressor. It may use memory within `bounds`.
    ///
    /// # Errors
    /// [`Fault::BadCoding`], [`Fault::Bomb`], [`Fault::UnpackMemory`].
    pub fn feed(
        &mut self,
        bytes: &[u8],
        bounds: &Bounds,
        (out, most): (&mut Vec<u8>, usize),
    ) -> Result<(), Fault> {
        if let (Format::Brotli(_), Some(first), 0) = (&self.format, bytes.first(), self.came) {
            let window = 1 << brotli_window(*first);
            if window > bounds.memory {
                return Err(Fault::UnpackMemory);
            }
            self.cost += window;
        }
        self.came += bytes.len() as u64;
        let before = out.len();
        let mut out = OutputBuffer { bytes: out, limit: before + most };
        match &mut self.format {
            Format::Gzip(gzip) => self.is_over = gzip.feed(bytes, &mut out)?,
            Format::Deflate(inflate, begin) => {
                self.is_over = deflate(inflate, begin, bytes, &mut out)?;
            }
            Format::Brotli(state) if !self.is_over => {
                self.is_over = brotli(state, bytes, &mut out)?;
            }
            Format::Brotli(_) if bytes.is_empty() => {}
            Format::Brotli(_) => return Err(Fault::BadCoding),
            Format::Zstd(zstd) => {
                let fed = zstd.feed(bytes, self.cost.saturating_add(bounds.memory), &mut out);
                self.cost = zstd.cost();
                self.is_over = fed?;
            }
        }
        self.made += (out.bytes.len() - before) as u64;
        let by_ratio = RATIO_FREE.saturating_add(self.came.saturating_mul(bounds.ratio.into()));
        if self.made > bounds.bytes.min(by_ratio) { Err(Fault::Bomb) } else { Ok(()) }
    }

    /// The body is complete.
    ///
    /// # Errors
    /// [`Fault::BadCoding`]: its content is not.
    pub fn finish(&self) -> Result<(), Fault> {
        // Servers send an empty body with a coding if there is no content.
        if self.is_over || self.came == 0 { Ok(()) } else { Err(Fault::BadCoding) }
    }
}

/// With or without a header, as the first two bytes say (RFC 1950 section 2.2).
fn deflate(
    state: &mut Option<Decompress>,
    begin: &mut Option<u8>,
    bytes: &[u8],
    out: &mut OutputBuffer<'_>,
) -> Result<bool, Fault> {
    let mut first = None;
    let state = match (&mut *state, *begin, bytes) {
        (Some(state), ..) => state,
        (_, _, []) => return Ok(false),
        (_, None, [only]) => {
            *begin = Some(*only);
            return Ok(false);
        }
        (unknown, before, [one, ..]) => {
            let (a, b) = before.map_or((*one, bytes.get(1).copied().unwrap_or(0)), |a| (a, *one));
            let is_header = a & 0x0f == 8 && u16::from_be_bytes([a, b]) % 31 == 0;
            first = before;
            unknown.insert(Decompress::new(is_header))
        }
    };
    if let Some(first) = first {
        inflate(state, &[first], out)?;
    }
    let (taken, _, is_over) = inflate(state, bytes, out)?;
    if taken < bytes.len() { Err(Fault::BadCoding) } else { Ok(is_over) }
}

fn brotli(state: &mut Brotli, bytes: &[u8], out: &mut OutputBuffer<'_>) -> Result<bool, Fault> {
    let (mut left, mut taken, mut total) = (bytes.len(), 0, 0);
    loop {
        let (_, result) = out.fill(|space| {
            let (mut free, mut made) = (space.len(), 0);
            let result = BrotliDecompressStream(
                &mut left, &mut taken, bytes, &mut free, &mut made, space, &mut total, state,
            );
            Ok((made, result))
        })?;
        match result {
            BrotliResult::NeedsMoreOutput => {}
            BrotliResult::NeedsMoreInput => return Ok(false),
            BrotliResult::ResultSuccess if left == 0 => return Ok(true),
            BrotliResult::ResultSuccess | BrotliResult::ResultFailure => {
                return Err(Fault::BadCoding);
            }
        }
    }
}

/// Bits of the window's size, from the first byte (RFC 7932 section 9.1).
fn brotli_window(first: u8) -> u32 {
    match (first & 1, first >> 1 & 7, first >> 4 & 7) {
        (0, ..) => 16,
        (_, 0, 0) => 17,
        (_, 0, n) => 8 + u32::from(n),
        (_, n, _) => 17 + u32::from(n),
    }
}

/// Unpackers of connections, by number.
#[derive(Default)]
pub struct Unpackers {
    all: Vec<Option<Box<Unpacker>>>,
    free: Vec<u32>,
    memory: usize,
}

impl Unpackers {
    /// One more: its number + 1.
    ///
    /// # Errors
    /// [`Fault::UnpackMemory`].
    pub fn open(&mut self, coding: Coding, bounds: &Bounds) -> Result<u32, Fault> {
        let unpacker = Unpacker::new(coding);
        self.charge(unpacker.cost(), bounds)?;
        let at = self.free.pop().unwrap_or_else(|| {
            self.all.push(None);
            self.all.len() as u32 - 1
        });
        self.all[at as usize] = Some(Box::new(unpacker));
        Ok(at + 1)
    }

    fn charge(&mut self, bytes: usize, bounds: &Bounds) -> Result<(), Fault> {
        if self.memory + bytes > bounds.memory {
            return Err(Fault::UnpackMemory);
        }
        self.memory += bytes;
        Ok(())
    }

    /// As [`Unpacker::feed`], of the one with this number + 1.
    ///
    /// # Errors
    /// A fault; [`Fault::UnpackMemory`] also where there is none.
    pub fn feed(
        &mut self,
        number: u32,
        (bytes, bounds): (&[u8], &Bounds),
        out: (&mut Vec<u8>, usize),
    ) -> Result<(), Fault> {
        let spare = Bounds { memory: bounds.memory.saturating_sub(self.memory), ..*bounds };
        let unpacker = number.checked_sub(1).and_then(|at| self.all.get_mut(at as usize));
        let unpacker = unpacker.and_then(Option::as_mut).ok_or(Fault::UnpackMemory)?;
        let before = unpacker.cost();
        let fed = unpacker.feed(bytes, &spare, out);
        self.memory += unpacker.cost() - before;
        fed
    }

    fn get(&self, number: u32) -> Option<&Unpacker> {
        self.all.get(number.checked_sub(1)? as usize)?.as_deref()
    }

    /// As [`Unpacker::finish`].
    ///
    /// # Errors
    /// [`Fault::BadCoding`].
    pub fn finish(&self, number: u32) -> Result<(), Fault> {
        self.get(number).map_or(Ok(()), Unpacker::finish)
    }

    /// Frees one; the number becomes that of none.
    pub fn close(&mut self, number: &mut u32) {
        let Some(at) = std::mem::take(number).checked_sub(1) else { return };
        if let Some(unpacker) = self.all.get_mut(at as usize).and_then(Option::take) {
            self.memory -= unpacker.cost();
            self.free.push(at);
        }
    }

    /// Bytes of memory in use.
    pub fn memory(&self) -> usize {
        self.memory
    }
}

#[cfg(test)]
#[path = "unpack/tests.rs"]
mod tests;
