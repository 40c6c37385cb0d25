//! How much of the shared memory a connection may keep, and which one is evicted.
//!
//! A connection may keep as much as is left for the others (A. Choudhury and E. Hahne, "Dynamic
//! queue length thresholds for shared-memory packet switches", 1998), and in any case its share: an
//! equal part of all that may be kept. Where it needs more than that, or nothing is left, it evicts
//! connections of which something has been kept for longer than a live one takes to send it again:
//! what is kept of a live connection is never older than a few round trips, however large its
//! window. Where memory is scarce, a connection has no more than what a sender in slow
//! start has in flight. One that asks for no more than its share evicts those earlier that keep
//! more than theirs.

use thruway_packet::{Packet, SMALL_FRAME};

use super::endpoint::{Conn, Endpoint, Phase};
use super::{AtBound, DropReason, Mode, Out, Settings, Stores, Tcp, Work};

/// Data kept of a connection for longer than this, in nanoseconds, may be evicted: a segment that
/// was lost twice has been sent again by then (RFC 6298 section 2: 1 s, then 2 s).
const HELD_LONG_NS: i64 = 3_000_000_000;
/// The same for a connection that keeps more than its share while another with less needs room: a
/// round trip over a long path, or a retransmission (Linux: after 200 ms at least).
const HELD_SHORT_NS: i64 = 250_000_000;
/// Bytes that may be kept before the first acknowledgement: ten segments, and a few more.
const FIRST_BYTES: u64 = 16 * 2176;
/// Memory for each byte that was acknowledged: two, in frames that are half full.
const MEMORY_PER_BYTE: u64 = 4;
/// Directions of connections examined to find one to evict.
const LOOKED_AT: usize = 32;
/// The state of a kept packet takes at most so many bytes, its metadata included.
const KEPT_BYTES: usize = 128;
/// Most evictions for one packet, and for one run of the timers.
const VICTIMS_MAX: usize = 4;
const STALLED_MAX: usize = 64;

/// The oldest kept data of a direction of a connection.
#[derive(Clone, Copy)]
struct Oldest {
    conn: u32,
    dir: usize,
    /// Nanoseconds.
    since: i64,
    /// It waits for a hole.
    is_waiting: bool,
    /// It waits for room at its receiver.
    is_unsent: bool,
}

/// Bytes of memory that are kept of a connection.
#[inline]
fn kept(conn: &Conn) -> u64 {
    let of = |endpoint: &Endpoint| {
        u64::from(endpoint.retransmit.cost()) + u64::from(endpoint.waiting.memory_bytes())
    };
    of(&conn.endpoints[0]) + of(&conn.endpoints[1])
}

/// Bytes of memory that a connection may keep while half of the limit is in use: the initial
/// window, and twice the bytes acknowledged since, as in slow start (RFC 6928, RFC 5681 section
/// 3.1).
#[inline]
fn earned(conn: &Conn) -> u64 {
    let of = |endpoint: &Endpoint| u64::from(endpoint.seq_map.acked_out().distance(endpoint.isn));
    FIRST_BYTES + MEMORY_PER_BYTE * (of(&conn.endpoints[0]) + of(&conn.endpoints[1]))
}

/// Bytes of a segment's options, and of the data after its header.
#[inline]
fn payload(packet: &Packet) -> (usize, usize) {
    let transport = packet.transport();
    let header = transport.get(12).map_or(20, |offset| usize::from(offset >> 4) * 4);
    (header.saturating_sub(20), transport.len().saturating_sub(header))
}

/// The memory that a packet needs.
#[derive(Clone, Copy)]
struct Need {
    /// Bytes of memory: a frame for each of the segments that it becomes for its receiver.
    bytes: u64,
    is_large: bool,
}

impl Need {
    #[inline]
    fn of(conn: &Conn, dir: usize, packet: &Packet) -> Need {
        let (options, len) = payload(packet);
        let limit = conn.limit(dir, options);
        // A connection without copies splits nothing.
        let is_whole = len <= limit || conn.mode < Mode::Guard;
        let more = if is_whole { 0 } else { (len - 1) / limit };
        let bytes = packet.memory_bytes() + KEPT_BYTES + more * (SMALL_FRAME + KEPT_BYTES);
        Need { bytes: bytes as u64, is_large: packet.is_large() }
    }
}

