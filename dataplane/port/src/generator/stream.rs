//! What the frames of a generator are like.

use crate::error::PortError;
use std::net::Ipv4Addr;
use thruway_wire::checksum::Sum;

/// Ethernet, IPv4 and UDP headers, bytes.
pub(super) const HEAD_LEN: usize = 14 + 20 + 8;
/// The least frame: headers, the mark, flow, number and time; without a check sequence. Bytes.
pub const FRAME_LEN_MIN: usize = HEAD_LEN + 20;
/// The longest frame: what an Ethernet of MTU 1,500 has.
const FRAME_LEN_MAX: usize = 1514;
/// Source ports that flows have, from the first one on.
pub(super) const PORTS: u32 = 1 << 14;

/// UDP frames of many flows, in turn.
///
/// Flow `f` goes to the `f / networks`-th address of the `f % networks`-th network of 65,536
/// addresses, from the `f % 16384`-th port on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stream {
    /// Of the interface that is to take the frames.
    pub destination_mac: [u8; 6],
    /// Address of their sender, which identifies the stream.
    pub source_mac: [u8; 6],
    /// Their source.
    pub source: Ipv4Addr,
    /// The first destination of the first network.
    pub destination: Ipv4Addr,
    /// The first source port.
    pub source_port: u16,
    /// The destination's port.
    pub destination_port: u16,
    /// Flows.
    pub flows: u32,
    /// Networks of 65,536 addresses over which they are spread; a power of two.
    pub networks: u32,
    /// Bytes of a frame, without its check sequence.
    pub len: usize,
}

impl Stream {
    pub(super) fn check(&self, name: &str) -> Result<(), PortError> {
        let [_, second, third, fourth] = self.destination.octets();
        let first_host = u32::from(u16::from_be_bytes([third, fourth]));
        let wrong = |what: String| Err(PortError::unfit(name, what));
        if !(FRAME_LEN_MIN..=FRAME_LEN_MAX).contains(&self.len) {
            return wrong(format!(
                "frames of {} bytes cannot be made; {FRAME_LEN_MIN} to {FRAME_LEN_MAX} can",
                self.len
            ));
        }
        if !self.networks.is_power_of_two() || u32::from(second) + self.networks > 256 {
            return wrong(format!(
                "flows cannot go to {} networks from {} on; take a power of two that ends within \
                 {}.0.0.0/8",
                self.networks,
                self.destination,
                self.destination.octets()[0]
            ));
        }
        if self.flows == 0 || first_host + (self.flows - 1) / self.networks > 0xFFFF {
            return wrong(format!(
                "{} flows do not go to {} networks of 65,536 addresses from {} on",
                self.flows, self.networks, self.destination
            ));
        }
        if u32::from(self.source_port) + PORTS > 1 << 16 {
            return wrong(format!(
                "the first source port is {}; {} is the highest",
                self.source_port,
                (1 << 16) - PORTS
            ));
        }
        Ok(())
    }

    /// Headers of flow 0; the checksum of UDP is left out, that of IPv4 is open.
    pub(super) fn head(&self) -> [u8; HEAD_LEN] {
        let ip_len = (self.len - 14) as u16;
        let mut head = [0; HEAD_LEN];
        head[..6].copy_from_slice(&self.destination_mac);
        head[6..12].copy_from_slice(&self.source_mac);
        head[12..16].copy_from_slice(&[0x08, 0x00, 0x45, 0]);
        head[16..18].copy_from_slice(&ip_len.to_be_bytes());
        // No identification, may not be fragmented, 64 hops, UDP.
        head[20..24].copy_from_slice(&[0x40, 0, 64, thruway_wire::ip_protocol::UDP]);
        head[26..30].copy_from_slice(&self.source.octets());
        head[30..34].copy_from_slice(&self.destination.octets());
        head[34..36].copy_from_slice(&self.source_port.to_be_bytes());
        head[36..38].copy_from_slice(&self.destination_port.to_be_bytes());
        head[38..40].copy_from_slice(&(ip_len - 20).to_be_bytes());
        head
    }

    /// The sum over the IPv4 header of flow 0, folded.
    pub(super) fn ip_sum(&self) -> u16 {
        !Sum::ZERO.with(&self.head()[14..34]).checksum()
    }

    /// What a page of the kernel has at first: headers and zeros.
    pub(super) fn frame(&self) -> Vec<u8> {
        let mut frame = self.head().to_vec();
        frame.resize(self.len, 0);
        frame
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// A stream that can be.
    pub(in super::super) fn stream() -> Stream {
        Stream {
            destination_mac: [2, 0, 0, 0, 0, 1],
            source_mac: [2, 0, 0, 0, 0, 2],
            source: Ipv4Addr::new(10, 9, 0, 2),
            destination: Ipv4Addr::new(10, 16, 0, 1),
            source_port: 1024,
            destination_port: 9,
            flows: 1000,
            networks: 4,
            len: 64,
        }
    }

    #[test]
    fn streams_that_cannot_be_are_refused() {
        let good = stream();
        assert!(good.check("eth0").is_ok());
        let wrong = [
            Stream { len: 61, ..good.clone() },
            Stream { len: 1515, ..good.clone() },
            Stream { networks: 0, ..good.clone() },
            Stream { networks: 3, ..good.clone() },
            Stream { networks: 256, ..good.clone() },
            Stream { flows: 0, ..good.clone() },
            Stream { flows: 4 * 65_535 + 1, ..good.clone() },
            Stream { source_port: 49_153, ..good.clone() },
        ];
        for stream in wrong {
            assert!(stream.check("eth0").is_err(), "{stream:?}");
        }
        assert!(Stream { flows: 4 * 65_535, source_port: 49_152, ..good }.check("eth0").is_ok());
    }
}
