//! Random chains: dispatchers over few fields, forks, changes, cycles.

use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::select;
use thruway_flow::ast::{Base, Expr, Rule, Word};
use thruway_flow::chain::{Chain, Changes, Demand, Node, Role};
use thruway_flow::{DROP, NoNames, SessionDef, parse_class};

fn equal(base: Base, at: u16, mask: u32, value: u32) -> Word {
    Word::equal(base, at, mask, value)
}

fn word() -> impl Strategy<Value = Word> {
    use Base::{Frame, Network, Transport};
    let within = |at, mask, lo, hi| Word { base: Transport, at, mask, lo, hi };
    select(vec![
        equal(Frame, 12, 0xffff_0000, 0x0800_0000),
        equal(Frame, 12, 0xffff_0000, 0x0806_0000),
        equal(Frame, 12, 0xffff_0000, 0x86dd_0000),
        equal(Frame, 12, 0xff00_0000, 0x0800_0000),
        equal(Frame, 12, 0xffff_0fff, 0x8100_0005),
        equal(Frame, 20, 0x0000_ffff, 1),
        equal(Network, 0, 0xf000_0000, 0x4000_0000),
        equal(Network, 0, 0xf000_0000, 0x6000_0000),
        equal(Network, 8, 0x00ff_0000, 0x0006_0000),
        equal(Network, 8, 0x00ff_0000, 0x0011_0000),
        equal(Network, 8, 0x00ff_0000, 0x0001_0000),
        equal(Network, 4, 0x0000_ff00, 0x0000_0600),
        equal(Network, 8, 0xff00_0000, 0x4000_0000),
        equal(Network, 12, u32::MAX, 0x0a00_0001),
        equal(Network, 16, u32::MAX, 0x0a00_0001),
        equal(Network, 16, 0xffff_fffe, 0x0a00_0002),
        equal(Transport, 0, 0xffff, 80),
        equal(Transport, 0, 0xffff, 81),
        equal(Transport, 0, 0xffff_0000, 80 << 16),
        equal(Transport, 0, u32::MAX, 80 << 16 | 80),
        within(0, 0xffff, 81, 65535),
        within(0, 0xffff_0000, 81 << 16, 0xffff_0000),
        within(0, 0xffff, 0, 1023),
        within(0, 0xffff, 0, 0xffff),
    ])
}

fn expr() -> impl Strategy<Value = Expr> {
    let leaf = prop_oneof![
        12 => word().prop_map(Expr::Test),
        1 => any::<bool>().prop_map(Expr::Const),
    ];
    leaf.prop_recursive(2, 6, 3, |inner| {
        prop_oneof![
            inner.clone().prop_map(|e| Expr::Not(Box::new(e))),
            vec(inner.clone(), 1..4).prop_map(Expr::All),
            vec(inner.clone(), 1..4).prop_map(Expr::Any),
            (inner.clone(), inner.clone(), inner)
                .prop_map(|(c, then, other)| Expr::Choice(vec![(c, then)], Box::new(other))),
        ]
    })
}

fn rules(outputs: u32) -> impl Strategy<Value = Vec<Rule>> {
    let output = prop_oneof![8 => 0..outputs, 1 => Just(DROP), 1 => Just(outputs)];
    let last = proptest::option::of(0..outputs);
    (vec((expr(), output), 0..5), last).prop_map(|(rules, last)| {
        let rules = rules.into_iter().map(|(expr, output)| Rule::new(expr, output));
        rules.chain(last.map(|output| Rule::new(Expr::Const(true), output))).collect()
    })
}

