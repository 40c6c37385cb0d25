//! Rewriters against plain maps; packets are compared with such as are written anew.

mod bounds;
mod errors;
mod flood;
mod forged;

use std::collections::HashMap;

use proptest::prelude::*;
use thruway_element::{Addresses, Args, Entry, Env, Shared};
use thruway_packet::Packet;
use thruway_wire::flow::FiveTuple;

use crate::alone::{Tuple, marked};
use crate::plain::Plain;
use crate::rewriters::class::Class;
use crate::rewriters::{
    icmp_ping_rewriter, ip_addr_pair_rewriter, ip_addr_rewriter, ip_rewriter, tcp_rewriter,
    udp_rewriter,
};
use thruway_elements_rig::Rig;

/// Two inputs, as many outputs.
fn rig(entry: &'static Entry, texts: &[&str]) -> Rig {
    Rig::with_inputs(entry, texts, 2, 3).unwrap()
}

/// Replicas of one rewriter in two threads.
fn two_threads(entry: &'static Entry, texts: &[&str]) -> [Rig; 2] {
    let texts: Vec<String> = texts.iter().map(|text| (*text).to_owned()).collect();
    let (addresses, shared) = (Addresses::default(), Shared::default());
    std::array::from_fn(|thread| {
        let env = Env::alone("rw", entry.spec.name, &addresses, &shared);
        let env = Env { thread, threads: 2, rank: thread, inputs: 2, outputs: 3, ..env };
        let element = (entry.build)(&Args::sort(&entry.spec, &texts, &env).unwrap()).unwrap();
        Rig::around(element, entry, 3).unwrap()
    })
}

/// Outcome for one packet: the output and its bytes.
fn push(rig: &mut Rig, input: usize, bytes: &[u8]) -> Option<(usize, Vec<u8>)> {
    let outputs = rig.push_at(input, [marked(bytes)]);
    let mut out = outputs.into_iter().enumerate().flat_map(|(port, packets)| {
        packets.into_iter().map(move |packet| (port, packet.data().to_vec()))
    });
    let first = out.next();
    assert!(out.next().is_none());
    first
}

/// A plain rewriter: every direction of every mapping is an entry of a map.
struct Oracle {
    class: Class,
    entries: HashMap<Tuple, (Tuple, usize, usize)>,
    /// Flow and what it becomes; none of those that have ended.
    mappings: Vec<Option<(Tuple, Tuple)>>,
    next_port: u16,
}

const FIRST_PORT: u16 = 4;
const PORTS: u16 = 3;
const OUTSIDE: u32 = 0x0900_0001;

impl Oracle {
    fn key(&self, tuple: Tuple) -> Tuple {
        let bare = FiveTuple { src_port: 0, dst_port: 0, protocol: 0, ..tuple };
        match self.class {
            Class::Pair => bare,
            Class::Address => FiveTuple { dst: 0, ..bare },
            _ => tuple,
        }
    }

    /// The rewritten flow of a flow of input 0: a free port, or the outside address.
    fn choose(&mut self, flow: Tuple) -> Option<Tuple> {
        let to = FiveTuple { src: OUTSIDE, ..flow };
        if matches!(self.class, Class::Pair | Class::Address) {
            return Some(to);
        }
        for step in 0..PORTS {
            let port = (self.next_port + step) % PORTS;
            let to = FiveTuple { src_port: FIRST_PORT + port, ..to };
            if !self.entries.contains_key(&to.reversed()) {
                self.next_port = (port + 1) % PORTS;
                return Some(to);
            }
        }
        None
    }

    /// Whether no port is free for a flow: `flood` tests the eviction in that case.
    fn is_scarce(&self, input: usize, tuple: Tuple) -> bool {
        let to = |port| FiveTuple { src: OUTSIDE, src_port: FIRST_PORT + port, ..tuple };
        let is_known = input == 1 || self.entries.contains_key(&self.key(tuple));
        let has_ports = !matches!(self.class, Class::Pair | Class::Address);
        let is_taken = |port| self.entries.contains_key(&to(port).reversed());
        has_ports && !is_known && (0..PORTS).all(is_taken)
    }

    fn end(&mut self, mapping: usize) {
        self.mappings[mapping] = None;
        self.entries.retain(|_, (_, _, of)| *of != mapping);
    }

