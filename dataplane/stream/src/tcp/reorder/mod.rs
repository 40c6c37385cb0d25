//! Segments that came too early, until those before them come.
//!
//! One store serves all connections of a thread. Each direction of a connection keeps a handle
//! ([`Waiting`]) of a list that is sorted by sequence number and in which no two segments overlap:
//! overlaps are resolved when a segment comes, by the rule of [`Overlap`]. Nothing is ever split,
//! so there are never more packets than came. A segment that lies within another gives its bytes
//! to it if they count, and goes.
//!
//! Comparisons use the remaining part of a waiting segment. Its FIN counts like a byte: a segment
//! that loses the place of the FIN, loses the FIN.

use core::ops::Range;

use thruway_packet::Packet;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

use crate::segment::Parts;
use crate::tcp::Seq;
use crate::tcp::overlap::Overlap;

mod node;
#[cfg(test)]
mod tests;

use node::Node;
pub use node::Taken;

/// How much may wait, in bytes of packet memory: a segment costs the frame that it is in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Bounds {
    /// Of one direction of a connection.
    pub waiting_bytes: u32,
    /// Of all of them.
    pub total_bytes: u64,
}

/// The expected number of a direction, and its bounds.
#[derive(Debug, Clone, Copy)]
pub struct Expected {
    /// Sequence number of the next byte.
    pub next: Seq,
    /// How many bytes from there on its receiver has room for.
    pub window: u32,
    /// The rule for overlaps.
    pub overlap: Overlap,
}

/// The waiting segments of one direction. All zeros are none.
#[derive(
    Debug, Clone, Copy, Default, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable,
)]
#[repr(C)]
pub struct Waiting {
    /// Number of the first node plus 1; 0 for none.
    head: u32,
    /// The same of the last one.
    tail: u32,
    packets: u32,
    cost: u32,
}

impl Waiting {
    /// None waits.
    pub const NONE: Waiting = Waiting { head: 0, tail: 0, packets: 0, cost: 0 };

    /// Whether none waits.
    #[inline]
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.head == 0
    }

    /// How many packets wait.
    #[must_use]
    pub fn packets(&self) -> u32 {
        self.packets
    }

    /// Bytes of packet memory that they hold.
    #[must_use]
    pub fn memory_bytes(&self) -> u32 {
        self.cost
    }
}

/// The fate of a segment.
#[derive(Debug)]
pub enum Outcome {
    /// It waits, or a part of it.
    Stored,
    /// All that it has is known already, or its bytes went into a segment that waits.
    Duplicate(Packet),
    /// No more may wait.
    Full(Packet),
    /// Nothing of it is within the window.
    OutOfWindow(Packet),
}

/// Counters.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Stats {
    /// Overlaps with a segment that waited.
    pub overlaps: u64,
    /// Those where bytes differed.
    pub conflicts: u64,
}

/// The store of a thread.
#[derive(Debug)]
pub struct Reorder {
    bounds: Bounds,
    slots: Vec<Slot>,
    /// First free slot plus 1; 0 for none.
    free: u32,
    total_cost: u64,
    packets: usize,
    large: u32,
    lists: u32,
    spent: Vec<Packet>,
    stats: Stats,
}

#[derive(Debug)]
struct Slot {
    /// `None` in a free one.
    node: Option<Node>,
    /// Number of the slot behind in its list, plus 1; 0 for none.
    next: u32,
}

/// Relation of two segments that overlap.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum OverlapAction {
    OldYields,
    CutOldFront,
    CutOldBack,
    /// The new one's bytes go into the old one.
    NewWithin,
    NewYields,
    CutNewFront,
    CutNewBack,
    /// The old one's bytes go into the new one.
    OldWithin,
}

fn meet(old: &Range<Seq>, new: &Range<Seq>, is_new_kept: bool) -> OverlapAction {
    let begins_before = new.start.before(old.start);
    let begins_after = new.start.after(old.start);
    let ends_before = new.end.before(old.end);
    let ends_after = new.end.after(old.end);
    match is_new_kept {
        true if !begins_after && !ends_before => OverlapAction::OldYields,
        true if !begins_after => OverlapAction::CutOldFront,
        true if !ends_before => OverlapAction::CutOldBack,
        true => OverlapAction::NewWithin,
        false if !begins_before && !ends_after => OverlapAction::NewYields,
        false if !begins_before => OverlapAction::CutNewFront,
        false if !ends_after => OverlapAction::CutNewBack,
        false => OverlapAction::OldWithin,
    }
}

