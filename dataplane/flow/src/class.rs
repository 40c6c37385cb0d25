//! Traffic classes, as elements declare them and as rules of dispatchers say them.
//!
//! ```
//! use thruway_flow::{NoNames, parse_class};
//! for class in ["-", "arp request", "12/0800 23/06", "tcp dst port 80", "ip6", "http"] {
//!     parse_class(class, &NoNames).unwrap();
//! }
//! ```

use crate::ast::{Base, Expr, Word};
use crate::error::RuleError;
use crate::names::Names;
use crate::pattern::parse_pattern;
use crate::rules::{RULE_BYTES_MAX, parse_expression};

/// EtherTypes (IEEE 802 numbers), ARP operations (RFC 826), next headers (IANA protocol numbers).
const ARP: u32 = 0x0806;
const REQUEST: u32 = 1;
const REPLY: u32 = 2;
const TCP: u32 = 6;
const UDP: u32 = 17;
const ICMP6: u32 = 58;

/// Reads a class:
///
/// - `-`, `any` or `all`: every packet;
/// - `arp`, `arp request`, `arp reply`: by the frame's bytes, so without VLAN tags;
/// - `ip` (IPv4), `ip6`: by the version in the IP header, also behind VLAN tags;
/// - `tcp6`, `udp6`, `icmp6`: IPv6 with this as its first next header (extension headers are not
///   followed);
/// - `http`: TCP port 80 of IPv4, either end;
/// - a `Classifier` pattern: `12/0800 23/06`, with a mask behind `%` or, as FastClick writes it, a
///   second `/`: `16/8ba5/ffff`;
/// - fields with hexadecimal values: `ethertype/0800`, `ip proto/06`, `src port/0050`,
///   `dst port/0050`, all of which must fit;
/// - an expression of the `IPClassifier` language: `tcp`, `udp dst port 53 or icmp`. It looks at an
///   IPv4 header, so the whole of it holds for IPv4 packets only, `not tcp` too; one that tests
///   only Ethernet addresses (`ether host ...`) holds for any packet;
/// - one of those with a name `or` other classes: `tcp or tcp6`.
///
/// # Errors
/// The first mistake, with the bytes it is about.
pub fn parse_class(text: &str, names: &dyn Names) -> Result<Expr, RuleError> {
    if text.len() > RULE_BYTES_MAX {
        let message = format!("a class may have {RULE_BYTES_MAX} bytes: split it");
        return Err(RuleError::new(0..text.len(), message));
    }
    let words: Vec<&str> = text.split_whitespace().collect();
    if let Some(class) = named(&words) {
        return Ok(class);
    }
    let parts: Vec<&[&str]> = words.split(|word| matches!(*word, "or" | "||")).collect();
    if parts.len() > 1 && parts.iter().any(|part| named(part).is_some()) {
        let classes = parts.iter().map(|part| parse_part(text, part, names));
        return classes.collect::<Result<_, _>>().map(Expr::Any);
    }
    if words.first().is_some_and(|word| is_clause(word)) {
        return parse_pattern(&with_masks(text));
    }
    if words.iter().any(|word| field_value(word).is_some()) {
        return fields(text, names);
    }
    parse_expression(text, names).map(of_ipv4)
}

/// Reads these words of a text as a class.
fn parse_part(text: &str, words: &[&str], names: &dyn Names) -> Result<Expr, RuleError> {
    let start_of = |word: &str| word.as_ptr() as usize - text.as_ptr() as usize;
    let (Some(first), Some(last)) = (words.first(), words.last()) else {
        let message = "expected a class on both sides of every 'or'";
        return Err(RuleError::new(0..text.len(), message));
    };
    let start = start_of(first);
    parse_class(&text[start..start_of(last) + last.len()], names).map_err(|error| RuleError {
        span: start + error.span.start..start + error.span.end,
        ..error
    })
}

fn version(version: u32) -> Expr {
    Expr::Test(Word::equal(Base::Network, 0, 0xf000_0000, version << 28))
}