/// Rules as people write them, in an order that leaves something for later ones.
fn classes(outputs: usize) -> impl Strategy<Value = Vec<Rule>> {
    let class = select(
        &[
            "tcp dst port 80",
            "tcp dst port 80",
            "tcp src port 80",
            "tcp src port 80",
            "tcp dst port 81",
            "tcp dst port 80 and src port > 1023",
            "tcp src port 80 and dst port > 1023",
            "udp dst port 80",
            "udp src port 80",
            "src port 80 and dst port 80",
            "port 80",
            "transp[2:2] == 80",
            "transp[2:2] == 80",
            "tcp",
            "udp",
            "icmp",
            "tcp or udp",
            "tcp6",
            "src host 10.0.0.1",
            "dst host 10.0.0.1",
            "src net 10.0.0.2/31",
            "ip ttl 64",
            "12/0800",
            "12/8100 14/0005%0fff",
        ][..],
    );
    let class = class.prop_map(|class| parse_class(class, &NoNames).unwrap());
    // No class says that a header of options comes next.
    let next = select(&[0, 6][..])
        .prop_map(|next| Expr::Test(equal(Base::Network, 4, 0x0000_ff00, next << 8)));
    let rule = (prop_oneof![8 => class, 1 => next], 0..outputs as u32)
        .prop_map(|(class, output)| Rule::new(class, output));
    let last = proptest::option::of(0..outputs as u32);
    (vec(rule, 1..4), last).prop_map(|(mut rules, last)| {
        rules.extend(last.map(|output| Rule::new(Expr::Const(true), output)));
        rules
    })
}

fn demand() -> impl Strategy<Value = Demand> {
    let session = select(
        &[
            "connection",
            "connection",
            "flow",
            "pair",
            "source",
            "proto",
            "dst, dst port",
            "frame[12]/00000fff",
            "transp[0]/ffff0000",
            "src, dst, src port, dst port, both ways",
        ][..],
    );
    (session, 0..40_usize, 0..4_u32, 0..3_usize).prop_map(|(session, size, align, words)| Demand {
        shared_words: words,
        ..Demand::of(SessionDef::parse(session).unwrap(), size, 1 << align)
    })
}

fn changes() -> impl Strategy<Value = Changes> {
    use Changes::{Everything, Frame, Headers, Nothing};
    select(&[Nothing, Nothing, Nothing, Nothing, Nothing, Frame, Frame, Headers, Everything][..])
}

/// A node with outputs to any of `nodes`, few of which need sessions.
fn node(nodes: usize, entry: bool) -> impl Strategy<Value = Node> {
    let output = proptest::option::weighted(0.85, (0..nodes, 0..2_usize));
    let outputs = vec(output, 0..4);
    let role = outputs.prop_flat_map(|outputs| {
        let rules = rules(outputs.len().max(1) as u32);
        let role = prop_oneof![
            4 => rules.prop_map(Role::Dispatcher),
            4 => Just(Role::Function),
            1 => Just(Role::Entry),
        ];
        (Just(outputs), role)
    });
    let demand = proptest::option::weighted(0.3, demand());
    (role, changes(), demand, proptest::bool::weighted(0.2), 0..4_u8).prop_map(
        move |((outputs, role), changes, demand, counts, fork)| {
            let role = if entry { Role::Entry } else { role };
            let all: Vec<usize> = (0..outputs.len()).collect();
            let forks = fork > 0 || !matches!(role, Role::Function);
            let first = if forks { all.clone() } else { all.iter().copied().take(1).collect() };
            let demand = demand.filter(|_| role != Role::Entry);
            let passes = vec![first, all];
            Node { name: String::new(), role, outputs, passes, changes, demand, counts }
        },
    )
}

fn chain_of(nodes: Vec<Node>, early_drop: bool, plain: bool) -> Chain {
    let mut chain = Chain { nodes, early_drop };
    for (at, node) in chain.nodes.iter_mut().enumerate() {
        node.name = format!("n{at}");
        if plain {
            node.changes = Changes::Nothing;
        }
    }
    chain
}

pub fn any_chain() -> impl Strategy<Value = Chain> {
    (2..9_usize).prop_flat_map(|count| {
        let rest = vec(node(count, false), count - 1);
        (node(count, true), rest, any::<bool>(), any::<bool>()).prop_map(
            |(first, rest, early_drop, plain)| {
                chain_of([vec![first], rest].concat(), early_drop, plain)
            },
        )
    })
}

