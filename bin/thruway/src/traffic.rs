//! Traffic from seeds: the same everywhere. `thruway bench` and the benches use it.

use thruway_port::capture::{CaptureWriter, WriterOptions};
use thruway_random::Random;
use thruway_wire::checksum;

/// Bytes of every packet, Ethernet header included.
const PACKET_LEN: usize = 64;
/// Flows in a trace.
pub const FLOWS: usize = 10_000;

/// What a packet is addressed by.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Flow {
    /// Source address.
    pub src: u32,
    /// Destination address.
    pub dst: u32,
    /// Source port.
    pub sport: u16,
    /// Destination port.
    pub dport: u16,
}

/// A flow to an address, from a random host and between random ports.
pub fn flow_to(dst: u32, random: &mut Random) -> Flow {
    // Sources are unicast and nobody's broadcast address: the last octet is 1 to 254.
    let src = 10 << 24 | (random.below(1 << 16) as u32) << 8 | (1 + random.below(254) as u32);
    let port = |random: &mut Random| 1024 + random.below(64_512) as u16;
    Flow { src, dst, sport: port(random), dport: port(random) }
}

/// Flows to four /16 networks, 10.0 to 10.3, and a fifth of them elsewhere.
pub fn small_network(seed: u64) -> Vec<Flow> {
    let mut random = Random::from_seed(seed);
    let mut draw = || {
        let host = (random.below(256) as u32) << 8 | (1 + random.below(254) as u32);
        let net = match random.below(5) as u32 {
            4 => 172 << 8 | (16 + random.below(16) as u32),
            net => 10 << 8 | net,
        };
        flow_to(net << 16 | host, &mut random)
    };
    (0..FLOWS).map(|_| draw()).collect()
}

/// The packet of a flow: Ethernet, IPv4, UDP and zeros.
pub fn packet(flow: &Flow) -> [u8; PACKET_LEN] {
    let mut frame = [0; PACKET_LEN];
    frame[..6].copy_from_slice(&[0, 0, 0xc0, 0, 0, 1]);
    frame[6..12].copy_from_slice(&[0, 0, 0xc0, 0, 1, 2]);
    frame[12..14].copy_from_slice(&[0x08, 0x00]);
    let length = (PACKET_LEN - 14) as u16;
    let ip = &mut frame[14..34];
    ip[0] = 0x45;
    ip[2..4].copy_from_slice(&length.to_be_bytes());
    (ip[8], ip[9]) = (64, 17);
    ip[12..16].copy_from_slice(&flow.src.to_be_bytes());
    ip[16..20].copy_from_slice(&flow.dst.to_be_bytes());
    let sum = checksum::checksum(ip);
    ip[10..12].copy_from_slice(&sum.to_be_bytes());
    frame[34..36].copy_from_slice(&flow.sport.to_be_bytes());
    frame[36..38].copy_from_slice(&flow.dport.to_be_bytes());
    // No UDP checksum: zero says so (RFC 768).
    frame[38..40].copy_from_slice(&(length - 20).to_be_bytes());
    frame
}

/// Writes a capture of `packets` packets, each of a flow drawn alike from `flows`.
///
/// # Errors
/// The file cannot be written.
pub fn write_trace(path: &str, flows: &[Flow], packets: usize, seed: u64) -> anyhow::Result<()> {
    write_frames(path, drawn(flows, packets, seed).map(packet))
}

/// So many flows, each drawn from all.
pub fn drawn(flows: &[Flow], count: usize, seed: u64) -> impl Iterator<Item = &Flow> {
    let mut random = Random::from_seed(seed);
    (0..count).map(move |_| &flows[random.below(flows.len() as u64) as usize])
}

/// Writes frames to a capture, one each microsecond.
///
/// # Errors
/// As the file system gives them.
pub fn write_frames(
    path: &str,
    frames: impl Iterator<Item = impl AsRef<[u8]>>,
) -> anyhow::Result<()> {
    let mut writer = CaptureWriter::create(path, &WriterOptions::default())?;
    for (at, frame) in (0_u64..).zip(frames) {
        let frame = frame.as_ref();
        writer.write(at * 1000, frame, frame.len() as u32)?;
    }
    Ok(writer.finish()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packets_have_right_checksums_and_lengths() {
        let frame = packet(&small_network(1)[0]);
        let header = thruway_wire::ipv4::Ipv4Header::parse_cut(&frame[14..]);
        assert!(header.is_ok(), "{header:?}");
        assert_eq!(checksum::checksum(&frame[14..34]), 0);
        assert_eq!(u16::from_be_bytes([frame[16], frame[17]]), 50);
        assert_eq!(u16::from_be_bytes([frame[38], frame[39]]), 30);
    }
}
