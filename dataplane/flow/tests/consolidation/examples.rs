//! Chains with a plan that is known beforehand.

use thruway_flow::chain::{Chain, Changes, Demand, Node, Role};
use thruway_flow::plan::{Family, Hop, Orientation, Plan, SessionTable};
use thruway_flow::{
    Base, Expr, KeyField, NoNames, PacketView, Rule, SessionDef, Word, consolidate, parse_class,
};

/// A chain that is put together by names.
#[derive(Default)]
pub struct Build {
    chain: Chain,
}

impl Build {
    fn node(&mut self, name: &str, role: Role, changes: Changes) -> usize {
        self.chain.nodes.push(Node {
            name: name.to_owned(),
            role,
            outputs: Vec::new(),
            passes: vec![Vec::new()],
            changes,
            demand: None,
            counts: false,
        });
        self.chain.nodes.len() - 1
    }

    pub fn entry(&mut self, name: &str) -> usize {
        self.node(name, Role::Entry, Changes::Nothing)
    }

    pub fn dispatcher(&mut self, name: &str, classes: &[&str]) -> usize {
        let rules = classes
            .iter()
            .enumerate()
            .map(|(output, class)| Rule::new(parse_class(class, &NoNames).unwrap(), output as u32));
        self.node(name, Role::Dispatcher(rules.collect()), Changes::Nothing)
    }

    pub fn rules(&mut self, name: &str, rules: Vec<Rule>) -> usize {
        self.node(name, Role::Dispatcher(rules), Changes::Nothing)
    }

    pub fn chain(&self) -> &Chain {
        &self.chain
    }

    pub fn forget_demands(&mut self) {
        self.chain.nodes.iter_mut().for_each(|node| node.demand = None);
    }

    pub fn function(&mut self, name: &str, changes: Changes) -> usize {
        self.node(name, Role::Function, changes)
    }

    pub fn stateful(&mut self, name: &str, session: &str, size: usize) -> usize {
        let node = self.function(name, Changes::Nothing);
        let session = SessionDef::parse(session).unwrap();
        self.chain.nodes[node].demand = Some(Demand::of(session, size, 4));
        node
    }

    /// The next output of a node leads to another's first input.
    pub fn link(&mut self, from: usize, to: usize) -> &mut Build {
        let node = &mut self.chain.nodes[from];
        node.passes[0].push(node.outputs.len());
        node.outputs.push(Some((to, 0)));
        self
    }

    fn plan(&self) -> Plan {
        consolidate(&self.chain).unwrap()
    }

    fn errors(&self) -> Vec<String> {
        consolidate(&self.chain).unwrap_err().into_iter().map(|error| error.message).collect()
    }
}

/// Figure 5.6 of "A high-speed NFV dataplane": ARP to its elements, HTTP through a filter, HTTP and
/// UDP to a load balancer, the rest of TCP nowhere.
fn small_system(session: &str) -> Build {
    let mut build = Build::default();
    let entry = build.entry("fc");
    let types = build.dispatcher("ct", &["12/0800", "12/0806 20/0001", "12/0806 20/0002"]);
    let protocols = build.dispatcher("cp", &["tcp", "udp", "-"]);
    let ports = build.dispatcher("cd", &["tcp dst port 80"]);
    let http = build.stateful("http", session, 40);
    let balancer = build.stateful("lb", session, 4);
    let responder = build.function("responder", Changes::Nothing);
    let querier = build.function("querier", Changes::Nothing);
    build.link(entry, types).link(types, protocols).link(types, responder).link(types, querier);
    build.link(protocols, ports).link(protocols, balancer);
    build.link(ports, http).link(http, balancer).link(balancer, querier);
    build
}

/// A packet of TCP or UDP over IPv4 in a frame without tags.
fn classify(plan: &Plan, protocol: u8, ports: [u16; 2]) -> u16 {
    let mut frame = vec![0; 12];
    frame.extend([8, 0, 0x45, 0, 0, 40, 0, 0, 0, 0, 64, protocol, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2]);
    ports.iter().for_each(|port| frame.extend(port.to_be_bytes()));
    frame.extend([0; 16]);
    let view = PacketView { frame: &frame, network: &frame[14..], transport: &frame[34..] };
    plan.classify(0, &view)
}

