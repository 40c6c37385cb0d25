//! The servers or replicas that sessions are spread over, and how one is chosen for a session.

use std::fmt;
use thruway_random::mix;

/// Most members, those included that only wait for their last session.
pub(super) const MEMBERS_MAX: usize = 1024;
/// Largest weight.
pub(super) const WEIGHT_MAX: u32 = 65_535;

/// The names of a pool's members.
pub(super) trait Identity: Copy + PartialEq + fmt::Display {
    /// The user's word for a member: "server".
    const NOUN: &'static str;

    /// A number that no other member has, the same in all threads and on all hosts.
    fn key(&self) -> u64;
}

/// How a member is chosen for a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Method {
    /// One after the other.
    RoundRobin,
    /// One after the other, as often as its weight says: nginx's "smooth" form, which does not
    /// choose a heavy one many times in a row.
    Weighted,
    /// The one with the fewest open sessions for its weight.
    LeastSessions,
    /// The one for which the fewest packets wait for its weight ([`Member::queue`]); of several the
    /// one with the fewest open sessions.
    LeastQueue,
    /// By a hash of the session alone, so that a change of the list moves as few sessions as can
    /// be: rendezvous hashing (Thaler and Ravishankar, "Using name-based mappings to increase hit
    /// rates", 1998), weighted by logarithms (Schindelhauer and Schomaker, "Weighted distributed
    /// hash tables", 2005).
    ConsistentHash,
}

/// Whether a member takes sessions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Standing {
    /// New ones.
    Up,
    /// Only those that it has.
    Drained,
    /// The same, and it is forgotten when the last has ended.
    Leaving,
    /// Forgotten: its slot is free.
    Gone,
}

impl fmt::Display for Standing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Standing::Up => "up",
            Standing::Drained => "drained",
            Standing::Leaving => "leaving",
            Standing::Gone => "gone",
        })
    }
}

/// One member, or a free slot.
#[derive(Clone, Debug)]
pub(super) struct Member<I> {
    pub(super) id: I,
    pub(super) weight: u32,
    pub(super) standing: Standing,
    /// Open sessions, those included that another thread's replica chose it for.
    pub(super) held: u64,
    /// Open sessions that were begun here.
    pub(super) sessions: u64,
    /// Sessions begun here so far.
    pub(super) total: u64,
    pub(super) packets: u64,
    pub(super) bytes: u64,
    /// Counts the slot's owners: a session of an earlier one has lost its member.
    pub(super) generation: u32,
    /// Packets that wait for it, where that is known.
    pub(super) queue: u64,
    /// It gets no new sessions as long as others can have them.
    pub(super) is_passed_over: bool,
    /// Of [`Method::Weighted`].
    credit: i64,
}

impl<I> Member<I> {
    /// Whether it takes new sessions; also if it is to be passed over, where `all` do.
    pub(super) fn takes(&self, all: bool) -> bool {
        self.standing == Standing::Up && (all || !self.is_passed_over)
    }
}

/// All members.
pub(super) struct Pool<I> {
    method: Method,
    slots: Vec<Member<I>>,
    /// Of [`Method::RoundRobin`]: the slot to begin at.
    next: usize,
}

/// A session's record of its member.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Ticket {
    pub(super) slot: u32,
    pub(super) generation: u32,
}

impl<I: Identity> Pool<I> {
    pub(super) fn new(method: Method) -> Pool<I> {
        Pool { method, slots: Vec::new(), next: 0 }
    }

    /// Adds a member, or takes one back that was leaving.
    ///
    /// # Errors
    /// The error in it.
    pub(super) fn add(&mut self, id: I, weight: u32) -> Result<(), String> {
        check_weight(id, weight)?;
        if let Some(known) = self.find_mut(id) {
            if known.standing != Standing::Leaving {
                return Err(format!("{} {id} is there already", I::NOUN));
            }
            (known.standing, known.weight) = (Standing::Up, weight);
            return Ok(());
        }
        let free = self.slots.iter().position(|member| member.standing == Standing::Gone);
        if free.is_none() && self.slots.len() >= MEMBERS_MAX {
            let noun = I::NOUN;
            return Err(format!("there are {MEMBERS_MAX} {noun}s already, which is the most"));
        }
        let at = free.unwrap_or(self.slots.len());
        let generation = self.slots.get(at).map_or(0, |old| old.generation.wrapping_add(1));
        let member = Member {
            id,
            weight,
            generation,
            standing: Standing::Up,
            held: 0,
            sessions: 0,
            total: 0,
            packets: 0,
            bytes: 0,
            queue: 0,
            is_passed_over: false,
            credit: 0,
        };
        match self.slots.get_mut(at) {
            Some(slot) => *slot = member,
            None => self.slots.push(member),
        }
        Ok(())
    }