    /// The tuple that a packet leaves with, and its output.
    fn pass(&mut self, input: usize, tuple: Tuple) -> Option<(usize, Tuple)> {
        let flow = self.key(tuple);
        let by_dst = FiveTuple { src: 0, dst: tuple.dst, ..flow };
        let known = self.entries.get(&flow).copied();
        let known = known.or_else(|| {
            (self.class == Class::Address).then(|| self.entries.get(&by_dst).copied()).flatten()
        });
        let (to, output) = match known {
            Some((to, output, _)) => (to, output),
            None if input == 1 => return None,
            None => {
                let to = self.choose(flow)?;
                let reply = to.reversed();
                if reply != flow
                    && let Some((_, _, other)) = self.entries.get(&reply).copied()
                {
                    self.end(other);
                }
                let number = self.mappings.len();
                self.mappings.push(Some((flow, to)));
                self.entries.insert(flow, (to, 0, number));
                self.entries.insert(reply, (flow.reversed(), 1, number));
                (to, 0)
            }
        };
        Some((
            output,
            match self.class {
                Class::Address if output == 0 => FiveTuple { src: to.src, ..tuple },
                Class::Address => FiveTuple { dst: to.dst, ..tuple },
                Class::Pair => FiveTuple { src: to.src, dst: to.dst, ..tuple },
                _ => to,
            },
        ))
    }
}

fn tuple_of(plain: &Plain) -> Tuple {
    FiveTuple {
        src: plain.src.0,
        dst: plain.dst.0,
        src_port: plain.src.1,
        dst_port: plain.dst.1,
        protocol: plain.protocol,
    }
}

/// The packet with other ends.
fn becomes(plain: &Plain, to: Tuple) -> Plain {
    Plain { src: (to.src, to.src_port), dst: (to.dst, to.dst_port), ..plain.clone() }
}

fn entry_of(class: Class) -> &'static Entry {
    match class {
        Class::Ip => &ip_rewriter::ENTRY,
        Class::Tcp => &tcp_rewriter::ENTRY,
        Class::Udp => &udp_rewriter::ENTRY,
        Class::Address => &ip_addr_rewriter::ENTRY,
        Class::Pair => &ip_addr_pair_rewriter::ENTRY,
        Class::Ping => &icmp_ping_rewriter::ENTRY,
    }
}

const ALL: [Class; 6] =
    [Class::Ip, Class::Tcp, Class::Udp, Class::Address, Class::Pair, Class::Ping];

/// Packets between few ends, so that they meet; the outside address is one of them.
fn packets() -> impl Strategy<Value = Vec<(usize, Plain, bool)>> {
    let addr = || prop_oneof![Just(1u32), Just(2), Just(OUTSIDE)];
    let port = || 3u16..7;
    let protocol = prop_oneof![Just(6u8), Just(17)];
    let payload = prop::collection::vec(any::<u8>(), 0..5);
    let plain = (protocol, (addr(), port()), (addr(), port()), 0u8..32, payload, any::<bool>());
    let plain = plain.prop_map(|(protocol, src, dst, flags, payload, udp_checksum)| Plain {
        numbers: (7, 8),
        protocol,
        src,
        dst,
        flags,
        payload,
        udp_checksum,
    });
    prop::collection::vec((0usize..2, plain, any::<bool>()), 1..60)
}

