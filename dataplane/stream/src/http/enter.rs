//! The beginning of the context of HTTP: turns TCP's payload into heads and bodies of messages.

use thruway_packet::Packet;
use thruway_payload::{Next, StreamCursor};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

use super::asides::Asides;
use super::asks::Asks;
use super::counts::EnterCounts;
use super::fault::{Fault, Faults};
use super::framing::Connection;
use super::groups::{Groups, PieceInfo, Sent, UNPACKED_MAX, split, strip};
use super::head::View;
use super::kind::Kind;
use super::length::BodyLength;
use super::reader::{Finish, Piece, Reader, Step};
use super::settings::{OnEncoded, OnRefused, Settings};
use super::shown::Shown;
use super::unpack::{Bounds, Coding, Unpackers};
use crate::content::{HasContent, Layer, flag};
use crate::stage::{Hold, Memory, Stage};

/// Most pieces reported of one packet.
const MAX_PIECES: usize = 4096;

/// The state of a connection, besides [`Memory`].
#[derive(Debug, Clone, Copy, Default, FromBytes, IntoBytes, KnownLayout, Immutable)]
#[repr(C)]
pub struct EnterState {
    connection: Connection,
    /// By direction: see [`BODY_SHOWN`].
    message: [u8; 2],
    spare: [u8; 6],
    /// By direction: number + 1 of the body's decompressor, 0 for none.
    unpacking: [u32; 2],
    /// By direction: number + 1 of the kept extensions and trailers, 0 for none.
    aside: [u32; 2],
}

/// The current message's body is inspected.
const BODY_SHOWN: u8 = 1;
/// Its framing is rewritten.
const REFRAMED: u8 = 2;

/// See the module.
pub struct Enter {
    settings: Settings,
    reader: Reader,
    stage: Stage,
    pieces: Vec<PieceInfo>,
    groups: Groups,
    head: Vec<u8>,
    unpackers: Unpackers,
    asides: Asides,
    /// Decompressed bytes of the current packet, and how many more are permitted.
    unpacked: (Vec<u8>, usize),
    /// Bytes of the current packet, with those kept of earlier ones.
    seen: usize,
    /// Counters.
    pub counts: EnterCounts,
}

impl Enter {
    /// With these settings.
    pub fn new(settings: Settings) -> Enter {
        // Heads are longer by a few bytes at most until they are found to be too long.
        let max = 2 * settings.rules.head_bytes as usize + usize::from(u16::MAX);
        Enter {
            reader: Reader::new(settings.rules),
            stage: Stage::new(Hold { max, ..Hold::default() }),
            pieces: Vec::with_capacity(MAX_PIECES),
            groups: Groups::default(),
            head: Vec::with_capacity(settings.rules.head_bytes as usize * 2),
            unpackers: Unpackers::default(),
            asides: Asides::default(),
            unpacked: (Vec::new(), 0),
            seen: 0,
            counts: EnterCounts::default(),
            settings,
        }
    }

    /// As one of so many threads: it has its part of the memory.
    pub fn share(&mut self, threads: usize) {
        self.stage.share(threads);
        self.asides.share(threads);
        if let OnEncoded::Unpack(bounds) = &mut self.settings.encoded {
            bounds.memory /= threads.max(1);
        }
    }

    /// Whether functions may change lengths or hold bytes back.
    pub fn set_resize(&mut self, resize: bool) {
        self.settings.resize = resize;
    }

    /// Whether a function looks at bodies.
    pub fn set_looks(&mut self, looks: bool) {
        self.settings.looks = looks;
    }

    /// Sets the preferences written into requests.
    pub fn set_asks(&mut self, asks: Asks) {
        self.settings.asks = asks;
    }

    /// The present settings.
    pub fn settings(&self) -> &Settings {
        &self.settings
    }

    /// Takes over another one's connections and counters.
    pub fn take_over(&mut self, other: Enter) {
        self.stage.take_over(other.stage);
        self.unpackers = other.unpackers;
        self.asides = other.asides;
        self.counts = other.counts;
    }

    /// Packets with incomplete heads that are kept.
    pub fn holding(&self) -> usize {
        self.stage.holding()
    }

    /// Bytes of memory of decompression, and of kept extensions and trailers.
    pub fn unpack_memory(&self) -> usize {
        self.unpackers.memory() + self.asides.memory()
    }

    /// The connection is over.
    pub fn forget(&mut self, memory: &mut Memory, state: &mut EnterState) {
        self.stage.forget(memory);
        self.drop_kept(state);
    }

    /// Frees the data kept of messages, except waiting bytes.
    fn drop_kept(&mut self, state: &mut EnterState) {
        state.unpacking.iter_mut().for_each(|number| self.unpackers.close(number));
        state.aside.iter_mut().for_each(|number| self.asides.close(number));
    }