fn key_of(plan: &Plan, leaf: u16) -> (&SessionTable, Vec<String>, Orientation) {
    let key = plan.leaves[usize::from(leaf)].keys[Family::V4 as usize].as_ref().unwrap();
    let fields = key.fields.iter().map(ToString::to_string).collect();
    (&plan.levels[usize::from(key.level)], fields, key.orientation)
}

#[test]
fn the_example_of_the_thesis() {
    let build = small_system("flow");
    let plan = build.plan();
    let hops = |leaf: u16| -> Vec<Hop> {
        (1..4).map(|node| plan.nodes[node].hops[usize::from(leaf)]).collect()
    };
    let (http, udp) = (classify(&plan, 6, [5, 80]), classify(&plan, 17, [5, 80]));
    assert_eq!(hops(http), [Hop::Output(0), Hop::Output(0), Hop::Output(0)]);
    assert_eq!(hops(udp), [Hop::Output(0), Hop::Output(1), Hop::Never]);
    assert_eq!(hops(classify(&plan, 6, [80, 5])), [Hop::Output(0), Hop::Output(0), Hop::Drop]);
    assert_eq!(plan.leaves[usize::from(http)].functions, [4, 5]);
    assert_eq!(plan.leaves[usize::from(udp)].functions, [5]);
    // HTTP leaves out what its class fixes; both have the balancer's state at one place.
    let (level, fields, orientation) = key_of(&plan, http);
    assert_eq!(
        (fields.join(", ").as_str(), orientation),
        ("src, dst, src port", Orientation::Unidirectional)
    );
    assert_eq!(level.scratch_len, 44);
    let (level, fields, _) = key_of(&plan, udp);
    assert_eq!(fields.join(", "), "src, dst, src port, dst port");
    assert_eq!(
        (level.scratch_slots.len(), level.scratch_slots[0].offset, level.scratch_len),
        (1, 0, 4)
    );
    assert!(plan.leaves.len() <= 8, "{}", plan.leaves.len());
    let text = plan.explain(&build.chain);
    let lines: Vec<String> =
        text.lines().map(|line| line.split_whitespace().collect::<Vec<_>>().join(" ")).collect();
    for line in [
        "yes: [8] dst port == 80?",
        "0 0800 4 tcp 80 0 PFP PFP PFP * ct 0, cp 0, cd 0 http, lb",
        "6 not 0800 * * * * * * * * ct drop -",
        "'dst port' is left out: it is 80 in every class that comes here",
        "0 4 lb -",
        "4 40 http -",
        "0 5 7 or more 1 2",
    ] {
        assert!(lines.iter().any(|found| found == line), "no {line:?} in\n{text}");
    }
}

#[test]
fn impossible_demands_are_reported() {
    let mut build = small_system("flow");
    let late = build.stateful("late", "pair", 4);
    assert_eq!(
        build.errors(),
        ["'late': it wants sessions, and no FlowClassifier stands before it: put one behind the \
          input that its packets come from"]
    );
    let decap = build.function("decap", Changes::Everything);
    build.link(6, decap).link(decap, late);
    assert_eq!(
        build.errors(),
        ["'late': it wants sessions, and behind 'decap' packets are others than those that were \
          classified: put a FlowClassifier between the two"]
    );
    build.link(5, late);
    assert!(build.plan().remarks[0].contains("'late' through 'decap'"));
    build.chain.nodes[late].demand.as_mut().unwrap().size = 70_000;
    assert!(build.errors()[0].starts_with("'late': 70000 bytes of state"));
    // Packets that are not IP have no connections.
    let mut build = Build::default();
    let (entry, types) = (build.entry("fc"), build.dispatcher("ct", &["arp"]));
    let count = build.stateful("count", "connection", 4);
    build.link(entry, types).link(types, count);
    assert!(build.errors()[0].contains("none of the packets that come to it can have"));
}

