//! IPFilter and IPClassifier as elements, against rules that are walked one by one.

use proptest::prelude::*;
use thruway_packet::Packet;

use crate::{ip_classifier, ip_filter};
use thruway_elements_rig::Rig;

/// A rule of the benches' form, with a meaning that the test knows by itself.
#[derive(Debug, Clone)]
struct Known {
    /// Output, or `None` to drop.
    output: Option<usize>,
    source: (u32, u32),
    destination: (u32, u32),
    protocol: Option<u8>,
    ports: (u16, u16),
}

fn mask(len: u32) -> u32 {
    u32::MAX.checked_shl(32 - len).unwrap_or(0)
}

fn dotted(addr: u32) -> String {
    std::net::Ipv4Addr::from(addr).to_string()
}

impl Known {
    fn pattern(&self) -> String {
        let net = |word: &str, (addr, len): (u32, u32)| {
            format!("{word} net {}/{len}", dotted(addr & mask(len)))
        };
        let mut text = [net("src", self.source), net("dst", self.destination)].join(" && ");
        let (low, high) = self.ports;
        match self.protocol {
            Some(6) => text += &format!(" && dst tcp port >= {low} && dst tcp port <= {high}"),
            Some(17) => text += &format!(" && dst udp port >= {low} && dst udp port <= {high}"),
            Some(other) => text += &format!(" && ip proto {other}"),
            None => {}
        }
        text
    }

    fn matches(&self, flow: &Flow) -> bool {
        let within = |addr: u32, (net, len): (u32, u32)| (addr ^ net) & mask(len) == 0;
        let ports = match self.protocol {
            Some(6 | 17) => (self.ports.0..=self.ports.1).contains(&flow.port),
            _ => true,
        };
        within(flow.source, self.source)
            && within(flow.destination, self.destination)
            && self.protocol.is_none_or(|protocol| protocol == flow.protocol)
            && ports
    }
}

#[derive(Debug, Clone)]
struct Flow {
    source: u32,
    destination: u32,
    protocol: u8,
    port: u16,
}

impl Flow {
    /// A packet of the flow with its place in the batch as identification.
    fn packet(&self, number: usize) -> Packet {
        let mut bytes = vec![0_u8; 40];
        bytes[0] = 0x45;
        bytes[4..6].copy_from_slice(&(number as u16).to_be_bytes());
        bytes[9] = self.protocol;
        bytes[12..16].copy_from_slice(&self.source.to_be_bytes());
        bytes[16..20].copy_from_slice(&self.destination.to_be_bytes());
        bytes[22..24].copy_from_slice(&self.port.to_be_bytes());
        let mut packet = Packet::new(&bytes).unwrap();
        packet.set_network(0, 20);
        packet
    }
}

/// Addresses of which many lie in the same nets.
fn address() -> impl Strategy<Value = u32> {
    prop_oneof![
        (0_u32..4, any::<u8>()).prop_map(|(net, host)| 10 << 24 | net << 16 | u32::from(host)),
        any::<u32>()
    ]
}

fn protocol() -> impl Strategy<Value = u8> {
    prop_oneof![Just(6), Just(17), Just(17), Just(1)]
}

fn known() -> impl Strategy<Value = Known> {
    let net = || (address(), prop_oneof![Just(0_u32), Just(8), Just(16), 0..=32_u32]);
    let ports = (any::<u16>(), any::<u16>()).prop_map(|(a, b)| (a.min(b), a.max(b)));
    (
        prop_oneof![Just(None), (0..3_usize).prop_map(Some)],
        net(),
        net(),
        proptest::option::of(protocol()),
        ports,
    )
        .prop_map(|(output, source, destination, protocol, ports)| Known {
            output,
            source,
            destination,
            protocol,
            ports,
        })
}

fn flows() -> impl Strategy<Value = Vec<Flow>> {
    let flow = (address(), address(), protocol(), any::<u16>());
    let flow = flow.prop_map(|(source, destination, protocol, port)| Flow {
        source,
        destination,
        protocol,
        port,
    });
    proptest::collection::vec(flow, 1..300)
}

