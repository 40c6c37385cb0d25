//! A switch with the rules of a decision, and a host behind it that trusts its tags, do together
//! what the host does alone; and so does a host that another one notes the same tags for: for
//! random chains and random frames, against an interpreter of the switch's table. More cases:
//! `THRUWAY_OFFLOAD_CASES=100000 cargo test --release -p thruway-offload --test equality`.

mod cards;
mod chains;
mod drops;
mod frames;
mod switch;

use std::sync::Arc;

use proptest::prelude::*;
use thruway_flow::chain::{Chain, Role};
use thruway_flow::consolidate;
use thruway_flow::fcb::Fcb;
use thruway_flow::manager::{Input, Manager, Refusal, Settings};
use thruway_flow::plan::{Hop, Plan};
use thruway_flow::tags::{self, CLASSES, Generation};
use thruway_offload::{Fallback, Protocol, Table, Verdict, Wanted, table};
use thruway_packet::{Anno, Batch, Packet};

const ENTRY: u32 = 0;

fn cases(default: u32) -> ProptestConfig {
    let wanted = std::env::var("THRUWAY_OFFLOAD_CASES").ok().and_then(|n| n.parse().ok());
    ProptestConfig {
        failure_persistence: None,
        ..ProptestConfig::with_cases(wanted.unwrap_or(default))
    }
}

fn wanted(protocol: Protocol) -> Wanted {
    Wanted { protocol, rules_max: 1 << 14, tagged_classes: usize::from(CLASSES) }
}

/// What becomes of a packet: dropped by the classifier, or where each dispatcher sends it.
type Fate = Result<Vec<Hop>, Refusal>;

/// A host: the manager of a plan.
struct Host {
    manager: Manager,
    dispatchers: Vec<u32>,
    input: Input,
}

impl Host {
    fn new(plan: &Arc<Plan>, chain: &Chain, input: Input) -> Host {
        let nodes = chain.nodes.iter().enumerate();
        let dispatchers = nodes
            .filter(|(_, node)| matches!(node.role, Role::Dispatcher(_)))
            .map(|(at, _)| at as u32)
            .collect();
        let mut manager = Manager::new(Arc::clone(plan), &Settings::default()).unwrap();
        manager.trust(ENTRY, Some(Generation::Odd));
        Host { manager, dispatchers, input }
    }

    fn receive(&mut self, frame: &[u8]) -> (Fate, Vec<u8>) {
        self.receive_noted(frame, 0)
    }

    /// The same of a packet with a tag as an annotation: another host noted it.
    fn receive_noted(&mut self, frame: &[u8], tag: u16) -> (Fate, Vec<u8>) {
        let mut packet = Packet::new(frame).unwrap();
        packet.set_anno_number(Anno::VLAN_TCI, tag.into());
        self.receive_packet(packet)
    }

    /// The same of a packet with a note of a program in front.
    fn receive_with_note(&mut self, frame: &[u8], note: Fcb) -> Fate {
        let mut packet = Packet::new(frame).unwrap();
        packet.set_fcb(note.0);
        self.receive_packet(packet).0
    }

    fn receive_packet(&mut self, packet: Packet) -> (Fate, Vec<u8>) {
        let mut batch = Batch::with_room();
        batch.push(packet);
        let mut fate = None;
        let mut bytes = Vec::new();
        self.manager.classify((ENTRY, self.input), &mut batch, 0, |packet, refusal| {
            (fate, bytes) = (Some(Err(refusal)), packet.data().to_vec());
        });
        if let Some(packet) = batch.iter().next() {
            let hop = |node: &u32| self.manager.hop(*node, Fcb(packet.fcb()));
            fate = Some(Ok(self.dispatchers.iter().map(hop).collect()));
            bytes = packet.data().to_vec();
        }
        (fate.unwrap(), bytes)
    }
}

