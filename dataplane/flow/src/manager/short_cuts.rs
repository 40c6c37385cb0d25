//! Sessions that take short cuts past the software: candidates, present short cuts, and the
//! software's knowledge of packets that it does not see.
//!
//! A port that offers short cuts provides a table; here they end before anything of their session
//! changes: before a FIN, RST or SYN counts, when a function asks for the end, when the session
//! ends. The table advances TCP's numbers as this module does ([`crate::tcp`]), so that a segment
//! that comes by software is judged by all that passed before.

use std::any::Any;
use std::collections::HashMap;

use thruway_packet::{MAX_BATCH, PacketKind};

use crate::fcb::Direction;
use crate::plan::LevelId;
pub use crate::tcp::Numbers;

/// Where the short cuts are, outside of the software.
pub trait ShortCutTable: Send {
    /// Directs a session's packets to software from now on.
    fn stop(&self, slot: u32);

    /// Directs those of all sessions to software, for all threads.
    fn stop_all(&self);

    /// The present numbers of a side.
    fn numbers(&self, slot: u32, direction: Direction) -> Numbers;

    /// The software has seen this of a side.
    fn advance(&self, slot: u32, direction: Direction, seen: Numbers);

    /// For the provider of the table.
    fn as_any(&self) -> &dyn Any;
}

/// Bytes of a frame of a candidate: Ethernet, IPv4 without options, the transport header.
pub const CANDIDATE_LEN: usize = 14 + 20 + 20;
/// The same for UDP's shorter header; zeros follow.
pub(super) const UDP_CANDIDATE_LEN: usize = 14 + 20 + 8;
/// One of so many packets of sessions without a short cut is sampled: so long flows are found soon,
/// and short ones cost nothing. A prime, so that alternating directions are both found.
pub(super) const SAMPLE_EVERY: u32 = 17;
/// Candidates that wait at most.
pub(super) const CANDIDATES_MAX: usize = 16;

/// A packet of a session's direction that could take a short cut.
#[derive(Clone, Copy, Debug)]
pub struct Candidate {
    /// Its input port: [`ShortCuts::port`].
    pub port: u32,
    /// Its session.
    pub level: LevelId,
    /// The session's record.
    pub index: u32,
    /// Its direction.
    pub direction: Direction,
    /// How it reached the port.
    pub kind: PacketKind,
    /// How its frame begins.
    pub frame: [u8; CANDIDATE_LEN],
}

impl Candidate {
    /// Whether it is one of TCP, not UDP.
    pub fn is_tcp(&self) -> bool {
        self.frame[23] == 6
    }
}

/// A session's short cut.
#[derive(Clone, Copy, Debug)]
pub(super) struct Live {
    pub(super) slot: u32,
    /// By direction.
    pub(super) is_taken: [bool; 2],
}

/// One thread's state of short cuts.
pub struct ShortCuts {
    pub(super) table: Box<dyn ShortCutTable>,
    pub(super) live: HashMap<(LevelId, u32), Live>,
    pub(super) candidates: Vec<Candidate>,
    /// Sessions with packets seen by software since the last report to the table.
    pub(super) seen: Vec<(LevelId, u32)>,
    pub(super) until_next: u32,
    /// The port of the packets being classified.
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

    /// A candidate of a port.
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

    /// Knows no more of a session's, which is stopped.
    pub(super) fn forget(&mut self, level: LevelId, index: u32) {
        if self.live.remove(&(level, index)).is_some() {
            self.stopped += 1;
        }
    }
}