/// The packets' numbers in each output, and what was dropped.
fn sorted(rig: &mut Rig, flows: &[Flow]) -> Vec<Vec<u16>> {
    let packets = flows.iter().enumerate().map(|(at, flow)| flow.packet(at));
    let number = |packet: &Packet| u16::from_be_bytes([packet.data()[4], packet.data()[5]]);
    rig.push(packets).iter().map(|out| out.iter().map(number).collect()).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn filter_does_what_its_first_matching_rule_says(
        rules in proptest::collection::vec(known(), 0..80),
        flows in flows(),
    ) {
        let text = |rule: &Known| {
            let action = rule.output.map_or("drop".to_owned(), |output| output.to_string());
            format!("{action} {}", rule.pattern())
        };
        let texts: Vec<String> = rules.iter().map(text).collect();
        let mut rig = Rig::new(&ip_filter::ENTRY, &texts, 3).unwrap();
        let mut expected = vec![Vec::new(); 3];
        let (mut denied, mut unmatched) = (0, 0);
        for (at, flow) in flows.iter().enumerate() {
            match rules.iter().find(|rule| rule.matches(flow)).map(|rule| rule.output) {
                Some(Some(output)) => expected[output].push(at as u16),
                Some(None) => denied += 1,
                None => unmatched += 1,
            }
        }
        prop_assert_eq!(sorted(&mut rig, &flows), expected);
        prop_assert_eq!(&rig.drops()[..2], &[denied, unmatched]);
    }

    #[test]
    fn classifier_sends_to_the_first_matching_pattern(
        rules in proptest::collection::vec(known(), 1..20),
        flows in flows(),
        changed in known(),
    ) {
        let mut rules = rules;
        let texts: Vec<String> = rules.iter().map(Known::pattern).collect();
        let mut rig = Rig::new(&ip_classifier::ENTRY, &texts, rules.len()).unwrap();
        for round in 0..2 {
            let mut expected = vec![Vec::new(); rules.len()];
            for (at, flow) in flows.iter().enumerate() {
                if let Some(output) = rules.iter().position(|rule| rule.matches(flow)) {
                    expected[output].push(at as u16);
                }
            }
            prop_assert_eq!(sorted(&mut rig, &flows), expected);
            if round == 0 {
                rules[0] = changed.clone();
                rig.write("pattern0", &changed.pattern()).unwrap();
                prop_assert_eq!(rig.read("pattern0", "").unwrap(), changed.pattern());
            }
        }
    }
}

#[test]
fn wrong_rules_leave_the_old_ones_in_force() {
    let mut rig = Rig::new(&ip_filter::ENTRY, &["allow udp"], 1).unwrap();
    let flows = [Flow { source: 1, destination: 2, protocol: 17, port: 3 }];
    let wrong = rig.write("config", "allow tcp, alow udp").unwrap_err().to_string();
    assert!(wrong.contains("pattern 1") && wrong.contains("'allow'"), "{wrong}");
    assert_eq!(sorted(&mut rig, &flows), [[0]]);
    rig.write("config", "deny udp, allow all").unwrap();
    assert_eq!(rig.read("config", "").unwrap(), "deny udp, allow all");
    assert_eq!(sorted(&mut rig, &flows), [[]; 1] as [[u16; 0]; 1]);
    assert_eq!(rig.drops()[0], 1);
    assert!(rig.write("pattern0", "udp").is_err(), "IPFilter has no patterns by number");
    assert!(rig.read("program", "").unwrap().contains("\nsafe length "));
}

#[test]
fn a_pattern_that_nothing_matches_is_reported() {
    let rig = Rig::new(&ip_classifier::ENTRY, &["tcp and udp", "-"], 2).unwrap();
    assert_eq!(rig.messages(), ["tested: warning: pattern 0 matches no packets: tcp and udp"]);
}
