//! A network card with the rules of a decision, and a host behind it that trusts its marks, do
//! together what the host does alone: for random chains, random frames, and cards that differ in
//! what they refuse and how they read what rte_flow does not settle.

use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::sync::Arc;

use proptest::prelude::*;
use thruway_flow::chain::Chain;
use thruway_flow::consolidate;
use thruway_flow::fcb::Fcb;
use thruway_flow::hardware_rules::{Act, HardwareRule, HardwareTable, Header, Item, is_plain};
use thruway_flow::manager::{Input, Refusal};
use thruway_flow::plan::Plan;

use super::{ENTRY, Host, cases, chains, frame, frames};

/// Most rules: fewer than some of these chains become.
const RULES_MAX: usize = 128;
/// Number in the marks.
const MARK: u64 = 7;

/// What a card is like.
#[derive(Clone, Copy, Debug)]
struct Card {
    /// It knows the words that exclude tags and fragments.
    guards: bool,
    /// It reads as the kernel's classifier `flower` does, by which TAP devices work: behind VLAN
    /// tags and extension headers, and of fragments only the protocol.
    flower: bool,
    marks: bool,
    /// It knows items of ICMP, and masks of ports and EtherTypes.
    whole: bool,
    /// Rules that it refuses besides: where this number has their [`bit`].
    refuses: u64,
}

fn card() -> impl Strategy<Value = Card> {
    let refuses = prop_oneof![2 => Just(0), 1 => any::<u64>().prop_map(|bits| bits & bits >> 7)];
    (any::<[bool; 4]>(), refuses).prop_map(|([guards, flower, marks, whole], refuses)| Card {
        guards,
        flower,
        marks,
        whole,
        refuses,
    })
}

/// The driver of TAP devices.
const TAP: Card = Card { guards: false, flower: true, marks: false, whole: false, refuses: 0 };
/// All that rte_flow has.
const FULL: Card = Card { guards: true, flower: false, marks: true, whole: true, refuses: 0 };

/// One of 64 bits for a rule.
fn bit(rule: &HardwareRule) -> u64 {
    let mut hasher = DefaultHasher::new();
    rule.matches.hash(&mut hasher);
    1 << (hasher.finish() & 63)
}

impl Card {
    fn takes(&self, rule: &HardwareRule) -> bool {
        let items = rule.items().expect("a table has no others");
        let is_known = |item: &Item| match item.header {
            Header::Icmp | Header::Icmp6 => self.whole,
            Header::Tcp | Header::Udp => {
                let ports = [[item.mask[0], item.mask[1]], [item.mask[2], item.mask[3]]];
                let are_whole = ports.iter().all(|port| [[0; 2], [0xff; 2]].contains(port));
                self.whole || are_whole && item.mask[4..] == [0; 36]
            }
            Header::Ipv4 => {
                let pieces = item.mask[6..8] == [0; 2];
                (self.guards || pieces) && (self.whole || item.mask[1] | item.mask[8] == 0)
            }
            Header::Ethernet | Header::Ipv6 => self.guards || !item.alone,
            Header::Sctp => self.whole,
        };
        self.refuses & bit(rule) == 0 && items.iter().all(is_known)
    }

    /// The rules that the card has, as a program would come to them.
    fn rules(&self, table: HardwareTable) -> HardwareTable {
        let mut table = if self.marks { table } else { table.without_marks() };
        table.ask(|rule| self.takes(rule));
        assert!(table.rules().iter().all(|rule| self.takes(rule)), "{table:?}");
        table
    }

    /// The rule that the card finds for a frame.
    fn rule_of<'a>(&self, table: &'a HardwareTable, frame: &[u8]) -> Option<&'a HardwareRule> {
        let holding = table.rules().iter().filter(|rule| self.holds(rule, frame));
        let first = holding.clone().map(|rule| rule.level).min()?;
        let mut found = holding.filter(|rule| rule.level == first);
        let rule = found.next();
        let like = |other: &HardwareRule| match (rule.map(|rule| rule.act), other.act) {
            (Some(Act::Pass(_)), Act::Pass(_)) => true,
            (act, other) => act == Some(other),
        };
        // What two rules of one level have in common may only be packets without whole headers.
        assert!(found.all(like) || !is_plain(frame, false), "{frame:02x?}");
        rule
    }

    fn holds(&self, rule: &HardwareRule, frame: &[u8]) -> bool {
        let mut read = Read::of(frame, self.flower);
        rule.items().unwrap().iter().all(|item| read.holds(item))
    }
}

/// A frame, as a card reads it.
struct Read {
    ethernet: Vec<u8>,
    is_tagged: bool,
    ip: Vec<u8>,
    kind: u16,
    has_extensions: bool,
    protocol: Option<u8>,
    upper: Vec<u8>,
}

