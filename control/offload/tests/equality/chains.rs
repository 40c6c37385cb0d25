//! Chains of dispatchers with rules of all kinds.

use proptest::prelude::*;
use thruway_flow::chain::{Chain, Changes, Demand, Node, Role};
use thruway_flow::{DROP, Expr, NoNames, Rule, SessionDef, parse_class};

/// Conditions of the language of IPClassifier.
fn condition() -> BoxedStrategy<String> {
    let port = || prop::sample::select(&["53", "80", "443", "50-100", "!= 80", "> 443"][..]);
    let flag = prop::sample::select(&["syn", "ack", "rst"][..]);
    let net = |side: &'static str| {
        (0u8..4, prop::sample::select(&[8, 16, 24, 32][..]))
            .prop_map(move |(net, len)| format!("{side} net 10.{net}.0.0/{len}"))
    };
    let leaf = prop_oneof![
        Just("tcp".to_owned()),
        Just("udp".to_owned()),
        Just("icmp".to_owned()),
        port().prop_map(|port| format!("tcp dst port {port}")),
        port().prop_map(|port| format!("udp src port {port}")),
        port().prop_map(|port| format!("port {port}")),
        net("src"),
        net("dst"),
        flag.prop_map(|flag| format!("tcp opt {flag}")),
        (0u8..13).prop_map(|kind| format!("icmp type {kind}")),
        (0u8..4).prop_map(|ttl| format!("ip ttl <= {ttl}")),
        Just("ip dscp 46".to_owned()),
        Just("ip tos 0xb8".to_owned()),
        Just("ip frag".to_owned()),
        Just("ip unfrag".to_owned()),
        Just("ip id 1".to_owned()),
        Just("src or dst host 10.1.0.1".to_owned()),
        Just("ether host 02:00:00:00:00:01".to_owned()),
    ];
    leaf.prop_recursive(2, 6, 3, |inner| {
        prop_oneof![
            inner.clone().prop_map(|one| format!("not ({one})")),
            (inner.clone(), inner.clone()).prop_map(|(a, b)| format!("({a}) and ({b})")),
            (inner.clone(), inner.clone()).prop_map(|(a, b)| format!("({a}) or ({b})")),
            (inner.clone(), inner.clone(), inner)
                .prop_map(|(a, b, c)| format!("(({a}) ? ({b}) : ({c}))")),
        ]
    })
    .boxed()
}

/// Classes of all languages.
fn class() -> BoxedStrategy<String> {
    let named = &[
        "-",
        "arp",
        "arp request",
        "ip",
        "ip6",
        "tcp6",
        "udp6",
        "icmp6",
        "http",
        "12/0800 23/06",
        "12/86dd 20/3a",
        "!12/0800",
        "0/020000000001",
        "12/0800 30/0a000000%ffff0000",
        "20/0001",
        "12/08%ff",
        "38/20010db8",
        "12/86dd 20/00",
        "12/0800 36/0050",
        "tcp or tcp6",
        "14/45",
    ][..];
    prop_oneof![3 => condition(), 2 => prop::sample::select(named).prop_map(str::to_owned)].boxed()
}

fn rules() -> impl Strategy<Value = Vec<String>> {
    prop::collection::vec(class(), 1..6)
}

/// What a chain is made of.
#[derive(Clone, Debug)]
pub struct Plan {
    /// By dispatcher: its rules; the outputs of the first lead to the others, in turn.
    pub dispatchers: Vec<Vec<String>>,
    /// Whether a function wants sessions.
    pub stateful: bool,
    /// Whether many needless rules are added, so that the list is run as a whole.
    pub long: bool,
}

prop_compose! {
    pub fn plan()(
        dispatchers in prop::collection::vec(rules(), 1..4),
        stateful in any::<bool>(),
        long in prop::bool::weighted(0.2),
    ) -> Plan {
        Plan { dispatchers, stateful, long }
    }
}

/// Tests that no packet of [`super::frames`] passes.
const FILLING: usize = 300;

fn parsed(classes: &[String], long: bool) -> Vec<Rule> {
    let of = |(output, class): (usize, &String)| {
        // An even number of rules ends in one that drops.
        let output = if output % 4 == 3 { DROP } else { output as u32 };
        Rule::new(parse_class(class, &NoNames).unwrap_or(Expr::Const(false)), output)
    };
    let mut rules: Vec<Rule> = classes.iter().enumerate().map(of).collect();
    if long {
        let filling = (0..FILLING).map(|at| {
            let class = format!("udp and src host 192.0.{}.{}", at / 200, at % 200);
            Rule::new(parse_class(&class, &NoNames).unwrap(), 0)
        });
        rules.splice(0..0, filling);
    }
    rules
}

fn node(name: &str, role: Role) -> Node {
    Node {
        name: name.to_owned(),
        role,
        outputs: Vec::new(),
        passes: vec![Vec::new()],
        changes: Changes::Nothing,
        demand: None,
        counts: false,
    }
}

impl Plan {
    /// An entry, the dispatchers, a function at the end of each of their outputs.
    pub fn chain(&self) -> Chain {
        let mut nodes = vec![node("fc", Role::Entry)];
        for (at, classes) in self.dispatchers.iter().enumerate() {
            let rules = parsed(classes, self.long && at == 0);
            nodes.push(node(&format!("d{at}"), Role::Dispatcher(rules)));
        }
        let count = self.dispatchers.len();
        let mut end = node("end", Role::Function);
        if self.stateful {
            end.demand = Some(Demand::of(SessionDef::parse("connection").unwrap(), 8, 8));
        }
        end.counts = true;
        nodes.push(end);
        let mut link = |from: usize, to: usize| {
            let outputs = nodes[from].outputs.len();
            nodes[from].passes[0].push(outputs);
            nodes[from].outputs.push(Some((to, 0)));
        };
        link(0, 1);
        for (at, classes) in self.dispatchers.iter().enumerate() {
            for output in 0..classes.len() {
                let next = if at == 0 { 2 + output % count } else { count + 1 };
                link(1 + at, next.min(count + 1));
            }
        }
        Chain { nodes, early_drop: true }
    }
}
