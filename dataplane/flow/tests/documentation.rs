//! What Click's documentation of Classifier, IPClassifier and IPFilter says, case by case.

use thruway_flow::{
    DROP, IpProgram, NO_MATCH, Names, NoNames, PacketView, PatternProgram, evaluate_naive,
    parse_classifier_rules, parse_expression, parse_filter_rules,
};

/// A packet to vary.
#[derive(Clone, Copy)]
struct Packet {
    proto: u8,
    src: [u8; 4],
    dst: [u8; 4],
    tos: u8,
    ttl: u8,
    /// Flags and fragment offset.
    frag: u16,
    /// The transport header's first bytes.
    transport: [u8; 20],
    options: usize,
}

fn packet(proto: u8) -> Packet {
    let (src, dst) = ([10, 0, 0, 1], [10, 0, 0, 2]);
    Packet { proto, src, dst, tos: 0, ttl: 64, frag: 0, transport: [0; 20], options: 0 }
}

fn ports(proto: u8, sport: u16, dport: u16) -> Packet {
    let mut p = packet(proto);
    p.transport[..2].copy_from_slice(&sport.to_be_bytes());
    p.transport[2..4].copy_from_slice(&dport.to_be_bytes());
    p
}

fn tcp_flags(flags: u8) -> Packet {
    let mut p = packet(6);
    p.transport[13] = flags;
    p
}

fn icmp(kind: u8) -> Packet {
    let mut p = packet(1);
    p.transport[0] = kind;
    p
}

fn bytes(p: &Packet) -> Vec<u8> {
    let mut b = vec![0; 20 + 4 * p.options];
    b[0] = 0x45 + p.options as u8;
    b[1] = p.tos;
    b[4..6].copy_from_slice(&77_u16.to_be_bytes());
    b[6..8].copy_from_slice(&p.frag.to_be_bytes());
    b[8] = p.ttl;
    b[9] = p.proto;
    b[12..16].copy_from_slice(&p.src);
    b[16..20].copy_from_slice(&p.dst);
    b.extend_from_slice(&p.transport);
    b
}

/// The verdict of IPClassifier, compiled and naive.
fn classify(patterns: &[&str], packet: &[u8]) -> u32 {
    let rules = parse_classifier_rules(patterns, &NoNames).unwrap();
    let view = PacketView::from_ip(packet);
    let verdict = IpProgram::compile(&rules).unwrap().classify(&view);
    assert_eq!(verdict, evaluate_naive(&rules, &view), "{patterns:?}");
    verdict
}

fn matches(pattern: &str, p: Packet) -> bool {
    classify(&[pattern], &bytes(&p)) == 0
}

#[track_caller]
fn yes(pattern: &str, p: Packet) {
    assert!(matches(pattern, p), "'{pattern}' should match");
    assert!(!matches(&format!("not ({pattern})"), p), "its negation should not");
}

#[track_caller]
fn no(pattern: &str, p: Packet) {
    assert!(!matches(pattern, p), "'{pattern}' should not match");
    assert!(matches(&format!("!({pattern})"), p), "its negation should");
}

#[test]
fn hosts_and_networks() {
    let p = packet(17);
    for pattern in [
        "src host 10.0.0.1",
        "src 10.0.0.1",
        "host 10.0.0.2",
        "ip host 10.0.0.1",
        "src or dst host 10.0.0.2",
        "src and dst net 10.0.0.0/24",
        "net 10.0.0.0 mask 255.255.255.0",
        "10.0.0.0/24",
        "dst net 10/8",
        "src net 10.0.0.0/255.0.0.0",
        "src host != 10.0.0.10",
        "src host & 255.255.255.0 == 10.0.0.77",
        "dst 11.0.0.1 or 10.0.0.2",
    ] {
        yes(pattern, p);
    }
    for pattern in [
        "dst host 10.0.0.1",
        "src and dst host 10.0.0.1",
        "host != 10.0.0.1",
        "src 10.0.0.2 or 10.0.0.3",
        "10.0.1.0/24",
    ] {
        no(pattern, p);
    }
}

