//! Sessions of a thread's manager and their short cuts: see [`ShortCuts`].

use thruway_packet::Packet;

use crate::common::Common;
use crate::fcb::{Direction, Fcb};
use crate::key::PacketView;
use crate::life::{Phase, Transport};
use crate::manager::flow_manager::Manager;
use crate::manager::level::{ENDING, SHORT_CUT};
use crate::manager::ownership::{HERE, here};
use crate::manager::short_cuts::{
    CANDIDATE_LEN, CANDIDATES_MAX, Candidate, Live, Numbers, SAMPLE_EVERY, ShortCuts,
    UDP_CANDIDATE_LEN,
};
use crate::manager::work::Item;
use crate::plan::LevelId;
use crate::tcp_flags::{TCP_ACK, TCP_FIN, TCP_RST, TCP_SYN};

impl Manager {
    /// Begins to look for sessions that could take short cuts.
    pub fn set_short_cuts(&mut self, short_cuts: ShortCuts) {
        self.short_cuts.get_or_insert_with(|| Box::new(short_cuts));
    }

    /// The state of short cuts, if there may be any.
    #[inline]
    pub fn short_cuts(&mut self) -> Option<&mut ShortCuts> {
        self.short_cuts.as_deref_mut()
    }

    /// While set, no session begins: packets only report the fate of existing ones.
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
        // The view's frame is the whole one if there is one; else it is not inspected.
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
        // Packets that passed before count.
        self.sync_short_cut(level, index);
        if let Some(short_cuts) = &mut self.short_cuts {
            short_cuts.forget(level, index);
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

    /// Takes over the table's numbers of a session's sides.
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

    /// A packet of a session with a short cut came by software: ends the short cut if the packet
    /// may change the session, and synchronises the numbers.
    #[inline]
    pub(super) fn meet_short_cut(&mut self, flags: u8, level: LevelId, index: u32, item: &Item) {
        if flags & SHORT_CUT != 0 {
            self.meet(level, index, item);
        }
    }

    #[cold]
    fn meet(&mut self, level: LevelId, index: u32, item: &Item) {
        let is_change = item.segment.flags & (TCP_FIN | TCP_RST | TCP_SYN) != 0;
        if is_change && item.protocol == 6 {
            self.stop_short_cut(level, index);
        } else {
            self.sync_short_cut(level, index);
        }
    }

    /// The same once the packet has been noted.
    #[inline]
    pub(super) fn leave_short_cut(&mut self, flags: u8, level: LevelId, index: u32) {
        if flags & SHORT_CUT != 0 {
            self.leave(level, index);
        }
    }

    #[cold]
    fn leave(&mut self, level: LevelId, index: u32) {
        if let Some(short_cuts) = &mut self.short_cuts
            && short_cuts.live.contains_key(&(level, index))
            && short_cuts.seen.last() != Some(&(level, index))
        {
            short_cuts.seen.push((level, index));
        }
    }

    /// Reports the packets of sessions with short cuts that software has seen to the table. Call it
    /// after they have left: so the next packet by a short cut overtakes nothing.
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

    /// The numbers of both sides of a session, if it may take a short cut in this direction now.
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
            Transport::Udp => served & here(direction) != 0,
            Transport::Icmp | Transport::Other => false,
        };
        is_served.then(|| self.short_cut_numbers((level, index)))?
    }

    /// The numbers of both sides of a session that has not ended.
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
