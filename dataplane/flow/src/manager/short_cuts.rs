//! Sessions that take short cuts past the software: which ones could, which ones do, and what the
//! software has to know of what it does not see.
//!
//! Who brings the short cuts (a port) gives a table; here they end before anything of their session
//! changes: before a FIN, RST or SYN counts, when a function asks for the end, when the session
//! ends. The numbers of TCP are moved on by the table as here ([`crate::tcp`]), so that a segment
//! that comes by software is judged by all that passed before.

use std::any::Any;
use std::collections::HashMap;

use thruway_packet::{MAX_BATCH, Packet, PacketKind};

use crate::common::Common;
use crate::fcb::{Direction, Fcb};
use crate::key::PacketView;
use crate::life::{Phase, Transport};
use crate::manager::flow_manager::Manager;
use crate::manager::level::{ENDING, SHORT_CUT};
use crate::manager::ownership::HERE;
use crate::manager::work::Item;
use crate::plan::LevelId;
pub use crate::tcp::Numbers;
use crate::tcp_flags::{TCP_ACK, TCP_FIN, TCP_RST, TCP_SYN};

/// Where the short cuts are, outside of the software.
pub trait ShortCutTable: Send {
    /// A session's packets come by software from now on.
    fn stop(&self, slot: u32);

    /// Those of all sessions do, of all threads.
    fn stop_all(&self);

    /// What is known of a side by now.
    fn numbers(&self, slot: u32, direction: Direction) -> Numbers;

    /// The software has seen this of a side.
    fn advance(&self, slot: u32, direction: Direction, seen: Numbers);

    /// For whoever gave it.
    fn as_any(&self) -> &dyn Any;
}

/// Bytes of a frame that a candidate has: Ethernet, IPv4 without options, what follows.
pub const CANDIDATE_LEN: usize = 14 + 20 + 20;
/// The same of UDP, whose header is shorter; zeros follow.
const UDP_CANDIDATE_LEN: usize = 14 + 20 + 8;
/// One of so many packets of sessions without a short cut is looked at: so long flows are found
/// soon, and short ones cost nothing. A prime, so that directions that take turns are both found.
const SAMPLE_EVERY: u32 = 17;
/// Candidates that wait at most.
const CANDIDATES_MAX: usize = 16;

/// A packet whose session's direction could take a short cut.
#[derive(Clone, Copy, Debug)]
pub struct Candidate {
    /// The port that it came by: [`ShortCuts::port`].
    pub port: u32,
    /// Its session.
    pub level: LevelId,
    /// The session's record.
    pub index: u32,
    /// Which way it went.
    pub direction: Direction,
    /// How it reached the port.
    pub kind: PacketKind,
    /// How its frame begins.
    pub frame: [u8; CANDIDATE_LEN],
}

/// A session's short cut.
#[derive(Clone, Copy, Debug)]
struct Live {
    slot: u32,
    /// By direction.
    is_taken: [bool; 2],
}

/// What one thread knows of short cuts.
pub struct ShortCuts {
    table: Box<dyn ShortCutTable>,
    live: HashMap<(LevelId, u32), Live>,
    candidates: Vec<Candidate>,
    /// Sessions of which software saw packets since they were told to the table.
    seen: Vec<(LevelId, u32)>,
    until_next: u32,
    /// The port whose packets are classified.
    pub port: u32,
    /// Of ports: how often a short cut was stopped here.
    pub stopped: u64,
}

impl ShortCuts {
    /// With none yet.
    pub fn new(table: Box<dyn ShortCutTable>) -> ShortCuts {
        ShortCuts {
            table,
            live: HashMap::new(),
            candidates: Vec::with_capacity(CANDIDATES_MAX),
            seen: Vec::with_capacity(MAX_BATCH),
            until_next: SAMPLE_EVERY,
            port: 0,
            stopped: 0,
        }
    }

    /// The table.
    pub fn table(&self) -> &dyn ShortCutTable {
        &*self.table
    }

    /// A candidate that came by a port.
    pub fn take_candidate(&mut self, port: u32) -> Option<Candidate> {
        let at = self.candidates.iter().position(|candidate| candidate.port == port)?;
        Some(self.candidates.swap_remove(at))
    }

    /// The slot of a session.
    pub fn slot(&self, level: LevelId, index: u32) -> Option<u32> {
        self.live.get(&(level, index)).map(|live| live.slot)
    }

    /// Whether a candidate's direction takes one by now.
    pub fn is_taken(&self, candidate: &Candidate) -> bool {
        let Candidate { level, index, direction, .. } = *candidate;
        let live = self.live.get(&(level, index));
        live.is_some_and(|live| live.is_taken[direction as usize])
    }

