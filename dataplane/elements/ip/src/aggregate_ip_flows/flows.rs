//! The flows that AggregateIPFlows knows.

use std::collections::HashMap;

use thruway_element::{Arguments, Handlers, Nanos};
use thruway_flow::tcp::{Segment, Side};
use thruway_wire::checksum::Sum;
use thruway_wire::flow::FiveTuple;
use thruway_wire::icmp::{IcmpHeader, is_error};
use thruway_wire::ipv4::Ipv4Header;
use thruway_wire::tcp::flags;
use thruway_wire::{Header, ip_protocol};

/// Most flows, and most first fragments.
const MAX_FLOWS: usize = 1 << 20;

/// In nanoseconds.
#[derive(Debug, Clone, Copy, Arguments, Handlers)]
pub(super) struct Timeouts {
    /// silence that ends a TCP flow
    #[arg(keyword, name = "TCP_TIMEOUT", via = Nanos::not_negative, or = "86400")]
    pub(super) tcp: i64,
    /// the same after FINs in both directions, or a RST
    #[arg(keyword, name = "TCP_DONE_TIMEOUT", via = Nanos::not_negative, or = "30")]
    pub(super) tcp_done: i64,
    /// silence that ends a UDP flow
    #[arg(keyword, name = "UDP_TIMEOUT", via = Nanos::not_negative, or = "60")]
    pub(super) udp: i64,
    /// how long a first fragment is remembered
    #[arg(keyword, name = "FRAGMENT_TIMEOUT", via = Nanos::not_negative, or = "30")]
    pub(super) fragment: i64,
    /// time between two looks for flows that ended
    #[arg(keyword, name = "REAP", via = Nanos::not_negative, or = "1200")]
    pub(super) reap: i64,
}

/// The annotations of a packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Marks {
    Of {
        aggregate: u32,
        paint: u8,
    },
    NoFlow,
    Full,
    /// A later fragment that came before its first one.
    Waits,
}

/// A flow's addresses and ports, the smaller pair first, and its protocol.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct Key {
    low: (u32, u16),
    high: (u32, u16),
    protocol: u8,
}

impl Key {
    /// The key, and whether source and destination changed places in it.
    fn of(tuple: FiveTuple<u32>) -> (Key, bool) {
        let (src, dst) = ((tuple.src, tuple.src_port), (tuple.dst, tuple.dst_port));
        let flipped = src > dst;
        let (low, high) = if flipped { (dst, src) } else { (src, dst) };
        (Key { low, high, protocol: tuple.protocol }, flipped)
    }
}

#[derive(Debug, Clone, Copy)]
struct Flow {
    aggregate: u32,
    last: i64,
    /// Whether its first packet had the places changed.
    flipped: bool,
    /// A bit for each direction that has ended.
    over: u8,
    /// TCP state of the sender of the first packet and of the other end.
    sides: [Side; 2],
}

/// Both directions have ended.
const OVER: u8 = 3;

/// Which packet a fragment is of.
type FragmentKey = (u32, u32, u16, u8);

/// All that is known.
pub(super) struct Flows {
    table: HashMap<Key, Flow>,
    /// Ports of first fragments, and when they came.
    fragments: HashMap<FragmentKey, (u16, u16, i64)>,
    /// The number of the next flow, the first one, and by how much they grow: threads give each
    /// their own.
    next: u32,
    first: u32,
    step: u32,
    timeouts: Timeouts,
    icmp: bool,
    with_fragments: bool,
    reap_at: i64,
}

impl Timeouts {
    fn of(&self, key: &Key, flow: &Flow) -> i64 {
        match key.protocol {
            ip_protocol::TCP if flow.over == OVER => self.tcp_done,
            ip_protocol::TCP => self.tcp,
            _ => self.udp,
        }
    }

    fn has_ended(&self, key: &Key, flow: &Flow, now: i64) -> bool {
        now > flow.last.saturating_add(self.of(key, flow))
    }
}

