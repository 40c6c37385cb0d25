//! The head of a message: its first line and its fields (RFC 9112 sections 2 to 5).

use super::fault::Fault;
use super::kind::Kind;
use super::length::Declared;
use super::line::{Judge, Line, all_token, is_control, is_space, line_at, trim};

/// Longest method. The longest registered one has 17 bytes (UPDATEREDIRECTREF).
const MAX_METHOD: usize = 32;

/// A place in the bytes of a head.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Span {
    /// First byte.
    pub start: u32,
    /// Behind the last.
    pub end: u32,
}

impl Span {
    fn new(start: usize, end: usize) -> Span {
        Span { start: start as u32, end: end as u32 }
    }

    /// The bytes of the span; none if there are too few.
    pub fn of(self, bytes: &[u8]) -> &[u8] {
        bytes.get(self.start as usize..self.end as usize).unwrap_or(&[])
    }
}

/// A field's place.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Field {
    /// The name. Empty for a line without one, which a lenient policy puts up with.
    pub name: Span,
    /// The value, without white space around it.
    pub value: Span,
    /// The whole line with its end, and the lines that continue the value.
    pub line: Span,
}

/// An index of a head. Made once per reader and reused.
#[derive(Debug, Clone, Default)]
pub struct Head {
    kind: Kind,
    /// Method, target, version; or version, status, reason.
    first: [Span; 3],
    first_line: Span,
    fields: Vec<Field>,
    minor: u8,
    status: u16,
    declared: Declared,
}

impl Head {
    /// With room for so many fields: more than these are refused.
    pub fn with_capacity(fields: usize) -> Head {
        Head { fields: Vec::with_capacity(fields), ..Head::default() }
    }

    /// Reads `bytes`, a head from the first byte of its first line to its empty line.
    pub(super) fn parse(
        &mut self,
        kind: Kind,
        bytes: &[u8],
        judge: &mut Judge,
    ) -> Result<(), Fault> {
        self.declared = Declared::default();
        let next = self.parse_first_line(kind, bytes, judge)?;
        self.parse_fields(bytes, next, judge)?;
        self.declared = Declared::read(kind, self.minor, self.view(bytes).fields(), judge)?;
        if kind == Kind::Request {
            check_host(self.view(bytes), judge)?;
        }
        Ok(())
    }

    /// Reads a head that was judged before, or that a function made: tolerates all tolerable
    /// faults.
    ///
    /// # Errors
    /// A fault that cannot.
    pub fn read<'a>(&'a mut self, kind: Kind, bytes: &'a [u8]) -> Result<View<'a>, Fault> {
        self.parse(kind, bytes, &mut Judge { lenient: true, ..Judge::default() })?;
        Ok(self.view(bytes))
    }

    /// Reads the first line, as far as it is there; returns the start of the next one. Reports a
    /// fault as soon as the line is complete, and a control byte at once, so that nothing waits
    /// long for the end of an invalid head.
    pub(super) fn parse_first_line(
        &mut self,
        kind: Kind,
        bytes: &[u8],
        judge: &mut Judge,
    ) -> Result<usize, Fault> {
        self.kind = kind;
        let feed = memchr::memchr(b'\n', bytes);
        let text = &bytes[..feed.unwrap_or(bytes.len())];
        if text.iter().any(|byte| is_control(*byte) && *byte != b'\r') {
            return Err(Fault::BinaryStartLine);
        }
        if feed.is_none() {
            return Ok(0);
        }
        let line = line_at(bytes, 0, judge)?;
        self.first_line = Span::new(0, line.next);
        match kind {
            Kind::Request => self.request_line(bytes, line, judge)?,
            Kind::Response => self.status_line(bytes, line, judge)?,
        }
        Ok(line.next)
    }

    /// Reads a trailer section, and makes its fields available to [`View::fields`].
    pub(super) fn parse_trailer(&mut self, bytes: &[u8], judge: &mut Judge) -> Result<(), Fault> {
        self.first = [Span::default(); 3];
        self.first_line = Span::default();
        self.declared = Declared::default();
        self.parse_fields(bytes, 0, judge)?;
        let view = self.view(bytes);
        // RFC 9110 section 6.5.1: fields that framing and routing need are no trailers.
        let forbidden = |name: &&[u8]| view.values(name).next().is_some();
        let names: [&[u8]; 4] = [b"content-length", b"transfer-encoding", b"host", b"trailer"];
        judge.fault_if(names.iter().any(forbidden), Fault::TrailerField)
    }