impl Tcp {
    /// Evicts others' packets where a connection could not keep a packet of this direction.
    #[inline]
    pub(super) fn make_room(
        &mut self,
        (id, dir): (u32, usize),
        now: i64,
        packet: &Packet,
        out: &mut Out,
    ) {
        self.stores.begin(now);
        // An acknowledgement is not kept.
        if payload(packet).1 == 0 {
            return;
        }
        for _ in 0..VICTIMS_MAX {
            let Some(conn) = self.conns.get(id as usize) else { return };
            let need = Need::of(conn, dir, packet);
            if !self.stores.is_short((conn, kept(conn)), need, &self.settings) {
                return;
            }
            let Some(victim) = self.victim(id, now) else { return };
            self.evict(victim, now, out);
        }
    }

    /// The connection to evict for another one. (The clock algorithm: one that is examined and not
    /// evicted is examined again after all others.)
    #[cold]
    fn victim(&mut self, id: u32, now: i64) -> Option<Oldest> {
        let share = self.stores.share(self.settings.total);
        let is_modest = self.conns.get(id as usize).is_some_and(|conn| kept(conn) <= share);
        for _ in 0..LOOKED_AT {
            let Some(oldest) = self.check_oldest(now)? else { continue };
            let age = now.saturating_sub(oldest.since);
            let has_much =
                self.conns.get(oldest.conn as usize).is_some_and(|conn| kept(conn) > share);
            if oldest.conn != id
                && (age >= HELD_LONG_NS || age >= HELD_SHORT_NS && is_modest && has_much)
            {
                return Some(oldest);
            }
        }
        None
    }

    /// Checks the direction that was checked longest ago; none if there is none, or if nothing is
    /// kept of it any more.
    fn check_oldest(&mut self, now: i64) -> Option<Option<Oldest>> {
        let at = self.stores.holders.oldest()?.at;
        self.stores.holders.remove(at);
        let (conn, dir) = (at >> 1, at as usize & 1);
        let Some(endpoint) = self.conns.get_mut(conn as usize).map(|conn| &mut conn.endpoints[dir])
        else {
            return Some(None);
        };
        let copy = self.stores.retransmit.first(&endpoint.retransmit);
        let is_waiting = !endpoint.waiting.is_empty()
            && copy.is_none_or(|(since, _)| endpoint.waits_since < since);
        let oldest = match copy {
            _ if is_waiting => {
                Oldest { conn, dir, since: endpoint.waits_since, is_waiting, is_unsent: false }
            }
            Some((since, from)) => {
                Oldest { conn, dir, since, is_waiting, is_unsent: !from.before(endpoint.sent) }
            }
            None => {
                endpoint.is_listed = false;
                return Some(None);
            }
        };
        self.stores.holders.add(at, now);
        Some(Some(oldest))
    }

    fn evict(&mut self, oldest: Oldest, now: i64, out: &mut Out) {
        let Some(mut work) = self.work(oldest.conn, now, out) else { return };
        if oldest.is_waiting {
            work.counts.pruned_waiting += 1;
            return work.forget_waiting(oldest.dir, DropReason::Full);
        }
        work.counts.pruned += 1;
        // Numbers that changed cannot be let go.
        if work.settings.at_bound == AtBound::Pass && work.conn.mode < Mode::Map {
            return work.let_pass();
        }
        work.kill();
    }

    /// When to look for data kept for too long.
    pub(super) fn stalled_at(&self) -> Option<i64> {
        let oldest = self.stores.holders.oldest().filter(|_| self.settings.stall > 0)?;
        Some(oldest.since.saturating_add(self.settings.stall))
    }

    /// Resets connections with receivers that have acknowledged nothing for too long, and drops
    /// segments that wait for a hole that stays open. The polling interval finds each after at most
    /// twice that time.
    pub(super) fn give_up_stalled(&mut self, now: i64, out: &mut Out) {
        let long_ago = now.saturating_sub(self.settings.stall);
        for _ in 0..STALLED_MAX {
            if self.stalled_at().is_none_or(|at| at > now) {
                return;
            }
            let Some(Some(oldest)) = self.check_oldest(now) else { continue };
            // A receiver without room that announces this may be reading slowly.
            if oldest.since > long_ago || oldest.is_unsent {
                continue;
            }
            let Some(mut work) = self.work(oldest.conn, now, out) else { continue };
            if oldest.is_waiting {
                work.forget_waiting(oldest.dir, DropReason::Hole);
            } else {
                work.counts.stalled += 1;
                work.kill();
            }
        }
    }

    /// Nothing is kept of a connection any more.
    pub(super) fn unlist(&mut self, id: u32) {
        let Some(conn) = self.conns.get_mut(id as usize) else { return };
        for (dir, endpoint) in conn.endpoints.iter_mut().enumerate() {
            if std::mem::take(&mut endpoint.is_listed) {
                self.stores.holders.remove(id << 1 | dir as u32);
            }
        }
    }
}

