//! The route elements, driven by their handlers and by packets, against a list that is scanned.

use std::net::{Ipv4Addr, Ipv6Addr};

use proptest::prelude::*;
use thruway_element::Entry;
use thruway_packet::{Anno, Packet};

use crate::{ip_lookup, ip6};
use thruway_elements_rig::Rig;

const OUTPUTS: usize = 4;

/// What one address family adds to the test: everything is reported in 128 bits, of which IPv4 has
/// the first 32.
trait Family {
    const BITS: u32;
    const ENTRY: &'static Entry;
    const ANNO: Anno;
    fn write(addr: u128) -> String;
}

struct Four;
struct Six;

impl Family for Four {
    const BITS: u32 = 32;
    const ENTRY: &'static Entry = &ip_lookup::ENTRY;
    const ANNO: Anno = Anno::DST_IP;
    fn write(addr: u128) -> String {
        Ipv4Addr::from((addr >> 96) as u32).to_string()
    }
}

impl Family for Six {
    const BITS: u32 = 128;
    const ENTRY: &'static Entry = &ip6::lookup_ip6_route::ENTRY;
    const ANNO: Anno = Anno::DST_IP6;
    fn write(addr: u128) -> String {
        Ipv6Addr::from(addr).to_string()
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Known {
    net: u128,
    len: u32,
    /// 0 for none.
    gateway: u128,
    port: usize,
}

fn mask(len: u32) -> u128 {
    u128::MAX.checked_shl(128 - len).unwrap_or(0)
}

impl Known {
    fn prefix<F: Family>(&self) -> String {
        format!("{}/{}", F::write(self.net), self.len)
    }

    fn text<F: Family>(&self) -> String {
        match self.gateway {
            0 => format!("{} {}", self.prefix::<F>(), self.port),
            gateway => format!("{} {} {}", self.prefix::<F>(), F::write(gateway), self.port),
        }
    }
}

/// The oracle.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct Scan(Vec<Known>);

impl Scan {
    fn at(&self, route: &Known) -> Option<usize> {
        self.0.iter().position(|known| (known.net, known.len) == (route.net, route.len))
    }

    /// Does what a command says; false if that is to be refused.
    fn run(&mut self, command: &Command) -> bool {
        let at = self.at(&command.route);
        match (command.word, at) {
            ("add", Some(_)) | ("remove", None) => return false,
            ("remove", Some(at)) => drop(self.0.remove(at)),
            (_, Some(at)) => self.0[at] = command.route,
            (_, None) => self.0.push(command.route),
        }
        true
    }

    fn look_up(&self, addr: u128) -> Option<&Known> {
        let holds = |known: &&Known| (known.net ^ addr) & mask(known.len) == 0;
        self.0.iter().filter(holds).max_by_key(|known| known.len)
    }
}

#[derive(Debug, Clone)]
struct Command {
    word: &'static str,
    route: Known,
}

impl Command {
    fn argument<F: Family>(&self) -> String {
        if self.word == "remove" { self.route.prefix::<F>() } else { self.route.text::<F>() }
    }
}

#[derive(Debug, Clone)]
enum Step {
    One(Command),
    Control(Vec<Command>),
    Flush,
    Packets(Vec<u128>),
}

/// Addresses close to each other, so that prefixes nest and repeat.
fn address() -> impl Strategy<Value = u128> {
    let near = (0..4_u128, 0..3_u128, 0..4_u128);
    prop_oneof![
        4 => near.prop_map(|(a, b, c)| (0x0a << 24 | a << 16 | b << 8 | c << 6) << 96 | c << 70 | b << 3),
        1 => any::<u128>(),
    ]
}

fn route<F: Family>() -> impl Strategy<Value = Known> {
    let gateway =
        prop_oneof![Just(0_u128), (1..5_u128).prop_map(|host| (0xc0a8_0000 | host) << 96)];
    // Few short prefixes: each takes its time in a table without optimisation.
    let len = prop_oneof![Just(0), Just(16), Just(24), 14..=32_u32, 14..=F::BITS];
    (address(), len, gateway, 0..OUTPUTS).prop_map(|(addr, len, gateway, port)| Known {
        net: addr & mask(len),
        len,
        gateway,
        port,
    })
}

fn command<F: Family>() -> impl Strategy<Value = Command> {
    let word = prop_oneof![Just("add"), Just("set"), Just("remove")];
    (word, route::<F>()).prop_map(|(word, route)| Command { word, route })
}

fn steps<F: Family>() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        8 => command::<F>().prop_map(Step::One),
        2 => proptest::collection::vec(command::<F>(), 1..6).prop_map(Step::Control),
        1 => Just(Step::Flush),
        4 => proptest::collection::vec(address(), 1..300).prop_map(Step::Packets),
    ];
    proptest::collection::vec(step, 1..40)
}