impl Reorder {
    /// An empty one; memory is taken as it is needed.
    #[must_use]
    pub fn new(bounds: Bounds) -> Reorder {
        let (slots, spent) = (Vec::new(), Vec::new());
        Reorder {
            bounds,
            slots,
            free: 0,
            total_cost: 0,
            packets: 0,
            large: 0,
            lists: 0,
            spent,
            stats: Stats::default(),
        }
    }

    /// Inserts a segment: its bytes are those of `parts`, from `seq` on, and `fin` tells whether
    /// the stream ends behind them. It may also begin at or before the expected byte, so that
    /// overlaps with waiting segments are resolved: then no bound keeps it out, and
    /// [`take`](Self::take) returns it.
    pub fn insert(
        &mut self,
        waiting: &mut Waiting,
        (packet, parts): (Packet, &Parts),
        (seq, fin): (Seq, bool),
        expected: &Expected,
    ) -> Outcome {
        let mut new = Node::new(packet, parts, seq, fin);
        if !new.span().end.after(expected.next) {
            return Outcome::Duplicate(new.packet);
        }
        new.cut_front(expected.next);
        // A FIN needs no room: it may stand where the window ends.
        let end = expected.next + expected.window;
        if end.before(new.bytes_end()) {
            new.cut_back(end);
        }
        if new.is_empty() || end.before(new.seq) {
            return Outcome::OutOfWindow(new.packet);
        }
        if new.seq != expected.next && !self.has_room(waiting, new.cost()) {
            return Outcome::Full(new.packet);
        }
        self.insert_segment(waiting, new, expected.overlap)
    }

    /// The segment that begins at `next`, if there is one: earlier bytes are cut off.
    pub fn take(&mut self, waiting: &mut Waiting, next: Seq) -> Option<Taken> {
        loop {
            let span = self.node(waiting.head)?.span();
            if next.before(span.start) {
                return None;
            }
            let mut node = self.unlink(waiting, 0)?;
            if !span.end.after(next) {
                self.spent.push(node.packet);
                continue;
            }
            node.cut_front(next);
            match node.into_segment() {
                Ok(taken) => return Some(taken),
                Err(packet) => self.spent.push(packet),
            }
        }
    }

    /// Gives up the waiting segments.
    pub fn clear(&mut self, waiting: &mut Waiting) {
        while let Some(node) = self.unlink(waiting, 0) {
            self.spent.push(node.packet);
        }
        *waiting = Waiting::default();
    }

