//! Against a router that takes packets apart into lists and makes them anew.

use super::*;
use proptest::prelude::*;
use std::net::Ipv4Addr;
use thruway_elements_rig::Rig;

const OURS: [u8; 6] = [2, 0, 0, 0, 0, 9];
const OLD: [u8; 12] = [2, 0, 0, 0, 0, 9, 2, 0, 0, 0, 0, 8];
/// Labels 16 to 22 have these entries.
const ENTRIES: [&str; 7] = [
    "16 swap 100 0 2:0:0:0:0:1",
    "17 swap 101 push 102 103 1 2:0:0:0:0:2",
    "18 push 104 2 2:0:0:0:0:3",
    "19 pop 1 2:0:0:0:0:4",
    "20 pop 2",
    "21 pop",
    "22 swap 0 push 105 106 107 0 2:0:0:0:0:5",
];

/// A label, its traffic class and its time-to-live.
type Label = (u32, u8, u8);

/// What a frame carries: labels, the first on top, and an IP packet's version and time-to-live.
#[derive(Debug, Clone, PartialEq)]
struct Parts {
    labels: Vec<Label>,
    version: u8,
    ttl: u8,
}

fn inner(version: u8, ttl: u8) -> Vec<u8> {
    if version == 4 {
        let addr = Ipv4Addr::new(10, 0, 0, 1);
        let mut header = Ipv4Header::new(17, addr, addr, 3).unwrap();
        header.set_ttl(ttl);
        header.fill_checksum(&[]);
        let mut bytes = vec![0; 23];
        header.emit(&mut bytes).unwrap();
        bytes
    } else {
        let mut bytes = vec![7; 43];
        bytes[0] = version << 4;
        bytes[7] = ttl;
        bytes
    }
}

fn frame(addresses: &[u8], parts: &Parts) -> Vec<u8> {
    let kind: u16 = match (parts.labels.len(), parts.version) {
        (0, 4) => 0x0800,
        (0, _) => 0x86dd,
        _ => 0x8847,
    };
    let mut bytes = [addresses, &kind.to_be_bytes()].concat();
    for (at, (label, class, ttl)) in parts.labels.iter().enumerate() {
        let bottom = u32::from(at + 1 == parts.labels.len());
        let word = label << 12 | u32::from(*class) << 9 | bottom << 8 | u32::from(*ttl);
        bytes.extend(word.to_be_bytes());
    }
    bytes.extend(inner(parts.version, parts.ttl));
    bytes
}

/// The output, the last byte of the next hop's address if there is one, and what goes there.
fn wanted(parts: &Parts, pipe: Option<u8>) -> Option<(usize, Option<u8>, Parts)> {
    let mut parts = parts.clone();
    let (label, class, ttl) = *parts.labels.first()?;
    let new = |label, left| (label, class, pipe.unwrap_or(left));
    let limit = |parts: &mut Parts, ttl: u8| {
        parts.labels.remove(0);
        let below = parts.labels.first_mut().map_or(&mut parts.ttl, |(_, _, ttl)| ttl);
        if pipe.is_none() {
            *below = (*below).min(ttl);
        }
    };
    if ttl == 0 || ttl == 1 && !matches!(label, 20 | 21) {
        return None;
    }
    match label {
        20 | 21 => limit(&mut parts, ttl),
        19 => limit(&mut parts, ttl - 1),
        _ => parts.labels[0].2 = ttl - 1,
    }
    let left = ttl.saturating_sub(1);
    let known_below = !parts.labels.is_empty() || matches!(parts.version, 4 | 6);
    let (out, mac): (usize, Option<u8>) = match label {
        16 => {
            parts.labels[0].0 = 100;
            (0, Some(1))
        }
        17 => {
            parts.labels[0].0 = 101;
            parts.labels.splice(0..0, [new(103, left), new(102, left)]);
            (1, Some(2))
        }
        18 => {
            parts.labels.insert(0, new(104, left));
            (2, Some(3))
        }
        19 if known_below => (1, Some(4)),
        20 if known_below => (2, None),
        // The end of a path at the end of the stack leads nowhere.
        21 => return wanted(&parts, pipe),
        22 => {
            parts.labels[0].0 = 0;
            parts.labels.splice(0..0, [new(107, left), new(106, left), new(105, left)]);
            (0, Some(5))
        }
        _ => return None,
    };
    Some((out, mac, parts))
}

