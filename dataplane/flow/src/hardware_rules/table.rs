//! The rules, their priorities, and what is left to the chain.

use std::collections::BTreeMap;

use crate::decision::{Goto, LeafId};
use crate::drop_table::{ERRORS4, ERRORS6, VLAN};
use crate::plan::Plan;
use crate::rule_table::table::{Bounds, unguarded, without_needless};
use crate::rule_table::words::{ICMP, ICMP6, IPV4, IPV6};
use crate::rule_table::{Fallback, Field, Match, Protocol, Rule, Verdict};

use super::Guards;
use super::items::{Item, items};

/// Most rules where nothing else is wanted: cards have some thousands, and each rule is compared
/// with all others.
pub const RULES_MAX: usize = 1 << 10;
/// Below, the field is a length (IEEE 802.3, section 3.2.6).
const ETHERTYPE_MIN: u128 = 0x600;

/// What happens to a rule's packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Act {
    /// They are dropped, as the chain would drop them.
    Drop,
    /// They go to the chain, marked with their class.
    Class(LeafId),
    /// They go to the chain, so that no later rule takes them.
    Pass(Left),
}

impl Act {
    fn is_pass(self) -> bool {
        matches!(self, Act::Pass(_))
    }

    /// Whether packets fare alike by both.
    fn is_like(self, other: Act) -> bool {
        self == other || self.is_pass() && other.is_pass()
    }
}

/// Why packets are left to the chain.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, thiserror::Error)]
pub enum Left {
    /// No field holds these bytes.
    #[error("a rule looks at bytes that no item of rte_flow has")]
    Bytes,
    /// A rule looks behind the IP header without saying of which protocol.
    #[error("a rule looks at the transport header of any protocol")]
    Transport,
    /// Next headers of IPv6.
    #[error("a rule looks at the next header of IPv6, which may be that of an extension")]
    Extensions,
    /// One rule of the chain is too many rules of a card.
    #[error("a rule of the chain becomes too many of a card")]
    TooMany,
    /// More rules than wanted.
    #[error("more rules than the limit")]
    Limit,
    /// All bits of a field are to be zero.
    #[error("a rule wants zeros in a field, which drivers may take for any value")]
    Zeros,
    /// A length in place of an EtherType.
    #[error("a rule looks at the length of IEEE 802.3 in place of an EtherType")]
    Length,
    /// They may belong to a session.
    #[error("ICMP errors, which may belong to a session")]
    IcmpError,
    /// Packets that other rules look at as IP, or behind tags.
    #[error("IP packets and frames with VLAN tags that no rule before takes")]
    Remainder,
    /// The card cannot mark packets.
    #[error("classes, where the card marks no packets")]
    Marks,
    /// The card refuses the rule.
    #[error("the card refuses the rule")]
    Refused,
    /// A rule before it was left out.
    #[error("a rule before it, about some of its packets, was left out")]
    Behind,
}

impl From<Fallback> for Left {
    fn from(fallback: Fallback) -> Left {
        match fallback {
            Fallback::Transport => Left::Transport,
            Fallback::Extensions => Left::Extensions,
            Fallback::TooMany => Left::TooMany,
            Fallback::Limit | Fallback::Tags => Left::Limit,
            Fallback::Zeros => Left::Zeros,
            Fallback::Length => Left::Length,
            Fallback::IcmpError => Left::IcmpError,
            Fallback::Vlan | Fallback::Fragment => Left::Remainder,
            // Only rules that push tags have these.
            Fallback::Label | Fallback::NotIp => Left::Remainder,
            Fallback::Bytes | Fallback::Field | Fallback::Mask => Left::Bytes,
        }
    }
}

/// A rule; a lower level comes first, and rules of one level have no packets of different acts in
/// common.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HardwareRule {
    /// Its packets.
    pub matches: Match,
    /// What happens to them.
    pub act: Act,
    /// Packets that it must exclude by words of its own.
    pub guards: Guards,
    /// Its priority.
    pub level: u32,
}

