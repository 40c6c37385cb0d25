//! Functions of streams on trial.

use thruway_exchange::SlotTag;
use thruway_nf_abi::{StreamHead, stream_flag as flag};

use super::{Arrival, Given, Trial, TrialError};

/// What became of pieces of a stream.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Shown {
    /// What goes on, of all pieces.
    pub bytes: Vec<u8>,
    /// Bytes that are held back behind it.
    pub held: usize,
    /// Whether the function ended the connection.
    pub is_closed: bool,
}

impl Trial {
    /// Shows a function of streams ([`Streams`](crate::Streams)) what one direction of a session
    /// carries, each piece in a packet of its own; `mark` says which. Nothing follows if `is_last`.
    ///
    /// # Errors
    /// [`TrialError`].
    pub fn show(
        &mut self,
        mark: SlotTag,
        pieces: &[&[u8]],
        is_last: bool,
    ) -> Result<Shown, TrialError> {
        let slots: Vec<Vec<u8>> = pieces
            .iter()
            .enumerate()
            .map(|(nth, piece)| {
                let last = if is_last && nth + 1 == pieces.len() { flag::LAST } else { 0 };
                let head = StreamHead { flags: flag::SHOWN | last, ..StreamHead::default() };
                [&head.to_bytes(), *piece].concat()
            })
            .collect();
        let slots: Vec<_> = slots.iter().map(|slot| (mark, &slot[..])).collect();
        let mut shown = Shown::default();
        for given in self.exchange_marked(&slots)? {
            shown.take(&given);
        }
        Ok(shown)
    }
}

impl Shown {
    fn take(&mut self, given: &Given) {
        let Some((head, content)) = given.bytes.split_first_chunk() else {
            self.is_closed |= given.arrival == Arrival::Dropped;
            return;
        };
        let head = StreamHead::from_bytes(*head);
        self.is_closed |= head.flags & flag::CLOSE != 0;
        self.held = usize::from(head.kept).min(content.len());
        self.bytes.extend_from_slice(&content[..content.len() - self.held]);
    }
}
