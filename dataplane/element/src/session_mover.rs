//! The capability of functions whose sessions can go to another instance. It stands apart from
//! the others because [`Cx`](crate::Cx) asks for it.

use std::any::Any;

/// A function whose sessions can go, with what it keeps of them, to another instance of it in the
/// same thread. `state` is what the flow manager keeps of a session for the function.
pub trait SessionMover: Any {
    /// Bytes that it keeps of a session. Another one that takes it may keep more.
    ///
    /// # Errors
    /// Why its sessions cannot go anywhere, and what to do about it.
    fn record_len(&self) -> Result<usize, String>;

    /// How many packets it was given so far.
    fn given(&self) -> u64;

    /// Whether of the packets that it was given none of the first `given` is with it any more.
    fn is_done_with(&self, given: u64) -> bool;

    /// How many packets it takes now before those upstream are to wait. What it would drop in any
    /// case is no reason to wait for: then as many as there are.
    fn room(&self) -> usize;

    /// Copies what it keeps of a session; whether it was told that the session has begun. `None`:
    /// it keeps nothing of it.
    fn copy_record(&self, state: &[u8], record: &mut [u8]) -> Option<bool>;

    /// Takes a session from another one, which may keep less of it: the rest is zeros. False, and
    /// nothing done, when there is no room.
    #[must_use = "false says that the session stays where it is"]
    fn take_record(&mut self, record: &[u8], is_known: bool, state: &mut [u8]) -> bool;

    /// Another one has the session now: it is as if it had never been here.
    fn leave(&mut self, state: &[u8]);
}
