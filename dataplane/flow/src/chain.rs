//! A configuration as the flow manager sees it: entries, dispatchers, functions that need sessions,
//! and elements that change headers.

use crate::ast::{Expr, Rule};
use crate::normal::boxes;
use crate::session::SessionDef;

/// Changes by an element to the bytes that classification reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub enum Changes {
    /// Nothing: facts established before it hold behind it.
    Nothing,
    /// Where the frame begins: tests from its first byte do not hold behind it, those from the IP
    /// and transport headers do.
    Frame,
    /// Addresses, ports or other header fields: no test that was made before it holds behind it,
    /// but a session found before it is still the packet's.
    Headers,
    /// The packet may become another: neither classes nor sessions of before hold behind it.
    #[default]
    Everything,
}

/// The state that a function wants for each session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Demand {
    /// The session.
    pub session: SessionDef,
    /// Bytes of its scratch; may be 0.
    pub size: usize,
    /// Alignment of the scratch: a power of two up to 64.
    pub align: usize,
    /// Initial value; zeros where it is shorter than `size`.
    pub initial: Vec<u8>,
    /// Whether it translates addresses, so that replies come under another key.
    pub translates: bool,
    /// Words that it publishes for the thread that serves the other direction.
    pub shared_words: usize,
    /// Whether one thread has to serve both directions.
    pub whole: bool,
    /// How long an open session without packets is kept, in seconds; `None`: its protocol's
    /// timeout.
    pub timeout_s: Option<u32>,
    /// Minimum time, in seconds, to keep a session that its protocol closes or has closed: for a
    /// function that handles its ends' retransmissions.
    pub closed_s: Option<u32>,
}

impl Demand {
    /// Of a session with so many bytes of scratch of this alignment, and nothing else.
    pub fn of(session: SessionDef, size: usize, align: usize) -> Demand {
        Demand {
            session,
            size,
            align,
            initial: Vec::new(),
            translates: false,
            shared_words: 0,
            whole: false,
            timeout_s: None,
            closed_s: None,
        }
    }
}

/// The role of a node for the flow manager.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Role {
    /// Classification begins here.
    Entry,
    /// Sorts packets by the first rule that matches; drops packets without a match.
    Dispatcher(Vec<Rule>),
    /// Any other element.
    Function,
}

/// The first rule that no packet can be sorted by, and the earlier one that is the same; `None`
/// where it contradicts itself or an earlier one takes every packet. Rules that only overlap are
/// sound: the first one counts.
pub fn useless_rule(rules: &[Rule]) -> Option<(usize, Option<usize>)> {
    let everything = rules.iter().position(|rule| rule.expr == Expr::Const(true));
    (0..rules.len()).find_map(|at| {
        let same = rules[..at].iter().position(|earlier| earlier.expr == rules[at].expr);
        let behind = everything.is_some_and(|all| all < at);
        let empty = boxes(&rules[at].expr).is_empty();
        (same.is_some() || behind || empty).then_some((at, same))
    })
}

/// One element.
#[derive(Clone, Debug)]
pub struct Node {
    /// Its name, for errors and explanations.
    pub name: String,
    /// Its role.
    pub role: Role,
    /// Per output: the node and input that it leads to.
    pub outputs: Vec<Option<(usize, usize)>>,
    /// Per input: outputs that its packets can leave by.
    pub passes: Vec<Vec<usize>>,
    /// Its changes to packets.
    pub changes: Changes,
    /// The sessions that it wants.
    pub demand: Option<Demand>,
    /// Whether the packets that come here are counted, so that they must not be dropped before: by
    /// an element with drop reasons, with handlers that count, or that shows packets.
    pub counts: bool,
}

/// The elements of a configuration with their connections; indices are those of the graph.
#[derive(Clone, Debug, Default)]
pub struct Chain {
    /// The elements.
    pub nodes: Vec<Node>,
    /// Whether packets that no element downstream needs or counts are dropped at once.
    pub early_drop: bool,
}