/// The frame as the switch sends it to the host.
fn sent(frame: &[u8], verdict: Verdict) -> Vec<u8> {
    let tag = match verdict {
        Verdict::Class(class) => Generation::Odd.tag(class).unwrap(),
        Verdict::Software(Fallback::Vlan) => tags::UNCLASSIFIED,
        _ => return frame.to_vec(),
    };
    let head = [&frame[..12], &tags::ETHERTYPE.to_be_bytes(), &tag.to_be_bytes()].concat();
    [&head, &frame[12..]].concat()
}

/// A packet with a version of IP that is not its EtherType's, or behind IEEE 802.2 with SNAP: a
/// switch takes it for an IP packet, and a chain does not.
fn is_in_disguise(frame: &[u8]) -> bool {
    let ethertype = |at: usize| u16::from_be_bytes([frame[at], frame[at + 1]]);
    let version = frame.get(14).map_or(0, |byte| byte >> 4);
    match ethertype(12) {
        0x0800 => version != 4,
        0x86dd => version != 6,
        length => length < 0x600 && frame[14..].starts_with(&[0xaa, 0xaa, 3, 0, 0, 0]),
    }
}

fn both_agree(plan: &Arc<Plan>, chain: &Chain, table: &Table, frames: &[Vec<u8>]) -> u64 {
    let mut alone = Host::new(plan, chain, Input::Ethernet);
    let mut behind = Host::new(plan, chain, Input::Tagged);
    let mut next = Host::new(plan, chain, Input::Ethernet);
    next.manager.note_tag_anno(ENTRY, Anno::VLAN_TCI);
    for frame in frames {
        let rule = table.rule_of(&switch::read(frame)).expect("the last rules take all");
        let (expected, _) = alone.receive(frame);
        if let Verdict::Drop(_) = rule.verdict {
            assert!(
                expected == Err(Refusal::Unwanted) || is_in_disguise(frame),
                "dropped by {rule:?}: {expected:?}, {frame:02x?}"
            );
            continue;
        }
        let (fate, bytes) = behind.receive(&sent(frame, rule.verdict));
        assert_eq!(fate, expected, "{rule:?}: {frame:02x?}");
        assert_eq!(bytes, *frame, "the tag is not off");
        let noted = match rule.verdict {
            Verdict::Class(class) => Generation::Odd.tag(class).unwrap(),
            _ => 0,
        };
        assert_eq!(next.receive_noted(frame, noted).0, expected, "noted: {frame:02x?}");
    }
    assert_eq!(next.manager.tagged(), behind.manager.tagged());
    behind.manager.tagged()
}

/// The table of a chain that is made of these dispatchers.
fn made(dispatchers: &[&[&str]], stateful: bool) -> (Chain, Arc<Plan>, Table) {
    let dispatchers = dispatchers
        .iter()
        .map(|classes| classes.iter().map(|class| (*class).to_owned()).collect())
        .collect();
    let chain = chains::Plan { dispatchers, stateful, long: false }.chain();
    let plan = Arc::new(consolidate(&chain).unwrap());
    let table = table(&plan, 0, &wanted(Protocol::OpenVSwitch)).unwrap();
    (chain, plan, table)
}

fn verdict(table: &Table, frame: &[u8]) -> Verdict {
    table.rule_of(&switch::read(frame)).unwrap().verdict
}

/// A frame with these parts of its IP packet changed.
fn frame(change: impl FnOnce(&mut frames::Parts)) -> Vec<u8> {
    let mut parts = frames::Parts::default();
    change(&mut parts);
    parts.frame()
}

#[test]
fn what_nobody_wants_is_dropped_in_the_switch() {
    let (chain, plan, table) = made(&[&["tcp dst port 80", "udp and src net 10.1.0.0/16"]], true);
    let web = frame(|parts| parts.ports = [1024, 80]);
    let other = frame(|parts| parts.ports = [1024, 443]);
    let ping = frame(|parts| (parts.protocol, parts.icmp) = (1, [8, 0]));
    assert!(matches!(verdict(&table, &web), Verdict::Class(_)));
    assert!(matches!(verdict(&table, &other), Verdict::Drop(_)));
    assert!(matches!(verdict(&table, &ping), Verdict::Drop(_)));
    assert_eq!(both_agree(&plan, &chain, &table, &[web.clone(), other, ping, web]), 2);
    // Four rules for what comes in, and for IPv6 and others the one that drops.
    let own = table.rules.iter().filter(|rule| !matches!(rule.verdict, Verdict::Software(_)));
    assert!(own.count() <= 5, "{table:?}");
}

