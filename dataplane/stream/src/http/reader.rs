//! Reads both directions of a connection, as they come.

use super::fault::{Fault, Faults};
use super::framing::{Connection, Phase};
use super::head::{Head, View};
use super::kind::Kind;
use super::length::BodyLength;
use super::line::{Judge, end_of_section, is_token};
use super::pending::Asked;

/// How messages are judged, and limits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rules {
    /// Faults that can be put up with are.
    pub lenient: bool,
    /// Longest head, and longest trailer section, in bytes.
    pub head_bytes: u32,
    /// Most fields of a head.
    pub fields: u16,
    /// Longest extensions of a chunk, in bytes.
    pub extension_bytes: u16,
}

impl Rules {
    /// Strict. The limits are those of common servers (nginx 32 KiB, Apache 8 KiB a field; Apache
    /// 100 fields).
    pub const STRICT: Rules =
        Rules { lenient: false, head_bytes: 16 << 10, fields: 128, extension_bytes: 256 };
    /// The same limits, less strict.
    pub const LENIENT: Rules = Rules { lenient: true, ..Rules::STRICT };
}

/// Kind of bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Piece {
    /// A message's head, complete: [`Reader::view`] shows it.
    Head,
    /// Part of a body. With `last` the message ends here.
    Body {
        /// Nothing of the message follows.
        last: bool,
    },
    /// The lines between chunks but for extensions, and empty lines between messages.
    Framing,
    /// Extensions of a chunk, or a part of them: the bytes between `;` and the line's end.
    Extension,
    /// The section after the last chunk, with the empty line: [`Reader::view`] shows its fields.
    Trailer,
    /// No bytes: a message is complete.
    End,
    /// Of no message.
    Opaque,
}

/// The classification of the available bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Step {
    /// The first so many bytes are this.
    Piece(Piece, usize),
    /// More are needed to decide, with all these before them.
    NeedMore,
}

/// How a direction ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Finish {
    /// Between messages, or outside of any.
    Clean,
    /// It was the end of a message.
    End,
    /// Within a message: its receiver detects it.
    CutShort,
}

/// Reads connections: rules and room for one head. Of the connections it remembers nothing.
#[derive(Debug, Clone)]
pub struct Reader {
    rules: Rules,
    judge: Judge,
    head: Head,
    body: BodyLength,
    asked: Asked,
}

impl Reader {
    /// With rules.
    pub fn new(rules: Rules) -> Reader {
        Reader {
            rules,
            judge: Judge { lenient: rules.lenient, tolerated: Faults::NONE },
            head: Head::with_capacity(usize::from(rules.fields).max(1)),
            body: BodyLength::None,
            asked: Asked::default(),
        }
    }

    /// The contents of the head or trailer section that was read last; `bytes` must be that
    /// section.
    pub fn view<'a>(&'a self, bytes: &'a [u8]) -> View<'a> {
        self.head.view(bytes)
    }

    /// The body that follows the head that was read last.
    pub fn body(&self) -> BodyLength {
        self.body
    }

    /// The request of the head that was read last.
    pub fn asked(&self) -> Asked {
        self.asked
    }

    /// Faults that were put up with since this was asked last.
    pub fn take_tolerated(&mut self) -> Faults {
        std::mem::take(&mut self.judge.tolerated)
    }

    /// Classifies the first of `bytes`: those after the bytes of this direction that were
    /// classified before. A connection that was refused stays refused. Call it until more is
    /// needed, even when no bytes are left: the end of a message is reported then. A response that
    /// changes the protocol has no end: all that follows is opaque.
    pub fn step(
        &mut self,
        connection: &mut Connection,
        kind: Kind,
        bytes: &[u8],
    ) -> Result<Step, Fault> {
        if let Some(fault) = connection.refused() {
            return Err(fault);
        }
        let step = self.step_in_phase(connection, kind, bytes);
        step.map_err(|fault| connection.refuse(fault))
    }

