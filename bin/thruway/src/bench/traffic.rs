//! Traffic, routes and rules from seeds: the same everywhere.

use std::net::Ipv4Addr;

use thruway_lpm::synthetic::{Random, address_in, routes, traffic};
use thruway_lpm::{Prefix4, Route4};
use thruway_port::capture::{CaptureWriter, WriterOptions};
use thruway_wire::checksum;

/// Bytes of every packet, Ethernet header included.
const PACKET_LEN: usize = 64;
/// Flows in a trace.
const FLOWS: usize = 10_000;
/// Output ports that a route table's routes are spread over.
pub const PORTS: u32 = 4;

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

/// A route table for a configuration or a file.
pub struct Table {
    /// A line per route: `ADDR/LEN GATEWAY PORT`.
    pub text: String,
    /// Flows whose destinations have routes.
    pub flows: Vec<Flow>,
}

fn flow_to(dst: u32, random: &mut Random) -> Flow {
    // Sources are unicast and nobody's broadcast address: the last octet is 1 to 254.
    let src = 10 << 24 | (random.below(1 << 16) as u32) << 8 | (1 + random.below(254) as u32);
    let port = |random: &mut Random| 1024 + random.below(64_512) as u16;
    Flow { src, dst, sport: port(random), dport: port(random) }
}

/// Flows to four /16 networks, 10.0 to 10.3, and a fifth of them elsewhere.
pub fn small_network(seed: u64) -> Vec<Flow> {
    let mut random = Random::new(seed);
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

/// A table of `count` routes as the Internet's, and flows to random destinations that it covers.
pub fn internet(count: usize, seed: u64) -> Table {
    let table = routes(count, seed, 64, PORTS);
    let line = |(prefix, route): &(Prefix4, Route4)| {
        format!("{prefix} {} {}\n", Ipv4Addr::from(route.gateway), route.port)
    };
    let text = table.iter().map(line).collect();
    let mut random = Random::new(seed ^ 1);
    let flows = traffic(&table, FLOWS, seed ^ 2);
    Table { text, flows: flows.into_iter().map(|dst| flow_to(dst, &mut random)).collect() }
}

/// A filter's rules.
pub struct Rules {
    /// `allow src net ... && dst net ... && udp dst port ...`, separated by commas.
    pub text: String,
    /// Flows of which about half match a rule.
    pub flows: Vec<Flow>,
}

struct Rule {
    src: Prefix4,
    dst: Prefix4,
    port: u16,
}

fn rule(random: &mut Random) -> Rule {
    let mut prefix = || {
        let (addr, len) = (random.bits() as u32, 8 + random.below(25) as u8);
        Prefix4::new(addr, len).unwrap_or_else(|_| Prefix4::host(addr))
    };
    Rule { src: prefix(), dst: prefix(), port: random.below(65_536) as u16 }
}

/// `count` rules with networks of random lengths and a random port each.
pub fn filter(count: usize, seed: u64) -> Rules {
    let mut random = Random::new(seed);
    let rules: Vec<Rule> = (0..count).map(|_| rule(&mut random)).collect();
    let texts: Vec<String> = rules
        .iter()
        .map(|Rule { src, dst, port }| {
            format!("allow src net {src} && dst net {dst} && udp && dst port {port}")
        })
        .collect();
    let mut draw = || {
        let rule = &rules[random.below(rules.len() as u64) as usize];
        let mut flow = flow_to(random.bits() as u32, &mut random);
        if random.below(2) == 0 {
            flow.src = address_in(rule.src, &mut random);
            flow.dst = address_in(rule.dst, &mut random);
            flow.dport = rule.port;
        } else if random.below(2) == 0 {
            flow.dport = rule.port;
        }
        flow
    };
    let flows = (0..FLOWS).map(|_| draw()).collect();
    Rules { text: texts.join(",\n    "), flows }
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
    let mut writer = CaptureWriter::create(path, &WriterOptions::default())?;
    let mut random = Random::new(seed);
    for at in 0..packets as u64 {
        let flow = &flows[random.below(flows.len() as u64) as usize];
        // A packet each microsecond.
        writer.write(at * 1000, &packet(flow), PACKET_LEN as u32)?;
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

    #[test]
    fn a_seed_gives_the_same_again() {
        let (a, b) = (internet(1000, 5), internet(1000, 5));
        assert_eq!(
            (a.text.lines().count(), a.text == b.text, a.flows == b.flows),
            (1000, true, true)
        );
        assert_ne!(a.flows, internet(1000, 6).flows);
        assert_eq!(filter(20, 3).text, filter(20, 3).text);
    }

    #[test]
    fn about_half_of_the_flows_match_a_rule() {
        let rules = filter(20, 9);
        let count = rules.text.matches("allow").count();
        assert_eq!(count, 20);
        let ports: Vec<u16> = rules
            .text
            .split("port ")
            .filter_map(|text| text.split(',').next()?.trim().parse().ok())
            .collect();
        assert_eq!(ports.len(), 20);
        let near = rules.flows.iter().filter(|flow| ports.contains(&flow.dport)).count();
        // Half match, and half of the others have a rule's port.
        assert!((FLOWS * 70 / 100..FLOWS * 80 / 100).contains(&near), "{near}");
    }
}
