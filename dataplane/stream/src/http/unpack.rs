//! Bodies with a content coding, unpacked as they come (RFC 9110 section 8.4.1): with little
//! memory, and within bounds of size, ratio and work.

use brotli_decompressor::{BrotliDecompressStream, BrotliResult, BrotliState, StandardAlloc};
use flate2::{Decompress, FlushDecompress, Status};

use super::fault::Fault;
use super::gzip::Gzip;
use super::head::View;

/// Bytes that are unpacked at once.
const STEP: usize = 16 << 10;
/// What an inflating unpacker costs, bytes: its window of 32 KiB, and tables.
const INFLATE_COST: usize = 48 << 10;
/// What a Brotli unpacker costs besides its window, bytes: tables (measured: up to 150 kB).
const BROTLI_COST: usize = 192 << 10;
/// Bytes that a message may unpack to whatever its ratio is: short texts pack best.
const RATIO_FREE: u64 = 1 << 20;
/// Bytes that a packet may unpack to, and more for each of its bytes: about 1 ms of work, as what
/// packs so well unpacks at 1 GB/s and more.
const PACKET_FREE: usize = 1 << 20;
const PACKET_RATIO: usize = 8;

/// Bounds of what is unpacked.
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
}

impl Coding {
    /// Those that are unpacked, as a field's value.
    pub const KNOWN: &'static [u8] = b"gzip, deflate, br";

    fn named(name: &[u8]) -> Option<Coding> {
        let is = |known: &[u8]| name.eq_ignore_ascii_case(known);
        match () {
            () if is(b"gzip") || is(b"x-gzip") => Some(Coding::Gzip),
            () if is(b"deflate") => Some(Coding::Deflate),
            () if is(b"br") => Some(Coding::Brotli),
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
    /// With a header (RFC 1950), or without; what came before this was known.
    Deflate(Option<Decompress>, Option<u8>),
    Brotli(Box<Brotli>),
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
        };
        Unpacker { format, cost, came: 0, made: 0, is_over: false }
    }

    /// Bytes of memory that are counted for it. Those of a window follow from the body's first byte.
    pub fn cost(&self) -> usize {
        self.cost
    }

    /// What more memory the first bytes say is needed.
    pub fn growth(&self, bytes: &[u8]) -> usize {
        match (&self.format, bytes.first()) {
            (Format::Brotli(_), Some(first)) if self.came == 0 => 1 << brotli_window(*first),
            _ => 0,
        }
    }

    /// Unpacks what came: appends to `out` at most `most` bytes.
    ///
    /// # Errors
    /// [`Fault::BadCoding`], [`Fault::Bomb`].
    pub fn feed(
        &mut self,
        bytes: &[u8],
        bounds: &Bounds,
        (out, most): (&mut Vec<u8>, usize),
    ) -> Result<(), Fault> {
        self.cost += self.growth(bytes);
        self.came += bytes.len() as u64;
        let before = out.len();
        let mut room = Room { out, limit: before + most };
        match &mut self.format {
            Format::Gzip(gzip) => self.is_over = gzip.feed(bytes, &mut room)?,
            Format::Deflate(inflate, begin) => {
                self.is_over = deflate(inflate, begin, bytes, &mut room)?;
            }
            Format::Brotli(state) if !self.is_over => {
                self.is_over = brotli(state, bytes, &mut room)?;
            }
            Format::Brotli(_) if bytes.is_empty() => {}
            Format::Brotli(_) => return Err(Fault::BadCoding),
        }
        self.made += (room.out.len() - before) as u64;
        let by_ratio = RATIO_FREE.saturating_add(self.came.saturating_mul(bounds.ratio.into()));
        if self.made > bounds.bytes.min(by_ratio) { Err(Fault::Bomb) } else { Ok(()) }
    }

    /// The body is complete.
    ///
    /// # Errors
    /// [`Fault::BadCoding`]: its content is not.
    pub fn finish(&self) -> Result<(), Fault> {
        // Servers send an empty body with a coding where there is nothing to say.
        if self.is_over || self.came == 0 { Ok(()) } else { Err(Fault::BadCoding) }
    }
}

/// Where to what is unpacked goes.
pub(super) struct Room<'a> {
    out: &'a mut Vec<u8>,
    limit: usize,
}

impl Room<'_> {
    /// Has `make` fill some bytes, of which it says how many it did.
    fn fill<T>(
        &mut self,
        make: impl FnOnce(&mut [u8]) -> Result<(usize, T), Fault>,
    ) -> Result<(usize, T), Fault> {
        let start = self.out.len();
        if start >= self.limit {
            return Err(Fault::Bomb);
        }
        self.out.resize(start + STEP, 0);
        let result = make(&mut self.out[start..]);
        self.out.truncate(start + result.as_ref().map_or(0, |(made, _)| *made));
        result
    }
}

/// Unpacks as much as there is: how many of the bytes were taken, what was made of them, and whether
/// it was the end.
pub(super) fn inflate<'o>(
    state: &mut Decompress,
    bytes: &[u8],
    room: &'o mut Room<'_>,
) -> Result<(usize, &'o [u8], bool), Fault> {
    let (mut left, from) = (bytes, room.out.len());
    loop {
        let (made, (taken, status)) = room.fill(|space| {
            let before = (state.total_in(), state.total_out());
            let status = state.decompress(left, space, FlushDecompress::None);
            let status = status.map_err(|_| Fault::BadCoding)?;
            let taken = (state.total_in() - before.0) as usize;
            Ok(((state.total_out() - before.1) as usize, (taken, status)))
        })?;
        left = &left[taken..];
        let is_over = status == Status::StreamEnd;
        if is_over || (left.is_empty() && made < STEP) {
            return Ok((bytes.len() - left.len(), &room.out[from..], is_over));
        }
        if taken == 0 && made == 0 {
            return Err(Fault::BadCoding);
        }
    }
}

/// With or without a header, as the first two bytes say (RFC 1950 section 2.2).
fn deflate(
    state: &mut Option<Decompress>,
    begin: &mut Option<u8>,
    bytes: &[u8],
    room: &mut Room<'_>,
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
        inflate(state, &[first], room)?;
    }
    let (taken, _, is_over) = inflate(state, bytes, room)?;
    if taken < bytes.len() { Err(Fault::BadCoding) } else { Ok(is_over) }
}

fn brotli(state: &mut Brotli, bytes: &[u8], room: &mut Room<'_>) -> Result<bool, Fault> {
    let (mut left, mut taken, mut total) = (bytes.len(), 0, 0);
    loop {
        let (_, result) = room.fill(|space| {
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
        let growth = self.get(number).map_or(0, |unpacker| unpacker.growth(bytes));
        self.charge(growth, bounds)?;
        let unpacker = number.checked_sub(1).and_then(|at| self.all.get_mut(at as usize));
        let unpacker = unpacker.and_then(Option::as_mut).ok_or(Fault::UnpackMemory)?;
        unpacker.feed(bytes, bounds, out)
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