/// Both directions of HTTP to a function that keeps connections, the rest of TCP to another.
fn web(session: &str) -> Build {
    let mut build = Build::default();
    let entry = build.entry("fc");
    let ports = build.dispatcher("cd", &["tcp dst port 80", "tcp src port 80", "tcp"]);
    let http = build.stateful("http", session, 40);
    let other = build.stateful("other", session, 24);
    build.link(entry, ports).link(ports, http).link(ports, http).link(ports, other);
    build
}

#[test]
fn both_directions_leave_out_the_port_that_distinguishes_them() {
    let build = web("connection");
    let plan = build.plan();
    let (to, from) = (classify(&plan, 6, [5, 80]), classify(&plan, 6, [80, 5]));
    let (level, fields, orientation) = key_of(&plan, to);
    assert_eq!(
        (fields.join(", ").as_str(), orientation),
        ("src, dst, src port", Orientation::AsIs)
    );
    let (same, fields, orientation) = key_of(&plan, from);
    assert_eq!(level, same);
    assert_eq!(
        (fields.join(", ").as_str(), orientation),
        ("dst, src, dst port", Orientation::Exchanged)
    );
    // Between two ports 80 no class implies the direction.
    let (_, fields, orientation) = key_of(&plan, classify(&plan, 6, [80, 80]));
    assert_eq!(orientation, Orientation::Compared);
    assert_eq!(fields.join(", "), "src, dst, src port, dst port");
    // No session meets both functions, so they have the same bytes.
    let (level, ..) = key_of(&plan, classify(&plan, 6, [5, 6]));
    let places: Vec<(u32, usize)> =
        level.scratch_slots.iter().map(|r| (r.offset, r.demand.size)).collect();
    assert_eq!(places, [(0, 40), (0, 24)]);
    assert!(plan.explain(build.chain()).contains("other     http") || level.scratch_len == 40);
}

#[test]
fn sessions_that_change_class_keep_their_bytes_apart() {
    // What distinguishes these classes is no part of the session.
    let mut build = Build::default();
    let (entry, tos) = (build.entry("fc"), build.dispatcher("tos", &["ip tos 8", "ip"]));
    let (a, b) = (build.stateful("a", "connection", 8), build.stateful("b", "connection", 16));
    build.link(entry, tos).link(tos, a).link(tos, b);
    let plan = build.plan();
    let places: Vec<(u32, usize)> =
        plan.levels[0].scratch_slots.iter().map(|r| (r.offset, r.demand.size)).collect();
    assert_eq!((plan.levels.len(), places), (1, vec![(0, 8), (8, 16)]));
}

#[test]
fn translation_keeps_whole_keys() {
    let mut build = web("connection");
    build.chain.nodes[2].demand.as_mut().unwrap().translates = true;
    let plan = build.plan();
    let (level, fields, orientation) = key_of(&plan, classify(&plan, 6, [5, 80]));
    assert_eq!(fields.join(", "), "src, dst, src port, dst port");
    assert_eq!((orientation, level.translates), (Orientation::Compared, true));
    // Replies come under other addresses and so, perhaps, to the other function.
    assert_eq!(level.scratch_slots[1].offset, 40);
}

/// Figure 5.9: pairs of addresses counted before connections.
#[test]
fn coarser_sessions_are_reached_by_links() {
    let mut build = Build::default();
    let (entry, ip) = (build.entry("fc"), build.dispatcher("ip", &["ip"]));
    let pairs = build.stateful("pairs", "pair", 16);
    let tcp = build.dispatcher("tcp", &["tcp dst port 80", "tcp", "-"]);
    let filter = build.stateful("filter", "connection", 32);
    let source = build.stateful("source", "source", 8);
    build.link(entry, ip).link(ip, pairs).link(pairs, tcp);
    build.link(tcp, source).link(source, filter).link(tcp, filter);
    let plan = build.plan();
    let level = |session: &str| -> u8 {
        let wanted = SessionDef::parse(session).unwrap();
        plan.levels.iter().position(|level| level.session == wanted).unwrap() as u8
    };
    let own = |leaf: u16| plan.leaves[usize::from(leaf)].keys[0].as_ref().unwrap().level;
    // One-direction sources cut connections in two: a level that reaches both is a flow.
    assert_eq!(own(classify(&plan, 6, [5, 80])), level("flow"));
    assert_eq!(own(classify(&plan, 6, [5, 81])), level("connection"));
    assert_eq!(own(classify(&plan, 17, [5, 80])), level("pair"));
    for (node, home) in [(pairs, "pair"), (filter, "connection"), (source, "source")] {
        let access = plan.nodes[node].access[usize::from(level("flow"))].unwrap();
        assert_eq!((access.level, access.offset), (level(home), 0));
        let links = &plan.levels[usize::from(level("flow"))].links;
        assert_eq!(links[usize::from(access.via.unwrap())], level(home));
    }
    assert_eq!(plan.nodes[pairs].access[usize::from(level("pair"))].unwrap().via, None);
    assert!(plan.levels.iter().all(|level| level.family == Family::V4));
}