    /// Reports the end of the direction, with this many unclassified bytes.
    pub fn finish(
        &mut self,
        connection: &mut Connection,
        kind: Kind,
        left: usize,
    ) -> Result<Finish, Fault> {
        let direction = &mut connection.directions[kind as usize];
        match direction.phase() {
            Phase::Opaque => Ok(Finish::Clean),
            Phase::Start if left == 0 => Ok(Finish::Clean),
            // Some servers answer an incomplete request.
            Phase::Start => Err(connection.refuse(Fault::HeadCutShort)),
            Phase::UntilClose | Phase::Ended => {
                direction.set_phase(Phase::Start);
                Ok(Finish::End)
            }
            _ => Ok(Finish::CutShort),
        }
    }

    fn step_in_phase(
        &mut self,
        connection: &mut Connection,
        kind: Kind,
        bytes: &[u8],
    ) -> Result<Step, Fault> {
        let direction = &mut connection.directions[kind as usize];
        let phase = direction.phase();
        if phase == Phase::Ended {
            *direction = Default::default();
            return Ok(Step::Piece(Piece::End, 0));
        }
        if bytes.is_empty() {
            return Ok(Step::NeedMore);
        }
        match phase {
            Phase::Opaque => Ok(Step::Piece(Piece::Opaque, bytes.len())),
            Phase::UntilClose => Ok(Step::Piece(Piece::Body { last: false }, bytes.len())),
            Phase::Body | Phase::ChunkData => {
                let here = direction.left.min(bytes.len() as u64);
                direction.left -= here;
                let ends = direction.left == 0;
                match phase {
                    Phase::Body if ends => direction.set_phase(Phase::Ended),
                    _ if ends => direction.set_phase(Phase::ChunkEnd),
                    _ => {}
                }
                let last = ends && phase == Phase::Body;
                Ok(Step::Piece(Piece::Body { last }, here as usize))
            }
            Phase::Start => self.start(connection, kind, bytes),
            Phase::Trailer => self.trailer(connection, kind, bytes),
            _ => {
                let most = self.rules.extension_bytes;
                let (len, is_extension) = direction.between_chunks(bytes, &mut self.judge, most)?;
                let piece = if is_extension { Piece::Extension } else { Piece::Framing };
                Ok(Step::Piece(piece, len))
            }
        }
    }

    /// Where a message may begin.
    fn start(
        &mut self,
        connection: &mut Connection,
        kind: Kind,
        bytes: &[u8],
    ) -> Result<Step, Fault> {
        let direction = &mut connection.directions[kind as usize];
        let blank = match bytes {
            [b'\n', ..] => {
                self.judge.fault(Fault::BareLf)?;
                1
            }
            [b'\r', b'\n', ..] => 2,
            [b'\r'] => return Ok(Step::NeedMore),
            _ => 0,
        };
        if blank > 0 {
            // RFC 9112 section 2.2: at least one empty line before a request is to be ignored.
            let is_odd = direction.count > 0 || kind == Kind::Response;
            self.judge.fault_if(is_odd, Fault::BlankLines)?;
            direction.count = 1;
            return Ok(Step::Piece(Piece::Framing, blank));
        }
        match kind {
            Kind::Request if !is_token(bytes[0]) => return Err(Fault::BadMethod),
            Kind::Response if bytes.iter().zip(b"HTTP/1.").any(|(a, b)| a != b) => {
                return Err(Fault::BadVersion);
            }
            _ => {}
        }
        let end = match self.section(connection, kind, bytes) {
            Ok(Some(end)) => end,
            incomplete => {
                // A tolerated fault is recorded when the head is complete. No byte beyond the
                // longest head counts: whether any came with these is chance.
                let mut judge = self.judge;
                let within = bytes.len().min(self.rules.head_bytes as usize);
                self.head.parse_first_line(kind, &bytes[..within], &mut judge)?;
                return incomplete.map(|_| Step::NeedMore);
            }
        };
        self.head.parse(kind, &bytes[..end], &mut self.judge)?;
        match kind {
            Kind::Request => self.request(connection, &bytes[..end])?,
            Kind::Response => self.response(connection)?,
        }
        Ok(Step::Piece(Piece::Head, end))
    }

