//! A configuration as the flow manager sees it: where classification begins, where packets are
//! sorted, who wants sessions, and who changes what.

use crate::ast::{Expr, Rule};
use crate::normal::boxes;
use crate::session::SessionDef;

/// What an element does to the bytes that classification looks at.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub enum Changes {
    /// Nothing: what was found out before it holds behind it.
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
    /// How long a session without packets is kept once it is open, in seconds; `None`: as long as
    /// its protocol says.
    pub timeout_s: Option<u32>,
    /// How long a session whose protocol says that it is closing or closed is kept at least, in
    /// seconds: of a function that has to do with what its ends still send again.
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

/// What a node is to the flow manager.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Role {
    /// Classification begins here.
    Entry,
    /// Sorts packets by the first rule that matches; who matches none is dropped.
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
    /// What it is.
    pub role: Role,
    /// Per output: the node and input that it leads to.
    pub outputs: Vec<Option<(usize, usize)>>,
    /// Per input: outputs that its packets can leave by.
    pub passes: Vec<Vec<usize>>,
    /// What it does to packets.
    pub changes: Changes,
    /// The sessions that it wants.
    pub demand: Option<Demand>,
    /// Whether somebody counts the packets that come here: they may not be dropped before. An
    /// element with drop reasons, handlers that count, or one that shows packets.
    pub counts: bool,
}

/// The elements of a configuration with their connections; indices are those of the graph.
#[derive(Clone, Debug, Default)]
pub struct Chain {
    /// The elements.
    pub nodes: Vec<Node>,
    /// Whether packets that nobody downstream wants, and nobody counts, are dropped at once.
    pub early_drop: bool,
}