    /// The contents of `bytes`, which must be those that were read.
    pub fn view<'a>(&'a self, bytes: &'a [u8]) -> View<'a> {
        View { head: self, bytes }
    }

    fn request_line(&mut self, bytes: &[u8], line: Line, judge: &mut Judge) -> Result<(), Fault> {
        let parts = three_parts(bytes, line, judge)?;
        let [method, target, version] = parts;
        if method.of(bytes).len() > MAX_METHOD || !all_token(method.of(bytes)) {
            return Err(Fault::BadMethod);
        }
        let target = target.of(bytes);
        // RFC 3986 section 2: a URI is written in a part of ASCII's graphic characters.
        judge.fault_if(!target.iter().all(u8::is_ascii_graphic), Fault::BadTarget)?;
        self.minor = minor_version(version.of(bytes), judge)?;
        self.first = parts;
        self.status = 0;
        Ok(())
    }

    fn status_line(&mut self, bytes: &[u8], line: Line, judge: &mut Judge) -> Result<(), Fault> {
        let text = &bytes[line.start..line.end];
        self.minor = minor_version(text.get(..8).unwrap_or(text), judge)?;
        let digits = match text.get(8..12) {
            Some([b' ', digits @ ..]) => digits,
            _ => return Err(Fault::BadStatus),
        };
        self.status = status(digits).ok_or(Fault::BadStatus)?;
        // Some servers leave out the space before a reason that they leave out: no two receivers
        // differ about that.
        let reason = match text.get(12..).unwrap_or(&[]) {
            [] => line.end,
            [b' ', ..] => line.start + 13,
            _ => return Err(Fault::BadStatus),
        };
        let place = |from: usize, to: usize| Span::new(line.start + from, line.start + to);
        self.first = [place(0, 8), place(9, 12), Span::new(reason, line.end)];
        Ok(())
    }

    fn parse_fields(&mut self, bytes: &[u8], from: usize, judge: &mut Judge) -> Result<(), Fault> {
        self.fields.clear();
        let mut at = from;
        while at < bytes.len() {
            let line = line_at(bytes, at, judge)?;
            at = line.next;
            match bytes[line.start..line.end] {
                [] => break,
                [b' ' | b'\t', ..] => self.fold(bytes, line, judge)?,
                _ => self.field(bytes, line, judge)?,
            }
        }
        Ok(())
    }

    /// A line that continues the field of the line before (RFC 9112 section 5.2).
    fn fold(&mut self, bytes: &[u8], line: Line, judge: &mut Judge) -> Result<(), Fault> {
        let Some(field) = self.fields.last_mut() else { return Err(Fault::LeadingSpace) };
        judge.fault(Fault::ObsFold)?;
        check_value(&bytes[line.start..line.end], judge)?;
        field.line.end = line.next as u32;
        field.value.end = line.end as u32;
        Ok(())
    }

    fn field(&mut self, bytes: &[u8], line: Line, judge: &mut Judge) -> Result<(), Fault> {
        if self.fields.len() == self.fields.capacity() {
            return Err(Fault::TooManyFields);
        }
        let text = &bytes[line.start..line.end];
        let whole = Span::new(line.start, line.next);
        let Some(colon) = memchr::memchr(b':', text) else {
            judge.fault(Fault::NoColon)?;
            check_value(text, judge)?;
            let none = Span::new(line.start, line.start);
            let value = Span::new(line.start, line.end);
            self.fields.push(Field { name: none, value, line: whole });
            return Ok(());
        };
        let name_end = text[..colon].iter().rposition(|byte| !is_space(*byte)).map_or(0, |n| n + 1);
        judge.fault_if(name_end != colon, Fault::SpaceBeforeColon)?;
        if text[..name_end].contains(&0) {
            return Err(Fault::Nul);
        }
        judge.fault_if(!all_token(&text[..name_end]), Fault::BadFieldName)?;
        let value = &text[colon + 1..];
        check_value(value, judge)?;
        let blanks = value.iter().position(|byte| !is_space(*byte)).unwrap_or(value.len());
        let start = line.start + colon + 1 + blanks;
        let len = trim(value).len();
        let name = Span::new(line.start, line.start + name_end);
        self.fields.push(Field { name, value: Span::new(start, start + len), line: whole });
        Ok(())
    }
}

