//! Compiled programs against the naive evaluation, on random rules and packets; and rubbish.

use proptest::prelude::*;
use proptest::sample::select;
use thruway_flow::rules::DEPTH_MAX;
use thruway_flow::{
    IpProgram, Key, NO_MATCH, NoNames, PacketView, PatternProgram, evaluate_naive,
    parse_classifier_rules, parse_expression, parse_filter_rules, parse_pattern,
};

fn pick(list: &'static [&'static str]) -> impl Strategy<Value = String> {
    select(list).prop_map(str::to_owned)
}

const DIRECTIONS: &[&str] = &["", "src", "dst", "src or dst", "src and dst"];
const OPERATORS: &[&str] = &["", "==", "!=", "<", ">", "<=", ">="];
const PORTS: &[&str] = &["0", "1", "80", "www", "1023", "32768", "65534"];
const FIELDS: &[(&str, u32)] = &[
    ("ip vers", 15),
    ("ip hl", 15),
    ("ip len", 65535),
    ("ip id", 65535),
    ("ip tos", 255),
    ("ip dscp", 63),
    ("ip ttl", 255),
    ("ip proto", 255),
    ("tcp win", 65535),
    ("icmp type", 255),
    ("ip[9]", 255),
    ("ip[6:2]", 65535),
    ("ip[12:4]", u32::MAX),
    ("ip[20:4]", u32::MAX),
    ("transp[0:2]", 65535),
    ("transp[1]", 255),
    ("tcp[12:4]", u32::MAX),
    ("udp[0,3]", u32::MAX),
];

/// A test of a field, with or without mask, and a value that occurs.
fn field_test() -> impl Strategy<Value = String> {
    let values = (any::<u32>(), 0..4_u32);
    (select(FIELDS), any::<u32>(), any::<bool>(), select(OPERATORS), values).prop_map(
        |((name, max), mask, masked, op, (value, small))| {
            let mask = if mask & max == 0 || !masked { max } else { mask & max };
            let value = if small > 0 { small * (max / 8 + 1) / 2 } else { value & max };
            format!("{name} & {mask} {op} {value}")
        },
    )
}

fn plain_test() -> impl Strategy<Value = String> {
    const FIXED: &[&str] = &[
        "true",
        "false",
        "tcp",
        "udp",
        "icmp",
        "tcpudp",
        "ip frag",
        "unfrag",
        "ip ect",
        "ip ce",
        "syn",
        "fin ack",
        "tcp opt rst",
        "icmp type echo",
        "src port 80 or 81",
        "port 80-1023",
        "src port != 1-9",
        "proto 17 or 6",
        "dst tcp port 80 or > 1023",
        "!tcp",
    ];
    const PROTOS: &[&str] = &["", "tcp", "udp"];
    const NETS: &[&str] =
        &["10.0.0.0/8", "10.0.0.0/31", "10.0.0.1/32", "0.0.0.0/0", "10.0.0.0 mask 255.0.0.1"];
    let port = (pick(DIRECTIONS), pick(PROTOS), pick(OPERATORS), pick(PORTS))
        .prop_map(|(d, p, o, v)| format!("{d} {p} port {o} {v}"));
    let net = (pick(DIRECTIONS), pick(&["", "!="]), pick(NETS))
        .prop_map(|(d, o, n)| format!("{d} net {o} {n}"));
    let host = (pick(DIRECTIONS), 0..4_u8).prop_map(|(d, h)| format!("{d} host 10.0.0.{h}"));
    prop_oneof![2 => pick(FIXED), 3 => port, 3 => net, 1 => host, 2 => field_test()]
}

fn expression() -> impl Strategy<Value = String> {
    plain_test().prop_recursive(4, 24, 3, |inner| {
        let two = (inner.clone(), inner.clone());
        prop_oneof![
            (two.clone(), pick(&["and", "&&", "", "or", "||"]))
                .prop_map(|((a, b), op)| format!("({a}) {op} ({b})")),
            inner.clone().prop_map(|a| format!("not ({a})")),
            (inner.clone(), two).prop_map(|(c, (a, b))| format!("(({c}) ? {a} : {b})")),
        ]
    })
}

