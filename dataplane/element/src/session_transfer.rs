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

/// An operation on the function of a session: export, import, or a question about it.
pub type Transfer<'a> = dyn FnMut(&mut dyn SessionTransfer) + 'a;
