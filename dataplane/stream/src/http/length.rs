//! How long the body is that follows a head (RFC 9112 section 6).

use super::fault::Fault;
use super::kind::Kind;
use super::line::{Judge, all_token, trim};
use super::pending::Asked;

/// Most digits of a Content-Length: it fits in 63 bits.
const MAX_LENGTH_DIGITS: usize = 18;

/// How long a message's body is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum BodyLength {
    /// There is none.
    #[default]
    None,
    /// So many bytes.
    Bytes(u64),
    /// Its chunks say.
    Chunked,
    /// All until the connection ends.
    UntilClose,
}

/// The fields of a head about length.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Declared {
    /// Content-Length, where it counts.
    pub content_length: Option<u64>,
    /// The last transfer coding is chunked.
    pub chunked: bool,
    /// There are transfer codings besides chunked: the body's bytes are coded.
    pub coded: bool,
}

impl Declared {
    /// Reads the fields, names and values, of a message of HTTP/1.`minor`. Faults are those of RFC
    /// 9112 sections 6.1 to 6.3.
    pub fn read<'a>(
        kind: Kind,
        minor: u8,
        fields: impl Iterator<Item = (&'a [u8], &'a [u8])> + Clone,
        judge: &mut Judge,
    ) -> Result<Declared, Fault> {
        let content_length = content_length(values(fields.clone(), b"content-length"), judge)?;
        let (chunked, coded) = transfer_codings(values(fields, b"transfer-encoding"))?;
        if !chunked && !coded {
            return Ok(Declared { content_length, chunked, coded });
        }
        judge.fault_if(minor == 0, Fault::TransferEncodingIn10)?;
        judge.fault_if(content_length.is_some(), Fault::LengthAndEncoding)?;
        if !chunked {
            // A request's end is unknown then, however lenient the policy.
            if kind == Kind::Request {
                return Err(Fault::ChunkedNotLast);
            }
            judge.fault(Fault::ChunkedNotLast)?;
        }
        judge.fault_if(coded, Fault::TransferCoded)?;
        Ok(Declared { content_length: None, chunked, coded })
    }

    /// The body of a request.
    pub fn of_request(self) -> BodyLength {
        match self.content_length {
            _ if self.chunked => BodyLength::Chunked,
            None | Some(0) => BodyLength::None,
            Some(length) => BodyLength::Bytes(length),
        }
    }

    /// The body of a response to this request.
    pub fn of_response(
        self,
        status: u16,
        asked: Asked,
        judge: &mut Judge,
    ) -> Result<BodyLength, Fault> {
        if status < 200 || status == 204 {
            let declared = self.chunked || self.coded || self.content_length.unwrap_or(0) > 0;
            judge.fault_if(declared, Fault::BodyNotAllowed)?;
            return Ok(BodyLength::None);
        }
        if asked.is_head || status == 304 {
            return Ok(BodyLength::None);
        }
        Ok(match self.content_length {
            _ if self.chunked => BodyLength::Chunked,
            Some(0) => BodyLength::None,
            Some(length) => BodyLength::Bytes(length),
            None => BodyLength::UntilClose,
        })
    }
}

/// Values of the fields of a name, which is in small letters.
fn values<'a>(
    fields: impl Iterator<Item = (&'a [u8], &'a [u8])>,
    name: &'static [u8],
) -> impl Iterator<Item = &'a [u8]> {
    fields.filter(move |(found, _)| found.eq_ignore_ascii_case(name)).map(|(_, value)| value)
}

fn content_length<'a>(
    values: impl Iterator<Item = &'a [u8]>,
    judge: &mut Judge,
) -> Result<Option<u64>, Fault> {
    let mut known = None;
    for value in values {
        for part in value.split(|byte| *byte == b',') {
            let length = decimal(trim(part)).ok_or(Fault::BadContentLength)?;
            match known {
                Some(other) if other != length => return Err(Fault::ContentLengthsDiffer),
                Some(_) => judge.fault(Fault::ContentLengthRepeated)?,
                None => known = Some(length),
            }
        }
    }
    Ok(known)
}

fn decimal(digits: &[u8]) -> Option<u64> {
    if digits.is_empty() || digits.len() > MAX_LENGTH_DIGITS {
        return None;
    }
    digits.iter().try_fold(0, |sum, digit| {
        digit.is_ascii_digit().then(|| sum * 10 + u64::from(digit - b'0'))
    })
}

/// Whether the last coding is chunked, and whether there are others.
fn transfer_codings<'a>(values: impl Iterator<Item = &'a [u8]>) -> Result<(bool, bool), Fault> {
    let (mut chunked, mut coded) = (false, false);
    for value in values {
        for part in value.split(|byte| *byte == b',') {
            let mut words = part.split(|byte| *byte == b';');
            let name = trim(words.next().unwrap_or(&[]));
            if !all_token(name) {
                return Err(Fault::BadTransferEncoding);
            }
            let is_chunked = name.eq_ignore_ascii_case(b"chunked");
            match (chunked, is_chunked) {
                (true, true) => return Err(Fault::ChunkedTwice),
                (true, false) => return Err(Fault::ChunkedNotLast),
                // Chunked has no parameters (RFC 9112 section 7.1).
                (false, true) if words.next().is_some() => return Err(Fault::BadTransferEncoding),
                (false, true) => chunked = true,
                (false, false) => coded = true,
            }
        }
    }
    Ok((chunked, coded))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths_are_digits() {
        for (text, length) in [
            (&b"0"[..], Some(0)),
            (b"007", Some(7)),
            (b"999999999999999999", Some(999_999_999_999_999_999)),
            (b"1000000000000000000", None),
            (b"", None),
            (b"+1", None),
            (b"-1", None),
            (b"0x1", None),
            (b"1 2", None),
        ] {
            assert_eq!(decimal(text), length, "{text:?}");
        }
    }
}