fn packets<F: Family>(rig: &mut Rig, scan: &Scan, addrs: &[u128]) {
    let size = usize::from(F::ANNO.size);
    let packet = |addr: &u128| {
        let mut packet = Packet::new(&addr.to_be_bytes()).unwrap();
        packet.anno_mut(F::ANNO).copy_from_slice(&addr.to_be_bytes()[..size]);
        packet
    };
    let out = rig.push(addrs.iter().map(packet));
    for (port, packets) in out.iter().enumerate() {
        let goes = |addr: &&u128| scan.look_up(**addr).is_some_and(|known| known.port == port);
        let expected: Vec<u128> = addrs.iter().filter(goes).copied().collect();
        assert_eq!(packets.len(), expected.len());
        for (packet, addr) in packets.iter().zip(expected) {
            assert_eq!(packet.data(), addr.to_be_bytes());
            let gateway = scan.look_up(addr).map_or(0, |known| known.gateway);
            let left = if gateway == 0 { addr } else { gateway };
            assert_eq!(packet.anno(F::ANNO), &left.to_be_bytes()[..size]);
        }
    }
}

fn follow<F: Family>(first: Vec<Known>, steps: Vec<Step>) {
    let texts: Vec<String> = first.iter().map(Known::text::<F>).collect();
    let mut rig = Rig::new(F::ENTRY, &texts, OUTPUTS).unwrap();
    let mut scan = Scan::default();
    for route in first {
        scan.run(&Command { word: "add", route });
    }
    for step in steps {
        match step {
            Step::One(command) => {
                let done = rig.write(command.word, &command.argument::<F>());
                assert_eq!(done.is_ok(), scan.run(&command), "{done:?}");
            }
            Step::Control(commands) => {
                let line = |c: &Command| format!("{} {}\n", c.word, c.argument::<F>());
                let done = rig.write("ctrl", &commands.iter().map(line).collect::<String>());
                let mut tried = scan.clone();
                let all = commands.iter().all(|command| tried.run(command));
                assert_eq!(done.is_ok(), all, "{done:?}");
                if all {
                    scan = tried;
                }
            }
            Step::Flush => {
                rig.write("flush", "").unwrap();
                scan.0.clear();
            }
            Step::Packets(addrs) => packets::<F>(&mut rig, &scan, &addrs),
        }
        check_handlers::<F>(&mut rig, &scan);
    }
}

fn check_handlers<F: Family>(rig: &mut Rig, scan: &Scan) {
    let table = rig.read("table", "").unwrap();
    assert_eq!(table.lines().count(), scan.0.len());
    let mut sorted = scan.0.clone();
    sorted.sort_by_key(|known| (known.net, known.len));
    for (line, known) in table.lines().zip(&sorted) {
        let gateway = if known.gateway == 0 { "-".into() } else { F::write(known.gateway) };
        let words: Vec<&str> = line.split_whitespace().collect();
        assert_eq!(words, [known.prefix::<F>(), gateway, known.port.to_string()]);
    }
    for known in sorted.iter().take(3) {
        let found = scan.look_up(known.net).unwrap();
        let gateway = if found.gateway == 0 {
            String::new()
        } else {
            format!(" {}", F::write(found.gateway))
        };
        let answer = rig.read("lookup", &F::write(known.net)).unwrap();
        assert_eq!(answer, format!("{}{gateway}", found.port));
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(16))]

    #[test]
    fn ip4_routes_are_those_of_a_scan(
        first in proptest::collection::vec(route::<Four>(), 0..20),
        steps in steps::<Four>(),
    ) {
        follow::<Four>(first, steps);
    }

    #[test]
    fn ip6_routes_are_those_of_a_scan(
        first in proptest::collection::vec(route::<Six>(), 0..20),
        steps in steps::<Six>(),
    ) {
        follow::<Six>(first, steps);
    }
}

fn table() -> Rig {
    let routes = ["10.0.0.0/8 1.0.0.1 0", "10.1/16 1", "0/0 - 2"];
    Rig::new(Four::ENTRY, &routes, 3).unwrap()
}

fn refusal(name: &str, value: &str) -> String {
    table().write(name, value).unwrap_err().to_string()
}

