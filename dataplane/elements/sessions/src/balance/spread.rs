//! Which replica a session has, and what is known of the replicas' load.

use std::fmt;

use thruway_element::{Cx, Opening, PerSession, Reason, Session, Verdict};
use thruway_flow::Ended;
use thruway_packet::Packet;

use thruway_random::mix;

use super::assigned::Assigned;
use super::hash::hash;
use super::lost::Lost;
use crate::pool::{Identity, Member, Pool, Standing};
use thruway_elements_support::notice::warn;

/// A replica: the number of its output.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Replica(pub(super) u32);

impl fmt::Display for Replica {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl Identity for Replica {
    const NOUN: &'static str = "replica";

    fn key(&self) -> u64 {
        self.0.into()
    }
}

/// The state of the elements behind a replica's outputs.
#[derive(Default)]
struct Behind {
    /// The elements that keep packets for it, by number.
    buffers: Vec<u32>,
    /// Since when it works on nothing.
    failed_since: Option<i64>,
    /// Its sessions have left it.
    is_left: bool,
}

/// The replicas, and the assignment of sessions to them.
pub(super) struct Spread {
    pub(super) pool: Pool<Replica>,
    /// The input that the present batch came by.
    pub(super) input: usize,
    /// Sessions that went from one replica to another.
    pub(super) moved: u64,
    /// How many there are.
    replicas: usize,
    /// Nanoseconds until sessions leave a replica that fails; 0: they stay.
    failover: i64,
    behind: Vec<Behind>,
    /// When the replicas' load was looked at.
    looked: Option<i64>,
    /// Failed replicas that still have sessions to move.
    failed: Vec<Replica>,
}

impl Spread {
    pub(super) fn new(pool: Pool<Replica>, replicas: usize, failover: i64) -> Spread {
        let behind = (0..replicas).map(|_| Behind::default()).collect();
        Spread {
            pool,
            input: 0,
            moved: 0,
            replicas,
            failover,
            behind,
            looked: None,
            failed: Vec::new(),
        }
    }

    /// Finds what keeps packets for each replica, behind all of its outputs.
    pub(super) fn find_buffers(&mut self, cx: &Cx<'_>) {
        for (at, behind) in self.behind.iter_mut().enumerate() {
            let outputs = (at..cx.outputs()).step_by(self.replicas);
            let nearest = |port| cx.neighbours().nearest_buffers_downstream(port);
            behind.buffers = outputs.flat_map(nearest).collect();
            behind.buffers.sort_unstable();
            behind.buffers.dedup();
        }
    }

    /// Looks at the replicas' load, once for each reading of the clock. Packets that are sent from
    /// then on are added ([`Member::queue`]).
    pub(super) fn look(&mut self, cx: &mut Cx<'_>) {
        let now = cx.now();
        if self.looked.replace(now) == Some(now) {
            return;
        }
        for (at, behind) in self.behind.iter_mut().enumerate() {
            let (mut packets, mut accepts) = (0, true);
            for backlog in behind.buffers.iter().filter_map(|node| cx.neighbours().backlog(*node)) {
                packets += backlog.packets as u64;
                accepts &= backlog.accepts;
            }
            if let Ok(replica) = self.pool.named(Replica(at as u32)) {
                (replica.queue, replica.is_passed_over) = (packets, !accepts);
            }
            if accepts {
                (behind.failed_since, behind.is_left) = (None, false);
            } else {
                behind.failed_since.get_or_insert(now);
            }
        }
        if self.failover > 0 {
            self.fail_over(cx);
        }
    }

    /// Has the sessions of replicas that have failed for long enough go to others, if there are
    /// others.
    fn fail_over(&mut self, cx: &mut Cx<'_>) {
        let latest = cx.now().saturating_sub(self.failover);
        for at in 0..self.behind.len() {
            let behind = &self.behind[at];
            let is_due = behind.failed_since.is_some_and(|since| since <= latest);
            if !is_due || behind.is_left || !self.pool.iter().any(|replica| replica.takes(false)) {
                continue;
            }
            self.behind[at].is_left = true;
            if self.pool.named(Replica(at as u32)).is_ok() {
                self.failed.push(Replica(at as u32));
                let said = format!("replica {at} takes no packets: its sessions go to others");
                warn(cx, &said);
            }
        }
    }

    /// A replica that has failed since this was asked.
    #[inline]
    pub(super) fn take_failed(&mut self) -> Option<Replica> {
        self.failed.pop()
    }

    /// The only element that keeps packets for a replica.
    pub(super) fn function_of(&self, replica: Replica) -> Option<u32> {
        match *self.behind.get(replica.0 as usize)?.buffers {
            [node] => Some(node),
            _ => None,
        }
    }

