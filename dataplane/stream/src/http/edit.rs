//! Rewritten heads: fields added, removed, replaced; another framing of the body.

use super::head::{Field, View};
use super::line::{all_token, is_control};

/// Fields that say how long a body is: they are changed by [`with_framing`] only.
const FRAMING: [&[u8]; 2] = [b"content-length", b"transfer-encoding"];

/// Fields that are sums of the body (RFC 9530, RFC 3230, RFC 1864): no longer true when it changes.
pub(super) const DIGESTS: [&[u8]; 4] =
    [b"content-digest", b"repr-digest", b"digest", b"content-md5"];

/// A change of a head's fields. Case of names does not matter.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Change<'a> {
    /// One more field, behind all others.
    Add(&'a [u8], &'a [u8]),
    /// None of this name.
    Remove(&'a [u8]),
    /// Exactly one of this name, in the place of the first if there was any.
    Set(&'a [u8], &'a [u8]),
    /// Exactly one of this name, if there was any.
    Replace(&'a [u8], &'a [u8]),
}

/// A change that is not made.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum EditError {
    /// The name is empty or has bytes that names cannot have.
    #[error("a field's name has letters, digits and !#$%&'*+-.^_`|~ only")]
    Name,
    /// The value has control bytes.
    #[error("a field's value has no control characters and no line ends")]
    Value,
    /// The field declares the body's length.
    #[error("Content-Length and Transfer-Encoding are seen to when the body changes")]
    Framing,
}

impl<'a> Change<'a> {
    /// Whether it can be made.
    pub fn check(&self) -> Result<(), EditError> {
        let (name, value) = self.parts();
        if !all_token(name) {
            return Err(EditError::Name);
        }
        if FRAMING.iter().any(|framing| name.eq_ignore_ascii_case(framing)) {
            return Err(EditError::Framing);
        }
        if value.iter().any(|byte| is_control(*byte)) {
            return Err(EditError::Value);
        }
        Ok(())
    }

    fn parts(&self) -> (&'a [u8], &'a [u8]) {
        match *self {
            Change::Add(name, value) | Change::Set(name, value) | Change::Replace(name, value) => {
                (name, value)
            }
            Change::Remove(name) => (name, &[]),
        }
    }
}

/// How a head declares the end of a body.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Framing {
    /// It has so many bytes.
    Length(u64),
    /// It comes in chunks.
    Chunked,
    /// It ends with the connection.
    Close,
}

/// Appends the head with its changes to `out`. Of several changes to one name, the first that
/// removes, sets or replaces decides; additions are made in any case.
pub fn rewrite(view: View<'_>, changes: &[Change<'_>], out: &mut Vec<u8>) -> Result<(), EditError> {
    changes.iter().try_for_each(Change::check)?;
    out.extend_from_slice(view.first_line());
    emit_fields(view, changes, out);
    Ok(())
}

/// Appends the head with another framing to `out`.
///
/// Chunks turn an HTTP/1.0 response into one of HTTP/1.1, as in a proxy for it (RFC 9112 section
/// 2.3); an implied close by the server is then made explicit. Removes sums of the body.
pub fn with_framing(view: View<'_>, framing: Framing, out: &mut Vec<u8>) {
    let [length, encoding] = FRAMING;
    let mut digits = [0; 20];
    let (length, encoding) = match framing {
        Framing::Length(bytes) => {
            (Change::Set(b"Content-Length", decimal(bytes, &mut digits)), Change::Remove(encoding))
        }
        Framing::Chunked => (Change::Remove(length), Change::Set(b"Transfer-Encoding", b"chunked")),
        Framing::Close => (Change::Remove(length), Change::Remove(encoding)),
    };
    let is_old = view.minor_version() == 0 && framing == Framing::Chunked;
    let closes = is_old && !view.lists(b"connection", b"keep-alive");
    let connection = if closes || framing == Framing::Close {
        Change::Set(b"Connection", b"close")
    } else {
        Change::Remove(DIGESTS[0])
    };
    let [a, b, c, d] = DIGESTS.map(Change::Remove);
    match view.first_line().strip_prefix(b"HTTP/1.0") {
        Some(rest) if is_old => {
            out.extend_from_slice(b"HTTP/1.1");
            out.extend_from_slice(rest);
        }
        _ => out.extend_from_slice(view.first_line()),
    }
    emit_fields(view, &[length, encoding, connection, a, b, c, d], out);
}

/// Fields as they remain, fields that are new, the empty line.
fn emit_fields(view: View<'_>, changes: &[Change<'_>], out: &mut Vec<u8>) {
    let places = view.spans();
    for (index, field) in places.iter().enumerate() {
        let name = |field: &Field| field.name.of(view.bytes());
        let is_same = |other: &Field| name(other).eq_ignore_ascii_case(name(field));
        match deciding(name(field), changes).map(|decides| changes[decides]) {
            None => out.extend_from_slice(field.line.of(view.bytes())),
            Some(Change::Set(as_name, value) | Change::Replace(as_name, value))
                if !places[..index].iter().any(is_same) =>
            {
                emit_field(as_name, value, out);
            }
            Some(_) => {}
        }
    }
    for (index, change) in changes.iter().enumerate() {
        match *change {
            Change::Add(name, value) => emit_field(name, value, out),
            Change::Set(name, value)
                if view.value(name).is_none() && deciding(name, changes) == Some(index) =>
            {
                emit_field(name, value, out);
            }
            _ => {}
        }
    }
    out.extend_from_slice(b"\r\n");
}

/// The change that decides on the fields of a name.
fn deciding(name: &[u8], changes: &[Change<'_>]) -> Option<usize> {
    changes.iter().position(|change| {
        !matches!(change, Change::Add(..)) && change.parts().0.eq_ignore_ascii_case(name)
    })
}

fn emit_field(name: &[u8], value: &[u8], out: &mut Vec<u8>) {
    for part in [name, b": ", value, b"\r\n"] {
        out.extend_from_slice(part);
    }
}

/// Decimal digits of a number.
pub fn decimal(number: u64, digits: &mut [u8; 20]) -> &[u8] {
    let (mut left, mut at) = (number, digits.len());
    loop {
        at -= 1;
        digits[at] = b'0' + (left % 10) as u8;
        left /= 10;
        if left == 0 {
            return &digits[at..];
        }
    }
}