    /// Sessions with a short cut.
    pub fn count(&self) -> usize {
        self.live.len()
    }

    fn stop(&mut self, level: LevelId, index: u32) {
        if let Some(live) = self.live.remove(&(level, index)) {
            self.table.stop(live.slot);
            self.stopped += 1;
        }
    }
}

impl Manager {
    /// Begins to look for sessions that could take short cuts.
    pub fn set_short_cuts(&mut self, short_cuts: ShortCuts) {
        self.short_cuts.get_or_insert_with(|| Box::new(short_cuts));
    }

    /// What is known of short cuts, where there may be any.
    #[inline]
    pub fn short_cuts(&mut self) -> Option<&mut ShortCuts> {
        self.short_cuts.as_deref_mut()
    }

    /// While it is so no session begins: packets only tell what becomes of those that there are.
    pub fn set_probing(&mut self, is_probing: bool) {
        (self.is_probing, self.is_spoiled) = (is_probing, false);
    }

    /// Whether the decision about the last probe may be another one for other packets.
    pub fn is_spoiled(&self) -> bool {
        self.is_spoiled
    }

    /// A look at the class of a probe.
    #[cold]
    pub(super) fn is_common(&self, entry: u32, view: &PacketView<'_>, is_tcp: bool) -> bool {
        // The view's frame is the whole one where there is one; else nobody looks at it.
        self.plan.is_common(entry, view, Common { frame_at: 0, is_tcp })
    }

    /// No session takes a short cut any more, of any thread.
    pub fn forget_short_cuts(&mut self) {
        let Some(short_cuts) = &mut self.short_cuts else { return };
        short_cuts.table.stop_all();
        let all: Vec<(LevelId, u32)> = short_cuts.live.keys().copied().collect();
        for (level, index) in all {
            self.stop_short_cut(level, index);
        }
    }

    /// A session takes no short cut any more. To be called before anything of it changes.
    #[cold]
    pub fn stop_short_cut(&mut self, level: LevelId, index: u32) {
        let slot = self.short_cuts.as_ref().and_then(|own| own.slot(level, index));
        if let (Some(short_cuts), Some(slot)) = (&self.short_cuts, slot) {
            short_cuts.table.stop(slot);
        }
        // What passed before counts.
        self.sync_short_cut(level, index);
        if let Some(short_cuts) = &mut self.short_cuts {
            short_cuts.stop(level, index);
        }
        self.levels[usize::from(level)].pool.head_mut(index).flags &= !SHORT_CUT;
    }

    /// A direction of a session takes its short cut, or does not any more.
    pub fn note_short_cut(&mut self, candidate: &Candidate, slot: u32, is_taken: bool) {
        let Candidate { level, index, direction, .. } = *candidate;
        let Some(short_cuts) = &mut self.short_cuts else { return };
        let none = Live { slot, is_taken: [false; 2] };
        let live = short_cuts.live.entry((level, index)).or_insert(none);
        live.is_taken[direction as usize] = is_taken;
        let is_any = live.is_taken.iter().any(|taken| *taken);
        if is_any {
            self.levels[usize::from(level)].pool.head_mut(index).flags |= SHORT_CUT;
        } else {
            self.stop_short_cut(level, index);
        }
    }

    /// Takes over what the table knows of a session's sides.
    pub fn sync_short_cut(&mut self, level: LevelId, index: u32) {
        let Some(short_cuts) = &self.short_cuts else { return };
        let Some(live) = short_cuts.live.get(&(level, index)).copied() else { return };
        let state = &mut self.levels[usize::from(level)];
        for direction in [Direction::Forward, Direction::Reply] {
            if live.is_taken[direction as usize] {
                let seen = short_cuts.table.numbers(live.slot, direction);
                state.take_numbers(index, direction, seen);
            }
        }
    }

    /// A packet of a session with a short cut came by software: what it may change is not passed
    /// by, and what passed is known.
    #[cold]
    pub(super) fn meet_short_cut(&mut self, level: LevelId, index: u32, item: &Item) {
        let is_change = item.segment.flags & (TCP_FIN | TCP_RST | TCP_SYN) != 0;
        if is_change && item.protocol == 6 {
            self.stop_short_cut(level, index);
        } else {
            self.sync_short_cut(level, index);
        }
    }

