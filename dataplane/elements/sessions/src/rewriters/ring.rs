//! Consistent hashing: addresses go to servers, and hardly any to another one when servers come or
//! go (D. Karger et al., "Consistent hashing and random trees", STOC 1997).

use thruway_elements_support::random::Secret;

/// Largest number of points of one server.
const NODES_MAX: u32 = 1 << 16;
/// Most points in all.
const POINTS_MAX: usize = 1 << 20;

/// Points of servers on a circle; an address belongs to the next point.
#[derive(Clone, Debug)]
pub(super) struct Ring {
    /// Sorted: where, and which server, as counted in the list that was given.
    points: Vec<(u64, u32)>,
}

/// Where an address lies. Neighbours lie far from each other.
fn slot_of(addr: u32) -> u64 {
    Secret::from_seed(u64::from(addr)).next_u64()
}

impl Ring {
    /// A ring with `nodes` points for each server, which depend on the server's number and on the
    /// seed alone.
    ///
    /// # Errors
    /// No servers, no points or too many of them, or a number twice.
    pub(super) fn new(nodes: u32, seed: u32, servers: &[u16]) -> Result<Ring, String> {
        if servers.is_empty() {
            return Err("no patterns given".to_owned());
        }
        if !(1..=NODES_MAX).contains(&nodes) {
            return Err(format!("NNODES must be from 1 to {NODES_MAX}"));
        }
        if nodes as usize * servers.len() > POINTS_MAX {
            return Err(format!("NNODES times the number of servers must be at most {POINTS_MAX}"));
        }
        let mut points = Vec::with_capacity(nodes as usize * servers.len());
        for (at, server) in servers.iter().enumerate() {
            if servers[..at].contains(server) {
                return Err(format!("server ID {server} stands twice"));
            }
            let mut random = Secret::from_seed(u64::from(seed) << 16 | u64::from(*server));
            points.extend((0..nodes).map(|_| (random.next_u64(), at as u32)));
        }
        points.sort_unstable();
        Ok(Ring { points })
    }

    /// The server of a source address, as counted in the list of servers.
    pub(super) fn server_of(&self, addr: u32) -> usize {
        let slot = slot_of(addr);
        let at = self.points.partition_point(|(point, _)| *point < slot);
        self.points[if at == self.points.len() { 0 } else { at }].1 as usize
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_spread_and_stay_when_a_server_goes() {
        let servers = [3u16, 1, 9, 4];
        let all = Ring::new(200, 7, &servers).unwrap();
        let fewer = Ring::new(200, 7, &servers[..3]).unwrap();
        let mut counts = [0u32; 4];
        for addr in 0x0a00_0000..0x0a00_0000 + 20_000 {
            let server = all.server_of(addr);
            counts[server] += 1;
            // The plain definition: the smallest point not below, or the smallest of all.
            let slot = slot_of(addr);
            let next = all.points.iter().find(|(point, _)| *point >= slot);
            assert_eq!(next.unwrap_or(&all.points[0]).1 as usize, server);
            if server < 3 {
                assert_eq!(fewer.server_of(addr), server);
            }
        }
        // A share of a ring with 200 points has a standard deviation of about 7 %.
        assert!(counts.iter().all(|n| (3500..6500).contains(n)), "{counts:?}");
    }

    #[test]
    fn what_makes_no_ring_is_refused() {
        for (nodes, servers, wrong) in [
            (0, &[1u16][..], "NNODES"),
            (70_000, &[1], "NNODES"),
            (9, &[], "no patterns"),
            (9, &[1, 2, 1], "server ID 1 stands twice"),
            (65_536, &[0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16], "at most"),
        ] {
            let error = Ring::new(nodes, 1, servers).unwrap_err();
            assert!(error.contains(wrong), "{error}");
        }
    }
}
