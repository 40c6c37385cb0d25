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

/// The parts of an exported connection, of contexts or of functions: for each its slot, and its
/// bytes; `None` for a truncated one. A part has its slot (1 byte) and its length (2 bytes,
/// big-endian) in front.
pub fn connection_parts(mut bytes: &[u8]) -> impl Iterator<Item = Option<(usize, &[u8])>> {
    std::iter::from_fn(move || {
        if bytes.is_empty() {
            return None;
        }
        let part = bytes.split_first_chunk().and_then(|(&[slot, high, low], rest)| {
            let len = usize::from(u16::from_be_bytes([high, low]));
            rest.split_at_checked(len).map(|(part, rest)| (usize::from(slot), part, rest))
        });
        bytes = part.map_or(&[], |(_, _, rest)| rest);
        Some(part.map(|(slot, part, _)| (slot, part)))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_are_read_to_the_byte() {
        let read = |bytes: &[u8]| -> Vec<Option<(usize, Vec<u8>)>> {
            let parts = connection_parts(bytes);
            parts.map(|part| part.map(|(slot, bytes)| (slot, bytes.to_vec()))).collect()
        };
        assert_eq!(read(&[]), []);
        assert_eq!(read(&[3, 0, 2, 7, 8, 0, 0, 0]), [Some((3, vec![7, 8])), Some((0, vec![]))]);
        assert_eq!(read(&[3, 0, 2, 7]), [None]);
        assert_eq!(read(&[0, 0, 0, 1, 0]), [Some((0, vec![])), None]);
    }
}
