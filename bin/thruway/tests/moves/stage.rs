//! What the test's elements and the test itself see of a run: the plain account.

use std::cell::RefCell;
use std::collections::HashMap;

/// A session from its begin to its end: the number of its connection, and how many sessions of the
/// same connection have ended before.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Incarnation {
    pub connection: u16,
    pub ended: u16,
}

/// What a replica keeps of a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Kept {
    pub of: Incarnation,
    /// Packets of it that a replica has treated.
    pub count: u32,
}

/// One packet: its session and its number there, from 1 on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stamp {
    pub of: Incarnation,
    pub number: u32,
}

impl Stamp {
    pub fn bytes(self) -> [u8; 8] {
        let Stamp { of: Incarnation { connection, ended }, number } = self;
        let [a, b] = connection.to_be_bytes();
        let [c, d] = ended.to_be_bytes();
        let [e, f, g, h] = number.to_be_bytes();
        [a, b, c, d, e, f, g, h]
    }

    pub fn read([a, b, c, d, e, f, g, h]: [u8; 8]) -> Stamp {
        let of = Incarnation {
            connection: u16::from_be_bytes([a, b]),
            ended: u16::from_be_bytes([c, d]),
        };
        Stamp { of, number: u32::from_be_bytes([e, f, g, h]) }
    }
}

/// What happens next.
#[derive(Clone, Debug)]
pub enum Event {
    /// A packet of each of these connections, at once.
    Packets(Vec<u16>),
    /// All sessions of a replica go to another one, or to the others, or so many.
    Move(usize, Option<usize>, Option<u32>),
    /// What a replica has is lost, and what comes to it.
    Dies(usize),
    Lives(usize),
    /// A replica works on nothing.
    Stands(usize),
    Works(usize),
    /// The session of a connection ends.
    Ends(u16),
    /// Another configuration, the same, takes over; or one that cannot begin, so that this one goes
    /// on.
    Swap(bool),
    /// Time passes: so many looks of a move.
    Passes(u8),
}

/// How a replica stands.
#[derive(Clone, Debug, Default)]
pub struct Standing {
    pub is_dead: bool,
    pub stands: bool,
    pub entries: Vec<Option<Kept>>,
    /// Packets that wait.
    pub waiting: usize,
}

/// All of it.
#[derive(Default)]
pub struct Stage {
    pub events: std::collections::VecDeque<Event>,
    pub replicas: Vec<Standing>,
    /// The records of sessions, by connection.
    pub records: HashMap<u16, (u8, u32)>,
    pub ended: HashMap<u16, u16>,
    /// Packets sent of each session.
    pub sent: HashMap<Incarnation, u32>,
    /// Those that came out, in order.
    pub seen: HashMap<Incarnation, Vec<u32>>,
    /// Those that replicas have lost.
    pub lost: HashMap<Incarnation, u32>,
    /// Whether the next configuration begins.
    pub next_begins: bool,
    /// Rounds in which nothing was under way.
    pub quiet_rounds: u32,
    /// All events are through, and nothing is under way.
    pub is_over: bool,
    /// What was kept of each session then: how many packets it had counted.
    pub kept_at_end: HashMap<Incarnation, u32>,
}

impl Stage {
    /// The session that a connection has now.
    pub fn incarnation(&self, connection: u16) -> Incarnation {
        let ended = self.ended.get(&connection).copied().unwrap_or(0);
        Incarnation { connection, ended }
    }

    /// What replicas keep of a session: at most one keeps any of it.
    pub fn kept(&self, of: Incarnation) -> Option<Kept> {
        let entries = self.replicas.iter().flat_map(|replica| &replica.entries);
        let mut kept = entries.flatten().filter(|kept| kept.of == of);
        let first = kept.next().copied();
        assert_eq!(kept.next(), None, "it is at two places: {first:?}");
        first
    }

    /// Notes what is kept at the end: sessions end with the last configuration.
    pub fn close(&mut self) {
        self.is_over = true;
        let kept = self.sent.keys().filter_map(|of| self.kept(*of));
        self.kept_at_end = kept.map(|kept| (kept.of, kept.count)).collect();
    }

    pub fn check(&self) {
        for of in self.sent.keys() {
            self.kept(*of);
        }
    }
}

thread_local! {
    static STAGE: RefCell<Stage> = RefCell::default();
}

/// Works with the stage of this thread's run.
pub fn with<R>(work: impl FnOnce(&mut Stage) -> R) -> R {
    STAGE.with_borrow_mut(work)
}