    /// The end of a head or trailer section, once it has come.
    fn section(
        &mut self,
        connection: &mut Connection,
        kind: Kind,
        bytes: &[u8],
    ) -> Result<Option<usize>, Fault> {
        let direction = &mut connection.directions[kind as usize];
        let most = self.rules.head_bytes as usize;
        match end_of_section(&bytes[..bytes.len().min(most)], direction.scanned as usize) {
            Ok(end) => {
                direction.scanned = 0;
                Ok(Some(end))
            }
            Err(_) if bytes.len() >= most => Err(Fault::HeadTooLong),
            Err(scanned) => {
                direction.scanned = scanned as u32;
                Ok(None)
            }
        }
    }

    fn request(&mut self, connection: &mut Connection, bytes: &[u8]) -> Result<(), Fault> {
        let view = self.head.view(bytes);
        let asked = Asked {
            is_head: view.method() == b"HEAD",
            is_connect: view.method() == b"CONNECT",
            offers_upgrade: view.value(b"upgrade").is_some() && view.minor_version() > 0,
            is_old: view.minor_version() == 0,
        };
        if !connection.pending.push(asked) {
            return Err(Fault::TooManyPending);
        }
        self.body = view.declared().of_request();
        self.asked = asked;
        self.begin_body(connection, Kind::Request);
        Ok(())
    }

    fn response(&mut self, connection: &mut Connection) -> Result<(), Fault> {
        let view = self.head.view(&[]);
        let (status, declared) = (view.status(), view.declared());
        let asked = match connection.pending.front() {
            Some(asked) => asked,
            None => {
                self.judge.fault(Fault::Unasked)?;
                Asked::default()
            }
        };
        let switches = status == 101 || (asked.is_connect && (200..300).contains(&status));
        if switches {
            check_switch(connection, status, asked)?;
        }
        self.asked = asked;
        self.body = BodyLength::None;
        if !switches {
            self.body = declared.of_response(status, asked, &mut self.judge)?;
        }
        self.begin_body(connection, Kind::Response);
        if switches {
            connection.make_opaque();
        }
        // Interim responses (RFC 9110 section 15.2) leave the request waiting.
        if status >= 200 || switches {
            connection.pending.pop();
        }
        Ok(())
    }

    fn begin_body(&self, connection: &mut Connection, kind: Kind) {
        let direction = &mut connection.directions[kind as usize];
        *direction = Default::default();
        match self.body {
            BodyLength::None | BodyLength::Bytes(0) => direction.set_phase(Phase::Ended),
            BodyLength::Bytes(length) => {
                direction.left = length;
                direction.set_phase(Phase::Body);
            }
            BodyLength::Chunked => direction.begin_chunk(),
            BodyLength::UntilClose => direction.set_phase(Phase::UntilClose),
        }
    }

    fn trailer(
        &mut self,
        connection: &mut Connection,
        kind: Kind,
        bytes: &[u8],
    ) -> Result<Step, Fault> {
        // Without fields it is an empty line.
        let end = match bytes {
            [b'\n', ..] => Some(1),
            [b'\r', b'\n', ..] => Some(2),
            [b'\r'] => None,
            _ => self.section(connection, kind, bytes)?,
        };
        let Some(end) = end else { return Ok(Step::NeedMore) };
        self.head.parse_trailer(&bytes[..end], &mut self.judge)?;
        connection.directions[kind as usize].set_phase(Phase::Ended);
        Ok(Step::Piece(Piece::Trailer, end))
    }
}

/// Whether both directions may switch protocols: a request asked for it, and nothing else is
/// pending that the two ends might understand differently.
fn check_switch(connection: &Connection, status: u16, asked: Asked) -> Result<(), Fault> {
    if status == 101 && !asked.offers_upgrade {
        return Err(Fault::UnaskedSwitch);
    }
    let request = &connection.directions[Kind::Request as usize];
    let is_alone = connection.pending.len() == 1 && !request.is_within();
    if is_alone { Ok(()) } else { Err(Fault::EarlySwitch) }
}
