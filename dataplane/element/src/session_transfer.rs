//! Functions whose sessions another host can go on with.

use std::any::Any;

use crate::answers::Answers;

/// A function of sessions whose state of one session another host can go on with.
///
/// State refers to what the host has (ports, mappings, rules): so it is exported as what it means,
/// in a form of the function's own, and found again on the other host.
pub trait SessionTransfer: Any + Send {
    /// Appends what its state of a session means; false where that says nothing elsewhere.
    fn export(&self, state: &[u8], out: &mut Vec<u8>) -> bool;

    /// Takes what such a function of another host exported of a session: its state here, into
    /// `state`, which is zeros. Bytes may be anything.
    ///
    /// # Errors
    /// Why it cannot go on with that session.
    fn import(
        &mut self,
        bytes: &[u8],
        answers: &mut dyn Answers,
        state: &mut [u8],
    ) -> Result<(), &'static str>;
}

/// The functions' states of an exported session: for each its slot, the number of bytes, and these;
/// `None` in the place of what is cut short.
pub fn states(mut bytes: &[u8]) -> impl Iterator<Item = Option<(usize, &[u8])>> {
    std::iter::from_fn(move || {
        let (head, rest) = match bytes {
            [] => return None,
            [slot, len, rest @ ..] => ((usize::from(*slot), usize::from(*len)), rest),
            _ => (Default::default(), &[][..]),
        };
        let state = rest.split_at_checked(head.1).filter(|_| bytes.len() >= 2);
        bytes = state.map_or(&[], |(_, rest)| rest);
        Some(state.map(|(state, _)| (head.0, state)))
    })
}

/// What runs on the function of a session, to export or to import.
pub type Transfer<'a> = dyn FnMut(&mut dyn SessionTransfer) + 'a;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn states_are_read_to_the_byte() {
        let read = |bytes: &[u8]| -> Vec<Option<(usize, Vec<u8>)>> {
            states(bytes).map(|state| state.map(|(slot, bytes)| (slot, bytes.to_vec()))).collect()
        };
        assert_eq!(read(&[]), []);
        assert_eq!(read(&[3, 2, 7, 8, 0, 0]), [Some((3, vec![7, 8])), Some((0, vec![]))]);
        assert_eq!(read(&[3, 2, 7]), [None]);
        assert_eq!(read(&[0, 0, 1]), [Some((0, vec![])), None]);
    }
}
