//! Where the numbers of a session's TCP sides are, and what its segments tell by them: see
//! [`crate::tcp`].

use crate::fcb::Direction;
use crate::life::{Life, TCP_ACK, TCP_SYN};
use crate::manager::entry::Item;
use crate::manager::level::LevelState;
use crate::manager::meeting::Met;
use crate::rendezvous::{RecordId, Rendezvous};
use crate::tcp::{Segment, Side, UNSOUND};

/// Words of a [`Side`].
pub(super) const SIDE_WORDS: usize = size_of::<Side>() / 4;

fn read(words: &[u32]) -> Side {
    match words.first_chunk::<SIDE_WORDS>() {
        Some(&[end, ack, meta]) => Side { end, ack, meta },
        None => Side::default(),
    }
}

fn write(words: &mut [u32], side: Side) {
    words[..SIDE_WORDS].copy_from_slice(&[side.end, side.ack, side.meta]);
}

/// What a segment of a connection tells that several threads may serve.
#[inline]
fn believe_shared(
    meeting: &Rendezvous,
    record: RecordId,
    direction: Direction,
    segment: &Segment,
) -> u8 {
    let before = meeting.side(record, direction);
    let mut own = before;
    if own.goes_on(segment) {
        meeting.set_numbers(record, direction, &own);
        return segment.flags;
    }
    let flags = own.follow(&meeting.side(record, direction.reversed()), segment);
    if own != before {
        meeting.set_side(record, direction, &own);
    }
    flags
}

impl LevelState {
    /// The flags of a segment that count, once its numbers have been noted. Of a session that is more
    /// than a connection only that there was an acknowledgement.
    #[inline]
    pub(super) fn believe(&mut self, index: u32, direction: Direction, segment: &Segment) -> u8 {
        if segment.flags == 0 {
            return 0;
        }
        if let Some(at) = self.extra.sides {
            let (forward, reply) = self.pool.extras_mut(index, at).split_at_mut(SIDE_WORDS);
            let turned = direction == Direction::Reply;
            let (own, other) = if turned { (reply, forward) } else { (forward, reply) };
            let mut side = read(own);
            if side.goes_on(segment) {
                write(own, side);
                return segment.flags;
            }
            let flags = side.follow(&read(other), segment);
            write(own, side);
            return flags;
        }
        match self.record(index).filter(|_| self.follows_tcp) {
            Some((meeting, record)) => believe_shared(meeting, record, direction, segment),
            None => segment.flags & TCP_ACK,
        }
    }

    /// Nothing is known of a new record's numbers.
    pub(super) fn forget_sides(&mut self, index: u32) {
        if let Some(at) = self.extra.sides {
            self.pool.extras_mut(index, at).fill(0);
        }
    }

    /// Notes the numbers of a session's first packet here.
    pub(super) fn begin_sides(&mut self, index: u32, direction: Direction, segment: &Segment) {
        if self.extra.sides.is_some() {
            self.believe(index, direction, segment);
        }
    }

    /// The life of a session that this packet has not told anything of yet.
    pub(super) fn fresh_life(&self, item: &Item) -> Life {
        // One that several connections share has no protocol's end.
        let protocol = if self.follows_tcp || self.is_one_way { item.protocol } else { 0 };
        Life::fresh(protocol, item.segment.flags)
    }

    /// The life of a session after its first packet here: by what others know of it, if any do.
    pub(super) fn first_life(&self, met: Option<&Met>, direction: Direction, item: &Item) -> Life {
        let segment = &item.segment;
        let flags = match (&self.meeting, met) {
            _ if !self.follows_tcp => segment.flags & TCP_ACK,
            (Some(meeting), Some(met)) => believe_shared(meeting, met.record, direction, segment),
            _ if segment.flags & UNSOUND != 0 => segment.flags & TCP_SYN,
            _ => segment.flags,
        };
        self.fresh_life(item).after(direction, flags)
    }

    /// Takes the numbers of a session of another configuration.
    pub(super) fn take_sides(&mut self, at: u32, (old, index): (&LevelState, u32)) {
        let sides = [Direction::Forward, Direction::Reply].map(|way| old.side(index, way));
        if let Some(first) = self.extra.sides {
            let words = self.pool.extras_mut(at, first);
            write(words, sides[0]);
            write(&mut words[SIDE_WORDS..], sides[1]);
        } else if let Some((meeting, record)) = self.record(at).filter(|_| self.follows_tcp) {
            meeting.set_side(record, Direction::Forward, &sides[0]);
            meeting.set_side(record, Direction::Reply, &sides[1]);
        }
    }

    fn side(&self, index: u32, direction: Direction) -> Side {
        if let Some(at) = self.extra.sides {
            let skipped = if direction == Direction::Reply { SIDE_WORDS } else { 0 };
            let words: [u32; SIDE_WORDS] =
                std::array::from_fn(|word| self.pool.extra(index, at + skipped + word));
            return read(&words);
        }
        let record = self.record(index).filter(|_| self.follows_tcp);
        record.map_or_else(Side::default, |(meeting, record)| meeting.side(record, direction))
    }
}
