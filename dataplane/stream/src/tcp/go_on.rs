//! Connections with which another host can go on: what the serving host writes of them, and how the
//! other one finds the place where it goes on.
//!
//! The serving host writes *checkpoints*: a place in both of a direction's streams, and the states
//! that functions had there. It acknowledges to a sender only what lies before one of them. So
//! whatever the moment of its end, a sender can send again all that lies behind the last checkpoint
//! that the receiver has reached, and functions, which begin there with the states of then, make of
//! it what they had made before. The receiver is asked where it is; until it has said so, the
//! first checkpoint that is known counts. A receiver beyond the last one has bytes of which nothing
//! is known here: the connection is reset. The proof is in docs/adr/0096.

use super::checkpoints::Checkpoint;
use super::endpoint::{Endpoint, Phase};
use super::image::{FUNCTIONS_MAX, write_ends, write_whole};
use super::replica::Restore;
use super::seg::Seg;
use super::seq_map::SeqMap;
use super::{DropReason, Mode, Out, Seq, Tcp, Work};

/// How long a host that took over takes acknowledgements of what the other one sent with any number
/// near the expected one, nanoseconds: a receiver keeps what it got early until the bytes before
/// are there, which mostly come again within a minute (RFC 6298 section 2.5).
const WATCHED_NS: i64 = 120_000_000_000;
/// How long, in nanoseconds, and how often a sender may send the same again in vain, and how long
/// after its takeover a host looks for that: then it knows too little, and a reset is better than a
/// connection that stands still.
const STUCK_NS: i64 = 20_000_000_000;
const STUCK_REPEATS: u8 = 4;
const STUCK_WITHIN_NS: i64 = 300_000_000_000;
/// Segments that are sent again for each acknowledgement of one: twice as many in each round.
const RESENT: usize = 2;
/// So far from the expected number may be that of a segment with such an acknowledgement.
const NEAR: u32 = 1 << 24;

impl Tcp {
    /// Whether there is a backup that is sent images of connections, with which it goes on.
    pub fn set_replicating(&mut self, is_live: bool) {
        self.is_live = is_live;
    }

    /// The same.
    pub fn is_replicating(&self) -> bool {
        self.is_live
    }

    /// Whether packets of a connection are with functions, or were lost there, so that the states
    /// of these belong to no place.
    pub fn is_busy(&self, id: u32) -> bool {
        let conn = self.conns.get(id as usize).filter(|conn| conn.is_used);
        conn.is_some_and(|conn| {
            conn.phase == Phase::Alive && conn.endpoints.iter().any(Endpoint::is_within)
        })
    }

    /// Appends the image of a connection for a backup; false, and nothing, of one that goes on
    /// there without: it was only looked at, or is over. `functions` are the states of functions by
    /// direction, if all of them can go on.
    pub fn export(&mut self, id: u32, functions: Option<[&[u8]; 2]>, out: &mut Vec<u8>) -> bool {
        let is_busy = self.is_busy(id);
        let Some(conn) = self.conns.get(id as usize).filter(|conn| conn.is_used) else {
            return false;
        };
        let goes_on = conn.mode < Mode::Guard && self.settings.pick_up;
        if goes_on || matches!(conn.phase, Phase::Reset | Phase::Dead | Phase::Passed) {
            return false;
        }
        write_ends(conn, &self.templates[id as usize], out);
        let is_settled = conn.is_whole() && conn.endpoints.iter().all(|one| !one.is_behind);
        let can = conn.phase == Phase::Alive && conn.mode == Mode::Map && is_settled && !is_busy;
        let fits = |all: &[&[u8]; 2]| all.iter().all(|one| one.len() <= FUNCTIONS_MAX);
        let replica = &mut self.replicas[id as usize];
        let Some(functions) = functions.filter(|all| can && fits(all)) else {
            // The backup resets it, so its sender may be told all.
            *replica = None;
            return true;
        };
        let replica = replica.get_or_insert_default();
        replica.number = replica.number.wrapping_add(1);
        write_whole(conn, replica.number, functions, out);
        for (dir, endpoint) in conn.endpoints.iter().enumerate() {
            replica.written[dir].push(Checkpoint {
                at_in: endpoint.seq_map.end_in(),
                at_out: endpoint.seq_map.end_out(),
                is_finished: false,
                functions: Box::default(),
            });
            let acked = endpoint.seq_map.acked_in();
            let may = replica.may_acknowledge(dir, acked, self.is_live);
            if may.is_some_and(|may| may.after(endpoint.acked_to)) {
                self.owed.push((id, dir));
            }
        }
        true
    }

