//! The end of the context of HTTP: turns heads and bodies of messages into TCP's payload. Messages
//! that functions may have made longer or shorter get new framing.

use thruway_packet::Packet;
use thruway_payload::{Next, StreamCursor};
use thruway_wire::tcp::flags as tcp_flags;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

use super::edit::{Framing, with_framing};
use super::groups::{OURS, carve, glue, with_flags};
use super::head::Head;
use super::kind::Kind;
use crate::content::{HasContent, Layer, flag};
use crate::segment::{Parts, tcp};
use crate::splice::splice;
use crate::stage::{Hold, Memory, Stage};

/// Longest line before a chunk's data: a size in hexadecimal digits.
const CHUNK_LINE: usize = 18;

/// The framing of the current message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Mode {
    /// As it is.
    Pass,
    /// In chunks.
    Chunk,
    /// Its head and body are held until its length is known.
    Hold,
    /// It is none, but extensions or trailers of the one before, which are not forwarded.
    Aside,
}

const MODES: [Mode; 4] = [Mode::Pass, Mode::Chunk, Mode::Hold, Mode::Aside];

/// The current message in a direction.
#[derive(Debug, Clone, Copy, Default, FromBytes, IntoBytes, KnownLayout, Immutable)]
#[repr(C)]
pub struct Message {
    /// Bytes of the head that is held.
    head: u32,
    /// Bytes that are held, the head included.
    held: u32,
    mode: u8,
    /// Chunks are not understood.
    is_old: u8,
    spare: [u8; 2],
}

impl Message {
    fn mode(&self) -> Mode {
        MODES.get(usize::from(self.mode)).copied().unwrap_or(Mode::Pass)
    }
}

/// The state of a connection, besides [`Memory`].
#[derive(Debug, Clone, Copy, Default, FromBytes, IntoBytes, KnownLayout, Immutable)]
#[repr(C)]
pub struct LeaveState {
    messages: [Message; 2],
}

/// Counters.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct LeaveCounts {
    /// Messages with a new Content-Length.
    pub lengths: u64,
    /// Messages forwarded in chunks.
    pub chunked: u64,
    /// Messages that end with the connection instead.
    pub until_close: u64,
    /// Connections closed because a body was too long to be held, for a receiver that does not
    /// support chunks.
    pub too_long: u64,
    /// Connections closed because a function made a head that is none.
    pub bad_head: u64,
    /// Connections closed because there was no memory.
    pub no_memory: u64,
}

/// A direction of a connection, where a packet finds it.
struct MessageContext<'a> {
    memory: &'a mut Memory,
    message: &'a mut Message,
    kind: Kind,
    now: i64,
}

/// Why a connection is closed here.
enum Stop {
    TooLong,
    BadHead,
    NoMemory,
}

/// See the module.
pub struct Leave {
    stage: Stage,
    head: Head,
    buffer: Vec<u8>,
    hold_bytes: usize,
    resize: bool,
    /// Counters.
    pub counts: LeaveCounts,
}

impl Leave {
    /// That holds bodies of at most `hold_bytes` to fix their length, and knows heads with at most
    /// `fields` fields.
    pub fn new(hold_bytes: usize, fields: usize) -> Leave {
        Leave {
            stage: Stage::new(Hold { max: usize::MAX, ..Hold::default() }),
            head: Head::with_capacity(fields),
            buffer: Vec::with_capacity(usize::from(u16::MAX)),
            hold_bytes: hold_bytes.min(Leave::MAX_HOLD),
            resize: false,
            counts: LeaveCounts::default(),
        }
    }

    /// Most bytes of a body that can be held: a packet holds them, with the longest head.
    pub const MAX_HOLD: usize = 32 << 10;

    /// Whether functions may change lengths or hold bytes back.
    pub fn set_resize(&mut self, resize: bool) {
        self.resize = resize;
    }

    /// As one of so many threads: it has its part of the memory.
    pub fn share(&mut self, threads: usize) {
        self.stage.share(threads);
    }

    /// Messages that are held.
    pub fn holding(&self) -> usize {
        self.stage.holding()
    }

    /// The connection is over.
    pub fn forget(&mut self, memory: &mut Memory) {
        self.stage.forget(memory);
    }