impl Flows {
    pub(super) fn new(
        timeouts: Timeouts,
        icmp: bool,
        with_fragments: bool,
        (rank, threads): (usize, usize),
    ) -> Flows {
        // 0 is no number of a flow.
        let (first, step) = (1 + rank as u32, threads.max(1) as u32);
        let (table, fragments) = (HashMap::new(), HashMap::new());
        Flows {
            table,
            fragments,
            next: first,
            first,
            step,
            timeouts,
            icmp,
            with_fragments,
            reap_at: i64::MIN,
        }
    }

    pub(super) fn len(&self) -> usize {
        self.table.len()
    }

    /// Later fragments are of no flow.
    pub(super) fn leave_fragments(&mut self) {
        self.with_fragments = false;
    }

    pub(super) fn clear(&mut self) {
        self.table.clear();
        self.fragments.clear();
    }

    /// The marks of a packet that begins with its IP header.
    pub(super) fn find(&mut self, network: &[u8], now: i64) -> Marks {
        let Ok((ip, _, body)) = Ipv4Header::parse_cut(network) else { return Marks::NoFlow };
        self.reap(now);
        match ip.protocol() {
            ip_protocol::TCP | ip_protocol::UDP => {}
            ip_protocol::ICMP if self.icmp && ip.is_first_fragment() => {
                return self.error(body, now);
            }
            _ => return Marks::NoFlow,
        }
        let tuple = match self.tuple(ip, body, now) {
            Ok(tuple) => tuple,
            Err(marks) => return marks,
        };
        let segment = match ip.protocol() {
            // A fragment's checksum is about the others, too.
            ip_protocol::TCP if !ip.is_fragment() => segment(ip, body),
            _ => Segment::NONE,
        };
        self.note(tuple, &segment, now)
    }

    /// Addresses and ports; of a later fragment, those of its first.
    fn tuple(&mut self, ip: &Ipv4Header, body: &[u8], now: i64) -> Result<FiveTuple<u32>, Marks> {
        let mut tuple = FiveTuple::of_ipv4(ip, body);
        let fragment = (ip.src(), ip.dst(), ip.id(), ip.protocol());
        if !ip.is_first_fragment() {
            let known = self.fragments.get(&fragment);
            let first = known.filter(|(.., at)| !self.is_late(*at, now));
            let Some((src_port, dst_port, _)) = first else {
                return Err(if self.with_fragments { Marks::Waits } else { Marks::NoFlow });
            };
            (tuple.src_port, tuple.dst_port) = (*src_port, *dst_port);
            return Ok(tuple);
        }
        if body.len() < 4 {
            return Err(Marks::NoFlow);
        }
        if self.with_fragments && ip.is_fragment() && self.fragments.len() < MAX_FLOWS {
            self.fragments.insert(fragment, (tuple.src_port, tuple.dst_port, now));
        }
        Ok(tuple)
    }

    /// Whether fragments no longer belong to one that came at that time.
    pub(super) fn is_late(&self, at: i64, now: i64) -> bool {
        now > at.saturating_add(self.timeouts.fragment)
    }

    /// Notes a packet of a flow.
    fn note(&mut self, tuple: FiveTuple<u32>, segment: &Segment, now: i64) -> Marks {
        let (key, flipped) = Key::of(tuple);
        let known = self.table.get_mut(&key).filter(|flow| {
            let reopened = segment.begins() && flow.over == OVER;
            !reopened && !self.timeouts.has_ended(&key, flow, now)
        });
        let Some(flow) = known else { return self.begin(key, flipped, segment, now) };
        let paint = u8::from(flow.flipped != flipped);
        flow.last = flow.last.max(now);
        flow.over |= flow.ending(segment, paint);
        Marks::Of { aggregate: flow.aggregate, paint }
    }

    /// A new flow with the next number.
    fn begin(&mut self, key: Key, flipped: bool, segment: &Segment, now: i64) -> Marks {
        if self.table.len() >= MAX_FLOWS && !self.table.contains_key(&key) {
            return Marks::Full;
        }
        let aggregate = self.next;
        self.next = self.next.checked_add(self.step).unwrap_or(self.first);
        let mut flow = Flow { aggregate, last: now, flipped, over: 0, sides: Default::default() };
        flow.over = flow.ending(segment, 0);
        self.table.insert(key, flow);
        Marks::Of { aggregate, paint: 0 }
    }

