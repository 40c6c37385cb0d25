//! Whether a rule is right for packets that cards read in different ways.
//!
//! By rte_flow's description an item of TCP takes no fragment but the first, one of an EtherType
//! no frame with a VLAN tag, and the protocol of IPv6 is the first next header. Drivers differ:
//! that of TAP devices looks behind VLAN tags and extension headers. So a rule that drops says
//! which of these packets it must not take, in words that a driver understands or refuses
//! ([`Guards`]); but only where the chain treats one of them otherwise.

use std::collections::HashSet;

use crate::ast::{Base, Expr, Word};
use crate::decision::{Choice, Goto, Next, next};
use crate::drop_table::VLAN;
use crate::plan::Plan;
use crate::rule_table::words::{BitLocation, Bits, IPV4, IPV6, byte};
use crate::rule_table::{Fallback, Field, Match};

/// Packets that a rule must exclude by words of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub struct Guards {
    /// Frames with VLAN tags.
    pub tags: bool,
    /// Fragments of IPv4, or IPv6 packets with extension headers.
    pub pieces: bool,
}

/// A packet that some cards read otherwise than others do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Variant {
    /// The type of its VLAN tag.
    tag: Option<u16>,
    pieces: Pieces,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Pieces {
    /// Neither a fragment, nor with extension headers.
    Whole,
    /// The first fragment of IPv4: the transport header is there.
    First,
    /// Any fragment of IPv4, or IPv6 with extension headers.
    Any,
}

impl Guards {
    /// What a rule needs that drops the packets of a match, of those that enter the decision at
    /// `start`.
    pub(super) fn of_drop(plan: &Plan, start: Goto, within: &Match) -> Guards {
        let of = |tag, pieces| Walk { plan, within, variant: Variant { tag, pieces } };
        let drops = |tag, pieces| of(tag, pieces).only_drops(start);
        let tags = || [None].into_iter().chain(VLAN.map(Some));
        let family = within.exact(Field::EthType);
        let pieces: &[Pieces] = match family {
            // A card that reads no ports of fragments takes zeros for them.
            Some(IPV4) if names_ports(within) => &[Pieces::First],
            Some(IPV4 | IPV6) => &[Pieces::Any],
            _ => &[],
        };
        // A card that looks behind tags does so by all its rules, also by those before this one. So
        // IP packets have to fare there as without a tag.
        let is_right = |tag: u16| match family {
            Some(IPV4 | IPV6) => of(Some(tag), Pieces::Whole).is_read_alike(start),
            _ => drops(Some(tag), Pieces::Whole),
        };
        Guards {
            tags: !VLAN.iter().all(|tag| is_right(*tag)),
            pieces: !pieces.iter().all(|pieces| tags().all(|tag| drops(tag, *pieces))),
        }
    }
}

/// Whether only a packet with a transport header can have the fields: zeros are not enough.
fn names_ports(within: &Match) -> bool {
    let transport =
        [Field::PortSrc, Field::PortDst, Field::IcmpType, Field::IcmpCode, Field::TcpFlags];
    transport.into_iter().any(|field| within.get(field).0 != 0)
}

/// A walk through the decision with all packets of a variant.
struct Walk<'a> {
    plan: &'a Plan,
    within: &'a Match,
    variant: Variant,
}

/// Whether a condition may hold, and whether it may not.
type May = (bool, bool);

