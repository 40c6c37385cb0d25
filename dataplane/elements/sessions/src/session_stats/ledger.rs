//! Counting: what each session's state holds, and when a record is made of it.

use std::collections::VecDeque;

use thruway_element::{Direction, Opening, PerSession, Phase, Reason, Session, Verdict};
use thruway_flow::life::Transport;
use thruway_flow::{Ended, SessionDef};
use thruway_packet::Packet;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

use super::record::{DirectionCounts, Endpoints, Record};
use crate::ip_len::ip_len;

/// Of the frames that a probe stands for.
const ETHERNET_LEN: u64 = 14;

/// State of a session: what a packet changes. The rest is in [`Ledger::origins`].
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable,
)]
#[repr(C)]
pub(super) struct Counters {
    /// By direction, as all pairs here; since the last record.
    bytes: [u64; 2],
    packets: [u32; 2],
    /// Milliseconds since the Unix epoch, modulo 2^32 (49 days).
    last_ms: [u32; 2],
    /// Place in the origins and 1; 0: there was no room, so no record.
    origin: u32,
    flags: [u8; 2],
    /// Seconds since the Unix epoch at the last record, modulo 2^16 (18 hours).
    reported_s: u16,
}

/// The part written once for each session, or for each record of it.
#[derive(Clone, Copy, Debug)]
struct Origin {
    endpoints: Endpoints,
    first: [i64; 2],
    /// The protocol has ended it; the flow manager keeps it a little longer for late packets.
    is_closed: bool,
}

/// Counters over all sessions.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Totals {
    /// Open sessions.
    pub(super) open: u64,
    /// Sessions begun.
    pub(super) begun: u64,
    /// Sessions without a record, for want of room.
    pub(super) unrecorded: u64,
    /// Records that found the ring full.
    pub(super) lost: u64,
    /// ICMP errors about packets of sessions: not counted as the sessions' packets.
    pub(super) related: u64,
    /// Packets without a session.
    pub(super) sessionless: u64,
}

/// All sessions of one thread.
pub(super) struct Ledger {
    session: SessionDef,
    /// Seconds after which a session that goes on gets a record; 0: never.
    active_s: u16,
    origins: Vec<Option<Origin>>,
    free: Vec<u32>,
    sessions_max: usize,
    ring: VecDeque<Record>,
    ring_max: usize,
    totals: Totals,
    clock: Clock,
    /// Packets and bytes, of frames, that the packet of a probe stands for.
    pub(super) stands_for: Option<[u64; 2]>,
}

/// The present time in the units of [`Counters`], computed once for each time.
#[derive(Clone, Copy, Debug, Default)]
struct Clock {
    now: i64,
    /// Milliseconds since the Unix epoch.
    now_ms: i64,
    now_s: u16,
}

impl Clock {
    #[inline]
    fn set(&mut self, now: i64) {
        if now != self.now {
            let now_ms = now.div_euclid(1_000_000);
            *self = Clock { now, now_ms, now_s: now_ms.div_euclid(1_000) as u16 };
        }
    }

    /// The time of a stamp that is at most 49 days old, nanoseconds.
    fn time_of(&self, stamp_ms: u32) -> i64 {
        let age_ms = (self.now_ms as u32).wrapping_sub(stamp_ms);
        self.now_ms.saturating_sub(age_ms.into()).saturating_mul(1_000_000)
    }
}

impl Ledger {
    /// For this many sessions and records that wait; `ring_max` 0: no records.
    pub(super) fn new(
        session: SessionDef,
        active_s: u16,
        sessions_max: usize,
        ring_max: usize,
    ) -> Ledger {
        let room = if ring_max == 0 { 0 } else { sessions_max };
        Ledger {
            session,
            active_s,
            // Room that is not used is not touched, and costs no memory.
            origins: Vec::with_capacity(room),
            free: Vec::with_capacity(room),
            sessions_max: room,
            ring: VecDeque::with_capacity(ring_max),
            ring_max,
            totals: Totals::default(),
            clock: Clock::default(),
            stands_for: None,
        }
    }

    /// Gives up what is known of open sessions, and the records that wait, for another ledger.
    pub(super) fn hand_over(&mut self) -> Ledger {
        let room = |ledger: &Ledger| (ledger.active_s, ledger.sessions_max, ledger.ring_max);
        let (active_s, sessions_max, ring_max) = room(self);
        let fresh = Ledger::new(self.session.clone(), active_s, sessions_max, ring_max);
        std::mem::replace(self, fresh)
    }

    /// Takes over what another ledger knew, with its room; sessions of another definition are
    /// over.
    pub(super) fn take_over(&mut self, other: Ledger) {
        if other.session == self.session && (other.ring_max > 0) == (self.ring_max > 0) {
            *self = Ledger { active_s: self.active_s, ..other };
        }
    }

    /// The counters of all sessions together.
    pub(super) fn totals(&self) -> &Totals {
        &self.totals
    }

    /// The oldest record that waits.
    pub(super) fn take(&mut self) -> Option<Record> {
        self.ring.pop_front()
    }

    /// Records that wait.
    pub(super) fn waiting(&self) -> usize {
        self.ring.len()
    }

