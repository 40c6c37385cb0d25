//! The capability of functions that can move sessions to another instance. It has a module of its
//! own because [`Cx`](crate::Cx) asks for it.

use std::any::Any;

/// A function that can move sessions, with its own record of each, to another instance in the same
/// thread. `state` is the flow manager's record of a session for the function.
pub trait SessionMover: Any {
    /// Bytes that it keeps of a session. Another one that takes it may keep more.
    ///
    /// # Errors
    /// Why its sessions cannot move, and the remedy.
    fn record_len(&self) -> Result<usize, String>;

    /// How many packets it was given so far.
    fn given(&self) -> u64;

    /// Whether it holds none of the first `given` packets that it was given any more.
    fn is_done_with(&self, given: u64) -> bool;

    /// How many packets it accepts now before upstream elements must wait. Packets that it would
    /// drop in any case are no reason to wait: then as many as there are.
    fn room(&self) -> usize;

    /// Copies its record of a session; returns whether the function has been notified of the
    /// session's begin. `None`: it has no record of the session.
    fn copy_record(&self, state: &[u8], record: &mut [u8]) -> Option<bool>;

    /// Takes a session from another instance, which may keep a shorter record: the rest is zeros.
    /// False, and nothing done, when there is no room.
    #[must_use = "false means that the session does not move"]
    fn take_record(&mut self, record: &[u8], is_known: bool, state: &mut [u8]) -> bool;

    /// Another one has the session now: it is as if it had never been here.
    fn leave(&mut self, state: &[u8]);
}
