//! Outside addresses with their ports, and the requests for one.

use thruway_elements_support::random::Secret;

use super::kind::Kind;
use super::lane::Lane;

/// Ports below are well-known; hosts that use one get one, where the range has some (RFC 4787
/// REQ-3).
pub(super) const WELL_KNOWN_END: u16 = 1024;

/// Most addresses of a pool that are tried for one session.
const ADDRESSES_TRIED: u32 = 16;

/// Which thread of how many that share the ports.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Share {
    /// Its rank among them, from 0.
    pub thread: usize,
    /// At least 1.
    pub threads: usize,
}

impl Share {
    /// This thread's part of the ports `first..=last`: base and length.
    pub(super) fn of(self, first: u16, last: u16) -> (u16, u32) {
        let len = (u32::from(last) + 1).saturating_sub(u32::from(first)) as usize;
        let cut = |n: usize| (len * n / self.threads) as u32;
        let (from, to) = (cut(self.thread), cut(self.thread + 1));
        ((u32::from(first) + from) as u16, to - from)
    }
}

/// Well-known ports, and the others.
pub(super) type Lanes = [Lane; 2];

/// One outside address.
pub(super) struct Address {
    /// The address.
    pub addr: u32,
    /// By [`Kind`].
    pub lanes: [Lanes; 3],
}

impl Address {
    pub(super) fn new(addr: u32, ports: (u16, u16), share: Share) -> Address {
        let lane = |first: u16, last: u16| {
            let (base, len) = share.of(first, last);
            Lane::new(base, len)
        };
        let lanes = |_| -> Lanes {
            let (first, last) = ports;
            let low = if first < WELL_KNOWN_END {
                lane(first, last.min(WELL_KNOWN_END - 1))
            } else {
                Lane::default()
            };
            let high = if last >= WELL_KNOWN_END {
                lane(first.max(WELL_KNOWN_END), last)
            } else {
                Lane::default()
            };
            [low, high]
        };
        Address { addr, lanes: [0, 1, 2].map(lanes) }
    }

    /// Free ports of a kind.
    pub(super) fn free(&self, kind: Kind) -> u32 {
        self.lanes[kind as usize].iter().map(Lane::free).sum()
    }

    /// All ports of a kind.
    pub(super) fn len(&self, kind: Kind) -> u32 {
        self.lanes[kind as usize].iter().map(Lane::len).sum()
    }

    pub(super) fn take(&mut self, kind: Kind, wished: u16, random: &mut Secret) -> Option<u16> {
        let order = self.order(kind, wished);
        let lanes = &mut self.lanes[kind as usize];
        order.iter().find_map(|&number| {
            let lane = &mut lanes[number];
            lane.take(random.below(u64::from(lane.len())) as u32)
        })
    }

    /// The lanes that a port for `wished` may be of, in the order in which they are tried.
    pub(super) fn order(&self, kind: Kind, wished: u16) -> &'static [usize] {
        if wished < WELL_KNOWN_END {
            &[0, 1]
        } else if self.lanes[kind as usize][1].len() > 0 {
            &[1]
        } else {
            &[0]
        }
    }

    pub(super) fn release(&mut self, kind: Kind, port: u16) {
        let lanes = &mut self.lanes[kind as usize];
        lanes[usize::from(port >= WELL_KNOWN_END)].release(port);
    }
}

/// The addresses of a pool, as one host sees them.
#[derive(Clone, Copy)]
pub(super) struct AddressRange {
    pub(super) first: u32,
    pub(super) count: u32,
    pub(super) host: u32,
}

impl AddressRange {
    /// Whether a place is one of them.
    pub(super) fn has(self, address_index: u32) -> bool {
        address_index.wrapping_sub(self.first) < self.count
    }

    /// Those to try, the host's own first.
    pub(super) fn tried(self) -> impl Iterator<Item = u32> {
        let start = u64::from(self.host).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32;
        (0..self.count.min(ADDRESSES_TRIED))
            .map(move |n| self.first + ((start + u64::from(n)) % u64::from(self.count)) as u32)
    }
}

/// A request for a port.
#[derive(Clone, Copy, Debug)]
pub(super) struct Asker {
    /// Inside address.
    pub host: u32,
    /// For what.
    pub kind: Kind,
    /// The port that it uses itself.
    pub port: u16,
    /// Present time, nanoseconds.
    pub now: i64,
}

/// Why there is no port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum NoPort {
    /// All are in use.
    None,
    /// The host has as many blocks as one may have.
    HostLimit,
}