/// The form that the fast path is made for.
fn five_tuple_rule() -> impl Strategy<Value = String> {
    let net = || (0..4_u32, 0..=32_u32).prop_map(|(h, len)| format!("10.0.0.{h}/{len}"));
    let tail = prop_oneof![
        pick(PORTS),
        (0..100_u16, 0..100_u16).prop_map(|(a, n)| format!("{a}-{}", a + n))
    ];
    (net(), net(), pick(&["tcp", "udp"]), tail)
        .prop_map(|(s, d, p, port)| format!("src net {s} and dst net {d} and {p} dst port {port}"))
}

/// A packet near the values that the rules name; sometimes short.
fn packet() -> impl Strategy<Value = Vec<u8>> {
    let header = (select(&[0x45_u8, 0x45, 0x46, 0x40, 0x4f, 0x65]), select(&[6_u8, 17, 1, 50]));
    let flags = select(&[0_u16, 0, 0, 0x2000, 0x4000, 0x2001, 5]);
    let hosts = (0..4_u8, 0..4_u8, select(&[10_u8, 10, 11]));
    let port = || select(&[0_u16, 1, 80, 81, 1023, 1024, 32768, 65534, 65535]);
    let noise = prop::collection::vec(any::<u8>(), 64);
    let len = prop_oneof![3 => Just(64_usize), 1 => 0..64_usize, 1 => 20..26_usize];
    (header, flags, hosts, (port(), port()), noise, len).prop_map(
        |((first, proto), flags, (src, dst, net), (sport, dport), mut b, len)| {
            b[0] = first;
            b[6..8].copy_from_slice(&flags.to_be_bytes());
            b[9] = proto;
            b[12..16].copy_from_slice(&[10, 0, 0, src]);
            b[16..20].copy_from_slice(&[net, 0, 0, dst]);
            let at = usize::from(first & 15) * 4;
            if let Some(ports) = b.get_mut(at..at + 4).filter(|_| at >= 20) {
                ports[..2].copy_from_slice(&sport.to_be_bytes());
                ports[2..].copy_from_slice(&dport.to_be_bytes());
            }
            b.truncate(len);
            b
        },
    )
}

/// A line of a program in Click's notation: offset, value, mask, and where "yes" and "no" lead.
type Line = (usize, u32, u32, Step, Step);

/// Another line, or an output; none for `[X]`.
#[derive(Clone, Copy)]
enum Step {
    Line(usize),
    End(Option<u32>),
}

fn step(text: &str) -> Step {
    match text.strip_prefix("step ") {
        Some(line) => Step::Line(line.parse().expect("a number")),
        None => Step::End(text.trim_matches(['[', ']']).parse().ok()),
    }
}

/// Reads what the handler `program` prints; where it begins.
fn printed(text: &str) -> (Vec<Line>, Step) {
    if let Some(all) = text.strip_prefix("all->") {
        return (Vec::new(), step(all.lines().next().expect("an output")));
    }
    let lines = text.lines().take_while(|line| !line.starts_with("safe length"));
    let lines = lines.enumerate().map(|(number, line)| {
        let (test, leads) = line.split_once("  yes->").expect("an answer");
        let (yes, no) = leads.split_once("  no->").expect("another");
        let (at, test) = test.split_once('/').expect("an offset");
        let (value, mask) = test.split_once('%').expect("a mask");
        let mut at = at.split_whitespace();
        assert_eq!(at.next().map(str::parse), Some(Ok(number)));
        let hex = |digits| u32::from_str_radix(digits, 16).expect("hexadecimal");
        let at = at.next().expect("an offset").parse().expect("a number");
        (at, hex(value), hex(mask), step(yes), step(no))
    });
    (lines.collect(), Step::Line(0))
}

