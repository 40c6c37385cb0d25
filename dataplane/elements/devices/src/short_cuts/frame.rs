//! The frame of a probe, and what a chain did to it.

use thruway_flow::manager::{CANDIDATE_LEN, Numbers};
use thruway_packet::{Packet, PacketKind};
use thruway_port::short_cut::{Flow, Rewriting};
use thruway_wire::checksum::{Sum, checksum};

const ETHERNET_LEN: usize = 14;
const IPV4_LEN: usize = 20;
const TRANSPORT: usize = ETHERNET_LEN + IPV4_LEN;
const TCP_LEN: usize = 20;
const UDP_LEN: usize = 8;
const TCP: u8 = 6;
const ACK: u8 = 0x10;
/// No fragment and not to be fragmented (RFC 791 section 3.1).
const DONT_FRAGMENT: [u8; 2] = [0x40, 0];

/// An empty packet of a session.
pub(super) struct Probe {
    bytes: [u8; CANDIDATE_LEN],
    len: usize,
}

fn array<const N: usize>(bytes: &[u8], at: usize) -> [u8; N] {
    std::array::from_fn(|nth| bytes.get(at + nth).copied().unwrap_or(0))
}

fn pair<const N: usize>(bytes: &[u8], at: usize) -> [[u8; N]; 2] {
    [array(bytes, at), array(bytes, at + N)]
}

/// Sets the checksums of a packet without options and payload.
fn set_checksums(packet: &mut [u8]) {
    packet[10..12].fill(0);
    let header = checksum(&packet[..IPV4_LEN]).to_be_bytes();
    packet[10..12].copy_from_slice(&header);
    let at = IPV4_LEN + if packet[9] == TCP { 16 } else { 6 };
    packet[at..at + 2].fill(0);
    let len = (packet.len() - IPV4_LEN) as u16;
    let pseudo = [0, packet[9], len.to_be_bytes()[0], len.to_be_bytes()[1]];
    let sum = Sum::default().with(&packet[12..IPV4_LEN]).with(&pseudo).with(&packet[IPV4_LEN..]);
    let sum = match sum.checksum() {
        // No checksum would be none (RFC 768).
        0 => [0xFF; 2],
        sum => sum.to_be_bytes(),
    };
    packet[at..at + 2].copy_from_slice(&sum);
}

impl Probe {
    /// For a session with a frame that begins so; for a TCP side with these numbers.
    pub(super) fn new(frame: &[u8; CANDIDATE_LEN], numbers: &Numbers) -> Probe {
        let mut bytes = *frame;
        let is_tcp = bytes[ETHERNET_LEN + 9] == TCP;
        let len = TRANSPORT + if is_tcp { TCP_LEN } else { UDP_LEN };
        let total = ((len - ETHERNET_LEN) as u16).to_be_bytes();
        bytes[ETHERNET_LEN + 2..ETHERNET_LEN + 4].copy_from_slice(&total);
        bytes[ETHERNET_LEN + 4..ETHERNET_LEN + 6].fill(0);
        bytes[ETHERNET_LEN + 6..ETHERNET_LEN + 8].copy_from_slice(&DONT_FRAGMENT);
        let rest = &mut bytes[TRANSPORT + 4..];
        if is_tcp {
            rest[..4].copy_from_slice(&numbers.end.to_be_bytes());
            rest[4..8].copy_from_slice(&numbers.ack.to_be_bytes());
            rest[8..10].copy_from_slice(&[(TCP_LEN as u8 / 4) << 4, ACK]);
            rest[10..12].copy_from_slice(&numbers.window.to_be_bytes());
            rest[14..16].fill(0);
        } else {
            rest[..2].copy_from_slice(&(UDP_LEN as u16).to_be_bytes());
        }
        set_checksums(&mut bytes[ETHERNET_LEN..len]);
        Probe { bytes, len }
    }

    fn bytes(&self) -> &[u8] {
        &self.bytes[..self.len]
    }