    /// The flow of the packet that an ICMP error is about.
    fn error(&self, message: &[u8], now: i64) -> Marks {
        let Ok((icmp, quoted)) = IcmpHeader::view(message) else { return Marks::NoFlow };
        let Ok((ip, _, body)) = Ipv4Header::parse_cut(quoted) else { return Marks::NoFlow };
        let useful = is_error(icmp.icmp_type()) && ip.has_ports() && body.len() >= 4;
        let (key, flipped) = Key::of(FiveTuple::of_ipv4(ip, body));
        match self.table.get(&key).filter(|_| useful) {
            Some(flow) if !self.timeouts.has_ended(&key, flow, now) => {
                let paint = 2 + u8::from(flow.flipped != flipped);
                Marks::Of { aggregate: flow.aggregate, paint }
            }
            _ => Marks::NoFlow,
        }
    }

    /// Forgets what has ended, now and then.
    fn reap(&mut self, now: i64) {
        if now < self.reap_at {
            return;
        }
        self.reap_at = now.saturating_add(self.timeouts.reap.max(1_000_000_000));
        let timeouts = self.timeouts;
        self.table.retain(|key, flow| !timeouts.has_ended(key, flow, now));
        self.fragments.retain(|_, (.., at)| now <= at.saturating_add(timeouts.fragment));
    }
}

/// The fields of a TCP segment that is no fragment.
fn segment(ip: &Ipv4Header, body: &[u8]) -> Segment {
    let len = usize::from(ip.total_len()).saturating_sub(ip.header_len());
    let pseudo = || Sum::pseudo_v4(ip.src(), ip.dst(), ip_protocol::TCP, len);
    Segment::read_cut(body, len, pseudo).unwrap_or(Segment::NONE)
}