impl HardwareRule {
    /// Its headers, from the outermost on; `None` if no header has one of its fields.
    pub fn items(&self) -> Option<Vec<Item>> {
        items(&self.matches, self.guards)
    }

    /// A rule for more packets that looks at no transport header, where it only leaves packets to
    /// the chain.
    fn broader(&self) -> Option<HardwareRule> {
        let transport =
            [Field::PortSrc, Field::PortDst, Field::IcmpType, Field::IcmpCode, Field::TcpFlags];
        let is_narrow = transport.into_iter().any(|field| self.matches.looks_at(field));
        let matches = transport
            .into_iter()
            .fold(self.matches, |matches, field| matches.with_field_of(field, &Match::ANY));
        (self.act.is_pass() && is_narrow).then_some(HardwareRule { matches, ..*self })
    }
}

/// The rules of one classifier. Packets that none of them takes come to the chain.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HardwareTable {
    rules: Vec<HardwareRule>,
    /// Why rules were left out, and how many.
    left: BTreeMap<Left, usize>,
    /// Whether ICMP errors may belong to a session.
    pub leaves_errors: bool,
}

impl HardwareTable {
    /// The rules of the classifier with index `entry` among the plan's entries, about `rules_max`
    /// at most; `None` if there is no such entry.
    pub fn of(plan: &Plan, entry: usize, rules_max: usize) -> Option<HardwareTable> {
        let start = plan.entries.get(entry)?.start;
        let protocol = Protocol::OpenVSwitch;
        let bounds = Bounds { protocol, rules_max, classes_max: LeafId::MAX };
        let (mut families, mut rules) = ([const { Vec::new() }; 3], Vec::new());
        for rule in unguarded(plan, entry, bounds)? {
            match rule.matches.exact(Field::EthType) {
                Some(IPV4) => families[0].push(rule),
                Some(IPV6) => families[1].push(rule),
                _ => families[2].push(rule),
            }
        }
        let leaves_errors = !plan.levels.is_empty();
        for (family, own) in families.into_iter().enumerate() {
            let is_other = family == 2;
            let own: Vec<Rule> = without_needless(own);
            let has_lengths = own.iter().any(|rule| is_length(&rule.matches));
            rules.extend(match is_other {
                true => remainders(),
                false if leaves_errors => errors(family == 0),
                false => Vec::new(),
            });
            rules.extend(own.iter().map(|rule| {
                let act = match rule.verdict {
                    _ if is_other && has_lengths && !has_type(&rule.matches) => {
                        Act::Pass(Left::Length)
                    }
                    verdict => act(plan, verdict, &rule.matches),
                };
                of_rule(plan, start, rule.matches, act)
            }));
        }
        let mut table = HardwareTable { rules, left: BTreeMap::new(), leaves_errors };
        table.note_passed();
        table.leave_inexpressible();
        table.set_levels();
        Some(table)
    }

    /// The rules; earlier ones come first where they have packets in common.
    pub fn rules(&self) -> &[HardwareRule] {
        &self.rules
    }

    /// How many of them drop packets, mark them, and leave them to the chain.
    pub fn counts(&self) -> [usize; 3] {
        let count = |is: fn(Act) -> bool| self.rules.iter().filter(|rule| is(rule.act)).count();
        [
            count(|act| act == Act::Drop),
            count(|act| matches!(act, Act::Class(_))),
            count(Act::is_pass),
        ]
    }

    /// Why packets are left to the chain by rules of the chain: by how many.
    pub fn left(&self) -> &BTreeMap<Left, usize> {
        &self.left
    }

    /// Whether it drops nothing, and marks no packet with one of several classes.
    pub fn is_empty(&self) -> bool {
        let drops = self.rules.iter().any(|rule| rule.act == Act::Drop);
        let mut classes = self.rules.iter().filter(|rule| matches!(rule.act, Act::Class(_)));
        let first = classes.next().map(|rule| rule.act);
        !drops && !classes.any(|rule| Some(rule.act) != first)
    }

