//! The packets of a batch that look for their sessions.

use crate::fcb::Direction;
use crate::key::PacketView;
use crate::manager::headers::ParsedHeaders;
use crate::manager::level::FORWARD_EXCHANGED;
use crate::manager::reader::{self, Key, Narrow, Reader, Wide};
use crate::plan::LeafId;
use crate::table::Found;
use crate::tcp::Segment;

/// One packet that looks for its session.
#[derive(Clone, Copy, Debug)]
pub(super) struct Item {
    /// Its place in the batch.
    pub at: u16,
    pub leaf: LeafId,
    pub protocol: u8,
    pub segment: Segment,
    pub exchanged: bool,
    /// It quotes a packet of the session.
    pub related: bool,
}

/// The flag of a new session for the order of its key: as in the packet that opened it, in
/// whichever thread. This one goes in `direction`.
pub(super) fn forward_flag(item: &Item, direction: Direction) -> u8 {
    let exchanged = item.exchanged != (direction == Direction::Reply);
    if exchanged { FORWARD_EXCHANGED } else { 0 }
}

/// The packets of a batch that look for sessions of one level.
#[derive(Default)]
pub(super) struct Work {
    pub items: Vec<Item>,
    pub narrow: Vec<Narrow>,
    pub wide: Vec<Wide>,
    pub found: Vec<Found>,
}

impl Work {
    pub fn clear(&mut self) {
        self.items.clear();
        self.narrow.clear();
        self.wide.clear();
    }

    pub fn key(&self, at: usize) -> Key {
        match self.narrow.get(at) {
            Some(key) => Key::Narrow(*key),
            None => Key::Wide(self.wide[at]),
        }
    }

    /// Notes a packet under the key that `reader` reads of it.
    #[inline]
    pub fn add(
        &mut self,
        item: Item,
        reader: &Reader,
        headers: &ParsedHeaders,
        view: &PacketView<'_>,
    ) {
        let exchanged = if reader.is_narrow {
            let ends = reader::narrow_ends(headers, view.network);
            let (key, exchanged) = reader.narrow(&ends, headers.protocol);
            self.narrow.push(key);
            exchanged
        } else {
            let ends = reader::wide_ends(headers, view.network);
            let (key, exchanged) = reader.wide(&ends, headers.protocol, view);
            self.wide.push(key);
            exchanged
        };
        self.items.push(Item { exchanged, ..item });
    }
}
