//! Who may keep how much of the memory that all connections share, and who gives way.
//!
//! A connection may keep as much as is left for the others (A. Choudhury and E. Hahne, "Dynamic
//! queue length thresholds for shared-memory packet switches", 1998), and in any case its share: an
//! equal part of all that may be kept. Where it needs more than that, or nothing is left, those give
//! way of which something has been kept for longer than a live connection takes to send it again:
//! what is kept of a connection that goes on is never older than a few round trips, however large
//! its window. Where memory is scarce, a connection has no more than what a sender in slow start has
//! under way. Who asks for no more than its share has those give way earlier that keep more than
//! theirs.

use thruway_packet::Packet;

use super::half::{Conn, Half, Phase};
use super::{AtBound, Mode, Out, Settings, Stores, Tcp, Why, Work};

/// What is kept of a connection for longer may be given to others, nanoseconds: a segment that was
/// lost twice has been sent again by then (RFC 6298 section 2: 1 s, then 2 s).
const HELD_LONG_NS: i64 = 3_000_000_000;
/// The same where a connection keeps more than its share, and one needs room that has less: a round
/// trip over a long way, or a retransmission (Linux: after 200 ms at least).
const HELD_SHORT_NS: i64 = 250_000_000;
/// What may be kept before anything is acknowledged: ten segments, and a few more.
const FIRST_BYTES: u64 = 16 * 2176;
/// Memory for each byte that was acknowledged: two, in frames that are half full.
const MEMORY_PER_BYTE: u64 = 4;
/// Directions of connections that are looked at to find who gives way.
const LOOKED_AT: usize = 32;
/// What is known of a packet that is kept takes at most so many bytes.
const KEPT_BYTES: usize = 128;
/// Most that give way for one packet, and for one look at the time.
const VICTIMS_MAX: usize = 4;
const STALLED_MAX: usize = 64;

/// What has been kept longest of a direction of a connection.
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
    let of = |half: &Half| u64::from(half.copies.cost()) + u64::from(half.waiting.memory_bytes());
    of(&conn.halves[0]) + of(&conn.halves[1])
}

/// Bytes of memory that a connection may keep while half of all that may be kept is in use: what a
/// sender sends before it hears of its receiver, and twice as much as it has heard of since, as in
/// slow start (RFC 6928, RFC 5681 section 3.1).
#[inline]
fn earned(conn: &Conn) -> u64 {
    let of = |half: &Half| u64::from(half.edits.acked_out().distance(half.isn));
    FIRST_BYTES + MEMORY_PER_BYTE * (of(&conn.halves[0]) + of(&conn.halves[1]))
}

impl Tcp {
    /// Has others give way where a connection could not keep a packet.
    #[inline]
    pub(super) fn make_room(&mut self, id: u32, now: i64, packet: &Packet, out: &mut Out) {
        // An acknowledgement is not kept.
        let header = packet.transport().get(12).map_or(0, |offset| usize::from(offset >> 4) * 4);
        if packet.transport().len() <= header {
            return;
        }
        for _ in 0..VICTIMS_MAX {
            let Some(conn) = self.conns.get(id as usize) else { return };
            if !self.stores.is_short((conn, kept(conn)), packet, &self.settings) {
                return;
            }
            let Some(victim) = self.victim(id, now) else { return };
            self.give_way(victim, now, out);
        }
    }

