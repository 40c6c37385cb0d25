//! A content made ready to be searched for.

use memchr::memmem::Finder;

/// Bytes to search for.
#[derive(Debug)]
pub(in crate::rules) enum Needle {
    /// As they are.
    Exact(Box<Finder<'static>>),
    /// Letters whatever their case: the bytes in lower case, and one that is rarer than others.
    NoCase { lower: Box<[u8]>, rare: usize },
}

impl Needle {
    pub(in crate::rules) fn new(bytes: &[u8], nocase: bool) -> Needle {
        if !nocase || !bytes.iter().any(u8::is_ascii_alphabetic) {
            return Needle::Exact(Box::new(Finder::new(bytes).into_owned()));
        }
        let lower = bytes.to_ascii_lowercase().into_boxed_slice();
        let rarest = |at: &usize| frequency(lower[*at]);
        let rare = (0..lower.len()).min_by_key(rarest).unwrap_or(0);
        Needle::NoCase { lower, rare }
    }

    /// How long it is.
    pub(in crate::rules) fn len(&self) -> usize {
        match self {
            Needle::Exact(finder) => finder.needle().len(),
            Needle::NoCase { lower, .. } => lower.len(),
        }
    }

    /// Where it begins in `bytes`, from `from` on.
    pub(in crate::rules) fn find(&self, bytes: &[u8], from: usize) -> Option<usize> {
        let rest = bytes.get(from..)?;
        match self {
            Needle::Exact(finder) => finder.find(rest).map(|at| at + from),
            Needle::NoCase { lower, rare } => {
                let last = rest.len().checked_sub(lower.len())?;
                let (low, mut at) = (lower[*rare], 0);
                while at <= last {
                    let window = &rest[at + rare..last + rare + 1];
                    at += memchr::memchr2(low, low.to_ascii_uppercase(), window)?;
                    if rest[at..at + lower.len()].eq_ignore_ascii_case(lower) {
                        return Some(at + from);
                    }
                    at += 1;
                }
                None
            }
        }
    }
}

/// Roughly how often a byte is seen in text protocols; letters more often than others, vowels and
/// the like more often than other letters.
fn frequency(byte: u8) -> u8 {
    match byte {
        b'e' | b't' | b'a' | b'o' | b'i' | b'n' | b's' | b'r' | b' ' | 0 => 9,
        b'h' | b'l' | b'd' | b'c' | b'u' | b'm' | b'p' => 7,
        byte if byte.is_ascii_lowercase() => 5,
        b'0'..=b'9' | b'.' | b'/' | b'\r' | b'\n' | b'-' | b'=' => 6,
        byte if byte.is_ascii_graphic() => 4,
        _ => 3,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn it_finds_what_a_scan_finds(
            bytes in "[abAB.]{0,40}", needle in "[abA.]{1,4}", nocase: bool, from in 0usize..42
        ) {
            let (bytes, wanted) = (bytes.as_bytes(), needle.as_bytes());
            let same = |a: &[u8]| if nocase { a.eq_ignore_ascii_case(wanted) } else { a == wanted };
            let want = (from..bytes.len().saturating_sub(wanted.len() - 1))
                .find(|at| same(&bytes[*at..at + wanted.len()]));
            prop_assert_eq!(Needle::new(wanted, nocase).find(bytes, from), want);
        }
    }
}
