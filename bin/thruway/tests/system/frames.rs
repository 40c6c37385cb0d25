//! Frames to be hostile with: whole ones, and what chance makes of them.

use std::path::Path;

use thruway_random::Random;

/// Bytes of hexadecimal text.
fn hex(text: &str) -> Vec<u8> {
    let digits: Vec<u32> = text.chars().filter_map(|c| c.to_digit(16)).collect();
    digits.chunks(2).map(|pair| (pair[0] * 16 + pair[1]) as u8).collect()
}

/// Sets the checksum of an IPv4 header that begins at byte 14.
fn fix_ip4(frame: &mut [u8]) {
    let len = usize::from(frame[14] & 15) * 4;
    if frame.len() < 14 + len || len < 20 {
        return;
    }
    frame[24..26].fill(0);
    let words = frame[14..14 + len].chunks(2).map(|w| u32::from(w[0]) << 8 | u32::from(w[1]));
    let sum: u32 = words.sum();
    let sum = (sum & 0xFFFF) + (sum >> 16);
    let sum = !(((sum & 0xFFFF) + (sum >> 16)) as u16);
    frame[24..26].copy_from_slice(&sum.to_be_bytes());
}

/// An Ethernet frame of an IPv4 packet with these options, protocol and payload.
fn ip4(options: &str, protocol: u8, payload: &str) -> Vec<u8> {
    let (options, payload) = (hex(options), hex(payload));
    let mut frame = hex("020000000001 020000000002 0800");
    let total = (20 + options.len() + payload.len()) as u16;
    frame.push(0x45 + (options.len() / 4) as u8);
    frame.push(0);
    frame.extend(total.to_be_bytes());
    frame.extend(hex("12340000 40"));
    frame.push(protocol);
    frame.extend(hex("0000 10000005 30000007"));
    frame.extend(options);
    frame.extend(payload);
    fix_ip4(&mut frame);
    frame
}

/// Whole frames: those that every parser likes, and the first of the bundled captures.
pub fn handmade(root: &Path) -> Vec<Vec<u8>> {
    let mut frames = vec![
        // Record route, timestamps of three forms, loose and strict source route, router alert.
        ip4("0707041000000500 01000000", 17, "0035003500080000"),
        ip4("440c0501 00000000 00000000", 17, "0035003500080000"),
        ip4("440c0d03 0a000001 00000000", 6, "0050005000000001000000005002ffff00000000"),
        ip4("830b04 0a000001 0a000002 00", 1, "0800f7ff00000000"),
        ip4("890704 0a000001 00 94040000", 1, "0800f7ff00000000"),
        // ICMP errors that quote packets; a redirect.
        ip4("", 1, "0b00f4ff00000000 4500001c00000000401100000a0000010a000002 0035003500080000"),
        ip4("", 1, "0501f4ff0a000001 4500001c00000000401100000a0000010a000002 0035003500080000"),
        // TCP with options; a long UDP datagram.
        ip4("", 6, "0050c00000000001000000007002ffff00000000 020405b4 01030307 0402 0000"),
        ip4("", 17, &format!("003500350400 0000{}", "5a".repeat(1016))),
        // IP in IP, GRE, VXLAN.
        ip4("", 4, "4500001c00000000401100000a0000010a000002 0035003500080000"),
        ip4("", 47, "00000800 4500001c00000000401100000a0000010a000002 0035003500080000"),
        hex(
            "ffffffffffff 020000000002 0806 0001080006040001 020000000002 10000005 000000000000 0a000001",
        ),
        hex(
            "020000000001 020000000002 0806 0001080006040002 020000000002 10000005 020000000001 0a000001",
        ),
        hex(
            "020000000001 020000000002 8100 0064 0800 4500001c00000000401100000a0000010a000002 0035003500080000",
        ),
        hex(
            "020000000001 020000000002 8847 00064140 4500001c00000000401100000a0000010a000002 0035003500080000",
        ),
    ];
    let six = |next: &str, payload: &str| {
        let payload = hex(payload);
        let mut frame = hex("020000000001 020000000002 86dd 60000000");
        frame.extend((payload.len() as u16).to_be_bytes());
        frame.extend(hex(next));
        frame.extend(hex("fd000000000000000000000000000005 fd000000000000000000000000000001"));
        frame.extend(payload);
        frame
    };
    frames.extend([
        six("11 40", "0035003500080000"),
        // Hop-by-hop, routing, fragment headers in front.
        six("00 40", "2b00010400000000 2c000000 00000000 1100000100000001 0035003500080000"),
        six("3a 01", "8000000000000000"),
        // Neighbour solicitation and advertisement with their options.
        six("3a ff", "8700000000000000 fd000000000000000000000000000001 0101020000000002"),
        six("3a ff", "8800000060000000 fd000000000000000000000000000005 0201020000000002"),
        six("3a 40", "0100000000000000 6000000000083b40 fd000000000000000000000000000001 fd00"),
    ]);
    for name in ["lan.pcap", "wan.pcap"] {
        let file = root.join("examples/captures").join(name);
        frames.extend(read_capture(&file).into_iter().skip(200).step_by(97).take(100));
    }
    frames
}