    fn find_mut(&mut self, id: I) -> Option<&mut Member<I>> {
        let known = |member: &&mut Member<I>| member.id == id && member.standing != Standing::Gone;
        self.slots.iter_mut().find(known)
    }

    /// The member of this identity, to be changed.
    ///
    /// # Errors
    /// There is none.
    pub(super) fn named(&mut self, id: I) -> Result<&mut Member<I>, String> {
        self.find_mut(id).ok_or_else(|| format!("there is no {} {id}", I::NOUN))
    }

    /// Another weight, for sessions to come.
    ///
    /// # Errors
    /// There is no such member, or weight.
    pub(super) fn set_weight(&mut self, id: I, weight: u32) -> Result<(), String> {
        check_weight(id, weight)?;
        self.named(id)?.weight = weight;
        Ok(())
    }

    /// Takes a member off the list: at once with its sessions, or when the last has ended.
    ///
    /// # Errors
    /// There is none of this identity.
    pub(super) fn remove(&mut self, id: I, now: bool) -> Result<(), String> {
        if now {
            self.let_go(id)?;
        }
        let member = self.named(id)?;
        member.standing = if member.held == 0 { Standing::Gone } else { Standing::Leaving };
        Ok(())
    }

    /// Has a member's sessions lose it at once: each needs another.
    ///
    /// # Errors
    /// There is none of this identity.
    pub(super) fn let_go(&mut self, id: I) -> Result<(), String> {
        let member = self.named(id)?;
        member.generation = member.generation.wrapping_add(1);
        (member.held, member.sessions) = (0, 0);
        Ok(())
    }

    /// Gives up all members with what is known of their sessions, for another list to take. Those
    /// that are listed here still are: if the other one cannot begin, it gives all back.
    pub(super) fn hand_over(&mut self) -> Vec<Member<I>> {
        let members = self.slots.clone();
        for member in &mut self.slots {
            (member.held, member.sessions) = (0, 0);
            if member.standing == Standing::Leaving {
                member.standing = Standing::Gone;
            }
        }
        members
    }

    /// Takes over the members of a list before this one: those that are here too keep their
    /// sessions and standing and get the weight from here, but one that is drained here is; others
    /// are leaving.
    pub(super) fn take_over(&mut self, slots: Vec<Member<I>>) {
        let listed = std::mem::replace(&mut self.slots, slots);
        for member in &mut self.slots {
            let is_same =
                |other: &&Member<I>| other.id == member.id && other.standing != Standing::Gone;
            let same = listed.iter().find(is_same);
            match (same, member.standing) {
                (_, Standing::Gone) | (Some(_), Standing::Drained) => {}
                (Some(_), _) => member.standing = Standing::Up,
                (None, _) if member.held == 0 => member.standing = Standing::Gone,
                (None, _) => member.standing = Standing::Leaving,
            }
            if let Some(same) = same {
                member.weight = same.weight;
                if same.standing == Standing::Drained {
                    member.standing = Standing::Drained;
                }
            }
        }
        for member in listed.into_iter().filter(|member| member.standing != Standing::Gone) {
            // Refused are those that were there, and what is beyond the room.
            let _ = self.add(member.id, member.weight);
        }
    }

    /// The members, without free slots.
    pub(super) fn iter(&self) -> impl Iterator<Item = &Member<I>> {
        self.slots.iter().filter(|member| member.standing != Standing::Gone)
    }

    /// The member of a session, unless it was removed.
    #[inline]
    pub(super) fn of(&mut self, ticket: Ticket) -> Option<&mut Member<I>> {
        let member = self.slots.get_mut(ticket.slot as usize)?;
        (member.generation == ticket.generation).then_some(member)
    }

    /// The ticket of the first member like this, for a session that another replica began.
    pub(super) fn ticket_of(&self, is_it: impl Fn(I) -> bool) -> Option<Ticket> {
        let found = |member: &Member<I>| member.standing != Standing::Gone && is_it(member.id);
        self.slots.iter().position(found).map(|at| self.ticket(at))
    }

    fn ticket(&self, at: usize) -> Ticket {
        Ticket { slot: at as u32, generation: self.slots[at].generation }
    }

    /// A session of this ticket has begun; `here`: it was this replica that chose.
    pub(super) fn begin(&mut self, ticket: Ticket, here: bool) {
        if let Some(member) = self.of(ticket) {
            member.held += 1;
            member.sessions += u64::from(here);
            member.total += u64::from(here);
        }
    }

