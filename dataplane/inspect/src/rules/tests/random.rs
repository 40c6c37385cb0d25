//! Rules and bytes at random, such that they have to do with each other.

use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::select;

/// Bytes of few kinds.
pub(in crate::rules) fn bytes(max: usize) -> impl Strategy<Value = Vec<u8>> {
    vec(select(&b"abcABC12\x01\x02\x03\n "[..]), 0..max)
}

fn flag(text: &'static str) -> impl Strategy<Value = &'static str> {
    select(vec!["", text])
}

/// Where a content of this length may be.
fn offset(len: usize) -> impl Strategy<Value = String> {
    let len = len as u32;
    prop_oneof![
        3 => Just(String::new()),
        1 => (0u32..6).prop_map(|n| format!(" offset:{n};")),
        1 => (0u32..6, 0u32..8).prop_map(move |(n, m)| format!(" offset:{n}; depth:{};", len + m)),
        2 => (-4i32..6).prop_map(|n| format!(" distance:{n};")),
        1 => (0u32..8).prop_map(move |m| format!(" within:{};", len + m)),
        2 => (-4i32..6, 0u32..8)
            .prop_map(move |(n, m)| format!(" distance:{n}; within:{};", len + m)),
        1 => Just(" endswith;".to_owned()),
        1 => Just(" startswith;".to_owned()),
    ]
}

/// `negations` may be among them.
fn content(negations: bool) -> impl Strategy<Value = String> {
    let text = "[abcAB1]{1,3}|\\|0[12]\\||a\\|0A\\|";
    let not = if negations { vec!["", "", "", "!"] } else { vec![""] };
    (select(not), text, flag(" nocase;")).prop_flat_map(|(not, text, nocase)| {
        let bars = text.matches('|').count() / 2;
        let len = text.len() - 3 * bars;
        offset(len).prop_map(move |offset| format!("content:{not}\"{text}\";{nocase}{offset}"))
    })
}

fn expression(negations: bool) -> impl Strategy<Value = String> {
    let patterns =
        vec!["a.b", "^a", "a+", "(ab|b)c?", "b$", r"\bA", "[^a]b", "a.*?b", r"\x01", "c*"];
    let not = if negations { vec!["", "", "!"] } else { vec![""] };
    (select(not), select(patterns), flag("i"), flag("s"), flag("m"), flag("R"))
        .prop_map(|(not, pattern, i, s, m, r)| format!("pcre:{not}\"/{pattern}/{i}{s}{m}{r}\";"))
}

fn number(negations: bool) -> impl Strategy<Value = String> {
    let not = if negations { vec!["", "!"] } else { vec![""] };
    let relative = || flag(",relative");
    prop_oneof![
        (select(not), 0u32..6, relative()).prop_map(|(not, n, r)| format!("isdataat:{not}{n}{r};")),
        (
            select(vec!["<", ">", "=", "!=", "&", "!&", "^", "<=", ">="]),
            0u32..120,
            -2i32..5,
            relative()
        )
            .prop_map(|(op, value, at, r)| format!("byte_test:1,{op},{value},{at}{r};")),
        (1u32..4, 0i32..5, relative(), select(vec!["dec", "hex", "oct"]))
            .prop_map(|(n, at, r, base)| format!("byte_test:{n},>,1,{at}{r},string,{base};")),
        (1u32..3, -2i32..5, relative(), flag(",little"), flag(",from_beginning"), flag(",align"))
            .prop_map(|(n, at, r, l, b, a)| format!(
                "byte_jump:{n},{at}{r}{l}{b}{a},post_offset -1;"
            )),
    ]
}

/// Conditions on one buffer.
pub(in crate::rules) fn parts(negations: bool) -> impl Strategy<Value = String> {
    let part = prop_oneof![
        6 => content(negations),
        2 => expression(negations),
        2 => number(negations),
    ];
    vec(part, 1..5).prop_map(|parts| parts.join(" "))
}

/// Contents only: nothing that must not be there, nothing about ends.
pub(in crate::rules) fn contents() -> impl Strategy<Value = String> {
    vec(content(false), 1..4).prop_map(|parts| parts.join(" ").replace(" endswith;", ""))
}

/// A whole rule, of those that look at one side.
pub(in crate::rules) fn rule() -> impl Strategy<Value = String> {
    let head = "(alert|drop|reject|pass) http (any|\\$HOME_NET|!10\\.0\\.0\\.0/8|\\[1\\.2\\.3\\.4,!::1/64\\]) \
                (any|80|!\\[1:1024,8080\\]) (->|<>) any (\\$HTTP_PORTS|1024:)";
    let buffers = vec![
        "",
        "pkt_data;",
        "http.uri;",
        "http.header;",
        "http.request_body;",
        "file_data;",
        "http.host; bsize:>3;",
        "urilen:2<>9;",
    ];
    let session = vec![
        "",
        "flow:to_server,established;",
        "flowbits:set,x.y;",
        "flowbits:isset,a|b; noalert;",
        "threshold: type limit, track by_src, count 1, seconds 60;",
        "dsize:>5;",
        "flags:SA,12;",
        "detection_filter: track by_dst, count 3, seconds 5;",
        "ttl:<5; ip_proto:!6; window:!0;",
        "msg:\"a\\;b\\\"c|d\"; classtype:trojan-activity; priority:3; reference:url,x.y/z; metadata:a b, c d;",
    ];
    (head, select(session), vec((select(buffers), parts(true)), 0..3)).prop_map(
        |(head, session, parts)| {
            let parts: Vec<String> =
                parts.into_iter().map(|(buffer, parts)| format!("{buffer} {parts}")).collect();
            format!("{head} ({session} {} gid:2; sid:77; rev:5;)", parts.join(" "))
        },
    )
}
