//! The outer source port: by it, routers between hosts spread the flows inside over their paths
//! (RFC 7348 section 5, RFC 8926 section 3.3).

use thruway_flow::hash::Hasher;
use thruway_wire::flow::FiveTuple;
use thruway_wire::ipv4::Ipv4Header;
use thruway_wire::ipv6::Ipv6Header;
use thruway_wire::ipv6_ext::upper_layer;
use thruway_wire::nsh::{NshHeader, next_protocol};
use thruway_wire::vlan::skip_tags;
use thruway_wire::{
    Header,
    ethernet::{EthernetHeader, ethertype},
};

/// The first dynamic port (RFC 6335 section 6); the others follow up to the last one.
const FIRST_PORT: u16 = 0xc000;

/// A port that all packets of a flow have, and its fragments have in common: from 49,152 on.
/// `number` says what `bytes` begin with, as NSH numbers it.
#[inline]
pub(crate) fn source_port(hasher: &Hasher, number: u8, bytes: &[u8]) -> u16 {
    let hash = match number {
        next_protocol::NSH => match NshHeader::parse(bytes) {
            Ok((header, inside)) => hash_plain(hasher, header.next_protocol(), inside),
            Err(_) => 0,
        },
        number => hash_plain(hasher, number, bytes),
    };
    FIRST_PORT | (hash as u16 & !FIRST_PORT)
}

#[inline]
fn hash_plain(hasher: &Hasher, number: u8, bytes: &[u8]) -> u64 {
    match number {
        next_protocol::IPV4 => hash_v4(hasher, bytes),
        next_protocol::IPV6 => hash_v6(hasher, bytes),
        next_protocol::ETHERNET => hash_frame(hasher, bytes),
        _ => 0,
    }
}

#[inline]
fn hash_v4(hasher: &Hasher, bytes: &[u8]) -> u64 {
    let Ok((header, _, payload)) = Ipv4Header::parse_cut(bytes) else { return 0 };
    // The first fragment has ports and the others have none: one path for all.
    let payload = if header.is_fragment() { &[] } else { payload };
    let flow = FiveTuple::of_ipv4(header, payload);
    hasher.hash(&[flow.src, flow.dst, ports(&flow), u32::from(flow.protocol)])
}

fn hash_v6(hasher: &Hasher, bytes: &[u8]) -> u64 {
    let Ok((header, payload)) = Ipv6Header::parse_cut(bytes) else { return 0 };
    let mut words = [0; 10];
    for (word, bytes) in words.iter_mut().zip(bytes[8..40].as_chunks::<4>().0) {
        *word = u32::from_be_bytes(*bytes);
    }
    if let Ok(upper) = upper_layer(header.next_header(), payload) {
        words[8] = upper.protocol.into();
        if upper.fragment.is_none() {
            words[9] = ports(&FiveTuple::of_ipv6(header, &upper));
        }
    }
    hasher.hash(&words)
}

#[inline]
fn ports<A>(flow: &FiveTuple<A>) -> u32 {
    u32::from(flow.src_port) << 16 | u32::from(flow.dst_port)
}

fn hash_frame(hasher: &Hasher, bytes: &[u8]) -> u64 {
    let Ok((header, rest)) = EthernetHeader::parse(bytes) else { return 0 };
    match skip_tags(header.ethertype(), rest) {
        Ok((ethertype::IPV4, inside)) => hash_v4(hasher, inside),
        Ok((ethertype::IPV6, inside)) => hash_v6(hasher, inside),
        // By the stations.
        _ => {
            let mut words = [0; 4];
            for (word, bytes) in words.iter_mut().zip(bytes.as_chunks::<4>().0) {
                *word = u32::from_be_bytes(*bytes);
            }
            hasher.hash(&words[..3])
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::HashSet;

    fn udp4(src_port: u16, fragment: u16) -> Vec<u8> {
        let mut bytes = vec![0x45, 0, 0, 28, 0, 0, 0, 0, 64, 17, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2];
        bytes[6..8].copy_from_slice(&fragment.to_be_bytes());
        bytes.extend(src_port.to_be_bytes());
        bytes.extend([0, 53, 0, 8, 0, 0]);
        bytes
    }

    #[test]
    fn flows_spread_and_fragments_stay_together() {
        let hasher = Hasher::new([0; 2]);
        let port = |bytes: &[u8]| source_port(&hasher, next_protocol::IPV4, bytes);
        let all: HashSet<u16> = (0..1000).map(|n| port(&udp4(n, 0))).collect();
        assert!(all.len() > 950 && all.iter().all(|port| *port >= FIRST_PORT), "{}", all.len());
        // More fragments; the bytes of the second one are no ports.
        assert_eq!(port(&udp4(7, 0x2000)), port(&udp4(9, 5)));
        // In a frame, with a tag or not, and behind a service header.
        let frame = |head: &[u8]| [&[2; 12], head, &udp4(7, 0)].concat();
        let of_frame = |bytes: &[u8]| source_port(&hasher, next_protocol::ETHERNET, bytes);
        assert_eq!(of_frame(&frame(&[8, 0])), port(&udp4(7, 0)));
        assert_eq!(of_frame(&frame(&[0x81, 0, 0, 5, 8, 0])), port(&udp4(7, 0)));
        let header = [&[0x0f, 0xc2, 2, 1, 0, 0, 1, 1], &udp4(7, 0)[..]].concat();
        assert_eq!(source_port(&hasher, next_protocol::NSH, &header), port(&udp4(7, 0)));
    }

    proptest! {
        #[test]
        fn any_bytes(number in 0u8..6, bytes in prop::collection::vec(any::<u8>(), 0..80)) {
            prop_assert!(source_port(&Hasher::new([1, 2]), number, &bytes) >= FIRST_PORT);
        }
    }
}
