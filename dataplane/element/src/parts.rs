//! Parts of what one host writes of a session for another one: what each function, or context of
//! streams, knows of it.
//!
//! ```text
//! slot of the function (1) | length of what follows (2, big-endian) | bytes of the function's own
//! ```

/// Bytes in front of a part's own.
pub const PART_HEAD_LEN: usize = 3;

/// Appends the part of a slot, as `write` appends its bytes; false, and nothing, if that gives none
/// or too many.
pub fn write_part(
    slot: usize,
    out: &mut Vec<u8>,
    write: impl FnOnce(&mut Vec<u8>) -> bool,
) -> bool {
    let Ok(slot) = u8::try_from(slot) else { return false };
    let begin = out.len();
    out.extend_from_slice(&[slot, 0, 0]);
    let is_written = write(out);
    match u16::try_from(out.len() - begin - PART_HEAD_LEN) {
        Ok(len) if is_written => {
            out[begin + 1..begin + PART_HEAD_LEN].copy_from_slice(&len.to_be_bytes());
            true
        }
        _ => {
            out.truncate(begin);
            false
        }
    }
}

/// A slot and the bytes of its part.
type Part<'a> = (usize, &'a [u8]);

/// The parts in these bytes, which may be anything; `None` for a truncated one, which is the last.
pub fn parts(mut bytes: &[u8]) -> impl Iterator<Item = Option<Part<'_>>> {
    std::iter::from_fn(move || {
        if bytes.is_empty() {
            return None;
        }
        let part = split_part(bytes);
        bytes = part.map_or(&[], |(_, rest)| rest);
        Some(part.map(|(part, _)| part))
    })
}

/// The first part, and what follows it.
fn split_part(bytes: &[u8]) -> Option<(Part<'_>, &[u8])> {
    let ([slot, a, b], rest) = bytes.split_first_chunk::<PART_HEAD_LEN>()?;
    let (part, rest) = rest.split_at_checked(usize::from(u16::from_be_bytes([*a, *b])))?;
    Some(((usize::from(*slot), part), rest))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn read(bytes: &[u8]) -> Vec<Option<(usize, Vec<u8>)>> {
        parts(bytes).map(|part| part.map(|(slot, bytes)| (slot, bytes.to_vec()))).collect()
    }

    proptest! {
        #[test]
        fn what_is_written_is_read(
            written in prop::collection::vec(
                (0usize..256, prop::collection::vec(any::<u8>(), 0..700)), 0..6),
            cut: prop::sample::Index,
        ) {
            let mut bytes = Vec::new();
            for (slot, part) in &written {
                let write = |out: &mut Vec<u8>| {
                    out.extend_from_slice(part);
                    true
                };
                prop_assert!(write_part(*slot, &mut bytes, write));
            }
            let wanted: Vec<_> = written.iter().cloned().map(Some).collect();
            prop_assert_eq!(read(&bytes), &wanted[..]);
            // Of truncated bytes the whole parts are read, and nothing else.
            let cut = cut.index(bytes.len() + 1);
            let mut short = read(&bytes[..cut]);
            short.pop_if(|last| last.is_none());
            prop_assert!(wanted.starts_with(&short));
        }

        #[test]
        fn any_bytes_are_read(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
            let read = read(&bytes);
            let whole = read.iter().flatten().map(|(_, part)| PART_HEAD_LEN + part.len());
            prop_assert_eq!(whole.sum::<usize>() == bytes.len(), !read.contains(&None));
        }
    }

    #[test]
    fn parts_are_read_to_the_byte() {
        assert_eq!(read(&[]), []);
        assert_eq!(read(&[3, 0, 2, 7, 8, 0, 0, 0]), [Some((3, vec![7, 8])), Some((0, vec![]))]);
        assert_eq!(read(&[3, 0, 2, 7]), [None]);
        assert_eq!(read(&[0, 0, 0, 1]), [Some((0, vec![])), None]);
        assert_eq!(read(&[0, 0, 0, 1, 0]), [Some((0, vec![])), None]);
    }

    #[test]
    fn of_a_part_that_cannot_be_nothing_is_written() {
        let fill = |len| {
            move |out: &mut Vec<u8>| {
                out.resize(out.len() + len, 1);
                true
            }
        };
        assert!(write_part(1, &mut Vec::new(), fill(0xffff)));
        let mut out = vec![7];
        assert!(!write_part(1, &mut out, fill(0x1_0000)), "too long");
        assert!(!write_part(256, &mut out, fill(1)), "a slot without a number");
        assert!(!write_part(1, &mut out, |out| !fill(1)(out)), "no part");
        assert_eq!(out, [7]);
    }
}