    /// Takes over another one's connections and counters.
    pub fn take_over(&mut self, other: Leave) {
        self.stage.take_over(other.stage);
        self.counts = other.counts;
    }

    /// Processes a packet of a direction; appends the forwarded packets to `out`.
    pub fn packet(
        &mut self,
        (memory, state): (&mut Memory, &mut LeaveState),
        (direction, now): (usize, i64),
        mut packet: Packet,
        out: &mut Vec<Packet>,
    ) {
        let mark = packet.content_mark();
        if mark.layer() == Layer::Http && !mark.has(flag::CLOSE) {
            let message = &mut state.messages[direction & 1];
            let kind = if direction & 1 == 0 { Kind::Request } else { Kind::Response };
            let place = MessageContext { memory, message, kind, now };
            if let Err(stop) = self.frame(place, &mut packet, out) {
                self.stop(stop, &mut packet);
            }
        }
        if mark.layer() == Layer::Http || (mark.layer() == Layer::Opaque && mark.has(OURS)) {
            to_tcp(&mut packet);
        }
        let packet = match out.last_mut() {
            Some(before) => glue(before, packet),
            None => Some(packet),
        };
        out.extend(packet);
    }

    fn stop(&mut self, stop: Stop, packet: &mut Packet) {
        match stop {
            Stop::TooLong => self.counts.too_long += 1,
            Stop::BadHead => self.counts.bad_head += 1,
            Stop::NoMemory => self.counts.no_memory += 1,
        }
        let mut mark = packet.content_mark();
        mark.flags |= flag::CLOSE;
        packet.set_content_mark(mark);
    }

    fn frame(
        &mut self,
        mut place: MessageContext<'_>,
        packet: &mut Packet,
        out: &mut Vec<Packet>,
    ) -> Result<(), Stop> {
        let mark = packet.content_mark();
        if mark.has(flag::HEAD) {
            *place.message = Message::default();
            if mark.has(flag::REFRAME) {
                self.begin(place.message, place.kind, packet)?;
            } else if mark.has(flag::LAST) && self.resize {
                // A message without a body stays one.
                return cut_content(packet);
            }
        } else if mark.has(flag::FIRST) {
            *place.message = Message { mode: Mode::Aside as u8, ..Message::default() };
        }
        match place.message.mode() {
            Mode::Pass => Ok(()),
            Mode::Chunk => chunk(packet),
            Mode::Hold => self.hold(&mut place, packet, out),
            Mode::Aside => cut_content(packet),
        }?;
        if mark.has(flag::LAST) {
            *place.message = Message::default();
        }
        Ok(())
    }

    /// Begins a message that we frame anew.
    fn begin(
        &mut self,
        message: &mut Message,
        kind: Kind,
        packet: &mut Packet,
    ) -> Result<(), Stop> {
        let mark = packet.content_mark();
        let is_old = mark.has(flag::OLD);
        let head = head_range(packet).ok_or(Stop::BadHead)?;
        let view = self.head.read(kind, &packet.data()[head.clone()]).map_err(|_| Stop::BadHead)?;
        let declared = view.declared();
        if !declared.chunked && declared.content_length.is_none() {
            // It ends with the connection, however long it is.
            return Ok(());
        }
        // A client that waits for 100 (Continue) sends nothing before the head has gone on.
        let is_waiting = view.value(b"expect").is_some();
        if mark.has(flag::LAST) && !ends_direction(packet) {
            cut_suffix(packet);
            let len = packet.content().len() as u64;
            return self.set_framing(kind, Framing::Length(len), packet);
        }
        if is_old || (kind == Kind::Request && !is_waiting) {
            message.mode = Mode::Hold as u8;
            (message.head, message.is_old) = (head.len() as u32, u8::from(is_old));
            return Ok(());
        }
        message.mode = Mode::Chunk as u8;
        self.set_framing(kind, Framing::Chunked, packet)
    }

    /// Rewrites the head in front of a packet's content.
    fn set_framing(
        &mut self,
        kind: Kind,
        framing: Framing,
        packet: &mut Packet,
    ) -> Result<(), Stop> {
        let place = head_range(packet).ok_or(Stop::BadHead)?;
        if !self.reframe(kind, framing, &packet.data()[place.clone()])? {
            return Ok(());
        }
        let mut mark = packet.content_mark();
        let start = usize::from(mark.start) - place.len() + self.buffer.len();
        mark.start = u16::try_from(start).map_err(|_| Stop::NoMemory)?;
        if !splice(packet, place.start, place.len(), &self.buffer) {
            return Err(Stop::NoMemory);
        }
        mark.flags |= flag::CHANGED;
        packet.set_content_mark(mark);
        Ok(())
    }