    /// Counts a record as lost after all.
    pub(super) fn lose(&mut self, records: u64) {
        self.totals.lost += records;
    }

    /// Sets the present time.
    pub(super) fn set_time(&mut self, now: i64) {
        self.clock.set(now);
    }

    fn keep(&mut self, origin: Origin) -> u32 {
        let at = match self.free.pop() {
            Some(at) => at,
            None if self.origins.len() < self.sessions_max => {
                self.origins.push(None);
                self.origins.len() as u32 - 1
            }
            None => {
                self.totals.unrecorded += u64::from(self.ring_max > 0);
                return 0;
            }
        };
        self.origins[at as usize] = Some(origin);
        at + 1
    }

    fn origin(&mut self, state: &Counters) -> Option<&mut Origin> {
        self.origins.get_mut((state.origin as usize).checked_sub(1)?)?.as_mut()
    }

    /// The first packet of a direction since the last record.
    #[cold]
    fn begin_direction(&mut self, state: &Counters, direction: usize) {
        let now = self.clock.now;
        if let Some(origin) = self.origin(state) {
            origin.first[direction] = now;
        }
    }

    /// The protocol has ended the session.
    #[cold]
    fn note_closed(&mut self, state: &Counters) {
        if let Some(origin) = self.origin(state) {
            origin.is_closed = true;
        }
    }

    /// Makes a record of what was counted since the last one.
    fn report(&mut self, state: &Counters, ended: Option<Ended>) {
        let clock = self.clock;
        let Some(Origin { endpoints, first, is_closed }) = self.origin(state).copied() else {
            return;
        };
        let ended = match ended {
            Some(Ended::TimedOut) if is_closed => Some(Ended::Closed),
            other => other,
        };
        let paths = [0, 1].map(|direction| match state.packets[direction] {
            0 => DirectionCounts::default(),
            packets => DirectionCounts {
                packets: u64::from(packets),
                bytes: state.bytes[direction],
                first: first[direction],
                last: clock.time_of(state.last_ms[direction]).max(first[direction]),
                flags: state.flags[direction],
            },
        });
        if paths.iter().all(|direction| direction.packets == 0) {
            return;
        }
        if self.ring.len() >= self.ring_max {
            self.totals.lost += 1;
        } else {
            self.ring.push_back(Record { endpoints, paths, ended });
        }
    }

    /// Makes a record of a session that goes on, if it is due.
    #[inline]
    fn report_active(&mut self, state: &mut Counters) {
        let since = self.clock.now_s.wrapping_sub(state.reported_s);
        if since >= self.active_s && self.active_s > 0 {
            self.report(state, None);
            let (origin, reported_s) = (state.origin, self.clock.now_s);
            *state = Counters { origin, reported_s, ..Counters::default() };
        }
    }
}

impl PerSession for Ledger {
    type State = Counters;

    fn open(
        &mut self,
        opening: &mut Opening<'_>,
        packet: &mut Packet,
        state: &mut Counters,
    ) -> Result<(), Reason> {
        self.clock.set(opening.now);
        self.totals.open += 1;
        self.totals.begun += 1;
        // An error's own addresses are not the session's: the quoted packet went in the opposite
        // direction.
        let endpoints = match opening.related {
            true => None,
            false => Endpoints::of(packet, opening.direction, &self.session),
        };
        state.reported_s = self.clock.now_s;
        if let Some(endpoints) = endpoints {
            state.origin = self.keep(Origin { endpoints, first: [0; 2], is_closed: false });
        }
        Ok(())
    }

    #[inline]
    fn each(&mut self, packet: &mut Packet, session: &mut Session<'_, Counters>) -> Verdict {
        if session.related {
            self.totals.related += 1;
            return Verdict::Pass;
        }
        self.clock.set(session.now);
        let direction = usize::from(session.direction == Direction::Reply);
        let state = &mut *session.state;
        let (packets, bytes) = match self.stands_for {
            None => (1, ip_len(packet)),
            Some([0, _]) => return Verdict::Pass,
            // Of frames; here the packets' own count.
            Some([packets, bytes]) => (
                u32::try_from(packets).unwrap_or(u32::MAX),
                bytes.saturating_sub(packets.saturating_mul(ETHERNET_LEN)),
            ),
        };
        self.report_active(state);
        if state.packets[direction] == 0 {
            self.begin_direction(state, direction);
        }
        state.packets[direction] = state.packets[direction].saturating_add(packets);
        state.bytes[direction] += bytes;
        state.last_ms[direction] = self.clock.now_ms as u32;
        if session.life.transport() == Transport::Tcp {
            state.flags[direction] |= packet.transport().get(13).copied().unwrap_or(0);
            if session.life.phase() == Phase::Closed {
                self.note_closed(state);
            }
        }
        Verdict::Pass
    }

    fn without(&mut self, _packet: &mut Packet) -> Verdict {
        self.totals.sessionless += 1;
        Verdict::Pass
    }

    fn close(&mut self, state: &Counters, why: Ended) {
        self.totals.open = self.totals.open.saturating_sub(1);
        self.report(state, Some(why));
        if let Some(at) = state.origin.checked_sub(1)
            && let Some(origin) = self.origins.get_mut(at as usize)
            && origin.take().is_some()
        {
            self.free.push(at);
        }
    }
}