    /// As a port would give it; `None` where there is no memory.
    pub(super) fn packet(&self, kind: PacketKind, now: i64) -> Option<Packet> {
        let mut packet = Packet::new(self.bytes())?;
        packet.set_mac_offset(0);
        packet.set_kind(kind);
        packet.set_timestamp(now);
        Some(packet)
    }

    /// What such packets are found by.
    pub(super) fn flow(&self, port: u32) -> Flow {
        let bytes = self.bytes();
        Flow {
            port,
            protocol: bytes[ETHERNET_LEN + 9].into(),
            addresses: pair(bytes, ETHERNET_LEN + 12),
            ports: pair(bytes, TRANSPORT),
        }
    }

    /// What a chain that sends `sent` did to it.
    ///
    /// # Errors
    /// What it did besides.
    pub(super) fn rewriting(
        &self,
        sent: &[u8],
        interface: u32,
        mtu: u32,
    ) -> Result<Rewriting, &'static str> {
        let before = self.bytes();
        if sent.len() != before.len() || sent[12..14] != before[12..14] {
            return Err("the chain changes the frame's length or type");
        }
        let ttl = ETHERNET_LEN + 8;
        let hops = before[ttl].wrapping_sub(sent[ttl]);
        if hops > 1 {
            return Err("the chain sets the time to live");
        }
        let rewriting = Rewriting {
            macs_in: pair(before, 0),
            macs_out: pair(sent, 0),
            addresses: pair(sent, ETHERNET_LEN + 12),
            ports: pair(sent, TRANSPORT),
            hops,
            interface,
            mtu,
        };
        let mut expected = self.bytes;
        expected[..12].copy_from_slice(rewriting.macs_out.as_flattened());
        expected[ttl] = sent[ttl];
        let addresses = ETHERNET_LEN + 12;
        expected[addresses..addresses + 8].copy_from_slice(rewriting.addresses.as_flattened());
        expected[TRANSPORT..TRANSPORT + 4].copy_from_slice(rewriting.ports.as_flattened());
        set_checksums(&mut expected[ETHERNET_LEN..self.len]);
        if expected[..self.len] == *sent {
            Ok(rewriting)
        } else {
            Err("the chain changes more than addresses, ports and the time to live")
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn probe(protocol: u8) -> Probe {
        let mut frame = [7; CANDIDATE_LEN];
        frame[12..16].copy_from_slice(&[8, 0, 0x45, 0]);
        frame[ETHERNET_LEN + 8..ETHERNET_LEN + 10].copy_from_slice(&[64, protocol]);
        Probe::new(&frame, &Numbers { end: 1, ack: 2, room: 3, shift: 4, window: 5 })
    }

    #[test]
    fn what_a_chain_did_is_read_from_what_it_sends() {
        for protocol in [6, 17] {
            let probe = probe(protocol);
            let same = probe.rewriting(probe.bytes(), 3, 1500).expect("nothing was done");
            let flow = probe.flow(9);
            assert_eq!((same.addresses, same.ports, same.hops), (flow.addresses, flow.ports, 0));
            let mut sent = probe.bytes().to_vec();
            sent[0] = 1;
            sent[ETHERNET_LEN + 8] -= 1;
            sent[ETHERNET_LEN + 12] = 99;
            sent[TRANSPORT + 3] = 80;
            let old = sent.clone();
            assert!(probe.rewriting(&old, 3, 1500).is_err(), "checksums are left wrong");
            set_checksums(&mut sent[ETHERNET_LEN..]);
            let rewriting = probe.rewriting(&sent, 3, 1500).expect("addresses");
            assert_eq!(
                (rewriting.hops, rewriting.addresses[0][0], rewriting.ports[1][1]),
                (1, 99, 80)
            );
            // The type of service, and a time to live that is set.
            for (at, value) in [(ETHERNET_LEN + 1, 8), (ETHERNET_LEN + 8, 9)] {
                let mut other = sent.clone();
                other[at] = value;
                set_checksums(&mut other[ETHERNET_LEN..]);
                assert!(probe.rewriting(&other, 3, 1500).is_err());
            }
            assert!(probe.rewriting(&sent[..sent.len() - 1], 3, 1500).is_err());
        }
    }
}