    /// Processes a packet of a direction: appends the forwarded packets to `out`. A packet that is
    /// no content of TCP is forwarded unchanged.
    pub fn packet(
        &mut self,
        (memory, state): (&mut Memory, &mut EnterState),
        (direction, now): (usize, i64),
        mut packet: Packet,
        out: &mut Vec<Packet>,
    ) {
        let mut mark = packet.content_mark();
        if mark.layer() != Layer::Tcp {
            return out.push(packet);
        }
        // A packet that was late in TCP is late for the holder there: here it comes in order.
        mark.flags &= !flag::LATE;
        packet.set_content_mark(mark);
        let came = packet.content().len();
        self.pieces.clear();
        self.unpacked.0.clear();
        self.unpacked.1 = Bounds::of_packet(came);
        self.seen = came;
        let kind = if direction & 1 == 0 { Kind::Request } else { Kind::Response };
        let mut stage = std::mem::take(&mut self.stage);
        let mut show = |cursor: &mut StreamCursor<'_>| self.show_piece(state, kind, cursor);
        stage.run(memory, std::slice::from_mut(&mut packet), (0, direction, now), &mut show);
        self.counts.no_memory += std::mem::take(&mut stage.counts.no_memory);
        self.stage = stage;
        if packet.content_mark().has(flag::CLOSE) {
            return out.push(packet);
        }
        self.divide(packet, (state, kind), came, out);
    }

    /// Parses the bytes under the cursor, and moves it behind them.
    fn show_piece(
        &mut self,
        state: &mut EnterState,
        kind: Kind,
        cursor: &mut StreamCursor<'_>,
    ) -> Next {
        self.seen = cursor.remaining();
        if let Err(fault) = self.show_pieces(state, kind, cursor) {
            self.counts.refused[fault as usize] += 1;
            self.drop_kept(state);
            // The rest of a message without its framing cannot go on as it is, nor overtake the
            // part of it that functions hold back.
            let is_within = state.message.iter().any(|message| message & BODY_SHOWN != 0);
            let is_held = self.reframes() && is_within;
            if self.settings.on_refused == OnRefused::Close || is_held {
                state.connection.refuse(fault);
                return Next::Close;
            }
            state.connection.make_opaque();
            state.message = [0; 2];
            let len = cursor.remaining();
            cursor.skip_all();
            self.push(Piece::Opaque, len, state, kind);
        }
        self.note_tolerated();
        if cursor.remaining() == 0 { Next::Continue } else { Next::NeedMore }
    }

    fn show_pieces(
        &mut self,
        state: &mut EnterState,
        kind: Kind,
        cursor: &mut StreamCursor<'_>,
    ) -> Result<(), Fault> {
        loop {
            let step = self.reader.step(&mut state.connection, kind, cursor.chunk())?;
            let Step::Piece(piece, len) = step else { break };
            if self.pieces.len() == MAX_PIECES {
                return Err(Fault::TooManyParts);
            }
            if piece == Piece::Head {
                self.head(state, kind, len, cursor)?;
            } else if matches!(piece, Piece::Body { .. }) && state.unpacking[kind as usize] != 0 {
                self.unpack(state, kind, &cursor.chunk()[..len])?;
                cursor.advance(len);
            } else {
                self.keep_aside(state, (kind, piece), &cursor.chunk()[..len])?;
                cursor.advance(len);
                self.push(piece, len, state, kind);
            }
            if piece == Piece::End {
                self.end_message(state, kind)?;
            }
        }
        if cursor.is_last() {
            self.finish(state, kind, cursor)?;
        }
        Ok(())
    }

    /// The direction ends with these bytes.
    fn finish(
        &mut self,
        state: &mut EnterState,
        kind: Kind,
        cursor: &mut StreamCursor<'_>,
    ) -> Result<(), Fault> {
        let left = cursor.remaining();
        let finish = self.reader.finish(&mut state.connection, kind, left)?;
        cursor.skip_all();
        if left > 0 {
            self.push(Piece::Framing, left, state, kind);
        }
        if finish != Finish::Clean {
            self.push(Piece::End, 0, state, kind);
            if finish == Finish::CutShort {
                self.unpackers.close(&mut state.unpacking[kind as usize]);
                self.asides.close(&mut state.aside[kind as usize]);
            }
            self.end_message(state, kind)?;
        }
        Ok(())
    }

    fn end_message(&mut self, state: &mut EnterState, kind: Kind) -> Result<(), Fault> {
        state.message[kind as usize] = 0;
        let unpacking = &mut state.unpacking[kind as usize];
        let ended = self.unpackers.finish(*unpacking);
        self.unpackers.close(unpacking);
        self.show_aside(state, kind);
        ended
    }