fn parts() -> impl Strategy<Value = Parts> {
    let ttl = prop::sample::select(vec![0u8, 1, 2, 3, 64, 255]);
    let labels = prop::collection::vec((16u32..24, 0u8..8, ttl.clone()), 1..5);
    (labels, prop::sample::select(vec![4u8, 4, 6, 5]), ttl)
        .prop_map(|(labels, version, ttl)| Parts { labels, version, ttl })
}

fn rig(more: &[&str]) -> Rig {
    let texts = [&["MAC 2:0:0:0:0:9", "CAPACITY 16", "PUNT 3"], more, &ENTRIES].concat();
    Rig::new(&ENTRY, &texts, 4).unwrap()
}

proptest! {
    #[test]
    fn as_taken_apart(parts in parts(), pipe: bool, room in 0usize..2) {
        let mut switch = if pipe { rig(&["MODEL pipe", "TTL 77"]) } else { rig(&[]) };
        let bytes = frame(&OLD, &parts);
        let mut packet = Packet::new(&bytes).unwrap();
        let head = packet.headroom() * room;
        prop_assert!(packet.push(head) && packet.pull(head));
        let out = switch.push([packet]);
        let got: Vec<(usize, &[u8])> = out
            .iter()
            .enumerate()
            .filter_map(|(port, packets)| Some((port, packets.first()?.data())))
            .collect();
        let (port, bytes) = match wanted(&parts, pipe.then_some(77)) {
            None => (3, bytes),
            Some((port, mac, parts)) => {
                let next = mac.map(|last| [&[2, 0, 0, 0, 0, last][..], &OURS].concat());
                (port, frame(&next.unwrap_or(OLD.to_vec()), &parts))
            }
        };
        prop_assert_eq!(got, vec![(port, &bytes[..])]);
        let rejected = switch.drops().iter().sum::<u64>();
        prop_assert_eq!(rejected, u64::from(port == 3));
    }

    #[test]
    fn any_bytes(bytes in prop::collection::vec(any::<u8>(), 0..60), label in 16u32..24, ours: bool) {
        let mut bytes = bytes;
        if ours && bytes.len() >= 18 {
            bytes[12..14].copy_from_slice(&[0x88, 0x47]);
            bytes[14..17].copy_from_slice(&(label << 4).to_be_bytes()[1..]);
        }
        let out = rig(&[]).push([Packet::new(&bytes).unwrap()]);
        prop_assert_eq!(out.iter().map(Vec::len).sum::<usize>(), 1);
    }
}

#[test]
fn the_walk_is_bounded() {
    let mut switch = rig(&[]);
    for (count, reason) in [(16, 5), (17, 5), (18, 3), (40, 3)] {
        let parts = Parts { labels: vec![(21, 0, 9); count], version: 4, ttl: 9 };
        let before = switch.drops();
        switch.push([Packet::new(&frame(&OLD, &parts)).unwrap()]);
        assert_eq!(switch.drops()[reason], before[reason] + 1, "{count} labels");
    }
}

#[test]
fn entries_change_while_it_runs() {
    let mut switch = rig(&[]);
    let parts = Parts { labels: vec![(50, 0, 9)], version: 4, ttl: 9 };
    let send = |switch: &mut Rig| {
        let out = switch.push([Packet::new(&frame(&OLD, &parts)).unwrap()]);
        out.iter().position(|packets| !packets.is_empty()).unwrap()
    };
    assert_eq!(send(&mut switch), 3);
    switch.write("add", "50 pop 1").unwrap();
    assert_eq!(send(&mut switch), 1);
    let refused = switch.write("add", "50 pop 2").unwrap_err().to_string();
    assert_eq!(refused, "add: there is '50 pop 1' already");
    switch.write("set", "50 pop 2").unwrap();
    assert_eq!((send(&mut switch), switch.read("lookup", "50").unwrap().as_str()), (2, "pop 2"));
    switch.write("remove", "50").unwrap();
    assert_eq!(send(&mut switch), 3);
    assert!(switch.write("remove", "50").is_err());
    for label in 60..69 {
        switch.write("add", &format!("{label} pop 1")).unwrap();
    }
    let refused = switch.write("add", "70 pop 1").unwrap_err().to_string();
    assert!(refused.contains("full"), "{refused}");
    switch.write("flush", "").unwrap();
    assert_eq!(switch.read("table", "").unwrap(), "");
}

#[test]
fn packets_allocate_nothing() {
    let mut switch = rig(&[]);
    for label in 16..24 {
        let labels = vec![(label, 0, 9), (16, 0, 9)];
        let bytes = frame(&OLD, &Parts { labels, version: 4, ttl: 9 });
        assert_eq!(switch.allocations(0, &bytes), 0, "label {label}");
    }
}