/// Two classes that are each other's replies, and others beside, each to a function of its own or
/// to one of the others'; all want sessions of few definitions.
pub fn web_chain() -> impl Strategy<Value = Chain> {
    let session = select(&["connection", "connection", "connection", "pair", "flow"][..]);
    let function = (session, 1..24_usize, proptest::option::weighted(0.3, 0..6_usize));
    let classes = proptest::sample::subsequence(
        vec![
            "tcp dst port 80 and src port > 1023",
            "tcp src port 80 and dst port > 1023",
            "tcp dst port 80",
            "tcp src port 80",
            "udp",
            "tcp6",
            "tcp",
        ],
        2..6,
    );
    (classes, vec(function, 6), vec(0..6_usize, 6)).prop_map(|(classes, functions, outputs)| {
        let to = |node: usize| Some((node, 0));
        let mut nodes = vec![plain(Role::Entry, vec![to(1)])];
        let rules = classes
            .iter()
            .enumerate()
            .map(|(output, class)| Rule::new(parse_class(class, &NoNames).unwrap(), output as u32));
        let outputs = outputs.iter().map(|output| to(2 + output)).take(classes.len()).collect();
        nodes.push(plain(Role::Dispatcher(rules.collect()), outputs));
        for (at, (session, size, next)) in functions.into_iter().enumerate() {
            let next = next.filter(|next| *next > at).map(|next| to(2 + next));
            let mut node = plain(Role::Function, next.into_iter().collect());
            node.demand = Some(Demand {
                shared_words: 1,
                ..Demand::of(SessionDef::parse(session).unwrap(), size, 4)
            });
            nodes.push(node);
        }
        chain_of(nodes, false, true)
    })
}

/// A node with one input that leads to all its outputs.
fn plain(role: Role, outputs: Vec<Option<(usize, usize)>>) -> Node {
    Node {
        name: String::new(),
        role,
        passes: vec![(0..outputs.len()).collect()],
        outputs,
        changes: Changes::Nothing,
        demand: None,
        counts: false,
    }
}

/// Chains in which many want sessions: an entry (or two), dispatchers, functions behind.
pub fn session_chain() -> impl Strategy<Value = Chain> {
    let dispatcher = |ends: usize| {
        let outputs = vec(3..ends, 2..4);
        outputs.prop_flat_map(|outputs| {
            let odd = rules(outputs.len() as u32).boxed();
            (prop_oneof![4 => classes(outputs.len()).boxed(), 1 => odd], Just(outputs))
        })
    };
    let function = (demand(), proptest::option::of(0..8_usize), changes());
    (vec(function, 1..6), any::<bool>()).prop_flat_map(move |(functions, second)| {
        let ends = 3 + functions.len();
        (dispatcher(ends), dispatcher(ends), Just(functions), Just(second)).prop_map(
            |(first, other, functions, second)| {
                let to = |outputs: Vec<usize>| -> Vec<Option<(usize, usize)>> {
                    outputs.into_iter().map(|to| Some((to, 0))).collect()
                };
                let mut nodes = vec![plain(Role::Entry, to(vec![1]))];
                nodes.push(plain(Role::Dispatcher(first.0), to(first.1)));
                nodes.push(plain(Role::Dispatcher(other.0), to(other.1)));
                let last = functions.len();
                for (at, (demand, next, changes)) in functions.into_iter().enumerate() {
                    // Onwards, or through the other dispatcher, which may lead round.
                    let next = match next {
                        Some(0) if at < last / 2 => vec![2],
                        Some(next) if at + next > at && at + next < last => vec![3 + at + next],
                        _ => Vec::new(),
                    };
                    let mut node = plain(Role::Function, to(next));
                    node.demand = Some(demand);
                    node.changes = changes.min(Changes::Headers);
                    nodes.push(node);
                }
                if second {
                    nodes.push(plain(Role::Entry, to(vec![2])));
                }
                chain_of(nodes, false, false)
            },
        )
    })
}