impl Work<'_> {
    /// Something is kept of a direction.
    #[inline]
    pub(super) fn note_kept(&mut self, dir: usize) {
        if !std::mem::replace(&mut self.conn.endpoints[dir].is_listed, true) {
            self.stores.holders.add(self.id << 1 | dir as u32, self.now);
        }
    }

    /// Drops segments that wait for a hole.
    pub(super) fn forget_waiting(&mut self, dir: usize, drop_reason: DropReason) {
        self.stores.count_spent(DropReason::Repeated, self.out);
        self.stores.reorder.clear(&mut self.conn.endpoints[dir].waiting);
        self.stores.count_spent(drop_reason, self.out);
    }

    /// Whether no more may be kept of a direction: of copies, if the current packet is the next
    /// one, as the segments that wait for it must be released.
    pub(super) fn is_full(&self, dir: usize, packet: &Packet, is_next: bool) -> bool {
        let endpoint = &self.conn.endpoints[dir];
        let retransmit =
            self.conn.endpoints.iter().map(|endpoint| u64::from(endpoint.retransmit.cost())).sum();
        let own = if is_next { retransmit } else { kept(self.conn) };
        endpoint.retransmit.cost() > self.settings.buffer
            || self.stores.is_short(
                (self.conn, own),
                Need::of(self.conn, dir, packet),
                self.settings,
            )
    }

    /// A packet is shown to functions: reserves room for its result meanwhile.
    #[inline]
    pub(super) fn reserve(&mut self, dir: usize, packet: &Packet) {
        self.stores.shown += Need::of(self.conn, dir, packet).bytes;
    }

    /// It has left them.
    #[inline]
    pub(super) fn release(&mut self, dir: usize, packet: &Packet) {
        let need = Need::of(self.conn, dir, packet);
        self.stores.shown = self.stores.shown.saturating_sub(need.bytes);
    }

    /// Lets the connection pass without inspection.
    pub(super) fn let_pass(&mut self) {
        self.counts.passed += 1;
        self.conn.phase = Phase::Passed;
        for endpoint in &mut self.conn.endpoints {
            self.stores.retransmit.clear(&mut endpoint.retransmit);
        }
        self.give_up_order();
    }

    /// Frees the data kept of the connection, which has ended.
    pub(super) fn free_kept(&mut self) {
        for endpoint in &mut self.conn.endpoints {
            self.stores.free_kept(endpoint, self.out);
        }
    }
}

impl Stores {
    /// Bytes of memory kept of all connections.
    fn used(&self) -> u64 {
        self.retransmit.cost() + self.reorder.memory_bytes()
    }

    /// Packets that were shown in an earlier round have left since, or were dropped.
    #[inline]
    fn begin(&mut self, now: i64) {
        if self.shown_at != now {
            (self.shown, self.shown_at) = (0, now);
        }
    }

    fn large(&self) -> u32 {
        self.retransmit.large() + self.reorder.large()
    }

    /// An equal part of all that may be kept, for each direction of which something is, and one
    /// more.
    fn share(&self, total: u64) -> u64 {
        total / u64::from(self.retransmit.lists() + self.reorder.lists() + 1)
    }

    /// Whether a connection that keeps this much has no more room for a packet.
    #[inline]
    fn is_short(&self, (conn, own): (&Conn, u64), need: Need, settings: &Settings) -> bool {
        let left = settings.total.saturating_sub(self.used() + self.shown);
        left < need.bytes
            || own > left && own > self.share(settings.total)
            || left < settings.total / 2 && own > earned(conn)
            || need.is_large && self.large() >= settings.large_max
    }

    /// Counts packets of which nothing is needed any more.
    pub(super) fn count_spent(&mut self, drop_reason: DropReason, out: &mut Out) {
        out.drops[drop_reason as usize] += self.reorder.spent().count() as u32;
    }

    /// Frees the data kept of an endpoint, and counts undelivered packets.
    pub(super) fn free_kept(&mut self, endpoint: &mut Endpoint, out: &mut Out) {
        self.count_spent(DropReason::Repeated, out);
        self.reorder.clear(&mut endpoint.waiting);
        self.count_spent(DropReason::Hole, out);
        let unsent =
            self.retransmit.within(&endpoint.retransmit, endpoint.sent, endpoint.end_out()).count();
        self.unsent = self.unsent.saturating_sub(unsent);
        out.drops[DropReason::Unsent as usize] += unsent as u32;
        self.retransmit.clear(&mut endpoint.retransmit);
    }

    /// The same, and the edit map.
    pub(super) fn clear(&mut self, endpoint: &mut Endpoint, out: &mut Out) {
        self.free_kept(endpoint, out);
        endpoint.seq_map.release(&mut self.slab);
    }
}