#[test]
fn ports_imply_tcp_or_udp_and_a_first_fragment() {
    for proto in [6, 17] {
        yes("src port 80", ports(proto, 80, 9));
        yes("port 9", ports(proto, 80, 9));
        yes("www", ports(proto, 80, 9));
        yes("src port > 79 and src port < 81", ports(proto, 80, 9));
        yes("src port 80-90", ports(proto, 80, 9));
        no("src port != 80-90", ports(proto, 80, 9));
        no("dst port www", ports(proto, 80, 9));
        no("src and dst port 80", ports(proto, 80, 9));
    }
    no("src port 80", ports(1, 80, 9));
    yes("src tcp port != 5", ports(6, 80, 9));
    no("src tcp port != 5", ports(17, 80, 9));
    yes("!(src tcp port == 5)", ports(17, 80, 9));
    yes("src tcp port & 10 == 8", ports(6, 8 + 64, 9));
    no("src tcp port & 10 == 8", ports(6, 10, 9));
    yes("src port 80 or 81", ports(6, 81, 9));
    no("src port 80 or 81", ports(6, 9, 81));
    let later = Packet { frag: 5, ..ports(6, 80, 9) };
    no("src port 80", later);
    no("src port != 81", later);
    yes("not src port 80", later);
    yes("src port 80", Packet { frag: 0x2000, ..ports(6, 80, 9) });
    yes("src port 80", Packet { options: 3, ..ports(6, 80, 9) });
}

#[test]
fn comparisons_of_either_port_are_negated_as_a_whole() {
    yes("port > 1023", ports(6, 80, 2000));
    no("port <= 1023", ports(6, 80, 2000));
    no("port < 1024", ports(6, 80, 2000));
    yes("port < 1024", ports(6, 80, 1023));
    yes("port >= 1024", ports(6, 1024, 80));
}

#[test]
fn protocols() {
    yes("tcp", packet(6));
    yes("ip proto tcp", packet(6));
    yes("ip proto 6 or 17", packet(17));
    no("ip proto != 6", packet(6));
    yes("proto > 5", packet(6));
    yes("tcpudp", packet(17));
    no("icmp", packet(17));
    yes("udp dst port 53", ports(17, 1, 53));
    no("udp dst port 53", ports(6, 1, 53));
}

#[test]
fn flags_types_and_header_fields() {
    yes("syn", tcp_flags(2));
    yes("tcp opt syn", tcp_flags(18));
    yes("syn ack", tcp_flags(18));
    no("fin ack", tcp_flags(16));
    no("syn", Packet { frag: 1, ..tcp_flags(2) });
    yes("icmp type echo", icmp(8));
    yes("icmp echo-reply", icmp(0));
    yes("icmp type != 4", icmp(8));
    no("icmp type != 4", packet(6));
    yes("ip vers 4", packet(6));
    yes("ip hl 5", packet(6));
    yes("ip hl > 5", Packet { options: 1, ..packet(6) });
    yes("ip id 77", packet(6));
    yes("ip tos 0x48 and ip dscp 18", Packet { tos: 0x48, ..packet(6) });
    yes("ip ect", Packet { tos: 1, ..packet(6) });
    no("ip ect", packet(6));
    yes("ip ce", Packet { tos: 3, ..packet(6) });
    no("ip ce", Packet { tos: 2, ..packet(6) });
    yes("ip ttl <= 64", packet(6));
    yes("ip frag", Packet { frag: 0x2000, ..packet(6) });
    yes("ip frag", Packet { frag: 9, ..packet(6) });
    yes("unfrag", Packet { frag: 0x4000, ..packet(6) });
    let mut window = packet(6);
    window.transport[14..16].copy_from_slice(&500_u16.to_be_bytes());
    yes("tcp win 500", window);
    no("tcp win < 500", window);
}

#[test]
fn bytes_of_headers() {
    yes("ip[9] 17", packet(17));
    yes("ip[8:2] 0x4011", packet(17));
    yes("ip[6:2] & 0x3fff == 0", packet(17));
    yes("transp[0:2] 80", ports(132, 80, 0));
    yes("tcp[2:2] > 1023", ports(6, 0, 1024));
    no("tcp[2:2] > 1023", ports(17, 0, 1024));
    yes("udp[0,1] 80", ports(17, 80, 0));
}

#[test]
fn connectives() {
    let p = ports(6, 1000, 80);
    yes("true", p);
    no("false", p);
    yes("tcp ? dst port 80 : dst port 53", p);
    no("udp ? dst port 80 : udp ? true : false", p);
    yes("tcp && (dst port www || dst port ssh)", p);
    yes("not udp and not icmp", p);
    yes("not not tcp", p);
    for all in ["-", "any", "all"] {
        assert!(matches(all, p));
    }
}

/// What a configuration might name.
struct Named;

