//! Functions with sessions that another host can take over.

use std::any::Any;

use crate::answers::Answers;

/// What two hosts must have in common of a function whose sessions one takes over from the other.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TransferForm {
    /// What both must have alike besides the element's class, as text without `;`: empty if nothing
    /// else.
    pub identity: String,
    /// Longest exported state of a session, in bytes.
    pub state_len_max: usize,
}

impl Default for TransferForm {
    fn default() -> TransferForm {
        TransferForm { identity: String::new(), state_len_max: 255 }
    }
}

/// A function of sessions that can hand its state of one session to another host.
///
/// State refers to resources of the host (ports, mappings, rules): so it is exported by its
/// meaning, in a form of the function's own, and resolved again on the other host.
///
/// The state of most functions changes only with the life of a session, of which the flow manager
/// keeps a log. A function whose state changes with packets reports the sessions concerned by
/// [`SessionTransfer::next_changed`].
pub trait SessionTransfer: Any + Send {
    /// What both hosts must have in common.
    ///
    /// # Errors
    /// Why sessions of this function cannot be transferred, and the remedy.
    fn form(&self) -> Result<TransferForm, String> {
        Ok(TransferForm::default())
    }

    /// Appends the meaning of its state of a session; false if that has none elsewhere.
    fn export(&self, state: &[u8], out: &mut Vec<u8>) -> bool;

    /// A session, as level and record, was exported. After a hot swap a session is in another
    /// record: a function that notes sessions for [`SessionTransfer::next_changed`] learns of it
    /// here.
    fn exported(&mut self, session: (u8, u32), state: &[u8]) {
        let _ = (session, state);
    }

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

    /// Brings a session up to date that was imported before, or that this host served itself.
    /// `state` is the function's state here. Bytes may be anything.
    ///
    /// # Errors
    /// Why it cannot take over that session.
    fn update(&mut self, bytes: &[u8], state: &mut [u8]) -> Result<(), &'static str> {
        let _ = (bytes, state);
        Ok(())
    }

    /// How many sessions may have changed by packets since they were last given by
    /// [`SessionTransfer::next_changed`]. The first call has the function begin to note them.
    fn count_changed(&mut self) -> usize {
        0
    }

    /// The session, as level and record, that changed by packets and was given longest ago. One of
    /// which the function still has packets is given again later.
    fn next_changed(&mut self) -> Option<(u8, u32)> {
        None
    }

    /// Whether it holds no packet, so that no state changes before the next one arrives.
    fn is_settled(&self) -> bool {
        true
    }
}

/// Bytes in front of a function's exported state: its slot (1) and its length (2, big-endian).
pub const STATE_HEAD_LEN: usize = 3;

/// Appends the state of the function in a slot, as `export` appends it; false if that gives none or
/// one that is too long.
pub fn write_state(
    slot: usize,
    out: &mut Vec<u8>,
    export: impl FnOnce(&mut Vec<u8>) -> bool,
) -> bool {
    let Ok(slot) = u8::try_from(slot) else { return false };
    let begin = out.len();
    out.extend_from_slice(&[slot, 0, 0]);
    if !export(out) {
        return false;
    }
    let Ok(len) = u16::try_from(out.len() - begin - STATE_HEAD_LEN) else { return false };
    out[begin + 1..begin + STATE_HEAD_LEN].copy_from_slice(&len.to_be_bytes());
    true
}

/// The functions' states of an exported session, each with its slot; `None` for a truncated one,
/// which is the last.
pub fn states(mut bytes: &[u8]) -> impl Iterator<Item = Option<StateOfSlot<'_>>> {
    std::iter::from_fn(move || {
        if bytes.is_empty() {
            return None;
        }
        let state = split_state(bytes);
        bytes = state.map_or(&[], |(_, rest)| rest);
        Some(state.map(|(state, _)| state))
    })
}

/// A function's slot and its state.
type StateOfSlot<'a> = (usize, &'a [u8]);

/// The first state with its slot, and what follows it.
fn split_state(bytes: &[u8]) -> Option<(StateOfSlot<'_>, &[u8])> {
    let ([slot, a, b], rest) = bytes.split_first_chunk::<STATE_HEAD_LEN>()?;
    let (state, rest) = rest.split_at_checked(usize::from(u16::from_be_bytes([*a, *b])))?;
    Some(((usize::from(*slot), state), rest))
}

/// An operation on the function of a session: export, import, or a question about it.
pub type Transfer<'a> = dyn FnMut(&mut dyn SessionTransfer) + 'a;

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn read(bytes: &[u8]) -> Vec<Option<(usize, Vec<u8>)>> {
        states(bytes).map(|state| state.map(|(slot, bytes)| (slot, bytes.to_vec()))).collect()
    }

    proptest! {
        #[test]
        fn what_is_written_is_read(
            written in prop::collection::vec(
                (0usize..256, prop::collection::vec(any::<u8>(), 0..700)), 0..6),
            cut: prop::sample::Index,
        ) {
            let mut bytes = Vec::new();
            for (slot, state) in &written {
                let export = |out: &mut Vec<u8>| {
                    out.extend_from_slice(state);
                    true
                };
                prop_assert!(write_state(*slot, &mut bytes, export));
            }
            let wanted: Vec<_> = written.iter().cloned().map(Some).collect();
            prop_assert_eq!(read(&bytes), &wanted[..]);
            // Of truncated bytes the whole states are read, and nothing else.
            let cut = cut.index(bytes.len() + 1);
            let mut short = read(&bytes[..cut]);
            short.pop_if(|last| last.is_none());
            prop_assert!(wanted.starts_with(&short));
        }

        #[test]
        fn any_bytes_are_read(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
            let read = read(&bytes);
            let whole = read.iter().flatten().map(|(_, state)| STATE_HEAD_LEN + state.len());
            prop_assert_eq!(whole.sum::<usize>() == bytes.len(), !read.contains(&None));
        }
    }

    #[test]
    fn states_are_read_to_the_byte() {
        assert_eq!(read(&[]), []);
        assert_eq!(read(&[3, 0, 2, 7, 8, 0, 0, 0]), [Some((3, vec![7, 8])), Some((0, vec![]))]);
        assert_eq!(read(&[3, 0, 2, 7]), [None]);
        assert_eq!(read(&[0, 0, 0, 1]), [Some((0, vec![])), None]);
    }

    #[test]
    fn a_state_that_is_too_long_is_not_written() {
        let fill = |len| {
            move |out: &mut Vec<u8>| {
                out.resize(out.len() + len, 1);
                true
            }
        };
        assert!(write_state(1, &mut Vec::new(), fill(0xffff)));
        assert!(!write_state(1, &mut Vec::new(), fill(0x1_0000)));
        assert!(!write_state(256, &mut Vec::new(), fill(1)), "a slot without a number");
        assert!(!write_state(1, &mut Vec::new(), |_| false), "no state");
    }
}