    /// Puts a head with another framing into the buffer; false when it has that framing already.
    fn reframe(&mut self, kind: Kind, framing: Framing, head: &[u8]) -> Result<bool, Stop> {
        let view = self.head.read(kind, head).map_err(|_| Stop::BadHead)?;
        let declared = view.declared();
        match framing {
            Framing::Length(len) if declared.content_length == Some(len) => return Ok(false),
            Framing::Length(_) => self.counts.lengths += 1,
            Framing::Chunked => self.counts.chunked += 1,
            Framing::Close => self.counts.until_close += 1,
        }
        if framing == Framing::Chunked && declared.chunked && view.minor_version() > 0 {
            return Ok(false);
        }
        self.buffer.clear();
        with_framing(view, framing, &mut self.buffer);
        Ok(true)
    }

    /// Handles more of a held message: holds it, or releases the held part before it.
    fn hold(
        &mut self,
        place: &mut MessageContext<'_>,
        packet: &mut Packet,
        out: &mut Vec<Packet>,
    ) -> Result<(), Stop> {
        let MessageContext { memory, message, kind, now } = place;
        let (kind, direction) = (*kind, *kind as usize);
        let (is_last, is_cut_short) =
            (packet.content_mark().has(flag::LAST), ends_direction(packet));
        cut_suffix(packet);
        let body = match message.held {
            0 => packet.content().len(),
            held => held as usize - message.head as usize + packet.content().len(),
        };
        if !is_last && body <= self.hold_bytes {
            to_tcp(packet);
            let packets = std::slice::from_mut(packet);
            let mut show = |_: &mut StreamCursor<'_>| Next::NeedMore;
            self.stage.run(memory, packets, (0, direction, *now), &mut show);
            message.held = message.head + body as u32;
            return if memory.is_closed() { Err(Stop::NoMemory) } else { Ok(()) };
        }
        let framing = match (message.is_old != 0, kind) {
            _ if is_last && !is_cut_short => Some(Framing::Length(body as u64)),
            // Its head declares more.
            (true, _) if is_cut_short => None,
            (true, Kind::Request) => return Err(Stop::TooLong),
            (true, Kind::Response) => Some(Framing::Close),
            (false, _) => Some(Framing::Chunked),
        };
        let mode = if framing == Some(Framing::Chunked) { Mode::Chunk } else { Mode::Pass };
        message.mode = mode as u8;
        if message.held > 0 {
            let mut carrier = carrier(packet).ok_or(Stop::NoMemory)?;
            let packets = std::slice::from_mut(&mut carrier);
            let mut show = |_: &mut StreamCursor<'_>| Next::Continue;
            self.stage.run(memory, packets, (0, direction, *now), &mut show);
            self.release(message.head as usize, (kind, framing), &mut carrier)?;
            out.push(carrier);
        } else if let Some(framing) = framing {
            self.set_framing(kind, framing, packet)?;
        }
        if mode == Mode::Chunk { chunk(packet) } else { Ok(()) }
    }

    /// Releases a held message: its head and the available part of its body are the content.
    fn release(
        &mut self,
        head: usize,
        (kind, framing): (Kind, Option<Framing>),
        packet: &mut Packet,
    ) -> Result<(), Stop> {
        let Some(framing) = framing else { return Ok(()) };
        let place = packet.content_range();
        let head = place.start..place.start + head;
        let body = place.end - head.end;
        let mut mark = packet.content_mark();
        if framing == Framing::Chunked && body > 0 {
            let mut line = [0; CHUNK_LINE];
            let line = chunk_line(body, &mut line);
            if !splice(packet, place.end, 0, b"\r\n") || !splice(packet, head.end, 0, line) {
                return Err(Stop::NoMemory);
            }
        }
        let bytes = packet.data().get(head.clone()).ok_or(Stop::BadHead)?;
        if self.reframe(kind, framing, bytes)?
            && !splice(packet, head.start, head.len(), &self.buffer)
        {
            return Err(Stop::NoMemory);
        }
        mark.flags |= flag::CHANGED;
        packet.set_content_mark(mark);
        Ok(())
    }
}