#[test]
fn refusals_say_what_is_wrong() {
    let conflict = "conflict with existing route '10.0.0.0/8 1.0.0.1 0'";
    assert_eq!(refusal("add", "10.0.0.0/8 1"), conflict);
    assert_eq!(refusal("remove", "10.2.0.0/16"), "route '10.2.0.0/16 - -1' not found");
    assert_eq!(refusal("remove", "10.0.0.0/8 1.0.0.2 0"), "route '10.0.0.0/8 1.0.0.2 0' not found");
    assert_eq!(refusal("add", "11.0.0.0/8 3"), "bad OUTPUT; there are 3 outputs");
    assert_eq!(refusal("add", "11.0.0.0/8 -2"), "bad OUTPUT");
    for wrong in
        ["", "11.0.0.0/8", "11.0.0.0/33 1", "11.0.0.0/255.0.255.0 1", "11/8 1.0.0.1", "11/8 1 1"]
    {
        assert_eq!(refusal("add", wrong), "expected 'ADDR/MASK [GATEWAY] OUTPUT'", "{wrong}");
    }
    assert_eq!(refusal("remove", "x"), "expected 'ADDR/MASK [GATEWAY OUTPUT]'");
    assert!(refusal("ctrl", "add 1.0.0.0/8 1\nremve 1.0.0.0/8").contains("bad command 'remve'"));
    assert!(refusal("ctl", "").contains("no write handler"));
    assert_eq!(
        table().read("lookup", "10.1").unwrap_err().to_string(),
        "expected IP address, not '10.1'"
    );
}

#[test]
fn a_removal_names_the_route_or_only_the_prefix() {
    for removal in ["10.0.0.0/8", "10.0.0.0/8 1.0.0.1", "10.0.0.0/8 1.0.0.1 0", "10/8 -1"] {
        let mut rig = table();
        rig.write("remove", removal).unwrap();
        assert_eq!(rig.read("lookup", "10.0.0.1").unwrap(), "2", "{removal}");
    }
}

#[test]
fn a_transaction_that_fails_leaves_nothing_behind() {
    let mut rig = table();
    let before = rig.read("table", "").unwrap();
    let commands =
        "set 10.0.0.0/8 0\n\nadd 11.0.0.0/8 1 // new\nremove 0.0.0.0/0\nadd 10.1.0.0/16 2\n";
    assert!(rig.write("ctrl", commands).is_err());
    assert_eq!(rig.read("table", "").unwrap(), before);
    rig.write("ctrl", "remove 10.1.0.0/16\nadd 10.1.0.0/16 2\n").unwrap();
    assert_eq!(rig.read("lookup", "10.1.0.1").unwrap(), "2");
}

#[test]
fn routes_come_from_a_file_too() {
    let path = std::env::temp_dir().join(format!("thruway-routes-{}", std::process::id()));
    std::fs::write(&path, "# routes\n10.0.0.0/8 1.0.0.1 1\n\n 10.1.0.0/16 0 # inner\n").unwrap();
    let file = format!("FILE {}", path.display());
    let mut rig = Rig::new(Four::ENTRY, &["0/0 0", &file], 2).unwrap();
    assert_eq!(rig.read("lookup", "10.2.0.1").unwrap(), "1 1.0.0.1");
    assert_eq!(rig.read("table", "").unwrap().lines().count(), 3);
    std::fs::write(&path, "10.0.0.0/8 1\n10.0.0.0/8 2\n10.1.0.0/16 x\n").unwrap();
    let wrong = Rig::new(Four::ENTRY, &[&file], 3).err().unwrap().to_string();
    assert!(wrong.ends_with("line 3: expected 'ADDR/MASK [GATEWAY] OUTPUT'"), "{wrong}");
    std::fs::remove_file(&path).unwrap();
    let missing = Rig::new(Four::ENTRY, &[&file], 3).err().unwrap().to_string();
    assert!(missing.contains(&path.display().to_string()), "{missing}");
}

#[test]
fn five_packets_without_route_are_reported() {
    let mut rig = Rig::new(Four::ENTRY, &["10.0.0.0/8 0"], 1).unwrap();
    let packet = || Packet::new(&[0]).unwrap();
    rig.push((0..4).map(|_| packet()));
    rig.push((0..4).map(|_| packet()));
    assert_eq!(rig.messages(), ["IPRouteTable: no route for 0.0.0.0"; 5]);
    assert_eq!(rig.drops()[0], 8);
}