    /// How many packets a replica takes now before those upstream are to wait.
    pub(super) fn room_of(&self, cx: &mut Cx<'_>, replica: Replica) -> usize {
        let node = self.function_of(replica);
        node.and_then(|node| cx.session_mover(node, |mover| mover.room())).unwrap_or(usize::MAX)
    }

    /// The replica of a session.
    pub(super) fn replica_of(&mut self, state: &Assigned) -> Option<Replica> {
        self.pool.of(state.ticket()).map(|replica| replica.id)
    }

    /// Where a session of `from` goes.
    pub(super) fn other_than(&mut self, from: Replica, session: u64) -> Option<Replica> {
        let before = self
            .pool
            .named(from)
            .ok()
            .map(|member| std::mem::replace(&mut member.standing, Standing::Drained))?;
        let ticket = self.pool.choose(mix(session), 0);
        if let Ok(member) = self.pool.named(from) {
            member.standing = before;
        }
        self.pool.of(ticket?).map(|replica| replica.id)
    }

    /// The session is another replica's now. What its other direction's thread is to know.
    pub(super) fn reassign(&mut self, state: &mut Assigned, to: Replica) -> Option<u64> {
        let (is_here, ticket) = (state.is_here(), self.pool.ticket_of(|id| id == to)?);
        self.pool.end(state.ticket(), is_here);
        self.pool.begin(ticket, is_here);
        self.moved += 1;
        *state = Assigned::of(ticket, is_here);
        is_here.then_some(u64::from(to.0) + 1)
    }

    /// Takes over the replicas of a configuration before this one. Sessions of those that are not
    /// here any more go to others.
    pub(super) fn take_over(&mut self, members: Vec<Member<Replica>>) {
        self.pool.take_over(members);
        let all: Vec<Replica> = self.pool.iter().map(|replica| replica.id).collect();
        for id in all.into_iter().filter(|id| id.0 as usize >= self.replicas) {
            // It is there: it was found just now.
            let _ = self.pool.remove(id, true);
        }
    }

    /// The session's replica has let it go: another one.
    #[cold]
    fn choose_again(&mut self, packet: &Packet, state: &mut Assigned) -> Option<u32> {
        let ticket = self.pool.choose(hash(packet), 0)?;
        self.pool.begin(ticket, true);
        self.moved += 1;
        *state = Assigned::of(ticket, true);
        self.pool.of(ticket).map(|replica| replica.id.0)
    }

    /// Where packets for a replica leave.
    #[inline]
    fn to(&self, replica: u32) -> Verdict {
        match self.input * self.replicas + replica as usize {
            0 => Verdict::Pass,
            port => Verdict::To(port),
        }
    }
}

impl PerSession for Spread {
    type State = Assigned;

    fn open(
        &mut self,
        opening: &mut Opening<'_>,
        packet: &mut Packet,
        state: &mut Assigned,
    ) -> Result<(), Reason> {
        let chosen = opening.answers.published().and_then(|[word, ..]| {
            let number = u32::try_from(word.checked_sub(1)?).ok()?;
            self.pool.ticket_of(|id| id.0 == number)
        });
        let is_here = chosen.is_none();
        let ticket = match chosen {
            Some(ticket) => ticket,
            None => self.pool.choose(hash(packet), 0).ok_or(Lost::NoReplica)?,
        };
        self.pool.begin(ticket, is_here);
        if let Some(replica) = self.pool.of(ticket).filter(|_| is_here) {
            opening.answers.publish(&[u64::from(replica.id.0) + 1]);
        }
        *state = Assigned::of(ticket, is_here);
        Ok(())
    }

    #[inline]
    fn each(&mut self, packet: &mut Packet, session: &mut Session<'_, Assigned>) -> Verdict {
        let has = self.pool.of(session.state.ticket()).map(|replica| replica.id.0);
        let Some(at) = has.or_else(|| self.choose_again(packet, session.state)) else {
            return Verdict::drop(Lost::NoReplica);
        };
        if let Some(replica) = self.pool.of(session.state.ticket()) {
            replica.packets += 1;
            replica.bytes += packet.len() as u64;
            replica.queue += 1;
        }
        self.to(at)
    }

    fn without(&mut self, _packet: &mut Packet) -> Verdict {
        let first = self.pool.iter().find(|replica| replica.takes(false));
        self.to(first.map_or(0, |replica| replica.id.0))
    }

    fn close(&mut self, state: &Assigned, _why: Ended) {
        self.pool.end(state.ticket(), state.is_here());
    }
}