    /// Sends acknowledgements that have waited for a checkpoint.
    pub(super) fn acknowledge_owed(&mut self, now: i64, out: &mut Out) {
        while let Some((id, dir)) = self.owed.pop() {
            if let Some(mut work) = self.work(id, now, out)
                && work.conn.phase == Phase::Alive
            {
                work.ack_to_sender(dir, &[]);
            }
        }
    }

    /// Functions' states to be restored, in this order, before packets are shown that
    /// [`Tcp::arrive`] and [`Tcp::tick`] gave.
    pub fn restores(&mut self) -> Vec<Restore> {
        std::mem::take(&mut self.restores)
    }

    /// A state could not be restored: the connection is reset.
    pub fn abandon(&mut self, id: u32, now: i64, out: &mut Out) {
        if let Some(mut work) = self.work(id, now, out) {
            work.give_up_unknown();
        }
    }
}

impl Work<'_> {
    /// The highest number that may be announced to the sender of a direction as arrived.
    pub(super) fn acked_in(&self, dir: usize) -> Seq {
        let endpoint = &self.conn.endpoints[dir];
        let acked = endpoint.seq_map.acked_in();
        match self.replica.as_deref() {
            None => acked,
            Some(replica) => {
                let may = replica.may_acknowledge(dir, acked, self.is_live);
                may.unwrap_or(endpoint.acked_to)
            }
        }
    }

    /// The receiver of a direction has acknowledged more.
    pub(super) fn note_acknowledged(&mut self, dir: usize) {
        if let Some(replica) = self.replica.as_deref_mut() {
            replica.written[dir].acknowledge(self.conn.endpoints[dir].seq_map.acked_out());
        }
    }

    /// Whether the sender of a direction is not told yet all that its receiver acknowledged.
    pub(super) fn withholds(&self, dir: usize) -> bool {
        let endpoint = &self.conn.endpoints[dir];
        self.replica.is_some() && endpoint.seq_map.acked_in().after(endpoint.acked_to)
    }

    /// The receiver of a direction misses what is sent again now: what was sent behind may be lost,
    /// too, and its sender would send only from the last checkpoint on.
    pub(super) fn resend_from_here(&mut self, dir: usize) {
        if self.withholds(dir)
            && let Some(replica) = self.replica.as_deref_mut()
        {
            replica.resend_to[dir] = Some(self.conn.endpoints[dir].sent);
        }
    }

    /// The receiver has more, and misses what follows (RFC 6582 section 3.2, partial
    /// acknowledgements).
    pub(super) fn resend_next(&mut self, dir: usize) {
        let Some(replica) = self.replica.as_deref_mut() else { return };
        let Some(to) = replica.resend_to[dir] else { return };
        let acked = self.conn.endpoints[dir].seq_map.acked_out();
        if acked.before(to) {
            self.resend(dir, (acked, to), RESENT);
        } else {
            replica.resend_to[dir] = None;
        }
    }

    /// Goes on with a connection that another host served, at the first checkpoint of each
    /// direction; asks the receivers where they are.
    pub(super) fn go_on(&mut self) {
        let Some(replica) = self.replica.as_deref_mut() else { return self.end_standing() };
        let first = [0, 1].map(|dir: usize| {
            let known = &mut replica.known[dir];
            replica.known_to[dir] = known.last().map(|last| last.at_out);
            known.take_first()
        });
        replica.watched_until = Some(self.now.saturating_add(WATCHED_NS));
        let [Some(one), Some(other)] = first else { return self.end_standing() };
        self.conn.phase = Phase::Alive;
        self.conn.mode = Mode::Map;
        self.counts.continued += 1;
        for (dir, checkpoint) in [one, other].into_iter().enumerate() {
            self.begin_at(dir, checkpoint);
        }
        for dir in [0, 1] {
            self.ask(dir);
        }
    }

    /// Asks receivers of such a connection again that have not said where they are.
    pub(super) fn ask_again(&mut self) {
        for dir in [0, 1] {
            let known_to = self.replica.as_deref().and_then(|replica| replica.known_to[dir]);
            if known_to.is_some() {
                self.ask(dir);
            }
        }
    }

    /// A direction goes on at a checkpoint.
    fn begin_at(&mut self, dir: usize, checkpoint: Checkpoint) {
        let Checkpoint { at_in, at_out, is_finished, functions } = checkpoint;
        let endpoint = &mut self.conn.endpoints[dir];
        let unsent =
            self.stores.retransmit.within(&endpoint.retransmit, endpoint.sent, endpoint.end_out());
        self.stores.unsent = self.stores.unsent.saturating_sub(unsent.count());
        self.stores.retransmit.clear(&mut endpoint.retransmit);
        endpoint.seq_map.release(&mut self.stores.slab);
        endpoint.seq_map = SeqMap::new(at_in, at_out);
        (endpoint.next, endpoint.sent) = (at_in, at_out);
        (endpoint.acked_to, endpoint.repeats, endpoint.tries) = (at_in, 0, 0);
        endpoint.advertised_right = endpoint.advertised_right.max(at_in);
        endpoint.fin = is_finished.then(|| at_in - 1);
        let (conn, fcb, direction) = (self.id, endpoint.fcb, dir);
        self.restores.push(Restore { conn, fcb, direction, functions });
    }

    /// The number of a segment without data in a direction: that which its receiver expects, where
    /// it has more than was sent again here. It takes no acknowledgement with an older one (RFC
    /// 9293 section 3.10.7.4).
    pub(super) fn expected(&self, dir: usize) -> Seq {
        let sent = self.conn.endpoints[dir].sent;
        let reached = self.replica.as_deref().and_then(|replica| replica.reached[dir]);
        reached.map_or(sent, |reached| reached.max(sent))
    }

    /// What an acknowledgement of the receiver of a direction says of a connection that another
    /// host served: whether that is further than what was sent since. Gives the number that counts.
    ///
    /// # Errors
    /// It has bytes of which nothing is known: the connection was reset.
    pub(super) fn find_position(&mut self, dir: usize, seg: &Seg) -> Result<Seq, DropReason> {
        let (ack, sent) = (seg.ack, self.conn.endpoints[dir].sent);
        let other = self.conn.endpoints[1 - dir].next;
        let Some(replica) = self.replica.as_deref_mut() else { return Ok(ack) };
        let Some(watched_until) = replica.watched_until else { return Ok(ack) };
        let known_to = replica.known_to[dir];
        if ack.after(known_to.unwrap_or(sent).max(sent)) {
            // Others' guesses reset nothing. The receiver comes to this place as late as its sender
            // sends again, and asks then with the number that is expected.
            let near = if watched_until > self.now { NEAR } else { 0 };
            let is_near = seg.seq.distance(other).wrapping_add(near) <= 2 * near;
            return if is_near { Err(self.give_up_unknown()) } else { Ok(ack) };
        }
        if replica.unproven[dir].take().is_some_and(|place| ack.before(place)) {
            return Err(self.give_up_unknown());
        }
        let Some(known_to) = known_to else { return Ok(ack) };
        let reached = &mut replica.reached[dir];
        *reached = Some(reached.map_or(ack, |reached| reached.max(ack)));
        if ack.after(sent) && !self.conn.endpoints[dir].is_within() {
            self.skip_to_reached(dir, ack);
        }
        let sent = self.conn.endpoints[dir].sent;
        if !sent.before(known_to)
            && let Some(replica) = self.replica.as_deref_mut()
        {
            (replica.known_to[dir], replica.reached[dir]) = (None, None);
            replica.known[dir].clear();
        }
        Ok(ack.min(sent))
    }

    /// Goes on at the last checkpoint that the receiver has reached, if that lies ahead.
    fn skip_to_reached(&mut self, dir: usize, ack: Seq) {
        let Some(replica) = self.replica.as_deref_mut() else { return };
        let next = self.conn.endpoints[dir].next;
        let reached = replica.known[dir].take_reached(ack);
        let Some(reached) = reached.filter(|reached| reached.at_in.after(next)) else { return };
        self.begin_at(dir, reached);
        self.ack_to_sender(dir, &[]);
        self.drain(dir);
    }

    /// Whether a segment shows that a connection that another host served stands still: its sender
    /// sends again and again what came before, and is acknowledged nothing.
    pub(super) fn stands_still(&mut self, dir: usize, seg: &Seg) -> bool {
        let endpoint = &self.conn.endpoints[dir];
        let (acked_to, next) = (endpoint.acked_to, endpoint.next);
        let Some(replica) = self.replica.as_deref_mut() else { return false };
        let Some(watched_until) = replica.watched_until else { return false };
        let looks_until = watched_until.saturating_add(STUCK_WITHIN_NS - WATCHED_NS);
        if seg.len + seg.fin() == 0 || self.now > looks_until {
            return false;
        }
        let repeated = &mut replica.repeated[dir];
        if !seg.seq.before(next) {
            *repeated = None;
        }
        match repeated {
            Some((of, since, count)) if *of == acked_to => {
                *count = count.saturating_add(1);
                *count > STUCK_REPEATS && self.now - *since > STUCK_NS
            }
            _ => {
                *repeated = seg.seq.before(next).then_some((acked_to, self.now, 1));
                false
            }
        }
    }

    /// Resets a connection that cannot go on here.
    pub(super) fn give_up_unknown(&mut self) -> DropReason {
        self.counts.unreplicated += 1;
        self.kill();
        DropReason::Closed
    }
}

#[cfg(test)]
mod tests;
