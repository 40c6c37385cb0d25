//! A hash of the two endpoints of a session.

use thruway_packet::Packet;
use thruway_random::mix;
use thruway_wire::flow::FiveTuple;

use thruway_elements_support::traffic_profile::{Session, session_of};

/// A hash of a packet's five-tuple, the same in both directions, in all threads and on all hosts; 0
/// of a packet that is not IP.
pub(super) fn hash(packet: &Packet) -> u64 {
    of_network(packet.network()).unwrap_or(0)
}

fn of_network(network: &[u8]) -> Option<u64> {
    Some(match session_of(network)? {
        Session::V4(tuple) => of_tuple(&tuple, |addr| addr.into()),
        Session::V6(tuple) => of_tuple(&tuple, |addr| {
            let addr = u128::from_be_bytes(addr);
            // Truncation takes the lower half.
            mix((addr >> 64) as u64) ^ addr as u64
        }),
    })
}

fn of_tuple<A: Copy>(tuple: &FiveTuple<A>, number: impl Fn(A) -> u64) -> u64 {
    let end = |addr, port| mix(mix(number(addr)) ^ u64::from(port));
    let (one, other) = (end(tuple.src, tuple.src_port), end(tuple.dst, tuple.dst_port));
    mix(one.wrapping_add(other) ^ u64::from(tuple.protocol))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::alone::Tuple;
    use crate::plain::Plain;

    fn of(tuple: Tuple) -> u64 {
        of_network(&Plain::first(tuple).written()).unwrap()
    }

    #[test]
    fn both_directions_have_one_hash_and_sessions_have_different_ones() {
        let tuple = |src_port| Tuple { src: 1, dst: 2, src_port, dst_port: 80, protocol: 6 };
        let hashes: Vec<u64> = (1..200).map(|port| of(tuple(port))).collect();
        for (port, hash) in (1..200).zip(&hashes) {
            assert_eq!(of(tuple(port).reversed()), *hash);
        }
        let mut all = hashes.clone();
        all.sort_unstable();
        all.dedup();
        assert_eq!(all.len(), hashes.len());
    }

    #[test]
    fn what_is_not_ip_has_none() {
        assert_eq!(of_network(&[]), None);
        assert_eq!(of_network(&[0x45; 10]), None);
        assert_eq!(of_network(&[0x60; 30]), None);
    }
}
