//! The place of a session's TCP numbers, and the effects of its segments by them: see
//! [`crate::tcp`].

use crate::fcb::Direction;
use crate::life::Life;
use crate::manager::level::LevelState;
use crate::manager::shared_records::SharedRecord;
use crate::manager::work::Item;
use crate::shared_flows::{RecordId, SharedFlows};
use crate::tcp::{Numbers, SIDE_WORDS, Segment, Side};
use crate::tcp_flags::{TCP_ACK, TCP_SYN, UNSOUND};
use zerocopy::FromBytes;

/// Both sides of a connection.
type Sides = [Side; 2];

/// The effect of a segment of a connection that several threads may serve.
#[inline]
fn believe_shared(
    shared_flows: &SharedFlows,
    record: RecordId,
    direction: Direction,
    segment: &Segment,
) -> u8 {
    let before = shared_flows.side(record, direction);
    let mut own = before;
    if own.goes_on(segment) {
        shared_flows.set_numbers(record, direction, &own);
        return segment.flags;
    }
    let flags = own.follow(&shared_flows.side(record, direction.reversed()), segment);
    if own != before {
        shared_flows.set_side(record, direction, &own);
    }
    flags
}

impl LevelState {
    /// The sides that a record here has.
    #[inline(always)]
    fn sides_mut(&mut self, index: u32) -> Option<&mut Sides> {
        let at = self.extra.sides?;
        let bytes = self.pool.extra_bytes_mut::<{ size_of::<Sides>() }>(index, at)?;
        Sides::mut_from_bytes(bytes).ok()
    }

    /// Records a packet of a session, and returns whether it is the usual segment, which continues
    /// at the end of its side: then its flags count as they are.
    ///
    /// PERF: the record's place is computed once for both, and all else is out of line: by
    /// callgrind of `session_bench` that took 80 of 170 instructions away (576 a packet without
    /// following TCP's numbers, 665 with it).
    #[inline(always)]
    pub(super) fn touch(
        &mut self,
        index: u32,
        direction: Direction,
        item: &Item,
        now: u32,
    ) -> bool {
        let at = self.extra.sides.unwrap_or(usize::MAX / 8);
        let (head, bytes) = self.pool.head_and_extra_bytes::<{ size_of::<Sides>() }>(index, at);
        (head.seen, head.leaf) = (now, item.leaf);
        let sides = bytes.and_then(|bytes| Sides::mut_from_bytes(bytes).ok());
        sides.is_some_and(|sides| sides[direction as usize].goes_on(&item.segment))
    }

    /// The flags of a segment that count, once its numbers have been noted. Of a session that is
    /// more than a connection only that there was an acknowledgement.
    #[inline(never)]
    pub(super) fn believe(&mut self, index: u32, direction: Direction, segment: &Segment) -> u8 {
        if segment.flags == 0 {
            return 0;
        }
        if let Some([forward, reply]) = self.sides_mut(index) {
            let turned = direction == Direction::Reply;
            let (own, other) = if turned { (reply, forward) } else { (forward, reply) };
            return own.follow(other, segment);
        }
        match self.record(index).filter(|_| self.follows_tcp) {
            Some((shared_flows, record)) => {
                believe_shared(shared_flows, record, direction, segment)
            }
            None => segment.flags & TCP_ACK,
        }
    }

    /// Nothing is known of a new record's numbers.
    pub(super) fn forget_sides(&mut self, index: u32) {
        if let Some(sides) = self.sides_mut(index) {
            *sides = Sides::default();
        }
    }

    /// Notes the numbers of a session's first packet here.
    pub(super) fn begin_sides(&mut self, index: u32, direction: Direction, segment: &Segment) {
        if self.extra.sides.is_some() {
            self.believe(index, direction, segment);
        }
    }

    /// The life of a session before any effect of this packet.
    pub(super) fn fresh_life(&self, item: &Item) -> Life {
        // One that several connections share has no protocol's end.
        let protocol = if self.follows_tcp || self.is_unidirectional { item.protocol } else { 0 };
        Life::fresh(protocol, item.segment.flags)
    }

    /// The life of a session after its first packet here: by the shared state, if there is any.
    pub(super) fn first_life(
        &self,
        shared: Option<&SharedRecord>,
        direction: Direction,
        item: &Item,
    ) -> Life {
        let segment = &item.segment;
        let flags = match (&self.shared_flows, shared) {
            _ if !self.follows_tcp => segment.flags & TCP_ACK,
            (Some(shared_flows), Some(shared)) => {
                believe_shared(shared_flows, shared.record, direction, segment)
            }
            _ if segment.flags & UNSOUND != 0 => segment.flags & TCP_SYN,
            _ => segment.flags,
        };
        self.fresh_life(item).after(direction, flags)
    }

    /// Takes the numbers of a session of another configuration.
    pub(super) fn take_sides(&mut self, at: u32, (old, index): (&LevelState, u32)) {
        let sides =
            [Direction::Forward, Direction::Reply].map(|direction| old.side(index, direction));
        if let Some(own) = self.sides_mut(at) {
            *own = sides;
        } else if let Some((shared_flows, record)) = self.record(at).filter(|_| self.follows_tcp) {
            shared_flows.set_side(record, Direction::Forward, &sides[0]);
            shared_flows.set_side(record, Direction::Reply, &sides[1]);
        }
    }

    /// Whether both sides' numbers are known and agree.
    pub(super) fn is_steady(&self, index: u32) -> bool {
        [Direction::Forward, Direction::Reply]
            .into_iter()
            .all(|direction| self.side(index, direction).is_steady())
    }

    /// The numbers of a side.
    pub(super) fn numbers(&self, index: u32, direction: Direction) -> Numbers {
        self.side(index, direction).numbers(&self.side(index, direction.reversed()))
    }

    /// Takes the numbers of a side that another thread has seen.
    pub(super) fn take_numbers(&mut self, index: u32, direction: Direction, seen: Numbers) {
        let mut own = self.side(index, direction);
        own.take_in(&seen);
        if let Some(sides) = self.sides_mut(index) {
            sides[direction as usize] = own;
        } else if let Some((shared_flows, record)) = self.record(index).filter(|_| self.follows_tcp)
        {
            shared_flows.set_side(record, direction, &own);
        }
    }

    fn side(&self, index: u32, direction: Direction) -> Side {
        if let Some(at) = self.extra.sides {
            let skipped = if direction == Direction::Reply { SIDE_WORDS } else { 0 };
            let words: [u32; SIDE_WORDS] =
                std::array::from_fn(|word| self.pool.extra(index, at + skipped + word));
            let [end, ack, meta] = words;
            return Side { end, ack, meta };
        }
        let record = self.record(index).filter(|_| self.follows_tcp);
        record.map_or_else(Side::default, |(shared_flows, record)| {
            shared_flows.side(record, direction)
        })
    }
}