impl Flow {
    /// The directions that a packet with this paint ends, if its receiver takes it.
    fn ending(&mut self, segment: &Segment, paint: u8) -> u8 {
        let [first, second] = &mut self.sides;
        let (own, other) = if paint == 0 { (first, second) } else { (second, first) };
        if own.goes_on(segment) {
            return 0;
        }
        match own.follow(other, segment) {
            seen if seen & flags::RST != 0 => OVER,
            seen if seen & flags::FIN != 0 => 1 << paint,
            _ => 0,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use thruway_wire::tcp::TcpHeader;

    const SECOND: i64 = 1_000_000_000;

    fn flows() -> Flows {
        let timeouts = Timeouts {
            tcp: 1000 * SECOND,
            tcp_done: 30 * SECOND,
            udp: 60 * SECOND,
            fragment: 30 * SECOND,
            reap: 10 * SECOND,
        };
        Flows::new(timeouts, true, true, (0, 1))
    }

    fn packet(protocol: u8, src: u8, dst: u8, flags: u8, flags_offset: u16) -> Vec<u8> {
        let mut body = [0; 20];
        (body[1], body[3], body[12], body[13]) = (src, dst, 0x50, flags);
        // The numbers of ends that begin with 0 and send nothing.
        (body[7], body[11]) =
            (u8::from(flags & flags::SYN == 0), u8::from(flags & flags::ACK != 0));
        let ip = Ipv4Header::new(protocol, [9, 9, 9, src].into(), [9, 9, 9, dst].into(), 20);
        let mut ip = ip.unwrap();
        ip.set_flags_offset(flags_offset);
        if protocol == ip_protocol::TCP {
            TcpHeader::fill_checksum(&mut body, ip.pseudo_sum(20)).unwrap();
        }
        let mut bytes = vec![0; 40];
        ip.emit(&mut bytes).unwrap().copy_from_slice(&body);
        bytes
    }

    fn of(aggregate: u32, paint: u8) -> Marks {
        Marks::Of { aggregate, paint }
    }

    #[test]
    fn life_of_a_connection() {
        let mut flows = flows();
        let tcp = |src, dst, flags| packet(6, src, dst, flags, 0);
        let steps = [
            (tcp(5, 2, flags::SYN), 0, of(1, 0)),
            (tcp(2, 5, flags::SYN | flags::ACK), 0, of(1, 1)),
            (tcp(5, 3, flags::SYN), 0, of(2, 0)),
            (tcp(5, 2, flags::FIN | flags::ACK), 500, of(1, 0)),
            (tcp(5, 2, flags::SYN), 501, of(1, 0)),
            (tcp(2, 5, flags::FIN | flags::ACK), 502, of(1, 1)),
            (tcp(5, 2, flags::ACK), 503, of(1, 0)),
            (tcp(2, 5, flags::SYN), 504, of(3, 0)),
            (tcp(5, 2, flags::RST | flags::ACK), 505, of(3, 1)),
            (tcp(5, 2, flags::ACK), 536, of(4, 0)),
        ];
        for (at, (bytes, seconds, wanted)) in steps.into_iter().enumerate() {
            assert_eq!(flows.find(&bytes, seconds * SECOND), wanted, "step {at}");
        }
    }

    #[test]
    fn a_forged_reset_ends_nothing() {
        let mut flows = flows();
        let tcp = |src, dst, flags| packet(6, src, dst, flags, 0);
        for (src, dst, flags) in
            [(5, 2, flags::SYN), (2, 5, flags::SYN | flags::ACK), (5, 2, flags::ACK)]
        {
            flows.find(&tcp(src, dst, flags), 0);
        }
        let mut guessed = tcp(5, 2, flags::ACK);
        (guessed[24], guessed[33]) = (9, flags::RST);
        TcpHeader::fill_checksum(
            &mut guessed[20..],
            Sum::pseudo_v4(0x0909_0905, 0x0909_0902, 6, 20),
        )
        .unwrap();
        let mut damaged = tcp(5, 2, flags::RST);
        damaged[36] ^= 1;
        for forged in [guessed, damaged] {
            assert_eq!(flows.find(&forged, SECOND), of(1, 0));
            // Beyond the timeout of what is done.
            assert_eq!(flows.find(&tcp(2, 5, flags::ACK), 40 * SECOND), of(1, 1));
        }
        assert_eq!(flows.find(&tcp(5, 2, flags::RST), 41 * SECOND), of(1, 0));
        assert_eq!(flows.find(&tcp(2, 5, flags::ACK), 80 * SECOND), of(2, 0));
    }

    #[test]
    fn fragments_and_errors() {
        let mut flows = flows();
        let (first, later) = (packet(17, 1, 2, 0, 0x2000), packet(17, 1, 2, 0, 0x0003));
        assert_eq!(flows.find(&later, 0), Marks::Waits);
        assert_eq!(flows.find(&first, 0), of(1, 0));
        assert_eq!(flows.find(&later, SECOND), of(1, 0));
        assert_eq!(flows.find(&later, 31 * SECOND), Marks::Waits);
        let mut error = vec![0; 28];
        let quoted = packet(17, 2, 1, 0, 0);
        let ip = Ipv4Header::new(1, [8; 4].into(), [9; 4].into(), 8 + quoted.len()).unwrap();
        ip.emit(&mut error).unwrap()[0] = 3;
        error.extend(&quoted);
        assert_eq!(flows.find(&error, 31 * SECOND), of(1, 3));
        assert_eq!(flows.find(&error, 99 * SECOND), Marks::NoFlow);
    }

    proptest! {
        /// Without timeouts and ends: a number per unordered pair, in order of appearance.
        #[test]
        fn as_a_list(pairs in prop::collection::vec((0u8..5, 0u8..5), 1..50)) {
            let mut flows = flows();
            let mut seen: Vec<(u8, u8)> = Vec::new();
            for (src, dst) in pairs {
                let known = seen.iter().position(|pair| *pair == (src, dst) || *pair == (dst, src));
                let at = known.unwrap_or(seen.len());
                if known.is_none() {
                    seen.push((src, dst));
                }
                let paint = u8::from(seen[at] != (src, dst));
                let wanted = of(at as u32 + 1, paint);
                prop_assert_eq!(flows.find(&packet(17, src, dst, 0, 0), 0), wanted);
            }
        }

        #[test]
        fn any_bytes(bytes in prop::collection::vec(any::<u8>(), 0..80), now: i64) {
            flows().find(&bytes, now);
        }
    }
}
