//! Packets that wait for their sessions to move.

use std::collections::VecDeque;

use thruway_element::Cx;
use thruway_flow::Fcb;
use thruway_packet::{Batch, MAX_BATCH, Packet};

use super::assigned::Assigned;
use super::lost::Lost;
use super::spread::{Replica, Spread};

/// Packets that wait at most.
const HELD_MAX: usize = 8192;
/// With so many those upstream are to wait.
const PRESSES_AT: usize = HELD_MAX / 2;

/// A packet, and the input that it came by.
type Arrived = (usize, Packet);

/// Packets that wait, in the order in which they came.
pub(super) struct HeldPackets {
    packets: VecDeque<Arrived>,
    /// Of those that are looked at: they go on waiting.
    left: VecDeque<Arrived>,
    /// Of the batch in hand: they do not wait.
    passing: Batch,
    /// Those that go on together.
    leaving: Batch,
    /// By replica: how many it takes yet, once it was asked.
    room: Vec<Option<usize>>,
}

/// The fate of a packet that has waited.
enum Next {
    Goes,
    Waits,
    /// Its session is not there any more.
    IsLost,
}

impl HeldPackets {
    pub(super) fn new() -> HeldPackets {
        HeldPackets {
            packets: VecDeque::new(),
            left: VecDeque::new(),
            passing: Batch::with_room(),
            leaving: Batch::with_room(),
            room: Vec::new(),
        }
    }

    /// Makes room for as many as may wait: packets allocate none.
    pub(super) fn prepare(&mut self) {
        for packets in [&mut self.packets, &mut self.left] {
            packets.reserve(HELD_MAX.saturating_sub(packets.len()));
        }
    }

    /// Removes the packets of sessions that are about to move from a batch.
    pub(super) fn take(&mut self, cx: &mut Cx<'_>, input: usize, batch: &mut Batch) {
        let node = cx.node();
        let mut lost = 0;
        if let Some(flows) = cx.flows() {
            let access = *flows.access(node);
            for packet in batch.drain() {
                let at = flows.locate(&access, Fcb(packet.fcb()));
                let state = at.and_then(|at| Assigned::read(flows, &at));
                if !state.is_some_and(|state| state.is_held()) {
                    self.passing.push(packet);
                } else if self.packets.len() < HELD_MAX {
                    self.packets.push_back((input, packet));
                } else {
                    lost += 1;
                }
            }
            std::mem::swap(batch, &mut self.passing);
        }
        cx.count_drops(Lost::HeldFull, lost);
        self.press(cx);
    }

    /// Applies backpressure upstream, or ends it.
    pub(super) fn press(&self, cx: &mut Cx<'_>) {
        cx.press_back_while_holding(self.packets.len() >= PRESSES_AT);
    }

    /// Sends those on that their replicas take now, each session's in their order. Says whether all
    /// have gone.
    pub(super) fn release(&mut self, cx: &mut Cx<'_>, spread: &mut Spread) -> bool {
        self.room.clear();
        let mut leaving_by = 0;
        // When so many wait that no replica may take any more, the others are not looked at.
        while self.left.len() < MAX_BATCH
            && let Some((input, packet)) = self.packets.pop_front()
        {
            match self.next(cx, spread, &packet) {
                Next::Goes => {
                    if input != leaving_by || self.leaving.len() == MAX_BATCH {
                        self.send(cx, spread, leaving_by);
                    }
                    leaving_by = input;
                    self.leaving.push(packet);
                }
                Next::Waits => self.left.push_back((input, packet)),
                Next::IsLost => cx.drop(Lost::Ended, packet),
            }
        }
        self.send(cx, spread, leaving_by);
        self.left.append(&mut self.packets);
        std::mem::swap(&mut self.left, &mut self.packets);
        self.press(cx);
        self.packets.is_empty()
    }

    /// Sends those on that go together.
    fn send(&mut self, cx: &mut Cx<'_>, spread: &mut Spread, input: usize) {
        spread.input = input;
        cx.per_session(spread, &mut self.leaving);
        cx.emit_all(0, &mut self.leaving);
    }

    fn next(&mut self, cx: &mut Cx<'_>, spread: &mut Spread, packet: &Packet) -> Next {
        let node = cx.node();
        let state = cx.flows().and_then(|flows| {
            let at = flows.locate(flows.access(node), Fcb(packet.fcb()))?;
            Assigned::read(flows, &at)
        });
        // After a hot swap another session may have the record: packets of that one do not wait.
        let Some(state) = state.filter(Assigned::is_held) else { return Next::IsLost };
        match spread.replica_of(&state) {
            Some(replica) if !self.takes_one(cx, spread, replica) => Next::Waits,
            _ => Next::Goes,
        }
    }

    /// Whether a replica takes one more packet now.
    fn takes_one(&mut self, cx: &mut Cx<'_>, spread: &Spread, replica: Replica) -> bool {
        let at = replica.0 as usize;
        if self.room.len() <= at {
            self.room.resize(at + 1, None);
        }
        // A batch at a time: more would have to be cut again.
        let room = self.room[at].get_or_insert_with(|| spread.room_of(cx, replica).min(MAX_BATCH));
        let left = room.checked_sub(1);
        *room = left.unwrap_or(0);
        left.is_some()
    }

    /// Loses all; how many there were.
    pub(super) fn forget(&mut self) -> usize {
        self.packets.drain(..).count()
    }
}