#[test]
fn sessions_without_ip_fields_are_of_all_packets() {
    let mut build = Build::default();
    let entry = build.entry("fc");
    let vlan = build.stateful("vlan", "frame[12]/00000fff", 8);
    build.link(entry, vlan);
    let plan = build.plan();
    assert_eq!((plan.levels.len(), plan.levels[0].family), (1, Family::Other));
    assert!(plan.leaves[0].keys.iter().all(|key| key.as_ref().unwrap().level == 0));
    let two = build.stateful("two", "connection", 8);
    build.link(vlan, two);
    let plan = build.plan();
    // IPv4 and IPv6: flows with the tag, connections; and the tags of all packets.
    assert_eq!(plan.levels.len(), 5);
    let levels: Vec<Family> = plan.leaves[0]
        .keys
        .iter()
        .map(|k| plan.levels[usize::from(k.as_ref().unwrap().level)].family)
        .collect();
    assert_eq!(levels, [Family::V4, Family::V6, Family::Other]);
}

#[test]
fn changes_end_what_is_known() {
    let build = |changes: Changes| {
        let mut build = Build::default();
        let (entry, strip) = (build.entry("fc"), build.function("strip", changes));
        let (frame, ip) =
            (build.dispatcher("frame", &["12/0800"]), build.dispatcher("ip", &["tcp"]));
        let sink = build.function("sink", Changes::Nothing);
        build
            .link(entry, strip)
            .link(strip, frame)
            .link(strip, ip)
            .link(frame, sink)
            .link(ip, sink);
        let plan = build.plan();
        let leaf = usize::from(classify(&plan, 6, [5, 80]));
        [2, 3].map(|node: usize| plan.nodes[node].hops[leaf])
    };
    assert_eq!(build(Changes::Nothing), [Hop::Output(0); 2]);
    assert_eq!(build(Changes::Frame), [Hop::InPlace, Hop::Output(0)]);
    assert_eq!(build(Changes::Headers), [Hop::InPlace; 2]);
    assert_eq!(build(Changes::Everything), [Hop::InPlace; 2]);
}

#[test]
fn unwanted_and_uncounted_packets_are_dropped_early() {
    let mut build = small_system("flow");
    let early = |build: &Build, ports| {
        let plan = build.plan();
        plan.leaves[usize::from(classify(&plan, 6, ports))].early_drop
    };
    assert!(!early(&build, [5, 81]));
    build.chain.early_drop = true;
    assert!(early(&build, [5, 81]) && !early(&build, [5, 80]));
    build.chain.nodes[3].counts = true;
    assert!(!early(&build, [5, 81]));
}

#[test]
fn a_header_of_options_does_not_fix_the_protocol() {
    for (next, fixed) in [(0, false), (6, true)] {
        let mut build = Build::default();
        let next = Word::equal(Base::Network, 4, 0x0000_ff00, next << 8);
        let version = Word::equal(Base::Network, 0, 0xf000_0000, 0x6000_0000);
        let both = Expr::All(vec![Expr::Test(version), Expr::Test(next)]);
        let (entry, sort) = (build.entry("fc"), build.rules("sort", vec![Rule::new(both, 0)]));
        let count = build.stateful("count", "flow", 8);
        build.link(entry, sort).link(sort, count);
        let plan = build.plan();
        assert_eq!(plan.levels.len(), 1);
        assert_eq!(plan.levels[0].fields.contains(&KeyField::Protocol), !fixed);
    }
}