    /// The same for a card that marks no packets.
    #[must_use]
    pub fn without_marks(mut self) -> HardwareTable {
        let mut count = 0;
        for rule in &mut self.rules {
            if matches!(rule.act, Act::Class(_)) {
                (rule.act, rule.guards) = (Act::Pass(Left::Marks), Guards::default());
                count += 1;
            }
        }
        self.note(Left::Marks, count);
        self.set_levels();
        self
    }

    /// Leaves out the rules that a card does not take, and those behind them that would take their
    /// packets. A rule that only leaves packets to the chain becomes broader, if that helps.
    pub fn ask(&mut self, mut takes: impl FnMut(&HardwareRule) -> bool) {
        // Levels change with what is left out, and a card may refuse a level.
        loop {
            let mut refused = vec![false; self.rules.len()];
            let mut is_changed = false;
            for (rule, refused) in self.rules.iter_mut().zip(&mut refused) {
                if takes(rule) {
                    continue;
                }
                is_changed = true;
                match rule.broader().filter(&mut takes) {
                    Some(broader) => *rule = broader,
                    None => *refused = true,
                }
            }
            if !is_changed {
                return;
            }
            self.leave_out(&refused, Left::Refused);
            self.set_levels();
        }
    }

    /// Leaves out the rule at this index, which the card does not take although it said that it
    /// would. Rules before it, which the card has, stay as they are, and levels too.
    pub fn leave(&mut self, at: usize) {
        let refused: Vec<bool> = (0..self.rules.len()).map(|rule| rule == at).collect();
        self.leave_out(&refused, Left::Refused);
    }

    /// Leaves out all rules from this index on.
    pub fn truncate(&mut self, len: usize) {
        let rest = self.rules.len().saturating_sub(len);
        self.rules.truncate(len);
        self.note(Left::Refused, rest);
    }

    fn note(&mut self, why: Left, count: usize) {
        if count > 0 {
            *self.left.entry(why).or_default() += count;
        }
    }

    /// Counts the rules that leave packets to the chain because of what the chain tests.
    fn note_passed(&mut self) {
        for at in 0..self.rules.len() {
            if let Act::Pass(why) = self.rules[at].act
                && !matches!(why, Left::IcmpError | Left::Remainder)
            {
                self.note(why, 1);
            }
        }
    }

    /// Leaves out the rules that have no items.
    fn leave_inexpressible(&mut self) {
        let mut refused = vec![false; self.rules.len()];
        for (rule, refused) in self.rules.iter_mut().zip(&mut refused) {
            if rule.items().is_none() {
                match rule.broader().filter(|broader| broader.items().is_some()) {
                    Some(broader) => *rule = broader,
                    None => *refused = true,
                }
            }
        }
        self.leave_out(&refused, Left::Bytes);
    }

    /// Leaves out some rules, and all behind them that would take packets of one that is left out,
    /// and treat them otherwise.
    fn leave_out(&mut self, refused: &[bool], why: Left) {
        let mut left: Vec<HardwareRule> = Vec::new();
        let mut kept = Vec::with_capacity(self.rules.len());
        let mut behind = 0;
        for (rule, is_refused) in self.rules.iter().zip(refused) {
            let takes = |one: &HardwareRule| {
                !one.act.is_like(rule.act) && one.matches.intersection(&rule.matches).is_some()
            };
            match is_refused {
                true => left.push(*rule),
                // To leave packets to the chain is never wrong.
                false if !rule.act.is_pass() && left.iter().any(takes) => {
                    left.push(*rule);
                    behind += 1;
                }
                false => kept.push(*rule),
            }
        }
        self.note(why, left.len() - behind);
        self.note(Left::Behind, behind);
        self.rules = kept;
    }

