//! Fast patterns, by where they are looked for.

use crate::patterns::{Pattern, Patterns};
use crate::rules::ast::Protocol;
use crate::rules::buffer::{Buffer, Side};
use crate::rules::compiled::Compiled;
use crate::rules::error::Reason;
use crate::rules::fast::FastPattern;

/// What is looked for together: the fewer patterns, the faster.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Traffic {
    /// TCP, one of its sides.
    Tcp(Side),
    /// Everything else.
    Other,
}

impl Traffic {
    const ALL: [Traffic; 3] =
        [Traffic::Tcp(Side::ToServer), Traffic::Tcp(Side::ToClient), Traffic::Other];

    fn index(self) -> usize {
        match self {
            Traffic::Tcp(side) => side.index(),
            Traffic::Other => 2,
        }
    }

    /// Whether a rule can match there.
    fn is_of(self, rule: &Compiled) -> bool {
        match (self, rule.protocol) {
            (_, Protocol::Ip | Protocol::Dns)
            | (Traffic::Other, Protocol::Udp | Protocol::Icmp) => true,
            (Traffic::Other, _) | (Traffic::Tcp(_), Protocol::Udp | Protocol::Icmp) => false,
            (Traffic::Tcp(side), _) => rule.side.is_none_or(|wanted| wanted == side),
        }
    }
}

/// The patterns that are looked for in one buffer.
#[derive(Debug)]
pub(super) struct Area {
    pub patterns: Patterns,
    /// The rules of each of them.
    pub rules: Vec<Vec<u32>>,
}

/// Areas by direction and buffer. Patterns for the body of either side are in both of them.
#[derive(Debug, Default)]
pub(super) struct Areas(Vec<Option<Area>>);

impl Areas {
    pub(super) fn new(fast: &[FastPattern], rules: &[Compiled]) -> Result<Areas, Reason> {
        let places = Traffic::ALL
            .iter()
            .flat_map(|traffic| Buffer::ALL.iter().map(|buffer| (*traffic, *buffer)));
        places.map(|place| area(fast, rules, place)).collect::<Result<_, _>>().map(Areas)
    }

    /// Bytes of the largest patterns of one buffer.
    pub(super) fn memory_max(&self) -> usize {
        self.0.iter().flatten().map(|area| area.patterns.memory()).max().unwrap_or(0)
    }

    pub(super) fn get(&self, traffic: Traffic, buffer: Buffer) -> Option<&Area> {
        self.0.get(traffic.index() * Buffer::COUNT + buffer.index())?.as_ref()
    }
}

fn area(
    fast: &[FastPattern],
    rules: &[Compiled],
    (traffic, buffer): (Traffic, Buffer),
) -> Result<Option<Area>, Reason> {
    let (mut patterns, mut owners) = (Vec::new(), Vec::new());
    for pattern in fast {
        let is_either = pattern.buffer == Buffer::FileData && buffer.is_body();
        if buffer == Buffer::FileData || !(pattern.buffer == buffer || is_either) {
            continue;
        }
        let is_here = |rule: &u32| traffic.is_of(&rules[*rule as usize]);
        let mine: Vec<u32> = pattern.rules.iter().copied().filter(is_here).collect();
        if !mine.is_empty() {
            patterns.push(Pattern { bytes: pattern.bytes.clone(), nocase: pattern.nocase });
            owners.push(mine);
        }
    }
    if patterns.is_empty() {
        return Ok(None);
    }
    let patterns = Patterns::new(&patterns)
        .map_err(|error| Reason::TooLarge(format!("fast patterns: {error}")))?;
    Ok(Some(Area { patterns, rules: owners }))
}