fn frame(at: u16, value: u32) -> Expr {
    Expr::Test(Word::equal(Base::Frame, at, 0xffff_0000, value << 16))
}

fn arp(operation: Option<u32>) -> Expr {
    let operation = operation.map(|operation| frame(20, operation));
    Expr::all([frame(12, ARP)].into_iter().chain(operation).collect())
}

fn next_header(header: u32) -> Expr {
    let next = Word::equal(Base::Network, 4, 0x0000_ff00, header << 8);
    Expr::All(vec![version(6), Expr::Test(next)])
}

/// Classes with a name.
fn named(words: &[&str]) -> Option<Expr> {
    Some(match words {
        ["-" | "any" | "all"] => Expr::Const(true),
        ["arp"] => arp(None),
        ["arp", "request"] => arp(Some(REQUEST)),
        ["arp", "reply"] => arp(Some(REPLY)),
        ["ip"] => version(4),
        ["ip6"] => version(6),
        ["tcp6"] => next_header(TCP),
        ["udp6"] => next_header(UDP),
        ["icmp6"] => next_header(ICMP6),
        ["http"] => of_ipv4(parse_expression("tcp port 80", &crate::NoNames).ok()?),
        _ => return None,
    })
}

/// Whether a word looks like `OFFSET/VALUE`.
/// The pattern with the masks of FastClick's clauses, `offset/value/mask`, written as Click writes
/// them, `offset/value%mask`. Places in the text stay the same.
fn with_masks(text: &str) -> String {
    let mut slashes = 0;
    let rewritten = text.chars().map(|c| {
        slashes = if c.is_whitespace() { 0 } else { slashes + u32::from(c == '/') };
        if c == '/' && slashes == 2 { '%' } else { c }
    });
    rewritten.collect()
}

fn is_clause(word: &str) -> bool {
    let body = word.trim_start_matches('!');
    let offset = body.split_once('/').map(|(offset, _)| offset);
    body.is_empty() != word.is_empty()
        || offset.is_some_and(|o| !o.is_empty() && o.bytes().all(|b| b.is_ascii_digit()))
}

/// A field's name and its value, of `port/0050`.
fn field_value(word: &str) -> Option<(&str, &str)> {
    word.split_once('/').filter(|(name, _)| matches!(*name, "ethertype" | "proto" | "port"))
}

/// `ethertype/0800 ip proto/06 dst port/0050`: each field as an expression, joined.
fn fields(text: &str, names: &dyn Names) -> Result<Expr, RuleError> {
    let start_of = |part: &str| part.as_ptr() as usize - text.as_ptr() as usize;
    let mut list = Vec::new();
    let mut before = "";
    for word in text.split_whitespace() {
        let span = start_of(word)..start_of(word) + word.len();
        let wrong = |message: String| RuleError::new(span.clone(), message);
        let Some((name, value)) = field_value(word) else {
            if !before.is_empty() || !matches!(word, "ip" | "src" | "dst") {
                let message = format!(
                    "expected ethertype/XXXX, ip proto/XX, src port/XXXX or dst port/XXXX, found \
                     '{word}'"
                );
                return Err(wrong(message));
            }
            before = word;
            continue;
        };
        let digits = if name == "proto" { 2 } else { 4 };
        let number = (value.len() == digits && value.bytes().all(|b| b.is_ascii_hexdigit()))
            .then(|| u32::from_str_radix(value, 16).ok())
            .flatten()
            .ok_or_else(|| wrong(format!("'{name}/' takes {digits} hexadecimal digits")))?;
        let test = match (std::mem::take(&mut before), name) {
            ("", "ethertype") => Ok(frame(12, number)),
            ("" | "ip", "proto") => {
                parse_expression(&format!("ip proto {number}"), names).map(of_ipv4)
            }
            (side @ ("src" | "dst"), "port") => {
                parse_expression(&format!("{side} port {number}"), names).map(of_ipv4)
            }
            ("", _) => Err(wrong("'port/' needs 'src' or 'dst' before it".to_owned())),
            (side, _) => Err(wrong(format!("'{side} {name}/' is no field"))),
        };
        list.push(test.map_err(|error| wrong(error.message))?);
    }
    if !before.is_empty() {
        let message = format!("expected a field after '{before}', found the end");
        return Err(RuleError::new(text.len()..text.len(), message));
    }
    Ok(Expr::all(list))
}

