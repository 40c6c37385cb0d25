//! The servers that a balancer chooses from, and how it chooses.

use std::fmt;
use std::net::Ipv4Addr;

/// Most servers, those included that only wait for their last session.
pub(super) const SERVERS_MAX: usize = 1024;
/// Largest weight.
pub(super) const WEIGHT_MAX: u32 = 65_535;

/// Address and port of a server; without a port packets keep theirs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Place {
    pub(super) addr: u32,
    pub(super) port: Option<u16>,
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", Ipv4Addr::from(self.addr))?;
        self.port.map_or(Ok(()), |port| write!(f, ":{port}"))
    }
}

/// How a server is chosen for a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Method {
    /// One after the other.
    RoundRobin,
    /// One after the other, as often as its weight says: nginx's "smooth" form, which does not
    /// choose a heavy server many times in a row.
    Weighted,
    /// The one with the fewest open sessions for its weight.
    LeastConnections,
    /// By a hash of the session alone, so that a change of the list moves as few sessions as can
    /// be: rendezvous hashing (Thaler and Ravishankar, "Using name-based mappings to increase hit
    /// rates", 1998), weighted by logarithms (Schindelhauer and Schomaker, "Weighted distributed
    /// hash tables", 2005).
    ConsistentHash,
}

impl Method {
    /// The words for it.
    pub(super) const WORDS: &'static [&'static str] =
        &["round-robin", "weighted", "least-connections", "consistent-hash"];

    pub(super) fn parse(word: &str) -> Option<Method> {
        use Method::{ConsistentHash, LeastConnections, RoundRobin, Weighted};
        let all = [RoundRobin, Weighted, LeastConnections, ConsistentHash];
        let at = Method::WORDS.iter().position(|known| *known == word)?;
        Some(all[at])
    }
}

/// Whether a server takes sessions.
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

/// One server, or a free slot.
#[derive(Clone, Debug)]
pub(super) struct Server {
    pub(super) place: Place,
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
    /// Counts the slot's owners: a session of an earlier one has lost its server.
    pub(super) generation: u32,
    /// Of [`Method::Weighted`].
    credit: i64,
}

/// All servers.
pub(super) struct Servers {
    method: Method,
    slots: Vec<Server>,
    /// Of [`Method::RoundRobin`]: the slot to begin at.
    next: usize,
}

/// What a session remembers of its server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Ticket {
    pub(super) slot: u32,
    pub(super) generation: u32,
}

impl Servers {
    pub(super) fn new(method: Method) -> Servers {
        Servers { method, slots: Vec::new(), next: 0 }
    }

    /// Adds a server, or takes one back that was leaving.
    ///
    /// # Errors
    /// What is wrong with it.
    pub(super) fn add(&mut self, place: Place, weight: u32) -> Result<(), String> {
        check_weight(place, weight)?;
        if let Some(known) = self.find_mut(place) {
            if known.standing != Standing::Leaving {
                return Err(format!("server {place} is there already"));
            }
            (known.standing, known.weight) = (Standing::Up, weight);
            return Ok(());
        }
        let free = self.slots.iter().position(|server| server.standing == Standing::Gone);
        if free.is_none() && self.slots.len() >= SERVERS_MAX {
            return Err(format!("there are {SERVERS_MAX} servers already, which is the most"));
        }
        let at = free.unwrap_or(self.slots.len());
        let generation = self.slots.get(at).map_or(0, |old| old.generation.wrapping_add(1));
        let server = Server {
            place,
            weight,
            generation,
            standing: Standing::Up,
            held: 0,
            sessions: 0,
            total: 0,
            packets: 0,
            bytes: 0,
            credit: 0,
        };
        match self.slots.get_mut(at) {
            Some(slot) => *slot = server,
            None => self.slots.push(server),
        }
        Ok(())
    }

    fn find_mut(&mut self, place: Place) -> Option<&mut Server> {
        let known =
            |server: &&mut Server| server.place == place && server.standing != Standing::Gone;
        self.slots.iter_mut().find(known)
    }

    /// The server of this place, to be changed.
    ///
    /// # Errors
    /// There is none.
    pub(super) fn named(&mut self, place: Place) -> Result<&mut Server, String> {
        self.find_mut(place).ok_or_else(|| format!("there is no server {place}"))
    }

    /// Another weight, for sessions to come.
    ///
    /// # Errors
    /// There is no such server, or weight.
    pub(super) fn set_weight(&mut self, place: Place, weight: u32) -> Result<(), String> {
        check_weight(place, weight)?;
        self.named(place)?.weight = weight;
        Ok(())
    }

    /// Takes a server off the list: at once with its sessions, or when the last has ended.
    ///
    /// # Errors
    /// There is none of this place.
    pub(super) fn remove(&mut self, place: Place, now: bool) -> Result<(), String> {
        let server = self.named(place)?;
        server.standing = if now || server.held == 0 { Standing::Gone } else { Standing::Leaving };
        if now {
            server.generation = server.generation.wrapping_add(1);
            (server.held, server.sessions) = (0, 0);
        }
        Ok(())
    }

    /// Gives up all servers with what is known of their sessions, for another list to take.
    pub(super) fn hand_over(&mut self) -> Vec<Server> {
        std::mem::take(&mut self.slots)
    }

