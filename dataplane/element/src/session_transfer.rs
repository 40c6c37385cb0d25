//! Functions with sessions that another host can take over.

use std::any::Any;

use crate::answers::Answers;

/// A function of sessions that can hand its state of one session to another host.
///
/// State refers to resources of the host (ports, mappings, rules): so it is exported by its
/// meaning, in a form of the function's own, and resolved again on the other host.
pub trait SessionTransfer: Any + Send {
    /// Appends the meaning of its state of a session; false if that has none elsewhere.
    fn export(&self, state: &[u8], out: &mut Vec<u8>) -> bool;

    /// Imports a session that such a function of another host exported: writes its state here into
    /// `state`, which is zeros. Bytes may be anything.
    ///
    /// # Errors
    /// Why it cannot take over that session.
    fn import(
        &mut self,
        bytes: &[u8],
        answers: &mut dyn Answers,
        state: &mut [u8],
    ) -> Result<(), &'static str>;
}

/// The functions' states of an exported session: for each its slot, the number of bytes, and these;
/// `None` for a truncated one.
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

/// An operation on the function of a session: export or import.
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
