//! Contexts of connections of which a backup host has copies. The module is apart because
//! [`Cx`](crate::Cx) asks for it.

use std::any::Any;

/// A context of connections (TCPIn) that another host can take over, beside the states of
/// functions ([`SessionTransfer`](crate::SessionTransfer)). `state` is the flow manager's record of
/// a session for it.
pub trait ConnectionTransfer: Any {
    /// Whether packets of a connection are with functions, so that their states belong to no place
    /// in its streams.
    fn is_busy(&self, state: &[u8]) -> bool;

    /// Appends what a backup needs of a connection; false, and nothing, of one that goes on there
    /// without. `functions` are the states of the functions in it by direction, as parts, if all
    /// of them can go on there.
    fn export(&mut self, state: &[u8], functions: Option<[&[u8]; 2]>, out: &mut Vec<u8>) -> bool;

    /// Takes what such a context of the serving host exported: of a new connection (`state` is
    /// zeros) or of a known one. Bytes may be anything. `fcbs` are the words of its packets in
    /// either direction.
    ///
    /// # Errors
    /// Why it cannot know that connection; `state` is as it was.
    fn import(
        &mut self,
        bytes: &[u8],
        fcbs: [u32; 2],
        state: &mut [u8],
    ) -> Result<(), &'static str>;

    /// This host serves the traffic from now on, or no longer does. `now` in nanoseconds.
    fn serve(&mut self, now: i64, serves: bool);

    /// There is a backup that goes on with connections, or there is none any more.
    fn replicate(&mut self, is_live: bool);

    /// When its timer 0 has to come, if it has to; in nanoseconds.
    fn due(&mut self) -> Option<i64>;
}

/// A function in such a context with whose streams another host can go on.
///
/// The other host shows its function the bytes behind a place again, and the receiver may have some
/// of what this one made of them. So what it makes of bytes depends on its state and on them alone:
/// not on time, nor on how they come in packets.
pub trait StreamTransfer: Any {
    /// What the function of the other host must have alike, as text without `;`: else it makes
    /// other bytes.
    fn identity(&self) -> String;

    /// Appends its state in one direction of a session, whose state `state` is; false if it cannot
    /// go on with that.
    fn export(&self, state: &[u8], direction: usize, out: &mut Vec<u8>) -> bool;

    /// Replaces its state in one direction by an exported one. Bytes may be anything.
    ///
    /// # Errors
    /// Why it cannot go on with that.
    fn import(
        &mut self,
        bytes: &[u8],
        direction: usize,
        state: &mut [u8],
    ) -> Result<(), &'static str>;
}

/// An operation on such a function.
pub type Streams<'a> = dyn FnMut(&mut dyn StreamTransfer) + 'a;

/// An operation on such a context.
pub type Connections<'a> = dyn FnMut(&mut dyn ConnectionTransfer) + 'a;

/// Buffers for an exported connection.
#[derive(Default)]
pub struct ConnectionParts {
    /// What contexts know of it, as parts.
    pub contexts: Vec<u8>,
    /// The states of functions by direction.
    pub(crate) functions: [Vec<u8>; 2],
}