/// A head and its bytes.
#[derive(Debug, Clone, Copy)]
pub struct View<'a> {
    head: &'a Head,
    bytes: &'a [u8],
}

impl<'a> View<'a> {
    /// Request or response.
    pub fn kind(self) -> Kind {
        self.head.kind
    }

    /// All bytes of the head.
    pub fn bytes(self) -> &'a [u8] {
        self.bytes
    }

    /// The first line with its end.
    pub fn first_line(self) -> &'a [u8] {
        self.head.first_line.of(self.bytes)
    }

    fn first(self, kind: Kind, part: usize) -> &'a [u8] {
        if self.head.kind == kind { self.head.first[part].of(self.bytes) } else { &[] }
    }

    /// Of a request.
    pub fn method(self) -> &'a [u8] {
        self.first(Kind::Request, 0)
    }

    /// Of a request.
    pub fn target(self) -> &'a [u8] {
        self.first(Kind::Request, 1)
    }

    /// `HTTP/1.0`, `HTTP/1.1`.
    pub fn version(self) -> &'a [u8] {
        self.first(self.head.kind, if self.head.kind == Kind::Request { 2 } else { 0 })
    }

    /// 0 or 1.
    pub fn minor_version(self) -> u8 {
        self.head.minor
    }

    /// Of a response, 100 to 599; 0 for a request.
    pub fn status(self) -> u16 {
        self.head.status
    }

    /// Of a response, may be empty.
    pub fn reason(self) -> &'a [u8] {
        self.first(Kind::Response, 2)
    }

    /// The body's length according to the fields.
    pub fn declared(self) -> Declared {
        self.head.declared
    }

    /// The places of all fields, in their order.
    pub fn spans(self) -> &'a [Field] {
        &self.head.fields
    }

    /// Names and values of all fields, in their order.
    pub fn fields(self) -> impl Iterator<Item = (&'a [u8], &'a [u8])> + Clone {
        let pair = move |field: &Field| (field.name.of(self.bytes), field.value.of(self.bytes));
        self.head.fields.iter().map(pair)
    }

    /// Values of the fields of a name, in their order. Case of names does not matter.
    pub fn values(self, name: &[u8]) -> impl Iterator<Item = &'a [u8]> {
        self.fields().filter(|(found, _)| found.eq_ignore_ascii_case(name)).map(|(_, value)| value)
    }

    /// Value of the first field of a name.
    pub fn value(self, name: &[u8]) -> Option<&'a [u8]> {
        self.values(name).next()
    }

    /// Whether a field that is a list has a member, ignoring case and parameters.
    pub fn lists(self, name: &[u8], member: &[u8]) -> bool {
        let is = |part: &[u8]| {
            let word = part.split(|byte| *byte == b';').next().unwrap_or(&[]);
            trim(word).eq_ignore_ascii_case(member)
        };
        self.values(name).any(|value| value.split(|byte| *byte == b',').any(is))
    }

    /// Host and port a request is for: of its target where that has one (RFC 9112 section 3.2.2),
    /// else of its field Host.
    pub fn host(self) -> &'a [u8] {
        if self.method() == b"CONNECT" {
            return self.target();
        }
        match authority(self.target()) {
            Some(host) => without_user(host),
            None => self.value(b"host").unwrap_or(&[]),
        }
    }

    /// Path and query of a request's target.
    pub fn path(self) -> &'a [u8] {
        let target = self.target();
        let Some(host) = authority(target) else { return target };
        let start = target.windows(3).position(|three| three == b"://").unwrap_or(0) + 3;
        target.get(start + host.len()..).unwrap_or(&[])
    }
}

/// Removes the user part before host and port in old forms of an authority.
fn without_user(authority: &[u8]) -> &[u8] {
    authority.rsplit(|byte| *byte == b'@').next().unwrap_or(authority)
}