    /// It has ended.
    pub(super) fn end(&mut self, ticket: Ticket, here: bool) {
        let Some(member) = self.of(ticket) else { return };
        member.held = member.held.saturating_sub(1);
        member.sessions = member.sessions.saturating_sub(u64::from(here));
        if member.held == 0 && member.standing == Standing::Leaving {
            member.standing = Standing::Gone;
        }
    }

    /// Chooses a member for a session of this hash, the `attempt`th (from 0) where others did not
    /// do; `None`: no member takes sessions, or all were tried.
    pub(super) fn choose(&mut self, hash: u64, attempt: usize) -> Option<Ticket> {
        if attempt > 0 {
            return self.another(hash, attempt);
        }
        let at = match self.method {
            Method::RoundRobin => self.in_turn(),
            Method::Weighted => self.by_credit(),
            Method::LeastSessions => self.least(|member| member.held),
            Method::LeastQueue => self.least_queue(),
            Method::ConsistentHash => self.nearest(hash),
        };
        at.map(|at| self.ticket(at))
    }

    /// Whether members that are to be passed over get sessions: there are no others.
    fn takes_all(&self) -> bool {
        !self.slots.iter().any(|member| member.takes(false))
    }

    /// Those that new sessions may go to.
    fn takers(&self) -> impl Iterator<Item = (usize, &Member<I>)> {
        let all = self.takes_all();
        self.slots.iter().enumerate().filter(move |(_, member)| member.takes(all))
    }

    /// Any other than the first choice: all in turn, from a place that the hash gives.
    #[cold]
    fn another(&self, hash: u64, attempt: usize) -> Option<Ticket> {
        let count = self.takers().count();
        if attempt > count {
            return None;
        }
        let nth = (hash as usize).wrapping_add(attempt) % count;
        self.takers().nth(nth).map(|(at, _)| self.ticket(at))
    }

    fn in_turn(&mut self) -> Option<usize> {
        let next = self.next;
        let behind = self.takers().map(|(at, _)| at).find(|at| *at >= next);
        let at = behind.or_else(|| self.takers().next().map(|(at, _)| at))?;
        self.next = at + 1;
        Some(at)
    }

    fn by_credit(&mut self) -> Option<usize> {
        let (all, mut total) = (self.takes_all(), 0);
        let mut best: Option<(i64, usize)> = None;
        for (at, member) in self.slots.iter_mut().enumerate() {
            if !member.takes(all) {
                continue;
            }
            total += i64::from(member.weight);
            member.credit += i64::from(member.weight);
            if best.is_none_or(|(credit, _)| member.credit > credit) {
                best = Some((member.credit, at));
            }
        }
        let (_, at) = best?;
        self.slots[at].credit -= total;
        Some(at)
    }

    /// The one with the least of this for its weight.
    fn least(&self, of: impl Fn(&Member<I>) -> u64) -> Option<usize> {
        self.takers().min_by(|(_, a), (_, b)| by_weight(a, b, &of)).map(|(at, _)| at)
    }

    fn least_queue(&self) -> Option<usize> {
        let order = |a: &Member<I>, b: &Member<I>| {
            by_weight(a, b, &|member| member.queue).then(by_weight(a, b, &|member| member.held))
        };
        self.takers().min_by(|(_, a), (_, b)| order(a, b)).map(|(at, _)| at)
    }

    fn nearest(&self, hash: u64) -> Option<usize> {
        let distance = |(_, member): &(usize, &Member<I>)| {
            // Above 0 and at most 1.
            let draw = ((mix(hash ^ mix(member.id.key())) >> 11) + 1) as f64 / (1u64 << 53) as f64;
            -draw.ln() / f64::from(member.weight)
        };
        self.takers().min_by(|a, b| distance(a).total_cmp(&distance(b))).map(|(at, _)| at)
    }
}

/// Compares what two members have of something, each for its weight.
fn by_weight<I>(
    a: &Member<I>,
    b: &Member<I>,
    of: &impl Fn(&Member<I>) -> u64,
) -> std::cmp::Ordering {
    // a / b < c / d without division; weights are at least 1.
    let mine = u128::from(of(a)) * u128::from(b.weight);
    mine.cmp(&(u128::from(of(b)) * u128::from(a.weight)))
}

fn check_weight<I: Identity>(id: I, weight: u32) -> Result<(), String> {
    match weight {
        1..=WEIGHT_MAX => Ok(()),
        _ => Err(format!("the weight of {} {id} must be from 1 to {WEIGHT_MAX}", I::NOUN)),
    }
}