/// Runs a printed program as Click does: bytes that a test needs and that are not there are "no".
fn run_printed((lines, begin): &(Vec<Line>, Step), view: &PacketView<'_>) -> Option<u32> {
    let mut at = *begin;
    loop {
        let (offset, value, mask, yes, no) = match at {
            Step::End(output) => return output,
            Step::Line(line) => lines[line],
        };
        let bytes = [view.frame, view.network, view.transport][offset / 256];
        let rest = bytes.get(offset % 256..).unwrap_or(&[]);
        let byte = |i: usize| rest.get(i).copied().unwrap_or(0);
        let word = u32::from_be_bytes([byte(0), byte(1), byte(2), byte(3)]);
        let missing = (0..4).any(|i| rest.len() <= i && mask.to_be_bytes()[i] != 0);
        at = if !missing && word & mask == value { yes } else { no };
    }
}

fn agrees(texts: &[String], packets: &[Vec<u8>]) -> Result<(), TestCaseError> {
    let rules = match parse_classifier_rules(texts, &NoNames) {
        Ok(rules) => rules,
        Err(e) => return Err(TestCaseError::fail(format!("{e:?} in {texts:?}"))),
    };
    let program = IpProgram::compile(&rules).expect("compiles");
    let keys: Vec<Key> = packets.iter().map(|p| Key::from_ip(p)).collect();
    let mut verdicts = vec![0; packets.len()];
    let click = printed(&program.to_string());
    program.classify_batch(&keys, |i| PacketView::from_ip(&packets[i]), &mut verdicts);
    for (p, verdict) in packets.iter().zip(verdicts) {
        let view = PacketView::from_ip(p);
        let naive = evaluate_naive(&rules, &view);
        prop_assert_eq!(program.classify(&view), naive, "{:?} on {:02x?}", texts, p);
        prop_assert_eq!(verdict, naive);
        let output = Some(naive).filter(|output| *output != NO_MATCH);
        prop_assert_eq!(run_printed(&click, &view), output, "{:?} on {:02x?}", texts, p);
    }
    Ok(())
}

fn clause() -> impl Strategy<Value = String> {
    let value = prop::collection::vec(select(&["00", "01", "0?", "?1", "??"]), 1..7);
    (any::<bool>(), 0..12_u8, value, any::<bool>()).prop_map(|(not, at, value, masked)| {
        let mask = if masked { format!("%{}", "0f".repeat(value.len())) } else { String::new() };
        format!("{}{at}/{}{mask}", if not { "!" } else { "" }, value.concat())
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(192))]

    #[test]
    fn expressions(
        texts in prop::collection::vec(expression(), 1..8),
        packets in prop::collection::vec(packet(), 32),
    ) {
        agrees(&texts, &packets)?;
    }

    #[test]
    fn many_rules(
        texts in prop::collection::vec(
            prop_oneof![8 => five_tuple_rule(), 1 => plain_test()], 1..150),
        packets in prop::collection::vec(packet(), 64),
    ) {
        agrees(&texts, &packets)?;
    }

    #[test]
    fn patterns(
        texts in prop::collection::vec(
            prop::collection::vec(clause(), 1..4).prop_map(|c| c.join(" ")), 1..8),
        frames in prop::collection::vec(
            prop::collection::vec(select(&[0_u8, 0, 1, 0x10, 0x11]), 0..20), 64),
    ) {
        let rules = PatternProgram::parse(&texts).expect("parses");
        let program = PatternProgram::compile(&rules).expect("compiles");
        for f in &frames {
            let naive = evaluate_naive(&rules, &PacketView::from_frame(f));
            prop_assert_eq!(program.classify(f), naive, "{:?} on {:02x?}", texts, f);
        }
    }

    #[test]
    fn rubbish_is_refused_not_fatal(
        text in "\\PC{0,60}",
        (valid, at, insert) in (expression(), any::<u16>(), "[a-z0-9()!?:&|<>=./ -]{0,3}"),
        bytes in prop::collection::vec(any::<u8>(), 0..80),
    ) {
        let at = usize::from(at) % (valid.len() + 1);
        let cut = valid[at..].char_indices().nth(2).map_or(valid.len(), |(i, _)| at + i);
        let mutated = format!("{}{insert}{}", &valid[..at], &valid[cut..]);
        for text in [&text, &mutated] {
            let _ = parse_pattern(text);
            let _ = parse_filter_rules(&[text], 3, &NoNames);
            match parse_expression(text, &NoNames) {
                Ok(_) => agrees(std::slice::from_ref(text), std::slice::from_ref(&bytes))?,
                Err(e) => prop_assert!(text.get(e.span.clone()).is_some(), "{e} in {text:?}"),
            }
        }
    }
}