impl Walk<'_> {
    /// Whether the chain surely drops the packets. It may do so and this not know it.
    fn only_drops(&self, start: Goto) -> bool {
        let (mut seen, mut left) = (HashSet::new(), vec![start]);
        while let Some(at) = left.pop() {
            if !seen.insert(at) {
                continue;
            }
            let step = match next(at) {
                Next::Leaf(leaf) => match self.plan.leaves.get(usize::from(leaf)) {
                    Some(leaf) if leaf.early_drop && leaf.keys.iter().all(Option::is_none) => {
                        continue;
                    }
                    _ => return false,
                },
                Next::Step(step) => step,
            };
            match self.plan.decision.choice(step) {
                Some(choice) => self.follow(choice, &mut left),
                None => return false,
            }
        }
        true
    }

    /// Whether all tests turn out as they do without the tag.
    fn is_read_alike(&self, start: Goto) -> bool {
        let (mut seen, mut left) = (HashSet::new(), vec![start]);
        while let Some(at) = left.pop() {
            let Next::Step(step) = next(at) else { continue };
            if !seen.insert(at) {
                continue;
            }
            let Some(choice) = self.plan.decision.choice(step) else { return false };
            let is_alike = match &choice {
                Choice::Test { word, .. } => self.is_alike(word),
                Choice::Switch { word, branches, .. } => branches.iter().all(|(value, _)| {
                    self.is_alike(&Word::equal(word.base, word.at, word.mask, *value))
                }),
                Choice::Rules { rules, .. } => rules.iter().all(|rule| self.are_alike(&rule.expr)),
            };
            if !is_alike {
                return false;
            }
            self.follow(choice, &mut left);
        }
        true
    }

    fn are_alike(&self, expr: &Expr) -> bool {
        match expr {
            Expr::Const(_) => true,
            Expr::Test(word) => self.is_alike(word),
            Expr::Not(expr) => self.are_alike(expr),
            Expr::All(list) | Expr::Any(list) => list.iter().all(|expr| self.are_alike(expr)),
            Expr::Choice(cases, otherwise) => {
                let mut all = cases.iter().flat_map(|(condition, then)| [condition, then]);
                all.all(|expr| self.are_alike(expr)) && self.are_alike(otherwise)
            }
        }
    }

    /// Whether a test turns out as without the tag.
    fn is_alike(&self, word: &Word) -> bool {
        let (first, shift) = (word.at, word.mask.leading_zeros() / 8);
        let last = usize::from(first) + word.needed_bytes();
        if word.base != Base::Frame || word.mask == 0 || last <= 12 {
            return true;
        }
        // The same bytes of the frame are others behind a tag.
        let is_of_type = last <= 14 && u32::from(first) + shift >= 12;
        let without = Walk { variant: Variant { tag: None, ..self.variant }, ..*self };
        let (with, without) = (self.word(word), without.word(word));
        is_of_type && with == without && with.0 != with.1
    }

    /// Where packets may go on.
    fn follow(&self, choice: Choice<'_>, left: &mut Vec<Goto>) {
        match choice {
            Choice::Test { word, yes, no } => {
                let (may_hold, may_fail) = self.word(&word);
                left.extend(may_hold.then_some(yes));
                left.extend(may_fail.then_some(no));
            }
            Choice::Switch { word, branches, otherwise } => {
                let cases = branches.into_iter().map(|(value, goto)| {
                    (self.word(&Word::equal(word.base, word.at, word.mask, value)), goto)
                });
                follow_first(cases, otherwise, left);
            }
            Choice::Rules { rules, outputs, .. } => {
                let Some((otherwise, by_output)) = outputs.split_last() else { return };
                let cases = rules.iter().map(|rule| {
                    let goto = by_output.get(rule.output as usize).unwrap_or(otherwise);
                    (self.expr(&rule.expr), *goto)
                });
                follow_first(cases, *otherwise, left);
            }
        }
    }

    fn expr(&self, expr: &Expr) -> May {
        match expr {
            Expr::Const(value) => (*value, !*value),
            Expr::Test(word) => self.word(word),
            Expr::Not(expr) => {
                let (may_hold, may_fail) = self.expr(expr);
                (may_fail, may_hold)
            }
            Expr::All(list) => list.iter().fold((true, false), |(hold, fail), expr| {
                let (may_hold, may_fail) = self.expr(expr);
                (hold && may_hold, fail || may_fail)
            }),
            Expr::Any(list) => list.iter().fold((false, true), |(hold, fail), expr| {
                let (may_hold, may_fail) = self.expr(expr);
                (hold || may_hold, fail && may_fail)
            }),
            Expr::Choice(cases, otherwise) => {
                let mut may = (false, false);
                let add = |may: &mut May, (hold, fail): May| *may = (may.0 || hold, may.1 || fail);
                for (condition, then) in cases {
                    let (may_hold, may_fail) = self.expr(condition);
                    if may_hold {
                        add(&mut may, self.expr(then));
                    }
                    if !may_fail {
                        return may;
                    }
                }
                add(&mut may, self.expr(otherwise));
                may
            }
        }
    }

    /// A test of a word of which some bits are known.
    fn word(&self, word: &Word) -> May {
        if word.mask == 0 {
            return (word.holds(0), !word.holds(0));
        }
        let (mut known, mut value, mut may_be_missing) = (0, 0, false);
        for index in 0..4_u16 {
            let shift = 8 * (3 - u32::from(index));
            let looked_at = (word.mask >> shift) as u8;
            let at = word.at.saturating_add(index);
            let of_byte = if looked_at == 0 { Vec::new() } else { self.byte(word.base, at) };
            for (bits, location) in of_byte.into_iter().filter(|(bits, _)| bits & looked_at != 0) {
                let (found, which) = match location {
                    BitLocation::Missing => return (false, true),
                    BitLocation::Same(same) => (same, bits),
                    BitLocation::In(field, lowest) => self.field(field, lowest, bits),
                    BitLocation::Nowhere(_) => {
                        may_be_missing = true;
                        (0, 0)
                    }
                };
                known |= u32::from(which & looked_at) << shift;
                value |= u32::from(found & which & looked_at) << shift;
            }
        }
        let (least, most) = (value, value | word.mask & !known);
        let may_hold = word.lo <= word.hi && most >= word.lo && least <= word.hi;
        (may_hold, may_be_missing || !(word.lo <= least && most <= word.hi))
    }

    /// Bits of a byte that lie in a field from its bit `lowest` on: their values, and which of them
    /// are known.
    fn field(&self, field: Field, lowest: u32, bits: u8) -> (u8, u8) {
        let (value, mask) = self.within.get(field);
        let to = |of: u128| ((of >> lowest) as u8) << bits.trailing_zeros() & bits;
        (to(value), to(mask))
    }

    /// Where a byte's bits are.
    fn byte(&self, base: Base, at: u16) -> Vec<Bits> {
        let unknown = || vec![(0xff, BitLocation::Nowhere(Fallback::Bytes))];
        let is_ipv4 = self.within.exact(Field::EthType) == Some(IPV4);
        let is_ip = is_ipv4 || self.within.exact(Field::EthType) == Some(IPV6);
        match (base, at, self.variant.pieces) {
            (Base::Frame, 12 | 13, _) if self.variant.tag.is_some() => {
                let [first, second] = self.variant.tag.unwrap_or_default().to_be_bytes();
                vec![(0xff, BitLocation::Same(if at == 12 { first } else { second }))]
            }
            (Base::Frame, 14.., _) if self.variant.tag.is_some() || !is_ip => unknown(),
            (Base::Frame, 14.., _) => self.byte(Base::Network, at - 14),
            (Base::Network, 6, Pieces::First) if is_ipv4 => {
                vec![(0xc0, BitLocation::Nowhere(Fallback::Bytes)), (0x3f, BitLocation::Same(0x20))]
            }
            (Base::Network, 6 | 7, Pieces::Any) if is_ipv4 => unknown(),
            // The first next header is that of an extension.
            (Base::Network, 6, Pieces::Any) if is_ip => unknown(),
            (Base::Transport, _, Pieces::Any) if is_ip => unknown(),
            _ => byte(base, at, self.within),
        }
    }
}

/// Where packets may go on of which each takes the first case that holds.
fn follow_first(cases: impl Iterator<Item = (May, Goto)>, otherwise: Goto, left: &mut Vec<Goto>) {
    for ((may_hold, may_fail), goto) in cases {
        left.extend(may_hold.then_some(goto));
        if !may_fail {
            return;
        }
    }
    left.push(otherwise);
}