impl Names for Named {
    fn address(&self, name: &str) -> Option<u32> {
        (name == "BASTION").then_some(0x0a00_0001)
    }
    fn prefix(&self, name: &str) -> Option<(u32, u32)> {
        (name == "INSIDE").then_some((0x0a00_0000, 0xffff_ff00))
    }
    fn port(&self, name: &str) -> Option<u16> {
        (name == "game").then_some(4000)
    }
}

#[test]
fn names_of_the_configuration_and_ethernet_addresses() {
    let texts = [
        "src BASTION and dst net INSIDE and udp dst port game",
        "src ether host 00:01:02:03:04:05",
        "ether host 06-07-08-09-0a-0b and not src INSIDE",
    ];
    let rules = parse_classifier_rules(&texts, &Named).unwrap();
    let program = IpProgram::compile(&rules).unwrap();
    let mut ip = bytes(&ports(17, 1, 4000));
    let verdict = |ip: &[u8], frame: &[u8]| {
        let view = PacketView { frame, ..PacketView::from_ip(ip) };
        assert_eq!(program.classify(&view), evaluate_naive(&rules, &view));
        program.classify(&view)
    };
    assert_eq!(verdict(&ip, &[]), 0);
    let frame: Vec<u8> = [6, 7, 8, 9, 10, 11, 0, 1, 2, 3, 4, 5].to_vec();
    ip[15] = 9;
    assert_eq!(verdict(&ip, &frame), 1);
    assert_eq!(verdict(&ip, &frame[..11]), NO_MATCH);
    ip[14] = 1;
    assert_eq!(verdict(&ip, &frame[..11]), 2);
}

#[test]
fn qualifiers_need_not_be_repeated() {
    yes("src net 10.0.0.0/8 or 192.168.0.0/16", packet(6));
    no("dst net 192.168.0.0/16 or 11.0.0.0/8", packet(6));
    yes("dst tcp port 8000 or 8080", ports(6, 1, 8080));
    no("dst tcp port 8000 or 8080", ports(17, 1, 8080));
    yes("ip ttl 1 or 64", packet(6));
    yes("ip ect 0 and ip ttl > 1 and < 65", packet(6));
}

#[test]
fn documented_classifiers() {
    let patterns = ["10.0.0.0/24 and syn", "10.0.0.0/24 and fin ack", "10.0.0.0/24 and tcp", "-"];
    for (p, output) in [(tcp_flags(2), 0), (tcp_flags(17), 1), (tcp_flags(16), 2), (packet(17), 3)]
    {
        assert_eq!(classify(&patterns, &bytes(&p)), output);
    }
    let patterns = ["dst tcp port 8000 or 8080", "dst tcp port > 1023", "tcp"];
    let cases = [(6, 8080, 0), (6, 8081, 1), (6, 80, 2), (17, 8080, NO_MATCH)];
    for (proto, dport, output) in cases {
        assert_eq!(classify(&patterns, &bytes(&ports(proto, 1, dport))), output);
    }
}

#[test]
fn filters() {
    let texts = ["deny src 10.0.0.9", "allow tcp && dst port > 1023 && ack", "1 udp", "drop all"];
    let program = IpProgram::compile(&parse_filter_rules(&texts, 2, &NoNames).unwrap()).unwrap();
    let verdict = |p: Packet| program.classify(&PacketView::from_ip(&bytes(&p)));
    assert_eq!(verdict(Packet { src: [10, 0, 0, 9], ..packet(17) }), DROP);
    let mut ack = ports(6, 80, 1024);
    ack.transport[13] = 16;
    assert_eq!(verdict(ack), 0);
    assert_eq!(verdict(packet(17)), 1);
    assert_eq!(verdict(packet(1)), DROP);
    assert!(program.to_string().contains("yes->[1]  no->[X]\n"), "{program}");
}

#[test]
fn truncated_packets_fail_tests_of_what_is_missing() {
    let mut b = bytes(&ports(17, 80, 53));
    b.truncate(22);
    assert_eq!(classify(&["dst port 53", "src port 80"], &b), 1);
    assert_eq!(classify(&["not dst port 53"], &b), 0);
    b.truncate(21);
    assert_eq!(classify(&["src port 80", "udp"], &b), 1);
    // One byte of transport header is enough for a test of one byte.
    b[20] = 0x80;
    assert_eq!(classify(&["udp[0] < 16", "not udp[0] 128", "udp[0] 128"], &b), 2);
    b.truncate(10);
    assert_eq!(classify(&["src net 0.0.0.0/1", "ip proto 17"], &b), 1);
    assert_eq!(classify(&["tcp"], &[]), NO_MATCH);
}