    /// Packets that are no longer needed, since the last call: replaced ones, and those given up.
    pub fn spent(&mut self) -> std::vec::Drain<'_, Packet> {
        self.spent.drain(..)
    }

    /// Where the first one that waits begins.
    #[must_use]
    pub fn first(&self, waiting: &Waiting) -> Option<Seq> {
        self.node(waiting.head).map(|node| node.seq)
    }

    /// The ranges of waiting bytes, in order, adjoining ones merged: between them are the holes.
    pub fn ranges(&self, waiting: &Waiting) -> impl Iterator<Item = Range<Seq>> {
        let mut at = waiting.head;
        std::iter::from_fn(move || {
            let first = self.slot(at)?;
            let mut range = first.node.as_ref()?.bytes_span();
            at = first.next;
            while let Some(slot) = self.slot(at) {
                let behind = slot.node.as_ref()?.bytes_span();
                if behind.start != range.end {
                    break;
                }
                (range.end, at) = (behind.end, slot.next);
            }
            Some(range)
        })
    }

    /// Packets that wait.
    #[must_use]
    pub fn packets(&self) -> usize {
        self.packets
    }

    /// Bytes of packet memory that all of them hold.
    #[must_use]
    pub fn memory_bytes(&self) -> u64 {
        self.total_cost
    }

    /// Those in large frames.
    #[must_use]
    pub fn large(&self) -> u32 {
        self.large
    }

    /// Directions of connections of which something waits.
    pub(crate) fn lists(&self) -> u32 {
        self.lists
    }

    /// Counters so far.
    #[must_use]
    pub fn stats(&self) -> Stats {
        self.stats
    }

    fn has_room(&self, waiting: &Waiting, cost: u32) -> bool {
        u64::from(waiting.cost) + u64::from(cost) <= u64::from(self.bounds.waiting_bytes)
            && self.total_cost + u64::from(cost) <= self.bounds.total_bytes
    }

    /// Inserts a segment, or the part that others leave of it.
    fn insert_segment(
        &mut self,
        waiting: &mut Waiting,
        mut new: Node,
        overlap: Overlap,
    ) -> Outcome {
        // PERF: behind a lost segment all that follows is appended.
        let is_behind_all =
            self.node(waiting.tail).is_some_and(|last| !last.span().end.after(new.seq));
        let mut before = if is_behind_all { waiting.tail } else { 0 };
        loop {
            let at = self.behind(waiting, before);
            let Some(old) = self.slots.get_mut(index(at)).and_then(|slot| slot.node.as_mut())
            else {
                break;
            };
            let (ours, theirs) = (new.span(), old.span());
            if !ours.end.after(theirs.start) {
                break;
            }
            if !theirs.end.after(ours.start) {
                before = at;
                continue;
            }
            self.stats.overlaps += 1;
            self.stats.conflicts += u64::from(!old.agrees(&new));
            let meeting = meet(&theirs, &ours, overlap.is_new_kept(&theirs, &ours));
            match meeting {
                OverlapAction::OldYields => {}
                OverlapAction::OldWithin => new.absorb(old),
                OverlapAction::NewWithin => old.absorb(&new),
                OverlapAction::NewYields => {}
                OverlapAction::CutNewFront => new.cut_front(theirs.end),
                OverlapAction::CutNewBack => new.cut_back(theirs.start),
                OverlapAction::CutOldFront => old.cut_front(ours.end),
                OverlapAction::CutOldBack => old.cut_back(ours.start),
            }
            match meeting {
                OverlapAction::NewYields | OverlapAction::NewWithin => {
                    return Outcome::Duplicate(new.packet);
                }
                OverlapAction::OldYields | OverlapAction::OldWithin => {
                    let gone = self.unlink(waiting, before);
                    self.spent.extend(gone.map(|node| node.packet));
                }
                _ => {}
            }
        }
        self.link(waiting, before, new);
        Outcome::Stored
    }

    fn slot(&self, at: u32) -> Option<&Slot> {
        self.slots.get(index(at))
    }

    fn node(&self, at: u32) -> Option<&Node> {
        self.slot(at)?.node.as_ref()
    }

    /// The one behind `before`; the first one behind 0.
    fn behind(&self, waiting: &Waiting, before: u32) -> u32 {
        if before == 0 { waiting.head } else { self.slot(before).map_or(0, |slot| slot.next) }
    }

    fn set_behind(&mut self, waiting: &mut Waiting, before: u32, at: u32) {
        match self.slots.get_mut(index(before)) {
            Some(slot) => slot.next = at,
            None => waiting.head = at,
        }
    }

    /// Takes the one behind `before` out.
    fn unlink(&mut self, waiting: &mut Waiting, before: u32) -> Option<Node> {
        let at = self.behind(waiting, before);
        let slot = self.slots.get_mut(index(at))?;
        let (node, next) = (slot.node.take()?, slot.next);
        slot.next = self.free;
        self.free = at;
        self.set_behind(waiting, before, next);
        if waiting.tail == at {
            waiting.tail = before;
        }
        let cost = node.cost();
        self.large -= u32::from(node.packet.is_large());
        self.lists -= u32::from(waiting.packets == 1);
        waiting.packets = waiting.packets.saturating_sub(1);
        waiting.cost = waiting.cost.saturating_sub(cost);
        self.total_cost -= u64::from(cost);
        self.packets -= 1;
        Some(node)
    }

    /// Puts one in behind `before`.
    fn link(&mut self, waiting: &mut Waiting, before: u32, node: Node) {
        let cost = node.cost();
        self.large += u32::from(node.packet.is_large());
        let slot = Slot { node: Some(node), next: self.behind(waiting, before) };
        if slot.next == 0 {
            waiting.tail = 0;
        }
        let at = match self.slots.get_mut(index(self.free)) {
            Some(free) => {
                let at = self.free;
                self.free = free.next;
                *free = slot;
                at
            }
            None => {
                self.slots.push(slot);
                self.slots.len() as u32
            }
        };
        if waiting.tail == 0 {
            waiting.tail = at;
        }
        self.set_behind(waiting, before, at);
        self.lists += u32::from(waiting.packets == 0);
        waiting.packets += 1;
        waiting.cost += cost;
        self.total_cost += u64::from(cost);
        self.packets += 1;
    }
}

/// Place of a slot by its number plus 1; none for 0.
fn index(at: u32) -> usize {
    (at as usize).wrapping_sub(1)
}