#[test]
fn an_error_about_a_session_is_left_to_the_host() {
    let (chain, plan, table) = made(&[&["udp"]], true);
    let udp = frame(|parts| (parts.protocol, parts.src, parts.ports) = (17, 1, [1024, 53]));
    let error = frame(|parts| {
        (parts.protocol, parts.icmp, parts.src, parts.ports) = (1, [3, 1], 1, [1024, 53]);
    });
    assert_eq!(verdict(&table, &error), Verdict::Software(Fallback::IcmpError));
    both_agree(&plan, &chain, &table, &[udp, error]);
}

#[test]
fn behind_extension_headers_nothing_is_dropped() {
    let (chain, plan, table) = made(&[&["arp", "arp", "arp", "udp6", "ip6"]], false);
    let udp = |extension| {
        frame(|parts| {
            (parts.family, parts.version, parts.protocol, parts.extension) = (6, 6, 17, extension);
        })
    };
    for extension in [None, Some(0), Some(60)] {
        let frame = udp(extension);
        assert_eq!(verdict(&table, &frame), Verdict::Software(Fallback::Extensions));
        both_agree(&plan, &chain, &table, &[frame]);
    }
}

#[test]
fn a_length_is_no_ethertype() {
    let (chain, plan, table) = made(&[&["12/0026"]], false);
    // A frame of the spanning tree protocol (IEEE 802.1D).
    let frame = [[2; 12].as_slice(), &[0, 0x26, 0x42, 0x42, 3], &[0; 35]].concat();
    assert_eq!(verdict(&table, &frame), Verdict::Software(Fallback::Length));
    both_agree(&plan, &chain, &table, &[frame]);
}

#[test]
fn many_rules_are_one_table_with_first_match_semantics() {
    let rules: Vec<String> =
        (0..1000).map(|at| format!("tcp and src net 10.{}.{}.0/24", at / 200, at % 200)).collect();
    let rules: Vec<&str> = rules.iter().map(String::as_str).chain(["tcp"]).collect();
    let (_, plan, table) = made(&[&rules], false);
    assert!(plan.decision.len() < 10, "it is not run as a whole");
    assert!((1000..1100).contains(&table.rules.len()), "{}", table.rules.len());
}

#[test]
fn a_limit_leaves_the_rest_to_the_host() {
    let (chain, plan, full) = made(&[&["tcp dst port 50-100", "udp", "icmp type 8"]], true);
    let frames: Vec<Vec<u8>> = [(6, 80), (6, 443), (17, 53), (17, 80)]
        .map(|(protocol, port)| {
            frame(|parts| (parts.protocol, parts.ports) = (protocol, [1024, port]))
        })
        .to_vec();
    for rules_max in 0..full.rules.len() {
        let wanted = Wanted { rules_max, ..wanted(Protocol::OpenVSwitch) };
        let table = table(&plan, 0, &wanted).unwrap();
        let own = table.rules.len() - table.fallbacks().values().sum::<usize>();
        assert!(own <= rules_max, "{own} {rules_max}");
        both_agree(&plan, &chain, &table, &frames);
    }
}

proptest! {
    #![proptest_config(cases(96))]

    #[test]
    fn a_switch_and_a_host_do_what_a_host_does(
        made in chains::plan(),
        parts in prop::collection::vec(frames::parts(), 40),
        protocol in prop::sample::select(
            &[Protocol::OpenFlow13, Protocol::OpenFlow15, Protocol::OpenVSwitch][..]
        ),
    ) {
        let chain = made.chain();
        let Ok(plan) = consolidate(&chain) else { return Ok(()) };
        let plan = Arc::new(plan);
        let table = table(&plan, 0, &wanted(protocol)).unwrap();
        let frames: Vec<Vec<u8>> = parts.iter().map(frames::Parts::frame).collect();
        both_agree(&plan, &chain, &table, &frames);
    }
}
