//! Lines of a head or trailer section, and the bytes permitted in them.

use super::fault::{Fault, Faults};

/// Decides whether a fault is tolerated, and records those that were.
#[derive(Debug, Clone, Copy, Default)]
pub struct Judge {
    /// Tolerable faults are noted only.
    pub lenient: bool,
    /// The tolerated faults.
    pub tolerated: Faults,
}

impl Judge {
    /// Puts up with a fault or not.
    pub fn fault(&mut self, fault: Fault) -> Result<(), Fault> {
        if !self.lenient || !fault.is_tolerable() {
            return Err(fault);
        }
        self.tolerated.add(fault);
        Ok(())
    }

    /// The same, where `wrong`.
    pub fn fault_if(&mut self, wrong: bool, fault: Fault) -> Result<(), Fault> {
        if wrong { self.fault(fault) } else { Ok(()) }
    }
}

/// A byte of a token (RFC 9110 section 5.6.2).
pub fn is_token(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte)
}

/// Whether it is a token, which has at least one byte.
pub fn all_token(bytes: &[u8]) -> bool {
    !bytes.is_empty() && bytes.iter().copied().all(is_token)
}

/// A control byte that no field's value may have: all but HTAB (RFC 9110 section 5.5).
pub fn is_control(byte: u8) -> bool {
    (byte < 0x20 && byte != b'\t') || byte == 0x7F
}

/// Optional white space (RFC 9110 section 5.6.3).
pub fn is_space(byte: u8) -> bool {
    byte == b' ' || byte == b'\t'
}

/// Without the white space at both ends; ends of folded lines count as such.
pub fn trim(bytes: &[u8]) -> &[u8] {
    let blank = |byte: &u8| is_space(*byte) || matches!(byte, b'\r' | b'\n');
    let start = bytes.iter().position(|byte| !blank(byte)).unwrap_or(bytes.len());
    let end = bytes.iter().rposition(|byte| !blank(byte)).map_or(start, |last| last + 1);
    &bytes[start..end]
}

/// The end of the first empty line of `bytes`, or how many bytes need no second look. A line ends
/// in LF here, with or without CR: whether that is right is judged later.
pub fn end_of_section(bytes: &[u8], scanned: usize) -> Result<usize, usize> {
    let mut at = scanned.min(bytes.len());
    loop {
        let Some(found) = memchr::memchr(b'\n', &bytes[at..]) else { return Err(bytes.len()) };
        let feed = at + found;
        match bytes[feed + 1..] {
            [b'\n', ..] => return Ok(feed + 2),
            [b'\r', b'\n', ..] => return Ok(feed + 3),
            [] | [b'\r'] => return Err(feed),
            _ => at = feed + 1,
        }
    }
}

/// A line's place: its text, and where the next begins.
#[derive(Debug, Clone, Copy)]
pub struct Line {
    /// First byte.
    pub start: usize,
    /// First byte of the line's end.
    pub end: usize,
    /// First byte of the next line.
    pub next: usize,
}

/// The line at `start`; judges its end. Bytes without an LF are a line as a whole.
pub fn line_at(bytes: &[u8], start: usize, judge: &mut Judge) -> Result<Line, Fault> {
    let rest = bytes.get(start..).unwrap_or(&[]);
    let feed = memchr::memchr(b'\n', rest).unwrap_or(rest.len());
    let has_cr = feed > 0 && rest[feed - 1] == b'\r';
    judge.fault_if(!has_cr, Fault::BareLf)?;
    let len = feed - usize::from(has_cr);
    judge.fault_if(memchr::memchr(b'\r', &rest[..len]).is_some(), Fault::BareCr)?;
    let next = (start + feed + 1).min(bytes.len());
    Ok(Line { start, end: start + len, next })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// The same by trying every place.
    fn plainly(bytes: &[u8]) -> Option<usize> {
        let ends =
            |end: &usize| bytes[..*end].ends_with(b"\n\n") || bytes[..*end].ends_with(b"\n\r\n");
        (0..=bytes.len()).find(ends)
    }

    proptest! {
        #[test]
        fn an_end_is_found_in_any_steps(
            picks in prop::collection::vec(0..5usize, 0..40),
            steps in prop::collection::vec(1..6usize, 0..40),
        ) {
            let bytes: Vec<u8> = picks.iter().map(|pick| b"\r\n\n\ra"[*pick]).collect();
            let (mut shown, mut scanned, mut found) = (0, 0, None);
            for step in steps.into_iter().chain([bytes.len()]) {
                shown = (shown + step).min(bytes.len());
                match end_of_section(&bytes[..shown], scanned) {
                    Ok(end) => {
                        found = Some(end);
                        break;
                    }
                    Err(until) => scanned = until,
                }
            }
            prop_assert_eq!(found, plainly(&bytes));
        }
    }

    #[test]
    fn white_space_is_trimmed() {
        for (bytes, trimmed) in [(&b" \ta b\t "[..], &b"a b"[..]), (b" \t", b""), (b"", b"")] {
            assert_eq!(trim(bytes), trimmed);
        }
    }
}
