//! Notes: the class of a packet, which an XDP program writes in front of the frame.
//!
//! The program writes eight bytes of XDP metadata in front of every frame that it redirects to a
//! socket of AF_XDP, and the kernel copies them with the frame. No descriptor says whether bytes
//! there were written for this frame. So a note carries the secret number of its program, and
//! reading a note clears it.

use std::hash::{BuildHasher as _, Hasher as _, RandomState};
use thruway_packet::Packet;

/// Bytes of a note.
pub(crate) const NOTE_LEN: usize = 8;
/// Bits that hold the class.
const CLASS_MASK: u64 = 0xffff;
/// In place of a class: the program found none.
pub(crate) const NO_CLASS: u16 = u16::MAX;

/// The secret number in the notes of one program.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Notes(u64);

impl Notes {
    /// The notes of a new program. Its number is random, so senders of packets and other processes
    /// cannot know it.
    pub(crate) fn new() -> Notes {
        let random = || RandomState::new().build_hasher().finish() & !CLASS_MASK;
        let number = std::iter::repeat_with(random).find(|number| *number != 0);
        Notes(number.unwrap_or(!CLASS_MASK))
    }

    /// The notes with a number from [`Notes::bits`]; `None` for 0.
    pub(crate) fn of_bits(bits: u64) -> Option<Notes> {
        (bits != 0).then_some(Notes(bits))
    }

    /// The number of the program, with zeros in place of the class; never 0.
    pub(crate) fn bits(self) -> u64 {
        self.0
    }

    /// A number that distinguishes the program from those before it.
    pub fn number(self) -> u64 {
        self.0 >> CLASS_MASK.count_ones()
    }

    /// The class in eight bytes; `None` if another program wrote them, or if they hold no class.
    fn class(self, note: u64) -> Option<u16> {
        let class = u16::try_from(note ^ self.0).ok()?;
        (class != NO_CLASS).then_some(class)
    }

    /// Clears the note in front of a packet from AF_XDP, and returns its class.
    #[inline]
    pub fn take(self, packet: &mut Packet) -> Option<u16> {
        if !packet.unpull(NOTE_LEN) {
            return None;
        }
        let bytes = packet.data_mut().first_chunk_mut::<NOTE_LEN>();
        let class = bytes.and_then(|bytes| {
            let note = u64::from_ne_bytes(*bytes);
            // So a later frame in this buffer without a note does not show this one.
            *bytes = [0; NOTE_LEN];
            self.class(note)
        });
        let is_back = packet.pull(NOTE_LEN);
        debug_assert!(is_back);
        class
    }

    /// The class in the metadata that a test run of the program leaves.
    pub(crate) fn of_run(self, metadata: &[u8]) -> Option<u16> {
        self.class(u64::from_ne_bytes(*metadata.last_chunk::<NOTE_LEN>()?))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn noted(note: u64) -> Packet {
        let mut packet = Packet::new(&[&note.to_ne_bytes()[..], b"frame"].concat()).unwrap();
        assert!(packet.pull(NOTE_LEN));
        packet
    }

    #[test]
    fn a_note_is_taken_once() {
        let notes = Notes::new();
        let mut packet = noted(notes.bits() | 7);
        assert_eq!(notes.take(&mut packet), Some(7));
        assert_eq!(packet.data(), b"frame");
        assert_eq!(notes.take(&mut packet), None);
        assert_eq!(notes.take(&mut noted(notes.bits() | u64::from(NO_CLASS))), None);
    }

    #[test]
    fn notes_of_other_programs_say_nothing() {
        let (notes, other) = (Notes::new(), Notes::new());
        assert_ne!(notes, other);
        for note in [0, 7, u64::MAX, other.bits() | 7, notes.bits() ^ (1 << 16) | 7] {
            assert_eq!(notes.take(&mut noted(note)), None, "{note:x}");
        }
    }

    #[test]
    fn a_packet_without_head_room_has_no_note() {
        let mut packet = Packet::new(b"frame").unwrap();
        let all = packet.headroom();
        assert!(packet.unpull(all));
        assert_eq!(Notes::new().take(&mut packet), None);
        assert_eq!(packet.len(), all + 5);
    }
}