    /// Who gives way to a connection. (A clock with one hand: who is looked at and does not give way
    /// is looked at again after all others.)
    #[cold]
    fn victim(&mut self, id: u32, now: i64) -> Option<Oldest> {
        let share = self.stores.share(self.settings.total);
        let is_modest = self.conns.get(id as usize).is_some_and(|conn| kept(conn) <= share);
        for _ in 0..LOOKED_AT {
            let Some(oldest) = self.look(now)? else { continue };
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

    /// Looks at the direction that was looked at longest ago; none where there is none, and of one
    /// of which nothing is kept any more.
    fn look(&mut self, now: i64) -> Option<Option<Oldest>> {
        let at = self.stores.holders.oldest()?.at;
        self.stores.holders.remove(at);
        let (conn, dir) = (at >> 1, at as usize & 1);
        let Some(half) = self.conns.get_mut(conn as usize).map(|conn| &mut conn.halves[dir]) else {
            return Some(None);
        };
        let copy = self.stores.copies.first(&half.copies);
        let is_waiting =
            !half.waiting.is_empty() && copy.is_none_or(|(since, _)| half.waits_since < since);
        let oldest = match copy {
            _ if is_waiting => {
                Oldest { conn, dir, since: half.waits_since, is_waiting, is_unsent: false }
            }
            Some((since, from)) => {
                Oldest { conn, dir, since, is_waiting, is_unsent: !from.before(half.sent) }
            }
            None => {
                half.is_listed = false;
                return Some(None);
            }
        };
        self.stores.holders.add(at, now);
        Some(Some(oldest))
    }

    fn give_way(&mut self, oldest: Oldest, now: i64, out: &mut Out) {
        let Some(mut work) = self.work(oldest.conn, now, out) else { return };
        if oldest.is_waiting {
            work.counts.pruned_waiting += 1;
            return work.forget_waiting(oldest.dir, Why::Full);
        }
        work.counts.pruned += 1;
        // Numbers that changed cannot be let go.
        if work.settings.at_bound == AtBound::Pass && work.conn.mode < Mode::Map {
            return work.let_pass();
        }
        work.kill();
    }

    /// When to look for what has been kept for too long.
    pub(super) fn stalled_at(&self) -> Option<i64> {
        let oldest = self.stores.holders.oldest().filter(|_| self.settings.stall > 0)?;
        Some(oldest.since.saturating_add(self.settings.stall))
    }

    /// Resets connections whose receivers have acknowledged nothing for too long, and drops what
    /// waits for a hole that nobody fills. Each is looked at so often that it is found after twice
    /// that time at most.
    pub(super) fn give_up_stalled(&mut self, now: i64, out: &mut Out) {
        let long_ago = now.saturating_sub(self.settings.stall);
        for _ in 0..STALLED_MAX {
            if self.stalled_at().is_none_or(|at| at > now) {
                return;
            }
            let Some(Some(oldest)) = self.look(now) else { continue };
            // Who has no room, and says so, may be reading slowly.
            if oldest.since > long_ago || oldest.is_unsent {
                continue;
            }
            let Some(mut work) = self.work(oldest.conn, now, out) else { continue };
            if oldest.is_waiting {
                work.forget_waiting(oldest.dir, Why::Hole);
            } else {
                work.counts.stalled += 1;
                work.kill();
            }
        }
    }

    /// Nothing is kept of a connection any more.
    pub(super) fn unlist(&mut self, id: u32) {
        let Some(conn) = self.conns.get_mut(id as usize) else { return };
        for (dir, half) in conn.halves.iter_mut().enumerate() {
            if std::mem::take(&mut half.is_listed) {
                self.stores.holders.remove(id << 1 | dir as u32);
            }
        }
    }
}

impl Work<'_> {
    /// Something is kept of a direction.
    #[inline]
    pub(super) fn note_kept(&mut self, dir: usize) {
        if !std::mem::replace(&mut self.conn.halves[dir].is_listed, true) {
            self.stores.holders.add(self.id << 1 | dir as u32, self.now);
        }
    }

    /// Drops what waits for a hole.
    pub(super) fn forget_waiting(&mut self, dir: usize, why: Why) {
        self.stores.count_spent(Why::Repeated, self.out);
        self.stores.reorder.clear(&mut self.conn.halves[dir].waiting);
        self.stores.count_spent(why, self.out);
    }

    /// Whether no more may be kept of a direction: of copies, where the packet at hand is the next
    /// one, as what waits for it is to go on.
    pub(super) fn is_full(&self, dir: usize, packet: &Packet, is_next: bool) -> bool {
        let half = &self.conn.halves[dir];
        let copies = self.conn.halves.iter().map(|half| u64::from(half.copies.cost())).sum();
        let own = if is_next { copies } else { kept(self.conn) };
        half.copies.cost() > self.settings.buffer
            || self.stores.is_short((self.conn, own), packet, self.settings)
    }

    /// Lets the connection go on unseen.
    pub(super) fn let_pass(&mut self) {
        self.counts.passed += 1;
        self.conn.phase = Phase::Passed;
        for half in &mut self.conn.halves {
            self.stores.copies.clear(&mut half.copies);
        }
        self.give_up_order();
    }

    /// Frees what is kept of the connection, which has ended.
    pub(super) fn free_kept(&mut self) {
        for half in &mut self.conn.halves {
            self.stores.free_kept(half, self.out);
        }
    }
}

impl Stores {
    /// Bytes of memory kept of all connections.
    fn used(&self) -> u64 {
        self.copies.cost() + self.reorder.memory_bytes()
    }

    fn large(&self) -> u32 {
        self.copies.large() + self.reorder.large()
    }

    /// An equal part of all that may be kept, for each direction of which something is, and one
    /// more.
    fn share(&self, total: u64) -> u64 {
        total / u64::from(self.copies.lists() + self.reorder.lists() + 1)
    }

    /// Whether a connection that keeps this much has no more room for a packet.
    #[inline]
    fn is_short(&self, (conn, own): (&Conn, u64), packet: &Packet, settings: &Settings) -> bool {
        let left = settings.total.saturating_sub(self.used());
        left < (packet.memory_bytes() + KEPT_BYTES) as u64
            || own > left && own > self.share(settings.total)
            || left < settings.total / 2 && own > earned(conn)
            || packet.is_large() && self.large() >= settings.large_max
    }

    /// Counts packets of which nothing is needed any more.
    pub(super) fn count_spent(&mut self, why: Why, out: &mut Out) {
        out.drops[why as usize] += self.reorder.spent().count() as u32;
    }

    /// Frees what is kept of a half, and counts what did not go on.
    pub(super) fn free_kept(&mut self, half: &mut Half, out: &mut Out) {
        self.count_spent(Why::Repeated, out);
        self.reorder.clear(&mut half.waiting);
        self.count_spent(Why::Hole, out);
        let unsent = self.copies.within(&half.copies, half.sent, half.end_out()).count();
        self.unsent = self.unsent.saturating_sub(unsent);
        out.drops[Why::Unsent as usize] += unsent as u32;
        self.copies.clear(&mut half.copies);
    }

    /// The same, and what is known of changes.
    pub(super) fn clear(&mut self, half: &mut Half, out: &mut Out) {
        self.free_kept(half, out);
        half.edits.release(&mut self.slab);
    }
}