    /// Keeps the extensions and trailers of a reframed body off the wire: functions still inspect
    /// them.
    fn keep_aside(
        &mut self,
        state: &mut EnterState,
        (kind, piece): (Kind, Piece),
        bytes: &[u8],
    ) -> Result<(), Fault> {
        if state.message[kind as usize] & REFRAMED == 0 {
            return Ok(());
        }
        // As much as in a head.
        let most = self.settings.rules.head_bytes as usize;
        let number = &mut state.aside[kind as usize];
        match piece {
            Piece::Extension => self.asides.add(number, bytes, most),
            Piece::Framing => self.asides.end_line(number, most),
            // With at least a name and a colon; else it is the empty line.
            Piece::Trailer if bytes.len() > 2 => self.asides.add(number, bytes, 2 * most),
            _ => Ok(()),
        }
    }

    /// After the body, shows functions its extensions and trailers, as a piece of its own.
    fn show_aside(&mut self, state: &mut EnterState, kind: Kind) {
        let made = self.asides.take(&mut state.aside[kind as usize], &mut self.unpacked.0);
        self.counts.asides += u64::from(made > 0);
        for at in (0..made).step_by(UNPACKED_MAX) {
            let len = (made - at).min(UNPACKED_MAX);
            let first = if at == 0 { flag::FIRST } else { 0 };
            let last = if at + len == made { flag::LAST } else { 0 };
            self.pieces.push(PieceInfo::made(Piece::Trailer, len, first | last));
        }
    }

    /// Replaces a part of a body with a coding by its decompressed bytes.
    fn unpack(&mut self, state: &EnterState, kind: Kind, bytes: &[u8]) -> Result<(), Fault> {
        let OnEncoded::Unpack(bounds) = self.settings.encoded else { return Err(Fault::Encoded) };
        let (out, budget) = &mut self.unpacked;
        let before = out.len();
        let number = state.unpacking[kind as usize];
        self.unpackers.feed(number, (bytes, &bounds), (out, *budget))?;
        let mut made = out.len() - before;
        *budget = budget.saturating_sub(made);
        let piece = Piece::Body { last: false };
        let len = bytes.len();
        let packed = PieceInfo { is_stripped: true, ..PieceInfo::new(piece, len) };
        self.pieces.push(PieceInfo { is_shown: true, ..packed });
        while made > 0 {
            let len = made.min(UNPACKED_MAX);
            self.pieces.push(PieceInfo::made(piece, len, 0));
            made -= len;
        }
        Ok(())
    }

    /// Whether the framing of messages may be rewritten.
    fn reframes(&self) -> bool {
        self.settings.resize || self.settings.looks
    }

    fn push(&mut self, piece: Piece, len: usize, state: &EnterState, kind: Kind) {
        let message = state.message[kind as usize];
        // RFC 9112 section 7.1.1 and RFC 9110 section 6.5.1 let extensions and trailers be left
        // out.
        let is_framing = matches!(piece, Piece::Framing | Piece::Extension | Piece::Trailer);
        let is_stripped = message & REFRAMED != 0 && is_framing;
        let is_shown = message & BODY_SHOWN != 0;
        self.pieces.push(PieceInfo { is_shown, is_stripped, ..PieceInfo::new(piece, len) });
    }

    /// A message begins.
    fn head(
        &mut self,
        state: &mut EnterState,
        kind: Kind,
        len: usize,
        cursor: &mut StreamCursor<'_>,
    ) -> Result<(), Fault> {
        let view = self.reader.view(&cursor.chunk()[..len]);
        let (body, asked) = (self.reader.body(), self.reader.asked());
        let has_body = body != BodyLength::None;
        if self.settings.asks.stay && view.method() == b"CONNECT" {
            return Err(Fault::Tunnel);
        }
        if self.settings.asks.stay && state.connection.direction(kind).is_opaque() {
            // The client's wish was taken out of its request.
            return Err(Fault::UnaskedSwitch);
        }
        let (is_shown, coding) = self.shows(view, has_body)?;
        let has_chunks = body == BodyLength::Chunked;
        let is_resized = is_shown
            && has_body
            && (self.settings.resize || coding.is_some() || (self.settings.looks && has_chunks));
        let is_reframed = is_resized && body != BodyLength::UntilClose;
        let closes = kind == Kind::Request && asked.is_old && self.reframes();
        self.head.clear();
        let asks = if kind == Kind::Request { self.settings.asks } else { Asks::default() };
        if asks.any() || closes || coding.is_some() {
            // The changes are our own: they can be made.
            let _ = asks.rewrite(view, (closes, coding.is_some()), &mut self.head);
        }
        if let (Some(coding), OnEncoded::Unpack(bounds)) = (coding, self.settings.encoded) {
            state.unpacking[kind as usize] = self.unpackers.open(coding, &bounds)?;
            self.counts.unpacked += 1;
        }
        let now = if self.head.is_empty() || self.head == cursor.chunk()[..len] {
            cursor.advance(len);
            len
        } else {
            replace(cursor, len, &self.head);
            self.head.len()
        };
        let is_switched = state.connection.direction(kind).is_opaque();
        let ends_here = !is_shown || is_switched;
        let mut flags = if ends_here { flag::LAST } else { 0 };
        if is_resized {
            flags |= flag::REFRAME | if asked.is_old { flag::OLD } else { 0 };
        }
        state.message[kind as usize] =
            (u8::from(is_shown && !is_switched) * BODY_SHOWN) | (u8::from(is_reframed) * REFRAMED);
        self.pieces.push(PieceInfo {
            sent: len,
            is_shown,
            flags,
            ..PieceInfo::new(Piece::Head, now)
        });
        self.count(state, kind, (has_body, is_shown));
        Ok(())
    }