#[test]
fn classifier_patterns() {
    let texts = ["12/0806 20/0001", "12/0806 20/0002", "12/0800", "-"];
    let program = PatternProgram::compile(&PatternProgram::parse(&texts).unwrap()).unwrap();
    let frame = |kind: [u8; 2], op: u8| {
        let mut f = vec![0; 42];
        f[12..14].copy_from_slice(&kind);
        f[21] = op;
        f
    };
    assert_eq!(program.classify(&frame([8, 6], 1)), 0);
    assert_eq!(program.classify(&frame([8, 6], 2)), 1);
    assert_eq!(program.classify(&frame([8, 0], 2)), 2);
    assert_eq!(program.classify(&frame([8, 6], 3)), 3);
    assert_eq!(program.classify(&frame([8, 6], 1)[..21]), 3);
    assert_eq!(program.classify(&frame([8, 0], 0)[..14]), 2);
    assert_eq!(program.classify(&[]), 3);
    assert_eq!(program.to_string().lines().count(), 6);
    let one = |text: &str, frame: &[u8]| {
        let rules = PatternProgram::parse(&[text]).unwrap();
        PatternProgram::compile(&rules).unwrap().classify(frame) == 0
    };
    assert!(one("0/4?", &[0x45]) && !one("0/4?", &[0x55]));
    assert!(one("0/00%0f", &[0x40]) && one("!0/01%01", &[2]) && one("! 0/45", &[]));
    assert!(one("1/0203040506", &[1, 2, 3, 4, 5, 6]) && !one("1/0203040506", &[1, 2, 3, 4, 5]));
    assert!(one("!1/0203040506", &[1, 2, 3, 4, 5, 7]) && one("0/01 2/03", &[1, 9, 3]));
}

#[test]
fn a_lone_ampersand_that_is_no_mask_means_and() {
    for (lone, double) in [
        ("src net 10.0.0.0/8 & udp & dst port 53", "src net 10.0.0.0/8 && udp && dst port 53"),
        ("ip[0] & 0xf0 = 0x40 & tcp", "(ip[0] & 0xf0 = 0x40) and tcp"),
    ] {
        let of = |text| parse_expression(text, &NoNames).unwrap();
        assert_eq!(of(lone), of(double));
    }
}

#[track_caller]
fn wrong(text: &str, span: &str, said: &str, suggestion: Option<&str>) {
    let e = parse_expression(text, &NoNames).unwrap_err();
    assert_eq!(&text[e.span.clone()], span, "{e}");
    assert!(e.message.contains(said), "{e}");
    assert_eq!(e.suggestion.as_deref(), suggestion, "{e}");
}

#[test]
fn errors_point_at_the_text() {
    wrong("src hsot 10.0.0.1", "hsot", "expected a field", Some("host"));
    wrong("tpc and port 80", "tpc", "expected a test", Some("tcp"));
    wrong("tcp | udp", "|", "expected", Some("||"));
    wrong("(tcp", "", "')'", None);
    wrong("tcp ? udp", "", "' : '", None);
    wrong("port 70000", "port 70000", "out of range", None);
    wrong("net 10.0.0.1", "net 10.0.0.1", "prefix", None);
    wrong("host > 10.0.0.1", "host > 10.0.0.1", "by size", None);
    wrong("echo", "echo", "ambiguous", None);
    wrong("tcp and", "", "rule's end", None);
    wrong("ip[3:2] 5", "[3:2]", "one aligned word", None);
    wrong("port >", "", "value", None);
    wrong("", "", "found nothing", None);
    let e = parse_filter_rules(&["allow all", "alow tcp", "9 all"], 2, &NoNames).unwrap_err();
    assert_eq!((e.len(), e[0].rule, e[0].suggestion.as_deref()), (2, 1, Some("allow")));
    assert!(e[1].to_string().contains("output 9 does not exist"));
    let e = PatternProgram::parse(&["12/08g0", "x/00", "0/123", "0/11%1", "!"]).unwrap_err();
    assert_eq!(e.len(), 5);
}

#[test]
fn unreachable_rules_and_pointless_comparisons_are_reported() {
    let texts = ["src port 80 and src port 21", "tcp", "-", "udp"];
    let rules = parse_classifier_rules(&texts, &NoNames).unwrap();
    assert_eq!(IpProgram::compile(&rules).unwrap().unreachable(), &[0, 3]);
    let rules = parse_classifier_rules(&["port > 65535"], &NoNames).unwrap();
    assert_eq!(rules[0].warnings.len(), 1);
}