#[test]
fn nesting_is_bounded() {
    let nested = |n: usize| format!("{}tcp{}", "(".repeat(n), ")".repeat(n));
    assert!(parse_expression(&nested(DEPTH_MAX - 1), &NoNames).is_ok());
    assert!(parse_expression(&nested(DEPTH_MAX), &NoNames).is_err());
    assert!(parse_expression(&nested(30_000), &NoNames).is_err());
    assert!(parse_expression(&"tcp?".repeat(16_000), &NoNames).is_err());
    assert!(parse_expression(&format!("{}tcp", "not ".repeat(16_000)), &NoNames).is_ok());
    let chain = format!("{}udp", "tcp ? udp : ".repeat(5_000));
    agrees(&[chain], &[vec![0x45; 40]]).unwrap();
    let deep = "(tcp ? ".repeat(20) + "udp" + &" : icmp)".repeat(20);
    agrees(&[deep.replace("tcp", "(tcp ? udp : icmp)")], &[vec![0x45; 40]]).unwrap();
}

#[test]
fn more_protocols_than_classes_stay_exact() {
    let texts: Vec<String> = (0..200).map(|p| format!("ip proto {p} and not frag")).collect();
    let packets: Vec<Vec<u8>> = (0..=255)
        .map(|proto| {
            let mut p = vec![0; 20];
            (p[0], p[9]) = (0x45, proto);
            p
        })
        .collect();
    agrees(&texts, &packets).unwrap();
}

#[test]
fn ten_thousand_rules_stay_bounded() {
    let texts: Vec<String> = (0..10_000_u32)
        .map(|i| {
            let (a, b) = (i.wrapping_mul(2_654_435_761), i.wrapping_mul(40_503) % 60_000);
            let [w, x, y, z] = a.to_be_bytes();
            match i % 4 {
                0 => format!("src net {w}.{x}.{y}.{z}/{} and port {b}", i % 33),
                1 => format!("host {w}.{x}.{y}.{z} and not port {b}-{}", b + 500),
                2 => format!("ip ttl {} and dst net {w}.{x}.0.0/16", i % 256),
                _ => format!("not (src net {w}.0.0.0/8 or dst port {b} or ip id {b})"),
            }
        })
        .collect();
    let rules = parse_classifier_rules(&texts, &NoNames).unwrap();
    let program = IpProgram::compile(&rules).unwrap();
    assert!(program.memory_bytes() < 40_000_000, "{} bytes", program.memory_bytes());
    for i in 0..200_u32 {
        let mut p = vec![0x45; 60];
        p[9] = [6, 17][i as usize % 2];
        p[12..16].copy_from_slice(&(i * 4).wrapping_mul(2_654_435_761).to_be_bytes());
        let view = PacketView::from_ip(&p);
        assert_eq!(program.classify(&view), evaluate_naive(&rules, &view));
    }
}

/// Nothing to cut: every rule overlaps every other in every field.
#[test]
fn overlapping_rules_stay_exact_and_bounded() {
    let texts: Vec<String> = (0..3_000_u32)
        .map(|i| {
            let (a, b) = (i % 1_000, 60_000 + i);
            format!("src port {a}-{b} and dst port {}-65535 and ip[12:4] > {i}", i % 2_000)
        })
        .collect();
    let rules = parse_classifier_rules(&texts, &NoNames).unwrap();
    let program = IpProgram::compile(&rules).unwrap();
    assert!(program.memory_bytes() < 10_000_000, "{} bytes", program.memory_bytes());
    let packets: Vec<Vec<u8>> = (0..100_u16)
        .map(|i| {
            let mut p = vec![0x45; 40];
            (p[6], p[7], p[9]) = (0, 0, 6);
            p[20..22].copy_from_slice(&(i * 620).to_be_bytes());
            p[22..24].copy_from_slice(&(i * 17).to_be_bytes());
            p[12..16].copy_from_slice(&(u32::from(i) * 31).to_be_bytes());
            p
        })
        .collect();
    agrees(&texts, &packets).unwrap();
}