/// `count` frames, each a whole one that chance has changed.
pub fn mutate(frames: &[Vec<u8>], seed: u64, count: usize) -> Vec<Vec<u8>> {
    let random = &mut Random::from_seed(seed);
    let mut changed = Vec::with_capacity(count);
    while changed.len() < count {
        let mut frame = frames[random.index(frames.len())].clone();
        for _ in 0..random.index(4) {
            mutate_once(&mut frame, random);
        }
        // Half of them get past the header's checksum.
        if frame.len() > 34 && frame[12..14] == [8, 0] && random.index(2) == 0 {
            fix_ip4(&mut frame);
        }
        changed.push(frame);
    }
    changed
}

fn mutate_once(frame: &mut Vec<u8>, random: &mut Random) {
    // Mostly where the headers are.
    let reach = if random.index(4) == 0 { frame.len() } else { frame.len().min(90) };
    if reach == 0 {
        return;
    }
    let at = random.index(reach);
    match random.index(7) {
        0 => frame[at] ^= 1 << random.index(8),
        1 => frame[at] = [0, 1, 0x7F, 0x80, 0xFF, 0x45, 0x4F, 0x40][random.index(8)],
        2 => frame.truncate(at),
        // The lengths of the IP header and the packet.
        3 if frame.len() > 18 => frame[14] = 0x40 | random.index(16) as u8,
        4 if frame.len() > 18 => {
            let len = [0, 1, 19, 20, 21, 60, 0x7FFF, 0xFFFF][random.index(8)];
            frame[16..18].copy_from_slice(&u16::to_be_bytes(len));
        }
        // A piece twice, or much more of it.
        5 => {
            let piece = frame[at..reach].to_vec();
            frame.splice(at..at, piece);
        }
        _ => frame.extend(std::iter::repeat_n(at as u8, random.index(1400))),
    }
}

/// Writes a capture of Ethernet frames (pcap, microseconds).
pub fn write_capture(path: &Path, frames: &[Vec<u8>]) {
    let mut bytes = hex("d4c3b2a1 02000400 00000000 00000000 ffff0000 01000000");
    for (at, frame) in frames.iter().enumerate() {
        let len = (frame.len() as u32).to_le_bytes();
        for field in [1_000_000 + at as u32 / 1000, at as u32 % 1000 * 1000] {
            bytes.extend(field.to_le_bytes());
        }
        bytes.extend([len, len].concat());
        bytes.extend(frame);
    }
    std::fs::write(path, bytes).expect("room for a capture");
}

/// The frames of a capture (pcap, written on a little-endian machine).
pub fn read_capture(path: &Path) -> Vec<Vec<u8>> {
    let bytes = std::fs::read(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    let mut rest = &bytes[24..];
    let mut frames = Vec::new();
    while rest.len() >= 16 {
        let len = u32::from_le_bytes([rest[8], rest[9], rest[10], rest[11]]) as usize;
        frames.push(rest[16..16 + len].to_vec());
        rest = &rest[16 + len..];
    }
    frames
}
