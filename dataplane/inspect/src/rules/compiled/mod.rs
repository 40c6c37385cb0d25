//! Rules made ready to be looked at.

pub(super) mod chain;
pub(super) mod ends;
pub(super) mod needle;

use crate::rules::ast::{About, Action, Protocol, Rule};
use crate::rules::buffer::{Buffer, Side};
use crate::rules::condition::Condition;
use crate::rules::error::Reason;
use crate::rules::matches::{Content, Fast, Match, Part};
use crate::rules::session::{FlowBitOp, Threshold, View};
use crate::rules::variables::Variables;

use chain::Chain;
use ends::Head;

/// A rule made ready.
#[derive(Debug)]
pub struct Compiled {
    /// What to do.
    pub action: Action,
    /// What it says of itself.
    pub about: About,
    /// 1 (high) to 255: its own, or that of its class.
    pub priority: u8,
    /// Its packets and sessions.
    pub(super) protocol: Protocol,
    pub(super) head: Head,
    pub(super) side: Option<Side>,
    pub(super) established: Option<bool>,
    pub(super) conditions: Vec<Condition>,
    pub(super) chains: Vec<Chain>,
    /// When it is looked at.
    pub(super) scope: Scope,
    pub(super) bits: Vec<Bits>,
    /// It is not reported.
    pub quiet: bool,
    /// The count of matches before it is reported.
    pub threshold: Option<Threshold>,
    /// Bytes that come after its fast pattern may be what makes it match.
    pub(super) waits: bool,
    /// Where its fast pattern is found it matches: nothing else is asked.
    pub(super) is_plain: bool,
    /// As written, for the oracle.
    #[cfg(test)]
    pub(super) parts: Vec<Part>,
}

impl Compiled {
    /// Whether it looks at parts of messages: it sees nothing where nobody finds messages.
    pub fn is_of_messages(&self) -> bool {
        self.chains.iter().any(|chain| chain.buffer != Buffer::Payload)
    }

    /// Whether it has conditions on endpoints only.
    pub(super) fn is_of_ends(&self) -> bool {
        self.chains.is_empty() && self.conditions.is_empty()
    }
}

/// Flow bits, by their numbers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Bits {
    pub op: FlowBitOp,
    pub numbers: Vec<u16>,
}

/// On which occasions a rule is looked at.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Scope {
    /// When there is a packet.
    pub packet: bool,
    /// When there is more of a stream.
    pub stream: bool,
    /// When there is a message's head, or more of its body.
    pub message: bool,
}

impl Scope {
    /// What a rule looks at, as Suricata decides it: places counted from the beginning are meant in
    /// packets as well as in the stream, what is said of headers is meant of packets.
    fn of(rule: &Rule) -> Scope {
        if rule.parts.iter().any(|part| part.buffer != Buffer::Payload) {
            return Scope { message: true, ..Scope::default() };
        }
        let packet = Scope { packet: true, ..Scope::default() };
        let stream = Scope { stream: true, ..Scope::default() };
        let is_placed = |matches: &Match| match matches {
            Match::Content(content) => content.offset.is_some() || content.depth.is_some(),
            _ => false,
        };
        match (rule.protocol, rule.flow.view) {
            (Protocol::Udp | Protocol::Icmp | Protocol::TcpPacket, _) => packet,
            (_, Some(View::Packet)) => packet,
            (Protocol::TcpStream, _) | (_, Some(View::Stream)) => stream,
            _ if rule.parts.is_empty() || !rule.conditions.is_empty() => packet,
            (Protocol::Tcp, _) => {
                let packet = rule.parts.iter().any(|part| is_placed(&part.matches));
                Scope { packet, ..stream }
            }
            // UDP has packets, TCP a stream.
            (Protocol::Ip | Protocol::Dns, _) => Scope { packet: true, ..stream },
            _ => stream,
        }
    }
}

/// Whether these are one content that may be anywhere, all of which is looked for first.
fn is_plain(parts: &[Part]) -> bool {
    let [Part { buffer: Buffer::Payload, matches: Match::Content(content) }] = parts else {
        return false;
    };
    let Content { bytes, nocase, fast, .. } = content;
    let plain =
        Content { bytes: bytes.clone(), nocase: *nocase, fast: *fast, ..Content::default() };
    *content == plain && !matches!(fast, Fast::Cut { .. })
}

/// What rules are made ready with.
pub(super) struct Compiler<'a> {
    pub variables: &'a Variables,
    pub bits: super::bits::BitNames,
    pub heads: ends::Pool,
}

impl Compiler<'_> {
    /// Makes a rule ready.
    ///
    /// # Errors
    /// All that is wrong with it.
    pub(super) fn compile(&mut self, rule: Rule) -> Result<Compiled, Vec<Reason>> {
        let mut errors = Vec::new();
        let head = self.heads.head(&rule, self.variables).map_err(|error| errors.push(error));
        let chains = Chain::of(&rule.parts).map_err(|more| errors.extend(more));
        let mut bits = Vec::new();
        for bit in &rule.flow_bits {
            let numbers: Result<Vec<u16>, Reason> =
                bit.names.iter().map(|name| self.bits.number(name)).collect();
            match numbers {
                Ok(numbers) => bits.push(Bits { op: bit.op, numbers }),
                Err(error) => errors.push(error),
            }
        }
        let (Ok(head), Ok(chains), true) = (head, chains, errors.is_empty()) else {
            return Err(errors);
        };
        let scope = Scope::of(&rule);
        let of_buffers = rule.parts.iter().find_map(|part| part.buffer.side());
        let mut compiled = Compiled {
            action: rule.action,
            priority: rule.about.priority.unwrap_or_else(|| {
                self.variables.class(&rule.about.classtype).map_or(3, |class| class.priority)
            }),
            about: rule.about,
            protocol: rule.protocol,
            head,
            side: rule.flow.side.or(of_buffers),
            established: rule.flow.established,
            conditions: rule.conditions,
            chains,
            scope,
            bits,
            quiet: rule.quiet,
            threshold: rule.threshold,
            waits: false,
            is_plain: scope == Scope { stream: true, ..Scope::default() } && is_plain(&rule.parts),
            #[cfg(test)]
            parts: rule.parts,
        };
        compiled.waits = waits(&compiled);
        Ok(compiled)
    }
}

/// Whether bytes that come after the fast pattern may be what makes the rule match. They are not
/// where everything is in heads, nor where the fast pattern is the only condition.
fn waits(rule: &Compiled) -> bool {
    if !rule.chains.iter().any(|chain| chain.buffer.is_stream()) {
        return false;
    }
    match &rule.chains[..] {
        [chain] if chain.buffer == Buffer::Payload => {
            !matches!(&chain.steps[..], [step] if matches!(&step.what, chain::What::Content(_)))
        }
        _ => true,
    }
}
