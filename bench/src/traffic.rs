//! Routes and rules, and traffic for them, from seeds: the same everywhere.

use std::net::Ipv4Addr;

use thruway_lpm::synthetic::{address_in, routes, traffic};
use thruway_lpm::{Prefix4, Route4};
use thruway_random::Random;

pub use thruway::traffic::{FLOWS, Flow, flow_to, packet, small_network, write_trace};
pub use thruway::traffic::{drawn, write_frames};

/// Output ports that a route table's routes are spread over.
pub const PORTS: u32 = 4;

/// A route table for a configuration or a file.
pub struct Table {
    /// A line per route: `ADDR/LEN GATEWAY PORT`.
    pub text: String,
    /// Flows to destinations with routes.
    pub flows: Vec<Flow>,
}

/// A table of `count` routes as the Internet's, and flows to random destinations that it covers.
pub fn internet(count: usize, seed: u64) -> Table {
    let table = routes(count, seed, 64, PORTS);
    let line = |(prefix, route): &(Prefix4, Route4)| {
        format!("{prefix} {} {}\n", Ipv4Addr::from(route.gateway), route.port)
    };
    let text = table.iter().map(line).collect();
    let mut random = Random::from_seed(seed ^ 1);
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
        let (addr, len) = (random.next_u64() as u32, 8 + random.below(25) as u8);
        Prefix4::new(addr, len).unwrap_or_else(|_| Prefix4::host(addr))
    };
    Rule { src: prefix(), dst: prefix(), port: random.below(65_536) as u16 }
}

/// `count` rules with networks of random lengths and a random port each.
pub fn filter(count: usize, seed: u64) -> Rules {
    let mut random = Random::from_seed(seed);
    let rules: Vec<Rule> = (0..count).map(|_| rule(&mut random)).collect();
    let texts: Vec<String> = rules
        .iter()
        .map(|Rule { src, dst, port }| {
            format!("allow src net {src} && dst net {dst} && udp && dst port {port}")
        })
        .collect();
    let mut draw = || {
        let rule = &rules[random.below(rules.len() as u64) as usize];
        let mut flow = flow_to(random.next_u64() as u32, &mut random);
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

#[cfg(test)]
mod tests {
    use super::*;

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
