//! What elements declare to do to packets, against what they do: each is built as in its example,
//! and given packets of several kinds.

use thruway_element::{Changes, Entry, Threading, Ty};
use thruway_packet::Packet;

use crate::CATALOG;
use thruway_elements_rig::Rig;

const UDP6: [u8; 62] = {
    let mut bytes = [7; 62];
    let head: [u8; 26] = [
        2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1, 0x86, 0xdd, 0x60, 0, 0, 0, 0, 8, 17, 64, 0x20, 1, 0xd,
        0xb8,
    ];
    let mut at = 0;
    while at < head.len() {
        bytes[at] = head[at];
        at += 1;
    }
    bytes
};

/// Ethernet and IPv4 headers with a right checksum, and what follows.
fn ipv4(protocol: u8, ttl: u8, rest: &[u8]) -> Vec<u8> {
    use thruway_wire::Header;
    use thruway_wire::ipv4::Ipv4Header;

    let addresses = [0x0a00_0001u32, 0x0a00_0002];
    let [src, dst] = addresses.map(Into::into);
    let mut header = Ipv4Header::new(protocol, src, dst, rest.len()).expect("short enough");
    header.set_ttl(ttl);
    header.fill_checksum(&[]);
    let mut bytes = vec![2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1, 8, 0];
    let at = bytes.len();
    bytes.resize(at + 20, 0);
    header.emit(&mut bytes[at..]).expect("there is room");
    bytes.extend(rest);
    bytes
}

/// Frames, and where the network header of each begins, if it has one.
fn frames() -> Vec<(Vec<u8>, Option<usize>)> {
    let mut tcp = [0u8; 32];
    tcp[..4].copy_from_slice(&[0x30, 0, 0, 80]);
    tcp[12..14].copy_from_slice(&[0x50, 0x12]);
    let mut broadcast = ipv4(17, 9, &[0, 53, 0, 99, 0, 12, 0, 0, 1, 2, 3, 4]);
    broadcast[..6].fill(0xff);
    let mut arp = vec![0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 2, 0, 0, 0, 0, 1, 8, 6];
    arp.extend([
        0, 1, 8, 0, 6, 4, 0, 1, 2, 0, 0, 0, 0, 1, 10, 0, 0, 1, 0, 0, 0, 0, 0, 0, 10, 0, 0, 2,
    ]);
    let mut tagged = ipv4(17, 64, &[0, 1, 0, 2, 0, 12, 0, 0, 5, 6, 7, 8]);
    tagged.splice(12..12, [0x81, 0, 0, 7]);
    vec![
        (ipv4(17, 64, &[0, 53, 0, 99, 0, 12, 0, 0, 1, 2, 3, 4]), Some(14)),
        (ipv4(6, 1, &tcp), Some(14)),
        (ipv4(1, 64, &[8, 0, 0xf7, 0xff, 0, 0, 0, 0]), Some(14)),
        (broadcast, Some(14)),
        (UDP6.to_vec(), Some(14)),
        (arp, None),
        (tagged, Some(18)),
    ]
}

/// The frames as packets: as they are, with marked headers, and (for elements that do not work on
/// what is in front of the network header) without their Ethernet headers.
fn packets(bare: bool) -> Vec<Packet> {
    let mut packets = Vec::new();
    for (bytes, network) in frames() {
        packets.push(Packet::new(&bytes).expect("a frame is free"));
        let Some(at) = network else { continue };
        let header_len = if bytes[at] >> 4 == 6 { 40 } else { 20 };
        let mut marked = Packet::new(&bytes).expect("a frame is free");
        marked.set_network(at, header_len);
        packets.push(marked);
        if !bare {
            continue;
        }
        let mut bare = Packet::new(&bytes[at..]).expect("a frame is free");
        bare.set_network(0, header_len);
        packets.push(bare);
    }
    packets
}

/// The arguments that the example of an element gives it.
fn arguments(entry: &Entry) -> Vec<String> {
    let (name, example) = (entry.spec.name, entry.spec.example);
    let word = |c: char| c.is_ascii_alphanumeric() || c == '_';
    for (at, _) in example.match_indices(name) {
        let rest = &example[at + name.len()..];
        let within = example[..at].ends_with(word) || rest.starts_with(word);
        if within || !rest.starts_with('(') {
            continue;
        }
        let mut depth = 0;
        let closes = |(_, c): &(usize, char)| {
            depth += i32::from(*c == '(') - i32::from(*c == ')');
            depth == 0
        };
        let (end, _) = rest.char_indices().find(closes).expect("the example has it closed");
        let args = thruway_element::text::split_args(&rest[1..end]);
        return args.into_iter().map(|(arg, _)| arg).collect();
    }
    Vec::new()
}