    /// Takes over the servers of a list before this one: those that are here too keep their
    /// sessions and standing and get the weight from here, others are leaving.
    pub(super) fn take_over(&mut self, slots: Vec<Server>) {
        let listed = std::mem::replace(&mut self.slots, slots);
        for server in &mut self.slots {
            let same = listed.iter().find(|other| other.place == server.place);
            match (same, server.standing) {
                (_, Standing::Gone) | (Some(_), Standing::Drained) => {}
                (Some(_), _) => server.standing = Standing::Up,
                (None, _) if server.held == 0 => server.standing = Standing::Gone,
                (None, _) => server.standing = Standing::Leaving,
            }
            if let Some(same) = same {
                server.weight = same.weight;
            }
        }
        for server in listed {
            // Refused are those that were there, and what is beyond the room.
            let _ = self.add(server.place, server.weight);
        }
    }

    /// The servers, without free slots.
    pub(super) fn iter(&self) -> impl Iterator<Item = &Server> {
        self.slots.iter().filter(|server| server.standing != Standing::Gone)
    }

    /// The server of a session, unless it was removed.
    #[inline]
    pub(super) fn of(&mut self, ticket: Ticket) -> Option<&mut Server> {
        let server = self.slots.get_mut(ticket.slot as usize)?;
        (server.generation == ticket.generation).then_some(server)
    }

    /// The ticket of the server at this address, for a session that another replica began.
    pub(super) fn ticket_of(&self, addr: u32, port: Option<u16>) -> Option<Ticket> {
        let is_it = |server: &Server| {
            let place = server.place;
            server.standing != Standing::Gone
                && place.addr == addr
                && place.port.zip(port).is_none_or(|(its, port)| its == port)
        };
        self.slots.iter().position(is_it).map(|at| self.ticket(at))
    }

    fn ticket(&self, at: usize) -> Ticket {
        Ticket { slot: at as u32, generation: self.slots[at].generation }
    }

    /// A session of this ticket has begun; `here`: it was this replica that chose.
    pub(super) fn begin(&mut self, ticket: Ticket, here: bool) {
        if let Some(server) = self.of(ticket) {
            server.held += 1;
            server.sessions += u64::from(here);
            server.total += u64::from(here);
        }
    }

    /// It has ended.
    pub(super) fn end(&mut self, ticket: Ticket, here: bool) {
        let Some(server) = self.of(ticket) else { return };
        server.held = server.held.saturating_sub(1);
        server.sessions = server.sessions.saturating_sub(u64::from(here));
        if server.held == 0 && server.standing == Standing::Leaving {
            server.standing = Standing::Gone;
        }
    }

    /// Chooses a server for a session of this hash, the `attempt`th (from 0) where others did not
    /// do; `None`: no server takes sessions, or all were tried.
    pub(super) fn choose(&mut self, hash: u64, attempt: usize) -> Option<Ticket> {
        if attempt > 0 {
            return self.another(hash, attempt);
        }
        let at = match self.method {
            Method::RoundRobin => self.in_turn(),
            Method::Weighted => self.by_credit(),
            Method::LeastConnections => self.least(),
            Method::ConsistentHash => self.nearest(hash),
        };
        at.map(|at| self.ticket(at))
    }

    fn up(&self) -> impl Iterator<Item = (usize, &Server)> {
        self.slots.iter().enumerate().filter(|(_, server)| server.standing == Standing::Up)
    }

    /// Any other than the first choice: all in turn, from a place that the hash gives.
    #[cold]
    fn another(&self, hash: u64, attempt: usize) -> Option<Ticket> {
        let count = self.up().count();
        if attempt > count {
            return None;
        }
        let nth = (hash as usize).wrapping_add(attempt) % count;
        self.up().nth(nth).map(|(at, _)| self.ticket(at))
    }

    fn in_turn(&mut self) -> Option<usize> {
        let next = self.next;
        let behind = self.up().map(|(at, _)| at).find(|at| *at >= next);
        let at = behind.or_else(|| self.up().next().map(|(at, _)| at))?;
        self.next = at + 1;
        Some(at)
    }

    fn by_credit(&mut self) -> Option<usize> {
        let mut total = 0;
        let mut best: Option<(i64, usize)> = None;
        for (at, server) in self.slots.iter_mut().enumerate() {
            if server.standing != Standing::Up {
                continue;
            }
            total += i64::from(server.weight);
            server.credit += i64::from(server.weight);
            if best.is_none_or(|(credit, _)| server.credit > credit) {
                best = Some((server.credit, at));
            }
        }
        let (_, at) = best?;
        self.slots[at].credit -= total;
        Some(at)
    }

    fn least(&self) -> Option<usize> {
        // a / b < c / d without division; weights are at least 1.
        let load = |server: &Server, other: &Server| {
            let mine = u128::from(server.held) * u128::from(other.weight);
            mine.cmp(&(u128::from(other.held) * u128::from(server.weight)))
        };
        self.up().min_by(|(_, a), (_, b)| load(a, b)).map(|(at, _)| at)
    }

    fn nearest(&self, hash: u64) -> Option<usize> {
        let distance = |(_, server): &(usize, &Server)| {
            let place =
                u64::from(server.place.addr) << 16 | u64::from(server.place.port.unwrap_or(0));
            // Above 0 and at most 1.
            let draw = ((mixed(hash ^ mixed(place)) >> 11) + 1) as f64 / (1u64 << 53) as f64;
            -draw.ln() / f64::from(server.weight)
        };
        self.up().min_by(|a, b| distance(a).total_cmp(&distance(b))).map(|(at, _)| at)
    }
}

fn check_weight(place: Place, weight: u32) -> Result<(), String> {
    match weight {
        1..=WEIGHT_MAX => Ok(()),
        _ => Err(format!("the weight of {place} must be from 1 to {WEIGHT_MAX}")),
    }
}

/// Spreads a number over 64 bits (the finaliser of splitmix64).
pub(super) fn mixed(n: u64) -> u64 {
    let n = (n ^ n >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let n = (n ^ n >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    n ^ n >> 31
}