    /// The same once the packet has been noted.
    #[cold]
    pub(super) fn leave_short_cut(&mut self, level: LevelId, index: u32) {
        if let Some(short_cuts) = &mut self.short_cuts
            && short_cuts.live.contains_key(&(level, index))
            && short_cuts.seen.last() != Some(&(level, index))
        {
            short_cuts.seen.push((level, index));
        }
    }

    /// Tells the table what software has seen of sessions with short cuts. To be called when that
    /// has left: so the next packet by a short cut overtakes nothing.
    #[inline]
    pub fn publish_short_cuts(&mut self) {
        if self.short_cuts.as_ref().is_some_and(|own| !own.seen.is_empty()) {
            self.publish_seen();
        }
    }

    #[cold]
    fn publish_seen(&mut self) {
        let Some(short_cuts) = &mut self.short_cuts else { return };
        for (level, index) in short_cuts.seen.drain(..) {
            let Some(live) = short_cuts.live.get(&(level, index)) else { continue };
            for direction in [Direction::Forward, Direction::Reply] {
                let seen = self.levels[usize::from(level)].numbers(index, direction);
                short_cuts.table.advance(live.slot, direction, seen);
            }
        }
    }

    /// What is known of both sides of a session, if it may take a short cut in this direction now.
    pub fn may_take_short_cut(
        &self,
        (level, index): (LevelId, u32),
        direction: Direction,
    ) -> Option<[Numbers; 2]> {
        let state = self.levels.get(usize::from(level))?;
        if index >= state.pool.extent() || !state.pool.is_live(index) || !state.follows_tcp {
            return None;
        }
        let (head, life) = (state.pool.head(index), state.both(index).0);
        if head.flags & ENDING != 0 || life.phase() != Phase::Open || state.is_remote(index) {
            return None;
        }
        let served = state.word(index).map_or(HERE, |word| word & HERE);
        let is_served = match life.transport() {
            // A side's numbers are those of the thread that serves it.
            Transport::Tcp => served == HERE && state.is_steady(index),
            Transport::Udp => served & crate::manager::ownership::here(direction) != 0,
            Transport::Icmp | Transport::Other => false,
        };
        is_served.then(|| self.short_cut_numbers((level, index)))?
    }

    /// What is known of both sides of a session that has not ended.
    pub fn short_cut_numbers(&self, (level, index): (LevelId, u32)) -> Option<[Numbers; 2]> {
        let state = self.levels.get(usize::from(level))?;
        let is_there = index < state.pool.extent()
            && state.pool.is_live(index)
            && state.pool.head(index).flags & ENDING == 0;
        is_there
            .then(|| [Direction::Forward, Direction::Reply].map(|side| state.numbers(index, side)))
    }

    /// Looks whether a packet's session could take a short cut.
    #[inline]
    pub(super) fn consider(&mut self, fcb: Fcb, item: &Item, packet: &Packet) {
        let Some(short_cuts) = &mut self.short_cuts else { return };
        short_cuts.until_next -= 1;
        if short_cuts.until_next == 0 {
            short_cuts.until_next = SAMPLE_EVERY;
            self.sample(fcb, item, packet);
        }
    }

    #[cold]
    fn sample(&mut self, fcb: Fcb, item: &Item, packet: &Packet) {
        let Some((level, index)) = fcb.session() else { return };
        let direction = fcb.direction();
        let is_usual = match item.protocol {
            6 => item.segment.flags == TCP_ACK,
            17 => true,
            _ => false,
        };
        if !is_usual || fcb.is_related() || self.is_probing {
            return;
        }
        if self.may_take_short_cut((level, index), direction).is_none() {
            return;
        }
        let Some(short_cuts) = &mut self.short_cuts else { return };
        let live = short_cuts.live.get(&(level, index));
        let is_taken = live.is_some_and(|live| live.is_taken[direction as usize]);
        let len = if item.protocol == 6 { CANDIDATE_LEN } else { UDP_CANDIDATE_LEN };
        let Some(frame) = packet.mac_bytes(len) else { return };
        let distance = packet.network_signed_offset().zip(packet.mac_offset());
        let is_plain = distance.is_some_and(|(network, mac)| network - mac == 14)
            && frame[12..15] == [8, 0, 0x45];
        if is_taken || !is_plain || short_cuts.candidates.len() >= CANDIDATES_MAX {
            return;
        }
        let mut begin = [0; CANDIDATE_LEN];
        begin[..len].copy_from_slice(frame);
        let (port, kind) = (short_cuts.port, packet.kind());
        let candidate = Candidate { port, level, index, direction, kind, frame: begin };
        short_cuts.candidates.push(candidate);
    }
}