proptest! {
    /// Every packet leaves as the plain map says, written anew with checksums in full; sometimes
    /// the next one is the reply to what left.
    #[test]
    fn packets_leave_as_a_plain_map_says(class in 0usize..5, packets in packets()) {
        let class = ALL[class];
        let pattern = match class {
            Class::Pair | Class::Address => "pattern 9.0.0.1 - 0 1".to_owned(),
            _ => format!("pattern 9.0.0.1 {FIRST_PORT}-{}# - - 0 1", FIRST_PORT + PORTS - 1),
        };
        let mut rig = rig(entry_of(class), &[&pattern, "drop"]);
        let (entries, mappings) = (HashMap::new(), Vec::new());
        let mut oracle = Oracle { class, entries, mappings, next_port: 0 };
        let mut answer = None;
        for (input, plain, answers) in packets {
            let plain = answer.take().filter(|_| answers).unwrap_or(plain);
            if class == Class::Tcp && plain.protocol != 6 {
                continue;
            }
            if oracle.is_scarce(input, tuple_of(&plain)) {
                continue;
            }
            let wanted = oracle.pass(input, tuple_of(&plain));
            let wanted = wanted.map(|(output, to)| (output, becomes(&plain, to)));
            let came = push(&mut rig, input, &plain.written());
            let written = wanted.as_ref().map(|(output, plain)| (*output, plain.written()));
            prop_assert_eq!(came, written);
            answer = wanted.map(|(_, plain)| plain.reversed());
        }
        let now = oracle.mappings.iter().flatten().count();
        prop_assert_eq!(rig.read("nmappings", "").unwrap(), now.to_string());
    }

    /// Whichever thread a packet comes by: it leaves as if there were one. (Where mappings end
    /// because their replies would be another's, threads differ: a range of ports keeps them
    /// apart.)
    #[test]
    fn two_threads_know_the_same_mappings(
        class in 0usize..3, packets in packets(), threads in prop::collection::vec(0usize..2, 60),
    ) {
        let class = ALL[class];
        let pattern = format!("pattern 9.0.0.1 {FIRST_PORT}-{}# - - 0 1", FIRST_PORT + PORTS - 1);
        let mut rigs = two_threads(entry_of(class), &[&pattern, "drop", "MAPPING_CAPACITY 100"]);
        let (entries, mappings) = (HashMap::new(), Vec::new());
        let mut oracle = Oracle { class, entries, mappings, next_port: 0 };
        let mut answer = None;
        for ((input, plain, answers), thread) in packets.into_iter().zip(threads) {
            let plain = answer.take().filter(|_| answers).unwrap_or(plain);
            if class == Class::Tcp && plain.protocol != 6 {
                continue;
            }
            if oracle.is_scarce(input, tuple_of(&plain)) {
                continue;
            }
            let wanted = oracle.pass(input, tuple_of(&plain));
            let wanted = wanted.map(|(output, to)| (output, becomes(&plain, to)));
            let came = push(&mut rigs[thread], input, &plain.written());
            let written = wanted.as_ref().map(|(output, plain)| (*output, plain.written()));
            prop_assert_eq!(came, written);
            answer = wanted.map(|(_, plain)| plain.reversed());
        }
    }

    /// What a request becomes, its reply comes back as: with all checksums as if written so.
    #[test]
    fn pings_come_back_as_they_went(
        ident in prop_oneof![Just(0u16), Just(u16::MAX), any::<u16>()],
        low in prop_oneof![Just(0u16), Just(u16::MAX), any::<u16>()],
        src in any::<u32>(), dst in any::<u32>(), zeros in any::<bool>(),
    ) {
        let pattern = format!("pattern 9.0.0.1 - {low}-{} 0 1", low.saturating_add(3));
        let mut rig = rig(&icmp_ping_rewriter::ENTRY, &[&pattern, "drop"]);
        let payload = if zeros { vec![0; 4] } else { vec![1, 2, 3] };
        let request = |src, ident, dst| {
            let ends = ((src, ident), (dst, ident));
            Plain { protocol: 1, src: ends.0, dst: ends.1, flags: 0, numbers: (0, 0), payload: payload.clone(), udp_checksum: true }
        };
        let (output, bytes) = push(&mut rig, 0, &request(src, ident, dst).written()).unwrap();
        let new = u16::from_be_bytes([bytes[24], bytes[25]]);
        prop_assert!((low..=low.saturating_add(3)).contains(&new));
        prop_assert_eq!((output, bytes), (0, request(OUTSIDE, new, dst).written()));
        let reply = |plain: Plain| {
            let mut bytes = plain.written();
            bytes[20] = 0;
            thruway_wire::icmp::IcmpHeader::fill_checksum(&mut bytes[20..]).unwrap();
            bytes
        };
        let came = push(&mut rig, 1, &reply(request(dst, new, OUTSIDE)));
        prop_assert_eq!(came, Some((1, reply(request(dst, ident, src)))));
        prop_assert_eq!(push(&mut rig, 1, &reply(request(dst, new.wrapping_add(1), OUTSIDE))), None);
    }

    #[test]
    fn no_packet_is_too_strange(
        bytes in prop::collection::vec(any::<u8>(), 0..80), at in 0usize..70, header in 0usize..64,
        class in 0usize..6, protocol in prop_oneof![Just(1u8), Just(6), Just(17), Just(33), any::<u8>()],
    ) {
        let pattern = if class < 3 { "pattern 9.0.0.1 1-3 - - 0 1" } else { "pattern 9.0.0.1 - 0 1" };
        let mut rig = rig(entry_of(ALL[class]), &[pattern, "pass 2"]);
        for input in [0, 1, 0] {
            let mut packet = Packet::new(&bytes).unwrap();
            packet.set_network(at, header);
            if let Some(head) = packet.network_head_mut::<20>() {
                head[9] = protocol;
            }
            rig.push_at(input, [packet]);
        }
    }
}

#[test]
fn nothing_is_allocated_for_packets_of_known_mappings() {
    let bytes = Plain::first(FiveTuple { src: 1, dst: 2, src_port: 3, dst_port: 4, protocol: 17 });
    let mut rig = rig(&ip_rewriter::ENTRY, &["pattern 9.0.0.1 1-3 - - 0 1", "drop"]);
    let [mut frame, packet] = [vec![0; 14], bytes.written()];
    frame.extend(packet);
    // Unmarked packets are dropped; marked ones are measured as they pass.
    assert_eq!(rig.allocations(0, &frame), 0);
    push(&mut rig, 0, &bytes.written()).unwrap();
    let mut batch: Vec<Packet> = (0..64).map(|_| marked(&bytes.written())).collect();
    let mut count = 0;
    for _ in 0..2 {
        let packets = std::mem::take(&mut batch);
        let mut out = Vec::new();
        count = allocation_counter::measure(|| out = rig.push_at(0, packets)).count_total;
        batch = out.swap_remove(0);
        batch = batch.iter().map(|_| marked(&bytes.written())).collect();
    }
    // The rig itself makes a batch and lists of what left.
    assert!(count <= 12, "{count}");
}
