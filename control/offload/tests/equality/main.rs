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
use thruway_flow::tags::{Generation, TagKind, TagSource, Tags};
use thruway_offload::{Fallback, Protocol, Rule, Table, Tagging, Verdict, Wanted, table};
use thruway_packet::{Anno, Batch, Packet};

const ENTRY: u32 = 0;

fn cases(default: u32) -> ProptestConfig {
    let wanted = std::env::var("THRUWAY_OFFLOAD_CASES").ok().and_then(|n| n.parse().ok());
    ProptestConfig {
        failure_persistence: None,
        ..ProptestConfig::with_cases(wanted.unwrap_or(default))
    }
}

fn wanted(protocol: Protocol, tags: TagKind) -> Wanted {
    Wanted { protocol, rules_max: 1 << 14, tags }
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
        let manager = Manager::new(Arc::clone(plan), &Settings::default()).unwrap();
        Host { manager, dispatchers, input }
    }

    /// One that trusts tags of this kind and generation.
    fn behind(plan: &Arc<Plan>, chain: &Chain, kind: TagKind, trusted: Generation) -> Host {
        let mut host = Host::new(plan, chain, Input::Ethernet);
        let tags = Tags { source: source(kind), refuse_unknown: false };
        host.manager.note_tags(ENTRY, tags);
        host.manager.trust(ENTRY, Some(trusted));
        host
    }

    /// What becomes of a frame that comes with this number in an annotation.
    fn receive(&mut self, frame: &[u8], number: u32) -> (Fate, Vec<u8>) {
        let mut packet = Packet::new(frame).unwrap();
        packet.set_anno_number(Anno::VLAN_TCI, number);
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

/// A frame as the switch sends it to the host, and the number in the option of Geneve, if it has
/// one: what the actions of a rule make of it, written down from Open vSwitch's manual and source.
fn sent(frame: &[u8], rule: &Rule, kind: TagKind) -> (Vec<u8>, u32) {
    let option = if kind == TagKind::Metadata { OPTION } else { 0 };
    let tagging = Tagging { kind, generation: trusted(kind), option };
    let (mut bytes, mut number) = (frame.to_vec(), 0);
    for action in tagging.actions(rule, "host").split(',') {
        let set = action.strip_prefix("set_field:").and_then(|set| set.split_once("->"));
        match (action, set) {
            ("push_vlan:0x88a8", _) => drop(bytes.splice(12..12, [0x88, 0xa8, 0, 0])),
            ("push_mpls:0x8847", _) => push_label(&mut bytes),
            (_, Some((vid, "vlan_vid"))) => {
                let vid: u16 = vid.parse().unwrap();
                bytes[14..16].copy_from_slice(&(vid & 0xfff).to_be_bytes());
            }
            (_, Some((label, "mpls_label"))) => {
                let label: u32 = label.parse().unwrap();
                let at = label_at(&bytes);
                bytes[at..at + 3].copy_from_slice(&(label << 4 | 1).to_be_bytes()[1..]);
            }
            (_, Some((value, "tun_metadata3"))) => {
                let value = u32::from_str_radix(value.trim_start_matches("0x"), 16).unwrap();
                number = value >> 16;
            }
            ("output:host", _) => {}
            other => panic!("{other:?}"),
        }
    }
    (bytes, number)
}

/// The field of the option.
const OPTION: u8 = 3;

/// Where a switch puts a label: behind the header of IEEE 802.2 with SNAP, too.
fn label_at(frame: &[u8]) -> usize {
    if frame[14..].starts_with(&[0xaa, 0xaa, 3, 0, 0, 0]) { 22 } else { 14 }
}

/// The EtherType, or the length in its place, becomes that of labels.
fn push_label(frame: &mut Vec<u8>) {
    let at = label_at(frame);
    frame[12..14].copy_from_slice(&[0x88, 0x47]);
    drop(frame.splice(at..at, [0, 0, 1, 64]));
}

/// Where a host has tags of a kind.
fn source(kind: TagKind) -> TagSource {
    match kind {
        TagKind::Vlan => TagSource::Vlan,
        TagKind::Mpls => TagSource::Mpls,
        TagKind::Metadata => TagSource::Anno(Anno::VLAN_TCI),
    }
}

/// The generation that hosts trust here.
fn trusted(kind: TagKind) -> Generation {
    Generation::default().next(kind)
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

/// How many packets were classified by their tag.
fn both_agree(plan: &Arc<Plan>, chain: &Chain, table: &Table, frames: &[Vec<u8>]) -> u64 {
    let kind = table.tags;
    let mut alone = Host::new(plan, chain, Input::Ethernet);
    let mut behind = Host::behind(plan, chain, kind, trusted(kind));
    let mut later = Host::behind(plan, chain, kind, trusted(kind).next(kind));
    for frame in frames {
        let rule = table.rule_of(&switch::read(frame)).expect("the last rules take all");
        if let Verdict::Drop(_) = rule.verdict {
            let (expected, _) = alone.receive(frame, 0);
            assert!(
                expected == Err(Refusal::Unwanted) || is_in_disguise(frame),
                "dropped by {rule:?}: {expected:?}, {frame:02x?}"
            );
            continue;
        }
        let (bytes, number) = sent(frame, rule, kind);
        // In front of IEEE 802.2 with SNAP a label cannot be taken off: then what the switch made
        // of the frame counts.
        let is_damaged = kind == TagKind::Mpls
            && matches!(rule.verdict, Verdict::Class(_))
            && label_at(frame) == 22;
        let frame = if is_damaged { &bytes } else { frame };
        let (expected, _) = alone.receive(frame, 0);
        for host in [&mut behind, &mut later] {
            let (fate, left) = host.receive(&bytes, number);
            assert_eq!(fate, expected, "{rule:?}: {frame:02x?}");
            assert_eq!(left, *frame, "the tag is not off");
        }
    }
    assert_eq!(later.manager.tagged(), 0, "stale tags");
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
    let table = table(&plan, 0, &wanted(Protocol::OpenVSwitch, TagKind::Vlan)).unwrap();
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

/// The table of the same chain for tags of a kind.
fn retagged(plan: &Plan, kind: TagKind) -> Table {
    table(plan, 0, &wanted(Protocol::OpenVSwitch, kind)).unwrap()
}

#[test]
fn what_looks_like_a_tag_is_none() {
    let (chain, plan, _) = made(&[&["tcp dst port 80", "arp", "12/8847", "12/88a8", "-"]], false);
    let web = frame(|parts| parts.ports = [1024, 80]);
    let label = |entry: u32| {
        let mut labelled = web.clone();
        labelled[12..14].copy_from_slice(&[0x88, 0x47]);
        drop(labelled.splice(14..14, entry.to_be_bytes()));
        labelled
    };
    let number = TagKind::Mpls.number(trusted(TagKind::Mpls), 0).unwrap();
    let own = thruway_flow::tags::label(number, false) << 12;
    let tagged = |tag: u16| {
        let mut tagged = web.clone();
        drop(tagged.splice(12..12, [0x88, 0xa8, (tag >> 8) as u8, tag as u8]));
        tagged
    };
    let vlan = TagKind::Vlan.number(trusted(TagKind::Vlan), 0).unwrap() as u16;
    let mut snap = web.clone();
    drop(snap.splice(12..12, [0, 48, 0xaa, 0xaa, 3, 0, 0, 0]));
    // Labels of the chain's own number, one above another, of others; tags; both.
    let frames = [
        label(own | 0x140),
        label(own | 0x040),
        label(16 << 12 | 0x140),
        tagged(vlan),
        tagged(1),
        [&tagged(1)[..16], &label(own | 0x140)[12..]].concat(),
        snap,
        web,
    ];
    for kind in TagKind::ALL {
        let table = retagged(&plan, kind);
        // The one that is as it seems.
        assert_eq!(both_agree(&plan, &chain, &table, &frames), expected_tagged(kind), "{kind:?}");
    }
}

/// A label hides what is behind it, so frames with labels of their own have a class by other kinds
/// only.
fn expected_tagged(kind: TagKind) -> u64 {
    if kind == TagKind::Mpls { 1 } else { 4 }
}

#[test]
fn a_label_is_for_ip_only() {
    let (chain, plan, _) = made(&[&["tcp dst port 80", "arp", "ip6"]], false);
    let table = retagged(&plan, TagKind::Mpls);
    let arp = frame(|parts| parts.family = 0);
    let ip6 = frame(|parts| (parts.family, parts.version, parts.ports) = (6, 6, [1024, 443]));
    let labelled = [&ip6[..12], &[0x88, 0x47, 0, 1, 1, 64], &ip6[14..]].concat();
    assert_eq!(verdict(&table, &arp), Verdict::Software(Fallback::NotIp));
    assert_eq!(verdict(&table, &labelled), Verdict::Software(Fallback::Label));
    assert!(matches!(verdict(&table, &ip6), Verdict::Class(_)));
    assert_eq!(both_agree(&plan, &chain, &table, &[arp, ip6, labelled]), 1);
}

#[test]
fn more_classes_than_tags_are_left_to_the_host() {
    let rules: Vec<String> =
        (0..2800).map(|at| format!("udp and dst host 10.9.{}.{}", at / 200, at % 200)).collect();
    let rules: Vec<&str> = rules.iter().map(String::as_str).collect();
    let (_, plan, vlan) = made(&[&rules], false);
    let (classes, tagged) = (plan.leaves.len(), usize::from(TagKind::Vlan.classes()));
    assert!(classes > tagged, "{classes}");
    let without = |table: &Table| table.fallbacks().get(&Fallback::Tags).copied();
    assert!(without(&vlan).is_some_and(|rules| rules <= classes - tagged), "{vlan:?}");
    assert_eq!(without(&retagged(&plan, TagKind::Mpls)), None);
}

#[test]
fn an_unknown_tag_is_refused_where_that_is_wanted() {
    let (chain, plan, _) = made(&[&["tcp dst port 80", "-"]], false);
    let web = frame(|parts| parts.ports = [1024, 80]);
    for kind in TagKind::ALL {
        let table = retagged(&plan, kind);
        let rule = table.rule_of(&switch::read(&web)).unwrap();
        let (tagged, number) = sent(&web, rule, kind);
        let mut host = Host::behind(&plan, &chain, kind, trusted(kind).next(kind));
        let tags = Tags { source: source(kind), refuse_unknown: true };
        host.manager.note_tags(ENTRY, tags);
        assert_eq!(host.receive(&tagged, number).0, Err(Refusal::UnknownTag), "{kind:?}");
        assert!(host.receive(&web, 0).0.is_ok(), "{kind:?}: no tag");
        host.manager.trust(ENTRY, None);
        assert!(host.receive(&tagged, number).0.is_ok(), "{kind:?}: no tags are trusted");
        host.manager.trust(ENTRY, Some(trusted(kind)));
        assert!(host.receive(&tagged, number).0.is_ok(), "{kind:?}");
        assert_eq!(host.manager.tagged(), 1);
    }
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
        let wanted = Wanted { rules_max, ..wanted(Protocol::OpenVSwitch, TagKind::Vlan) };
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
        let frames: Vec<Vec<u8>> = parts.iter().map(frames::Parts::frame).collect();
        for kind in TagKind::ALL {
            let table = table(&plan, 0, &wanted(protocol, kind)).unwrap();
            both_agree(&plan, &chain, &table, &frames);
        }
    }
}
