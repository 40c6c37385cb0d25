//! Contexts of connections of which a backup host has copies. The module is apart because
//! [`Cx`](crate::Cx) asks for it.

use std::any::Any;

/// A context of connections (TCPIn) that another host can take over, beside the states of
/// functions ([`SessionTransfer`](crate::SessionTransfer)). `state` is the flow manager's record of
/// a session for it.
pub trait ConnectionTransfer: Any {
    /// Appends what a backup needs of a connection; false, and nothing, of one that goes on there
    /// without.
    fn export(&mut self, state: &[u8], out: &mut Vec<u8>) -> bool;

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

    /// This host serves the traffic from now on, or no longer does. Gives when its timer 0 has to
    /// come, if it has to; `now` in nanoseconds.
    fn serve(&mut self, now: i64, serves: bool) -> Option<i64>;
}

/// An operation on such a context.
pub type Connections<'a> = dyn FnMut(&mut dyn ConnectionTransfer) + 'a;

/// The contexts' parts of an exported connection: for each its slot, and its bytes; `None` for a
/// truncated one. A part has its slot (1 byte) and its length (2, big-endian) in front.
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
