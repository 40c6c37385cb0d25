//! The words of the IP expression language, and how to find the one that was meant.

/// Names that a configuration adds (Click's AddressInfo and PortInfo).
pub trait Names {
    /// The IPv4 address of a name.
    fn address(&self, _name: &str) -> Option<u32> {
        None
    }
    /// The IPv4 network of a name: address and mask.
    fn prefix(&self, _name: &str) -> Option<(u32, u32)> {
        None
    }
    /// The Ethernet address of a name.
    fn ether(&self, _name: &str) -> Option<[u8; 6]> {
        None
    }
    /// The port of a name.
    fn port(&self, _name: &str) -> Option<u16> {
        None
    }
}

/// No names but the language's own.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoNames;

impl Names for NoNames {}

/// `tcp` or `udp`, as a protocol.
pub(crate) const PROTO_TCP_OR_UDP: u16 = 256;
/// Any transport protocol.
pub(crate) const PROTO_ANY_TRANSPORT: u16 = 257;

pub(crate) const PROTOS: &[(&str, u16)] = &[
    ("ah", 51),
    ("dccp", 33),
    ("esp", 50),
    ("gre", 47),
    ("icmp", 1),
    ("icmp6", 58),
    ("igmp", 2),
    ("ipip", 4),
    ("sctp", 132),
    ("tcp", 6),
    ("tcpudp", PROTO_TCP_OR_UDP),
    ("transp", PROTO_ANY_TRANSPORT),
    ("udp", 17),
];

pub(crate) const PORTS: &[(&str, u16)] = &[
    ("auth", 113),
    ("bootpc", 68),
    ("bootps", 67),
    ("chargen", 19),
    ("daytime", 13),
    ("discard", 9),
    ("dns", 53),
    ("domain", 53),
    ("echo", 7),
    ("finger", 79),
    ("ftp", 21),
    ("ftp-data", 20),
    ("https", 443),
    ("imap3", 220),
    ("imaps", 993),
    ("irc", 194),
    ("netbios-dgm", 138),
    ("netbios-ns", 137),
    ("netbios-ssn", 139),
    ("nntp", 119),
    ("ntp", 123),
    ("pop3", 110),
    ("pop3s", 995),
    ("rip", 520),
    ("route", 520),
    ("smtp", 25),
    ("snmp", 161),
    ("snmp-trap", 162),
    ("ssh", 22),
    ("sunrpc", 111),
    ("telnet", 23),
    ("tftp", 69),
    ("www", 80),
];

/// The port called `name` without a declaration.
pub fn known_port(name: &str) -> Option<u16> {
    find(PORTS, name)
}

/// TCP flags (RFC 9293 section 3.1).
pub(crate) const TCP_FLAGS: &[(&str, u16)] =
    &[("ack", 16), ("fin", 1), ("psh", 8), ("rst", 4), ("syn", 2), ("urg", 32)];

/// ICMP types (RFC 792, RFC 950, RFC 1256).
pub(crate) const ICMP_TYPES: &[(&str, u16)] = &[
    ("echo", 8),
    ("echo-reply", 0),
    ("inforeq", 15),
    ("inforeq-reply", 16),
    ("maskreq", 17),
    ("maskreq-reply", 18),
    ("parameterproblem", 12),
    ("redirect", 5),
    ("routeradvert", 9),
    ("routersolicit", 10),
    ("sourcequench", 4),
    ("timeexceeded", 11),
    ("timestamp", 13),
    ("timestamp-reply", 14),
    ("unreachable", 3),
];

/// Words that are grammar or header fields, for suggestions.
const WORDS: &[&str] = &[
    "allow", "deny", "drop", "src", "dst", "dest", "ip", "ether", "host", "net", "port", "proto",
    "and", "or", "not", "true", "false", "any", "all", "mask", "vers", "hl", "len", "id", "tos",
    "dscp", "ce", "ect", "ttl", "frag", "unfrag", "opt", "win", "type",
];

pub(crate) fn find(table: &[(&str, u16)], word: &str) -> Option<u16> {
    table.iter().find(|(name, _)| *name == word).map(|(_, value)| *value)
}

/// Number of single-character edits, or swaps of neighbours, between two short words.
fn distance(a: &[u8], b: &[u8]) -> usize {
    let mut before: Vec<usize> = Vec::new();
    let mut above: Vec<usize> = (0..=b.len()).collect();
    for (i, x) in a.iter().enumerate() {
        let mut row = vec![i + 1];
        for (j, y) in b.iter().enumerate() {
            let changed = above[j] + usize::from(x != y);
            let mut edits = changed.min(above[j + 1] + 1).min(row[j] + 1);
            if i > 0 && j > 0 && *x == b[j - 1] && a[i - 1] == *y {
                edits = edits.min(before[j - 1] + 1);
            }
            row.push(edits);
        }
        before = std::mem::replace(&mut above, row);
    }
    above[b.len()]
}

/// The known word nearest to a misspelled one, if one is near.
pub(crate) fn suggestion(word: &str) -> Option<String> {
    if word.len() > 20 || !word.starts_with(|c: char| c.is_ascii_alphabetic()) {
        return None;
    }
    let tables = [PROTOS, PORTS, TCP_FLAGS, ICMP_TYPES];
    let named = tables.iter().flat_map(|t| t.iter().map(|(name, _)| *name));
    let lower = word.to_ascii_lowercase();
    let near = WORDS
        .iter()
        .copied()
        .chain(named)
        .map(|known| (distance(lower.as_bytes(), known.as_bytes()), known));
    let (edits, known) = near.min()?;
    (edits <= 2 && edits < word.len()).then(|| known.to_owned())
}