impl Read {
    fn of(frame: &[u8], flower: bool) -> Read {
        let half =
            |at: usize| frame.get(at..at + 2).map(|two| u16::from_be_bytes([two[0], two[1]]));
        let mut ethernet = frame[..14].to_vec();
        let (mut kind, mut at) = (half(12).unwrap(), 14);
        let is_tag = |kind: u16| [0x8100, 0x88a8, 0x9100].contains(&kind);
        let is_tagged = is_tag(kind);
        while flower && [0x8100, 0x88a8].contains(&kind) {
            let Some(inner) = half(at + 2) else { break };
            (kind, at) = (inner, at + 4);
            ethernet[12..14].copy_from_slice(&inner.to_be_bytes());
        }
        let ip = frame.get(at..).unwrap_or(&[]).to_vec();
        let mut read = Read {
            ethernet,
            is_tagged,
            ip,
            kind,
            has_extensions: false,
            protocol: None,
            upper: Vec::new(),
        };
        match kind {
            0x0800 => read.ipv4(flower),
            0x86dd => read.ipv6(flower),
            _ => {}
        }
        read
    }

    fn ipv4(&mut self, flower: bool) {
        let Some(head) = self.ip.first_chunk::<20>() else { return };
        self.protocol = Some(head[9]);
        let len = usize::from(head[0] & 15) * 4;
        let piece = u16::from_be_bytes([head[6], head[7]]) & 0x3fff;
        self.upper = self.ip.get(len..).unwrap_or(&[]).to_vec();
        if flower && piece != 0 {
            self.upper = vec![0; 20];
        } else if piece & 0x1fff != 0 {
            self.upper.clear();
        }
    }

    fn ipv6(&mut self, flower: bool) {
        let Some(head) = self.ip.first_chunk::<40>() else { return };
        let (mut next, mut at) = (head[6], 40);
        while [0, 43, 44, 51, 60, 135, 139, 140].contains(&next) {
            self.has_extensions = true;
            let Some(extension) = self.ip.get(at..at + 8) else { break };
            let is_piece = next == 44 && extension[2..4] != [0, 0];
            (next, at) = (extension[0], at + 8);
            if is_piece {
                at = usize::MAX;
                break;
            }
        }
        self.upper = self.ip.get(at..).unwrap_or(&[0; 20]).to_vec();
        self.protocol = Some(if flower { next } else { head[6] });
        if !flower && self.has_extensions {
            self.upper.clear();
        }
    }

    fn holds(&mut self, item: &Item) -> bool {
        let upper = |protocol: u8| self.protocol == Some(protocol) && item.holds(&self.upper);
        match item.header {
            Header::Ethernet => item.holds(&self.ethernet) && !(item.alone && self.is_tagged),
            Header::Ipv4 => self.kind == 0x0800 && self.protocol.is_some() && item.holds(&self.ip),
            Header::Ipv6 => {
                if let (Some(protocol), Some(next)) = (self.protocol, self.ip.get_mut(6)) {
                    *next = protocol;
                }
                let is_alone = !(item.alone && self.has_extensions);
                self.kind == 0x86dd && self.protocol.is_some() && is_alone && item.holds(&self.ip)
            }
            Header::Tcp => upper(6),
            Header::Udp => upper(17),
            Header::Sctp => upper(132),
            Header::Icmp => upper(1),
            Header::Icmp6 => upper(58),
        }
    }
}

/// How many of the frames are dropped by the card, and how many get a class there; what it drops is
/// what the host drops, but for frames that are not `right`.
fn both_agree(
    (plan, chain): (&Arc<Plan>, &Chain),
    card: Card,
    frames: &[(Vec<u8>, bool)],
) -> (usize, usize) {
    let table = HardwareTable::of(plan, 0, RULES_MAX).unwrap();
    let leaves_errors = table.leaves_errors;
    let table = card.rules(table);
    let mut alone = Host::new(plan, chain, Input::Ethernet);
    let mut behind = Host::new(plan, chain, Input::Ethernet);
    behind.manager.trust_notes(ENTRY, Some(MARK));
    let (mut dropped, mut marked) = (0, 0);
    for (frame, is_right) in frames {
        let (expected, _) = alone.receive(frame, 0);
        let rule = card.rule_of(&table, frame);
        match rule.map(|rule| rule.act) {
            Some(Act::Drop) => {
                dropped += 1;
                assert!(
                    expected == Err(Refusal::Unwanted) || !is_right,
                    "{card:?} drops by {rule:?}: {expected:?}, {frame:02x?}\n{table:?}"
                );
            }
            Some(Act::Class(class)) if is_plain(frame, leaves_errors) => {
                marked += 1;
                let fate = behind.receive_with_note(frame, Fcb::of_note(class, MARK));
                assert_eq!(fate, expected, "{card:?} marks by {rule:?}: {frame:02x?}\n{table:?}");
            }
            _ => assert_eq!(behind.receive(frame, 0).0, expected),
        }
    }
    (dropped, marked)
}