/// User information, host and port of a target in absolute form.
fn authority(target: &[u8]) -> Option<&[u8]> {
    let scheme = target.windows(3).position(|three| three == b"://")?;
    let is_scheme = |byte: &u8| byte.is_ascii_alphanumeric() || b"+-.".contains(byte);
    if !target[0].is_ascii_alphabetic() || !target[..scheme].iter().all(is_scheme) {
        return None;
    }
    let rest = &target[scheme + 3..];
    let end = rest.iter().position(|byte| b"/?#".contains(byte)).unwrap_or(rest.len());
    Some(&rest[..end])
}

/// Three parts of a line that are parted by one space each.
fn three_parts(bytes: &[u8], line: Line, judge: &mut Judge) -> Result<[Span; 3], Fault> {
    let mut parts = [Span::default(); 3];
    let (mut found, mut start) = (0, line.start);
    for at in line.start..=line.end {
        let byte = bytes[..line.end].get(at).copied();
        if byte.is_some_and(|byte| !is_space(byte)) {
            continue;
        }
        let odd = byte.is_some_and(|byte| byte != b' ' || found == 2);
        judge.fault_if(odd || at == start, Fault::BadStartLine)?;
        if at > start {
            let Some(part) = parts.get_mut(found) else { return Err(Fault::BadStartLine) };
            *part = Span::new(start, at);
            found += 1;
        }
        start = at + 1;
    }
    match found {
        3 => Ok(parts),
        // A request without a version is HTTP/0.9.
        2 => Err(Fault::BadVersion),
        _ => Err(Fault::BadStartLine),
    }
}

/// 0 or 1 for HTTP/1.x; others are judged (RFC 9112 section 2.3).
fn minor_version(version: &[u8], judge: &mut Judge) -> Result<u8, Fault> {
    match version.strip_prefix(b"HTTP/1.") {
        Some(b"0") => Ok(0),
        Some(b"1") => Ok(1),
        Some([b'2'..=b'9']) => judge.fault(Fault::OddVersion).map(|()| 1),
        _ => Err(Fault::BadVersion),
    }
}

/// A status of three digits (RFC 9110 section 15).
fn status(digits: &[u8]) -> Option<u16> {
    let &[a @ b'1'..=b'5', b, c] = digits else { return None };
    let is_number = b.is_ascii_digit() && c.is_ascii_digit();
    is_number.then(|| [a, b, c].iter().fold(0, |sum, digit| sum * 10 + u16::from(digit - b'0')))
}

fn check_value(value: &[u8], judge: &mut Judge) -> Result<(), Fault> {
    if value.contains(&0) {
        return Err(Fault::Nul);
    }
    // CR was judged with the line.
    let control = |byte: &u8| is_control(*byte) && *byte != b'\r';
    judge.fault_if(value.iter().any(control), Fault::ControlByte)
}

/// RFC 9112 section 3.2: exactly one Host in HTTP/1.1, which is valid.
fn check_host(view: View<'_>, judge: &mut Judge) -> Result<(), Fault> {
    let mut values = view.values(b"host");
    let Some(host) = values.next() else {
        return judge.fault_if(view.minor_version() > 0, Fault::NoHost);
    };
    judge.fault_if(values.next().is_some(), Fault::TwoHosts)?;
    let is_host = |byte: &u8| byte.is_ascii_alphanumeric() || b"-._~%!$&'()*+,;=:[]".contains(byte);
    judge.fault_if(!host.iter().all(is_host), Fault::BadHost)?;
    let of_target = if view.method() == b"CONNECT" { None } else { authority(view.target()) };
    let differs = of_target.is_some_and(|target| !same_host(target, host));
    judge.fault_if(differs, Fault::HostDiffers)
}

/// Whether they are the same, but for case, user information and the port, which one may leave out.
fn same_host(a: &[u8], b: &[u8]) -> bool {
    fn bare(host: &[u8]) -> &[u8] {
        let host = without_user(host);
        match host.iter().rposition(|byte| *byte == b':') {
            Some(colon) if host[colon + 1..].iter().all(u8::is_ascii_digit) => &host[..colon],
            _ => host,
        }
    }
    bare(a).eq_ignore_ascii_case(bare(b))
}
