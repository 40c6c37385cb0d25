//! What another host, or a stranger, sends to the elements that read it: it is taken or has a
//! reason, each packet once. Run by the test here and by the fuzz target.

use thruway_elements_hops::ELEMENTS;
use thruway_elements_rig::Rig;
use thruway_packet::Packet;

/// Elements, with arguments.
const READERS: [(&str, &[&str]); 7] = [
    ("HopDecap", &["NETWORK geneve", "PROTOCOL ip"]),
    ("HopDecap", &["NETWORK geneve", "ZERO_CHECKSUM true"]),
    ("HopDecap", &["PROTOCOL ethernet"]),
    ("NSHDecap", &[]),
    ("NSHForward", &["5/1", "5", "-", "STEP 1"]),
    ("BFD", &["192.0.2.2", "192.0.2.1"]),
    ("HopEncap", &["192.0.2.1", "192.0.2.2"]),
];

/// One packet: the first byte selects its destination and its valid parts.
pub fn any_packets(bytes: &[u8]) {
    let Some((choice, bytes)) = bytes.split_first() else { return };
    let (name, texts) = READERS[usize::from(choice >> 4) % READERS.len()];
    let entry = ELEMENTS.iter().find(|entry| entry.spec.name == name).expect("an element");
    let mut rig = Rig::new(entry, texts, 3).expect("right arguments");
    let packet = disguised(choice & 0x0f, bytes);
    let len = packet.len();
    let Some(packet) = Packet::new(&packet) else { return };
    let out: Vec<Packet> = rig.push([packet]).into_iter().flatten().collect();
    let drops: u64 = rig.drops().iter().sum();
    match out.first() {
        None => assert_eq!(drops, 1, "{name} has no reason"),
        Some(packet) if name == "HopEncap" => assert!(packet.len() >= len),
        Some(packet) if name == "BFD" => assert!(packet.len() <= len.max(52)),
        Some(packet) => assert!(packet.len() <= len, "{name} made it longer"),
    }
}

/// The bytes as they are, or behind headers that are right.
fn disguised(kind: u8, bytes: &[u8]) -> Vec<u8> {
    match kind {
        0 => datagram(6081, 64, bytes),
        1 => datagram(4790, 64, bytes),
        2 => datagram(4790, 64, &[&[0x0c, 0, 0, 4, 0, 0, 1, 0], bytes].concat()),
        3 => datagram(3784, 255, bytes),
        4 => datagram(3784, 255, &[&[0x20, 0x40, 3, 24], bytes].concat()),
        5 => [&[0x0f, 0xc2, 2, 1, 0, 0, 5, 255], bytes].concat(),
        6 => [&[0x0f, 0xc6, 1, 1, 0, 0, 5, 2], bytes].concat(),
        _ => bytes.to_vec(),
    }
}

/// UDP without a checksum in IPv4.
fn datagram(port: u16, ttl: u8, payload: &[u8]) -> Vec<u8> {
    let len = 28 + payload.len();
    let [h, i] = (len as u16).to_be_bytes();
    let mut ip = vec![0x45, 0, h, i, 0, 0, 0x40, 0, ttl, 17, 0, 0, 192, 0, 2, 1, 192, 0, 2, 2];
    let words = ip.chunks(2).map(|pair| u32::from(pair[0]) << 8 | u32::from(pair[1]));
    let sum: u32 = words.sum();
    let sum = !((sum & 0xffff) + (sum >> 16)) as u16;
    ip[10..12].copy_from_slice(&sum.to_be_bytes());
    let [l, m] = (len as u16 - 20).to_be_bytes();
    let [d, e] = port.to_be_bytes();
    [&ip[..], &[0xc0, 1, d, e, l, m, 0, 0], payload].concat()
}