/// Whether a frame has whole headers that do not contradict each other.
fn is_right(parts: &frames::Parts) -> bool {
    let family = if parts.family == 0 { parts.version } else { parts.family };
    !parts.snap && parts.cut == 0 && parts.changed.is_none() && parts.version == family
}

fn chain_of(classes: &[&str], stateful: bool) -> (Chain, Arc<Plan>) {
    let classes = classes.iter().map(|class| (*class).to_owned()).collect();
    let chain = chains::Plan { dispatchers: vec![classes], stateful, long: false }.chain();
    let plan = Arc::new(consolidate(&chain).unwrap());
    (chain, plan)
}

fn samples() -> Vec<(Vec<u8>, bool)> {
    let mut all = Vec::new();
    for (protocol, port) in [(6, 80), (6, 443), (17, 53), (17, 80), (1, 0)] {
        for fragment in [0x4000, 0x2000, 1] {
            for tags in [vec![], vec![0x8100]] {
                all.push(frame(|parts| {
                    (parts.protocol, parts.ports, parts.icmp) = (protocol, [1024, port], [8, 0]);
                    (parts.fragment, parts.tags) = (fragment, tags);
                }));
            }
        }
    }
    all.push(frame(|parts| parts.family = 0));
    all.into_iter().map(|frame| (frame, true)).collect()
}

#[test]
fn a_card_drops_what_nobody_wants() {
    let (chain, plan) = chain_of(&["tcp dst port 80", "udp dst port 53", "arp"], true);
    let (dropped, marked) = both_agree((&plan, &chain), FULL, &samples());
    // Of 31: TCP to 443, UDP to 80 and pings are whole and without tags; what is wanted are three.
    assert_eq!((dropped, marked), (3, 3));
    let table = HardwareTable::of(&plan, 0, RULES_MAX).unwrap();
    let drop = table.rules().iter().find(|rule| rule.act == Act::Drop).unwrap();
    assert!(drop.guards.pieces, "a first fragment may be wanted");
    assert!(!drop.guards.tags, "behind a tag it is the same packet");
}

#[test]
fn a_tap_device_drops_by_addresses_and_ports() {
    // The fourth class is dropped.
    let rules = ["tcp dst port 80", "udp dst port 53", "arp", "udp dst port 80", "-"];
    let (chain, plan) = chain_of(&rules, false);
    let (dropped, marked) = both_agree((&plan, &chain), TAP, &samples());
    let whole = HardwareTable::of(&plan, 0, RULES_MAX).unwrap();
    let table = TAP.rules(whole.clone());
    assert_eq!((dropped, marked), (2, 0), "with a tag and without: {table:#?} of {whole:#?}");
    assert!(table.rules().iter().any(|rule| rule.act == Act::Drop), "{table:?}");
    assert!(table.rules().len() < 3, "{table:?}");
}

#[test]
fn zeros_are_not_asked_for() {
    let rules = ["udp dst port 0", "arp", "arp", "src net 0.0.0.0/8", "-"];
    let (_, plan) = chain_of(&rules, false);
    let table = HardwareTable::of(&plan, 0, RULES_MAX).unwrap();
    assert!(table.rules().iter().all(|rule| rule.act != Act::Drop), "{table:?}");
}

#[test]
fn what_is_left_out_takes_those_behind_with_it() {
    let (chain, plan) = chain_of(&["tcp dst port 80", "udp", "arp"], false);
    let table = HardwareTable::of(&plan, 0, RULES_MAX).unwrap();
    let frames = samples();
    for rule in table.rules() {
        both_agree((&plan, &chain), Card { refuses: bit(rule), ..FULL }, &frames);
    }
    let all = Card { refuses: u64::MAX, ..FULL }.rules(table);
    assert!(all.rules().is_empty() && all.is_empty());
}

proptest! {
    #![proptest_config(cases(96))]

    #[test]
    fn a_card_and_a_host_do_what_a_host_does(
        made in chains::plan(),
        card in card(),
        parts in prop::collection::vec(frames::parts(), 40),
    ) {
        let chain = made.chain();
        let Ok(plan) = consolidate(&chain) else { return Ok(()) };
        let frames: Vec<_> = parts.iter().map(|parts| (parts.frame(), is_right(parts))).collect();
        both_agree((&Arc::new(plan), &chain), card, &frames);
    }
}