/// Whether nothing follows in this direction: then a message that declares its own end is
/// truncated, as [`Enter`](super::Enter) puts the end elsewhere otherwise.
fn ends_direction(packet: &Packet) -> bool {
    let header = Parts::of_changed_tcp(packet).and_then(|parts| tcp(packet, &parts).copied());
    let has_fin = header.is_some_and(|header| header.has_flags(tcp_flags::FIN));
    has_fin && packet.content_mark().has(flag::LAST)
}

/// The head in front of the content, in `data()`.
fn head_range(packet: &Packet) -> Option<core::ops::Range<usize>> {
    let payload = Parts::of_changed_tcp(packet)?.payload;
    let content = packet.content_range().start;
    (payload <= content).then_some(payload..content)
}

/// All that follows the TCP header is the content again.
fn to_tcp(packet: &mut Packet) {
    let Some(parts) = Parts::of_changed_tcp(packet) else { return };
    let is_end = ends_direction(packet);
    let mark = packet.content_mark();
    let mut flags = mark.flags & (flag::CHANGED | flag::CLOSE);
    flags |= if is_end { flag::LAST } else { 0 };
    let start = (parts.payload - parts.network) as u16;
    let mut mark = with_flags(mark, flags).with_layer(Layer::Tcp);
    (mark.start, mark.suffix) = (start, 0);
    packet.set_content_mark(mark);
}

/// An empty packet that accounts for nothing, to go before this one.
fn carrier(packet: &Packet) -> Option<Packet> {
    let parts = Parts::of_changed_tcp(packet)?;
    let mut made = carve(packet, &parts, parts.payload..parts.payload)?;
    let mut mark = with_flags(packet.content_mark(), flag::CHANGED).with_layer(Layer::Tcp);
    (mark.start, mark.suffix, mark.took) = ((parts.payload - parts.network) as u16, 0, 0);
    made.set_content_mark(mark);
    Some(made)
}

/// Takes trailers away: a message with Content-Length has none.
fn cut_suffix(packet: &mut Packet) {
    let mut mark = packet.content_mark();
    if mark.suffix > 0 {
        packet.truncate(packet.len().saturating_sub(usize::from(mark.suffix)));
        (mark.suffix, mark.flags) = (0, mark.flags | flag::CHANGED);
        packet.set_content_mark(mark);
    }
}

/// Removes content that is not forwarded: bytes that functions put where there can be none, or that
/// were only shown.
fn cut_content(packet: &mut Packet) -> Result<(), Stop> {
    let place = packet.content_range();
    if place.is_empty() || splice(packet, place.start, place.len(), &[]) {
        return Ok(());
    }
    Err(Stop::NoMemory)
}

/// Makes the content a chunk; at the end of the message also the last one.
fn chunk(packet: &mut Packet) -> Result<(), Stop> {
    let place = packet.content_range();
    let mut mark = packet.content_mark();
    let ends = mark.has(flag::LAST) && !ends_direction(packet);
    let end: &[u8] = match (place.is_empty(), ends, mark.suffix > 0) {
        (false, false, _) => b"\r\n",
        (false, true, true) => b"\r\n0\r\n",
        (false, true, false) => b"\r\n0\r\n\r\n",
        (true, true, true) => b"0\r\n",
        (true, true, false) => b"0\r\n\r\n",
        (true, false, _) => return Ok(()),
    };
    let mut line = [0; CHUNK_LINE];
    let line = if place.is_empty() { &[] } else { chunk_line(place.len(), &mut line) };
    if !splice(packet, place.end, 0, end) || !splice(packet, place.start, 0, line) {
        return Err(Stop::NoMemory);
    }
    mark.flags |= flag::CHANGED;
    packet.set_content_mark(mark);
    Ok(())
}

/// The line before a chunk's data.
fn chunk_line(len: usize, line: &mut [u8; CHUNK_LINE]) -> &[u8] {
    let mut at = line.len() - 2;
    line[at..].copy_from_slice(b"\r\n");
    let mut left = len;
    loop {
        at -= 1;
        line[at] = b"0123456789abcdef"[left & 15];
        left >>= 4;
        if left == 0 {
            return &line[at..];
        }
    }
}