/// The element of the example alone, if it can be built so, with as few outputs as it takes. Files
/// that it would write are nowhere.
fn built(entry: &'static Entry) -> Option<Rig> {
    let mut texts = arguments(entry);
    for (text, arg) in texts.iter_mut().zip(entry.spec.args) {
        if arg.ty == Ty::OutFile {
            "/dev/null".clone_into(text);
        } else if text.starts_with("pcap:") {
            "pcap:/dev/null".clone_into(text);
        }
    }
    (1..=5).find_map(|outputs| Rig::new(entry, &texts, outputs).ok())
}

/// The parts of a packet that an element of these `changes` must leave unchanged.
fn kept(packet: &Packet, changes: Changes) -> Vec<u8> {
    match changes {
        Changes::Frame => packet.network().to_vec(),
        _ => packet.data().to_vec(),
    }
}

#[test]
fn elements_change_no_more_than_they_declare() {
    let mut silent = Vec::new();
    let mut seen = [0, 0];
    for entry in CATALOG.entries() {
        let changes = entry.spec.changes;
        let class = entry.spec.name;
        let pulls = entry.spec.processing.starts_with('l');
        let takes = !entry.spec.ports.starts_with("0/") && !entry.spec.ports.ends_with("/0");
        if changes > Changes::Frame || pulls || !takes {
            continue;
        }
        let mut came_out = 0;
        for _ in 0..2 {
            for packet in packets(changes == Changes::Nothing) {
                let Some(mut rig) = built(entry) else { continue };
                let before = kept(&packet, changes);
                if before.is_empty() {
                    continue;
                }
                for after in rig.push([packet]).iter().flatten() {
                    came_out += 1;
                    let after = kept(after, changes);
                    assert!(
                        after == before,
                        "{class} declares Changes::{changes:?}, and made {after:02x?} of {before:02x?}"
                    );
                }
            }
        }
        if came_out == 0 {
            silent.push(class);
        }
        seen[usize::from(changes == Changes::Frame)] += usize::from(came_out > 0);
    }
    assert!(seen[0] > 40 && seen[1] > 8, "{seen:?}; nothing came out of {silent:?}");
}

/// What an element does that is not straight, with all packets in one batch.
fn detour(entry: &'static Entry) -> Option<&'static str> {
    let Some(mut rig) = built(entry) else { return Some("cannot be built alone") };
    let mut packets = packets(true);
    let mut wanted = 0_u32;
    for (packet, tag) in packets.iter_mut().zip(1..) {
        packet.set_tag(tag);
        wanted |= 1 << tag;
    }
    let came = packets.len() as u64;
    let left: Vec<Packet> = rig.push(packets).into_iter().flatten().collect();
    for packet in &left {
        let bit = 1 << packet.tag();
        if wanted & bit == 0 {
            return Some("makes packets");
        }
        wanted &= !bit;
    }
    let is_sink = entry.spec.ports.ends_with("/0");
    let is_kept = left.len() as u64 + rig.drops().iter().sum::<u64>() < came;
    (is_kept && !is_sink).then_some("keeps packets")
}

#[test]
fn straight_elements_make_copy_and_keep_no_packet() {
    let straight = CATALOG.entries().filter(|entry| entry.spec.straight);
    let wrong: Vec<_> =
        straight.filter_map(|entry| Some((entry.spec.name, detour(entry)?))).collect();
    assert!(wrong.is_empty(), "{wrong:?}");
    // It finds those that do.
    for (name, what) in [("Tee", "makes packets"), ("Queue", "keeps packets")] {
        let entry = CATALOG.entry(name).expect("it is there");
        assert_eq!(detour(entry), Some(what), "{name}");
    }
}

#[test]
fn straight_elements_have_no_task_and_no_thread() {
    for Entry { spec, .. } in CATALOG.entries().filter(|entry| entry.spec.straight) {
        assert!(spec.threading == Threading::RunToCompletion, "{}", spec.name);
    }
}