    /// Removes rules that leave packets to the chain which no later rule takes, and gives the
    /// others their levels.
    fn set_levels(&mut self) {
        let mut kept: Vec<HardwareRule> = Vec::new();
        for rule in self.rules.iter().rev() {
            let takes = |later: &HardwareRule| {
                !later.act.is_pass() && later.matches.intersection(&rule.matches).is_some()
            };
            if !rule.act.is_pass() || kept.iter().any(takes) {
                kept.push(*rule);
            }
        }
        kept.reverse();
        for at in 0..kept.len() {
            let (before, rest) = kept.split_at_mut(at);
            let Some(rule) = rest.first_mut() else { break };
            let mut clashing = before.iter().filter(|earlier| {
                !earlier.act.is_like(rule.act)
                    && earlier.matches.intersection(&rule.matches).is_some()
            });
            let first = clashing.next().map(|earlier| earlier.level);
            let most = clashing.map(|earlier| earlier.level).max();
            rule.level = first.max(most).map_or(0, |level| level + 1);
        }
        self.rules = kept;
    }
}

fn of_rule(plan: &Plan, start: Goto, matches: Match, act: Act) -> HardwareRule {
    let guards = match act {
        Act::Drop => Guards::of_drop(plan, start, &matches),
        // What is marked is checked by the chain.
        Act::Class(_) | Act::Pass(_) => Guards::default(),
    };
    HardwareRule { matches, act, guards, level: 0 }
}

/// What a card is to do by a verdict.
fn act(plan: &Plan, verdict: Verdict, matches: &Match) -> Act {
    let wants_zeros = Field::ALL.into_iter().any(|field| {
        let (value, mask) = matches.get(field);
        mask != 0 && value == 0
    });
    let finds_sessions = |leaf: LeafId| {
        let leaf = plan.leaves.get(usize::from(leaf));
        leaf.is_none_or(|leaf| leaf.keys.iter().any(Option::is_some))
    };
    match verdict {
        Verdict::Software(fallback) => Act::Pass(fallback.into()),
        _ if is_length(matches) => Act::Pass(Left::Length),
        _ if wants_zeros => Act::Pass(Left::Zeros),
        Verdict::Drop(leaf) if finds_sessions(leaf) => Act::Class(leaf),
        Verdict::Drop(_) => Act::Drop,
        Verdict::Class(leaf) => Act::Class(leaf),
    }
}

fn has_type(matches: &Match) -> bool {
    matches.looks_at(Field::EthType)
}

/// Whether frames with a length in place of an EtherType are meant.
fn is_length(matches: &Match) -> bool {
    matches.exact(Field::EthType).is_some_and(|ethertype| ethertype < ETHERTYPE_MIN)
}

fn pass(matches: Match, why: Left) -> HardwareRule {
    HardwareRule { matches, act: Act::Pass(why), guards: Guards::default(), level: 0 }
}

/// Rules for IP packets and frames with VLAN tags, before those of other frames.
fn remainders() -> Vec<HardwareRule> {
    let tags = VLAN.into_iter().map(u128::from);
    let types = [IPV4, IPV6].into_iter().chain(tags);
    types.map(|of| pass(Match::of(Field::EthType, of), Left::Remainder)).collect()
}

/// Rules for ICMP errors (RFC 792, RFC 4443 section 2.1), before those of other IP packets.
fn errors(is_ipv4: bool) -> Vec<HardwareRule> {
    let (ip, protocol, errors) = match is_ipv4 {
        true => (IPV4, ICMP, ERRORS4.as_slice()),
        false => (IPV6, ICMP6, ERRORS6.as_slice()),
    };
    let of = |kind: &u8| {
        let icmp = Match::of(Field::EthType, ip).and(Field::IpProtocol, protocol, 0xff)?;
        icmp.and(Field::IcmpType, u128::from(*kind), 0xff)
    };
    errors.iter().filter_map(of).map(|matches| pass(matches, Left::IcmpError)).collect()
}