    /// Whether the body behind a head is shown, and how it is packed where it is to be unpacked.
    fn shows(&self, view: View<'_>, has_body: bool) -> Result<(bool, Option<Coding>), Fault> {
        if !has_body {
            return Ok((true, None));
        }
        let has_type = self.settings.shown.has_type(view);
        if !Shown::is_encoded(view) {
            return Ok((has_type, None));
        }
        match self.settings.encoded {
            OnEncoded::Refuse => Err(Fault::Encoded),
            OnEncoded::Unpack(_) if self.settings.looks && has_type => {
                Coding::of(view).map(|coding| (true, Some(coding)))
            }
            OnEncoded::Unpack(_) | OnEncoded::Pass => Ok((false, None)),
        }
    }

    fn count(&mut self, state: &EnterState, kind: Kind, (has_body, is_shown): (bool, bool)) {
        match kind {
            Kind::Request => self.counts.requests += 1,
            Kind::Response => self.counts.responses += 1,
        }
        self.counts.shown += u64::from(has_body && is_shown);
        self.counts.hidden += u64::from(has_body && !is_shown);
        self.counts.switched += u64::from(state.connection.direction(kind).is_opaque());
    }

    fn note_tolerated(&mut self) {
        let tolerated = self.reader.take_tolerated();
        if tolerated != Faults::NONE {
            tolerated.iter().for_each(|fault| self.counts.tolerated[fault as usize] += 1);
        }
    }

    /// Makes packets of the reported pieces.
    fn divide(
        &mut self,
        mut packet: Packet,
        (state, kind): (&mut EnterState, Kind),
        came: usize,
        out: &mut Vec<Packet>,
    ) {
        self.groups.clear();
        let too_many = self.pieces.iter().any(|info| self.groups.add(info).is_err());
        if too_many {
            state.connection.refuse(Fault::TooManyParts);
            self.counts.refused[Fault::TooManyParts as usize] += 1;
            return out.push(closing(packet));
        }
        // The end of the direction must not be taken for the end of the message, which declares its
        // own.
        let last = self.pieces.iter().rfind(|info| !info.is_aside());
        let ends_properly =
            last.is_some_and(|info| info.piece == Piece::End) && !self.is_cut_short(state, kind);
        let is_last = packet.content_mark().has(flag::LAST);
        if self.groups.is_empty() || (is_last && self.reframes() && ends_properly) {
            self.groups.add_empty();
        }
        strip(&mut packet, &self.pieces);
        let sent = Sent { kept: self.seen.saturating_sub(came), came };
        let place = out.len();
        if !split(packet, (&self.groups, &self.unpacked.0), sent, out) {
            self.counts.no_memory += 1;
            let packet = out.drain(place..).next();
            out.extend(packet.map(closing));
        }
    }

    /// Whether the current message ended with its direction, before its declared end.
    fn is_cut_short(&self, state: &EnterState, kind: Kind) -> bool {
        state.connection.direction(kind).is_within()
    }
}

/// Puts other bytes in the place of the next ones, and moves behind them.
fn replace(cursor: &mut StreamCursor<'_>, len: usize, with: &[u8]) {
    let same = len.min(with.len());
    cursor.overwrite(&with[..same]);
    cursor.insert(&with[same..]);
    cursor.remove(len - same);
}

/// Has the connection end.
fn closing(mut packet: Packet) -> Packet {
    let mut mark = packet.content_mark();
    mark.flags |= flag::CLOSE;
    packet.set_content_mark(mark);
    packet
}