/// An expression that looks at an IPv4 header, guarded from packets that have none.
fn of_ipv4(expr: Expr) -> Expr {
    if looks_behind_frame(&expr) { Expr::All(vec![version(4), expr]) } else { expr }
}

fn looks_behind_frame(expr: &Expr) -> bool {
    match expr {
        Expr::Const(_) => false,
        Expr::Test(word) => word.base != Base::Frame,
        Expr::Not(e) => looks_behind_frame(e),
        Expr::All(list) | Expr::Any(list) => list.iter().any(looks_behind_frame),
        Expr::Choice(cases, otherwise) => {
            let mut cases = cases.iter();
            cases.any(|(c, then)| looks_behind_frame(c) || looks_behind_frame(then))
                || looks_behind_frame(otherwise)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::naive::matches;
    use crate::{NoNames, PacketView};
    use proptest::prelude::*;

    /// An Ethernet frame of this type with these bytes behind.
    fn packet(ethertype: u16, rest: &[u8]) -> Vec<u8> {
        [&[0; 12], &ethertype.to_be_bytes()[..], rest].concat()
    }

    fn is(class: &str, frame: &[u8]) -> bool {
        let ip = matches!(frame.get(14).map(|b| b >> 4), Some(4 | 6)) && frame[12..14] != [8, 6];
        let header = if frame.get(14) == Some(&0x60) { 54 } else { 34 };
        let from = |at: usize| if ip { frame.get(at..).unwrap_or(&[]) } else { &[] };
        let view = PacketView { frame, network: from(14), transport: from(header) };
        matches(&parse_class(class, &NoNames).unwrap(), &view)
    }

    #[test]
    fn a_mask_may_stand_behind_a_slash() {
        for (text, same) in [
            ("16/8ba5/ffff", "16/8ba5%ffff"),
            ("12/0800 30/0a00/fff0 9/06", "12/0800 30/0a00%fff0 9/06"),
            ("!16/8b/f0", "!16/8b%f0"),
        ] {
            assert_eq!(parse_class(text, &NoNames), parse_class(same, &NoNames), "{text}");
        }
        assert!(parse_class("16/8b/f0/f0", &NoNames).is_err());
    }

    #[test]
    fn packets_are_of_their_classes() {
        let arp = |op| packet(0x0806, &[0, 1, 8, 0, 6, 4, 0, op, 0, 0]);
        let ip4 = |proto: u8| {
            let mut header = vec![0x45, 0, 0, 40, 0, 0, 0, 0, 64, proto, 0, 0];
            header.extend([10, 0, 0, 1, 10, 0, 0, 2, 0x9c, 0x40, 0, 80, 0, 0, 0, 0]);
            packet(0x0800, &header)
        };
        let ip6 = |next: u8| {
            let mut header = vec![0x60, 0, 0, 0, 0, 8, next, 64];
            // At the place of an IPv4 header's protocol, an address has the value of TCP.
            header.extend([0x20, 6, 0, 0, 0, 0, 0, 0]);
            header.extend([0; 24]);
            header.extend([0x9c, 0x40, 0, 80]);
            packet(0x86dd, &header)
        };
        let all = [arp(1), arp(2), ip4(6), ip4(17), ip6(6), ip6(17), ip6(58)];
        for (class, wanted) in [
            ("-", [1, 1, 1, 1, 1, 1, 1]),
            ("arp", [1, 1, 0, 0, 0, 0, 0]),
            ("arp request", [1, 0, 0, 0, 0, 0, 0]),
            (" arp  reply ", [0, 1, 0, 0, 0, 0, 0]),
            ("ip", [0, 0, 1, 1, 0, 0, 0]),
            ("ip6", [0, 0, 0, 0, 1, 1, 1]),
            ("tcp", [0, 0, 1, 0, 0, 0, 0]),
            ("udp", [0, 0, 0, 1, 0, 0, 0]),
            ("not tcp", [0, 0, 0, 1, 0, 0, 0]),
            ("tcp6", [0, 0, 0, 0, 1, 0, 0]),
            ("udp6", [0, 0, 0, 0, 0, 1, 0]),
            ("icmp6", [0, 0, 0, 0, 0, 0, 1]),
            ("http", [0, 0, 1, 0, 0, 0, 0]),
            ("tcp or tcp6", [0, 0, 1, 0, 1, 0, 0]),
            ("arp reply || src port 80 or ip6", [0, 1, 0, 0, 1, 1, 1]),
            ("tcp dst port 80", [0, 0, 1, 0, 0, 0, 0]),
            ("src port 80", [0, 0, 0, 0, 0, 0, 0]),
            ("12/0800 23/06", [0, 0, 1, 0, 0, 0, 0]),
            ("!12/0800", [1, 1, 0, 0, 1, 1, 1]),
            ("! 12/0800", [1, 1, 0, 0, 1, 1, 1]),
            ("ethertype/86dd", [0, 0, 0, 0, 1, 1, 1]),
            ("ip proto/11", [0, 0, 0, 1, 0, 0, 0]),
            ("ethertype/0800 proto/06 dst port/0050", [0, 0, 1, 0, 0, 0, 0]),
            ("src port/0050", [0, 0, 0, 0, 0, 0, 0]),
        ] {
            let found: Vec<i32> = all.iter().map(|packet| i32::from(is(class, packet))).collect();
            assert_eq!(found, wanted, "{class}");
        }
        assert!(is("ether host 00:00:00:00:00:00", &arp(1)));
    }

    #[test]
    fn mistakes_are_reported() {
        for (class, span, wanted) in [
            ("", 0..0, "expected a pattern"),
            ("arp who", 0..3, "found 'arp'"),
            ("12/08x0", 0..7, "hexadecimal"),
            ("ip proto/6", 3..10, "2 hexadecimal digits"),
            ("port/0050", 0..9, "needs 'src' or 'dst'"),
            ("src proto/06", 4..12, "'src proto/' is no field"),
            ("dst port/0050 src", 17..17, "after 'src'"),
            ("dst port/0050 tcp", 14..17, "found 'tcp'"),
            ("tcp dst port 99999", 0..18, "out of range"),
            ("ip6 or  tcp dst port 99999", 8..26, "out of range"),
            ("ip6 or", 0..6, "on both sides"),
        ] {
            let error = parse_class(class, &NoNames).unwrap_err();
            assert!(error.message.contains(wanted), "{class}: {error}");
            assert_eq!(error.span, span, "{class}: {error}");
        }
    }

    proptest! {
        #[test]
        fn any_text_is_a_class_or_a_mistake_within_it(
            words in proptest::collection::vec(
                prop_oneof![
                    proptest::sample::select(&[
                        "arp", "request", "ip", "tcp", "dst", "port", "80", "http", "-", "!",
                        "12/0800", "23/06%0f", "!0/ff", "port/0050", "proto/06", "proto/", "src",
                        "ethertype/0800", "ip6", "(", ")", "or", "not", "?", ":", "10.0.0.0/8", "\u{e9}",
                    ][..]).prop_map(str::to_owned),
                    "\\PC{0,6}",
                ],
                0..8,
            ),
            separator in proptest::sample::select(&[" ", "", "\t"][..]),
        ) {
            let text = words.join(separator);
            if let Err(error) = parse_class(&text, &NoNames) {
                prop_assert!(error.span.start <= error.span.end && error.span.end <= text.len());
                prop_assert!(text.is_char_boundary(error.span.start));
                prop_assert!(text.is_char_boundary(error.span.end));
            }
        }
    }
}
