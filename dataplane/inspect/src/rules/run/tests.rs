//! Tests of inspectors.

use std::collections::BTreeSet;
use std::sync::Arc;

use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::select;

use crate::rules::ast::Action;
use crate::rules::buffer::Side;
use crate::rules::run::{Facts, Found, Inspector, Kind, Limits, Piece, Session};
use crate::rules::tests::random;
use crate::rules::{RuleSet, Variables};

const WINDOW: usize = 64;
const LIMITS: Limits = Limits { window: WINDOW, head: 256, slots: 4, counters: 64 };

/// Of a segment from 10.0.0.1:1000 to 192.0.2.1:80, or back.
fn facts(side: Side) -> Facts {
    let mut packet = vec![0u8; 40];
    packet[0] = 0x45;
    (packet[8], packet[9]) = (64, 6);
    let (client, server) = ([10, 0, 0, 1], [192, 0, 2, 1]);
    let (client_port, server_port) = (1000u16.to_be_bytes(), 80u16.to_be_bytes());
    let to_server = side == Side::ToServer;
    let (from, to) = if to_server { (client, server) } else { (server, client) };
    let ports = if to_server { (client_port, server_port) } else { (server_port, client_port) };
    packet[12..16].copy_from_slice(&from);
    packet[16..20].copy_from_slice(&to);
    packet[20..22].copy_from_slice(&ports.0);
    packet[22..24].copy_from_slice(&ports.1);
    packet[32] = 0x50;
    Facts { side, established: true, ..Facts::of(&packet).unwrap() }
}

struct Bench {
    inspector: Inspector,
    session: Session,
    now: i64,
}

impl Bench {
    fn new(rules: &str) -> Bench {
        let set = RuleSet::load(rules.as_bytes(), &Variables::usual());
        let set = set.unwrap_or_else(|errors| panic!("{rules}: {}", errors[0]));
        let inspector = Inspector::new(Arc::new(set), LIMITS);
        Bench { inspector, session: Session::default(), now: 0 }
    }

    fn found(&mut self, side: Side, kind: Kind, bytes: &[u8]) -> Found {
        let mut facts = facts(side);
        facts.payload_len = bytes.len() as u32;
        let mut found = Found::default();
        let piece = Piece { facts: &facts, bytes, kind, now: self.now };
        self.inspector.stream(&mut self.session, piece, &mut found);
        found
    }

    /// Numbers of the rules that are reported.
    fn sids(&mut self, side: Side, kind: Kind, bytes: &[u8]) -> Vec<u32> {
        let found = self.found(side, kind, bytes);
        found.alerts.iter().map(|at| self.inspector.set().rules()[*at as usize].about.sid).collect()
    }

    fn up(&mut self, bytes: &str) -> Vec<u32> {
        self.sids(Side::ToServer, Kind::Plain, bytes.as_bytes())
    }
}

fn rule(options: &str, sid: u32) -> String {
    format!("alert tcp any any -> any any ({options} sid:{sid};)\n")
}

#[test]
fn what_spans_pieces_is_found_once() {
    let mut bench = Bench::new(&rule("content:\"attack\";", 1));
    assert_eq!(bench.up("an att"), []);
    assert_eq!(bench.up("ack"), [1]);
    assert_eq!(bench.up("ack"), []);
    assert_eq!(bench.up("attack"), [1]);
    let mut bench = Bench::new(&rule("content:\"a\"; content:\"b\"; distance:3; within:1;", 1));
    for (piece, alerts) in
        [("ax", vec![]), ("x", vec![]), ("x", vec![]), ("b", vec![1]), ("c", vec![])]
    {
        assert_eq!(bench.up(piece), alerts, "{piece}");
    }
}

#[test]
fn places_from_the_beginning_are_meant_in_packets_too() {
    let mut bench = Bench::new(&rule("content:\"USER\"; depth:4;", 1));
    assert_eq!(bench.up("xx"), []);
    assert_eq!(bench.up("USER"), [1]);
    let mut bench = Bench::new(&rule("flow:only_stream; content:\"USER\"; depth:4;", 1));
    assert_eq!(bench.up("xx"), []);
    assert_eq!(bench.up("USER"), []);
    let mut bench = Bench::new(&rule("content:\"abc\"; dsize:3;", 1));
    assert_eq!(bench.up("ab"), []);
    assert_eq!(bench.up("c"), []);
    assert_eq!(bench.up("abc"), [1]);
}

#[test]
fn flow_bits_are_remembered() {
    let rules = rule("flowbits:isset,helo; content:\"DATA\"; flowbits:unset,helo;", 2)
        + &rule("content:\"EHLO\"; flowbits:set,helo; noalert;", 1)
        + &rule("flowbits:isnotset,helo; content:\"QUIT\";", 3);
    let mut bench = Bench::new(&rules);
    assert_eq!(bench.up("DATA QUIT"), [3]);
    assert_eq!(bench.up("EHLO"), []);
    assert_eq!(bench.up("QUIT DATA"), [2, 3]);
    assert_eq!(bench.up("DATA"), []);
    // Both in one piece: the setting rule comes first.
    assert_eq!(bench.up("DATA EHLO"), [2]);
}

#[test]
fn verdicts_are_obeyed_in_order() {
    let rules = rule("content:\"a\";", 1)
        + &rule("content:\"b\";", 2).replace("alert", "drop")
        + &rule("content:\"c\";", 3).replace("alert", "reject")
        + &rule("content:\"d\";", 4).replace("alert", "pass");
    let mut bench = Bench::new(&rules);
    let mut verdict = |bytes: &[u8]| {
        let found = bench.found(Side::ToServer, Kind::Plain, bytes);
        (found.alerts, found.verdict)
    };
    assert_eq!(verdict(b"a"), (vec![0], None));
    assert_eq!(verdict(b"ab"), (vec![1, 0], Some(Action::Drop)));
    assert_eq!(verdict(b"bc"), (vec![1, 2], Some(Action::Reject)));
    assert_eq!(verdict(b"bcd"), (vec![], Some(Action::Pass)));
    assert_eq!(verdict(b"abc"), (vec![], None));
}

#[test]
fn thresholds_count_in_periods() {
    let second = 1_000_000_000;
    for (threshold, alerts) in [
        ("threshold: type limit, track by_src, count 2, seconds 10;", [1, 1, 0, 0, 1, 1]),
        ("threshold: type both, track by_dst, count 2, seconds 10;", [0, 1, 0, 0, 0, 1]),
        ("threshold: type threshold, track by_rule, count 2, seconds 10;", [0, 1, 0, 1, 0, 1]),
        ("detection_filter: track by_src, count 2, seconds 10;", [0, 0, 1, 1, 0, 0]),
    ] {
        let mut bench = Bench::new(&rule(&format!("content:\"a\"; {threshold}"), 1));
        for (second_of, alerts) in [0, 1, 2, 3, 10, 12].into_iter().zip(alerts) {
            bench.now = second_of * second;
            assert_eq!(bench.up("a").len(), alerts, "{threshold} {second_of}");
        }
    }
}

#[test]
fn messages_are_seen_in_parts() {
    let http = |options: &str, sid| rule(options, sid).replace("tcp", "http");
    let rules = http("content:\"/x\"; http_uri; content:\"POST\"; http_method;", 1)
        + &http("content:\"/x\"; http_uri; content:\"evil\"; http_client_body;", 2)
        + &http(
            "content:\"404\"; http_stat_code; file_data; content:\"gone\"; content:\"d\"; distance:0;",
            3,
        )
        + &http("content:\"a=1\"; http_cookie;", 4)
        + &http("content:\"a=1\"; http_header;", 5)
        + &http("file_data; content:\"evil\"; offset:1;", 6);
    let mut bench = Bench::new(&rules);
    let head = b"POST /%78 HTTP/1.1\r\nCookie: a=1\r\n\r\n";
    assert_eq!(bench.sids(Side::ToServer, Kind::Head, head), [1, 4]);
    assert_eq!(bench.sids(Side::ToServer, Kind::Body, b"evi"), []);
    assert_eq!(bench.sids(Side::ToServer, Kind::Body, b"l"), [2]);
    assert_eq!(bench.sids(Side::ToServer, Kind::Body, b"evil"), [2, 6]);
    // Another message, of which the old URI is no part.
    assert_eq!(bench.sids(Side::ToServer, Kind::Head, b"PUT /y HTTP/1.1\r\n\r\n"), []);
    assert_eq!(bench.sids(Side::ToServer, Kind::Body, b"evil"), []);
    assert_eq!(bench.sids(Side::ToClient, Kind::Head, b"HTTP/1.1 404 No\r\n\r\n"), []);
    assert_eq!(bench.sids(Side::ToClient, Kind::Body, b"is gone"), []);
    assert_eq!(bench.sids(Side::ToClient, Kind::Body, b" indeed"), [3]);
}

#[test]
fn ends_are_told_once_a_direction() {
    let text =
        "alert tcp 10.0.0.0/8 any -> any 80 (sid:1;) \n alert tcp any 80 -> any any (sid:2;)";
    let mut bench = Bench::new(text);
    assert_eq!(bench.up("x"), [1]);
    assert_eq!(bench.up("x"), []);
    assert_eq!(bench.sids(Side::ToClient, Kind::Plain, b"y"), [2]);
    assert_eq!(bench.sids(Side::ToClient, Kind::Plain, b"y"), []);
}

#[test]
fn slots_are_given_back() {
    let mut bench = Bench::new(&rule("content:\"ab\";", 1));
    let mut sessions = vec![Session::default(); 5];
    for session in &mut sessions {
        bench.session = *session;
        let found = bench.found(Side::ToServer, Kind::Plain, b"a");
        assert_eq!(found.forgetful, bench.session.sides[0].slot == 0);
        *session = bench.session;
    }
    assert_eq!(bench.inspector.slots_free(), 0);
    // What is one word is found nevertheless: where it has got to is the session's own.
    bench.session = sessions[4];
    let found = bench.found(Side::ToServer, Kind::Plain, b"bc");
    assert_eq!((found.alerts, found.forgetful), (vec![0], true));
    for session in &sessions {
        bench.inspector.end(session);
    }
    assert_eq!(bench.inspector.slots_free(), 4);
}

/// Once it has seen the like, a look at traffic allocates nothing, whatever matches.
#[test]
fn looks_allocate_nothing() {
    let rules = rule("content:\"ab\"; content:\"c\"; distance:0; pcre:\"/c+d/R\";", 1)
        + &rule("content:\"/x\"; http_uri; file_data; content:\"ab\";", 2)
        + &rule(
            "content:!\"zz\"; pcre:\"/b.c/i\"; threshold: type limit, track by_src, count 1, seconds 9;",
            3,
        );
    let mut bench = Bench::new(&rules);
    let facts = facts(Side::ToServer);
    let mut found = Found::default();
    let mut talk = |bench: &mut Bench| {
        let mut session = Session::default();
        for (kind, bytes) in [
            (Kind::Head, &b"GET /x HTTP/1.1\r\nHost: a\r\n\r\n"[..]),
            (Kind::Body, b"a"),
            (Kind::Body, b"bxcc"),
            (Kind::Body, b"d and much more of it, until the window has moved on, and on, and on"),
        ] {
            let piece = Piece { facts: &facts, bytes, kind, now: 0 };
            bench.inspector.stream(&mut session, piece, &mut found);
        }
        bench.inspector.end(&session);
        let alerts = found.alerts.len();
        found.clear();
        alerts
    };
    let first = talk(&mut bench);
    assert!(first >= 3);
    let (mut second, counted) = (0, &mut bench);
    let allocations = allocation_counter::measure(|| second = talk(counted));
    assert_eq!(allocations.count_total, 0);
    // The third rule is reported once in nine seconds.
    assert!(second >= 2 && second < first, "{first} {second}");
}

/// Something that happens.
type Event = (Side, Kind, Vec<u8>);

fn event() -> impl Strategy<Value = Event> {
    let request =
        "(GET|POST) /[abA1]{0,4} HTTP/1\\.1\r\n(Host: [abAB]{1,3}\r\n)?(Cookie: a\r\n)?\r\n";
    let response = "HTTP/1\\.1 200 [ab]{0,3}\r\n(Server: [abAB]{1,3}\r\n)?\r\n";
    let side = || select(vec![Side::ToServer, Side::ToClient]);
    let bytes = || prop_oneof![4 => random::bytes(12), 1 => random::bytes(2 * WINDOW)];
    prop_oneof![
        4 => (side(), bytes()).prop_map(|(side, bytes)| (side, Kind::Plain, bytes)),
        4 => (side(), bytes()).prop_map(|(side, bytes)| (side, Kind::Body, bytes)),
        1 => request.prop_map(|head| (Side::ToServer, Kind::Head, head.into_bytes())),
        1 => response.prop_map(|head| (Side::ToClient, Kind::Head, head.into_bytes())),
    ]
}

/// Rules of which each looks at one buffer or two.
fn rules(negations: bool) -> impl Strategy<Value = String> {
    let buffers = || {
        select(vec!["", "", "", "http.uri;", "http.header;", "http.request_body;", "file_data;"])
    };
    let others = || select(vec!["", "", "pkt_data; content:\"a\";", "file_data; content:\"b\"; "]);
    let session = || {
        select(vec![
            "",
            "",
            "flowbits:set,x;",
            "flowbits:isset,x;",
            "flow:to_server;",
            "flow:no_stream;",
        ])
    };
    let action = || select(vec!["alert", "alert", "alert", "drop"]);
    vec((action(), session(), buffers(), random::parts(negations), others()), 1..6).prop_map(
        |rules| {
            rules
                .into_iter()
                .enumerate()
                .map(|(sid, (action, session, buffer, parts, others))| {
                    let options = format!("{session} {buffer} {parts} {others} sid:{};", sid + 1);
                    format!("{action} tcp any any -> any any ({options})\n")
                })
                .filter(|text| crate::rules::Rule::parse(text.trim()).is_ok())
                .collect()
        },
    )
}

/// Pieces of the bytes, cut at these places.
fn cut<'a>(bytes: &'a [u8], cuts: &[usize]) -> Vec<&'a [u8]> {
    let mut places: Vec<usize> = cuts.iter().map(|cut| cut % (bytes.len() + 1)).collect();
    places.extend([0, bytes.len()]);
    places.sort_unstable();
    places.windows(2).map(|pair| &bytes[pair[0]..pair[1]]).filter(|it| !it.is_empty()).collect()
}

proptest! {
    /// To look at candidates only, by places kept between pieces, finds what is found by looking at
    /// all rules with the oracle at every step.
    #[test]
    fn nothing_is_overlooked(rules in rules(true), events in vec(event(), 1..12)) {
        let (mut real, mut oracle) = (Bench::new(&rules), Bench::new(&rules));
        oracle.inspector.exhaustive = true;
        for (side, kind, bytes) in &events {
            let found = real.found(*side, *kind, bytes);
            let wanted = oracle.found(*side, *kind, bytes);
            let bytes = bytes.escape_ascii();
            prop_assert_eq!(&found.alerts, &wanted.alerts, "{:?} {} of {}", kind, bytes, rules);
            prop_assert_eq!(found.verdict, wanted.verdict);
        }
    }

    /// However a stream is cut, what is found is what is found in one piece.
    #[test]
    fn cutting_hides_nothing(
        contents in vec(random::contents(), 1..5), bytes in random::bytes(WINDOW),
        cuts in vec(any::<usize>(), 0..20),
    ) {
        let rules: String = (1..)
            .zip(&contents)
            .map(|(sid, it)| format!("alert tcp-stream any any -> any any ({it} sid:{sid};)\n"))
            .collect();
        let all = Bench::new(&rules).sids(Side::ToServer, Kind::Plain, &bytes);
        let all: BTreeSet<u32> = all.into_iter().collect();
        let mut bench = Bench::new(&rules);
        let mut found = BTreeSet::new();
        for piece in cut(&bytes, &cuts) {
            found.extend(bench.sids(Side::ToServer, Kind::Plain, piece));
        }
        prop_assert_eq!(found, all, "{}", rules);
    }

    /// Nor does what must not be there, or stands at the end: all findings of one piece are
    /// reported.
    #[test]
    fn cutting_hides_no_negations(
        parts in vec(random::parts(true), 1..5), bytes in random::bytes(WINDOW),
        cuts in vec(any::<usize>(), 0..20),
    ) {
        let rules: String = (1..)
            .zip(&parts)
            .map(|(sid, it)| format!("alert tcp-stream any any -> any any ({it} sid:{sid};)\n"))
            .collect();
        let all = Bench::new(&rules).sids(Side::ToServer, Kind::Plain, &bytes);
        let all: BTreeSet<u32> = all.into_iter().collect();
        let mut bench = Bench::new(&rules);
        let mut found = BTreeSet::new();
        for piece in cut(&bytes, &cuts) {
            found.extend(bench.sids(Side::ToServer, Kind::Plain, piece));
        }
        prop_assert!(found.is_superset(&all), "{:?} {:?} {}", found, all, rules);
    }

    /// In a long stream, contents as close as the window are found, wherever and however it is cut.
    #[test]
    fn the_window_is_kept(
        before in random::bytes(4 * WINDOW), gap in 0usize..WINDOW - 8, after in random::bytes(WINDOW),
        cuts in vec(any::<usize>(), 0..40),
    ) {
        let rule = "alert tcp-stream any any -> any any (content:\"first\"; content:\"last\"; distance:0; sid:1;)";
        let bytes = [&before[..], b"first", &vec![b'.'; gap][..], b"las", b"t", &after[..]].concat();
        let mut bench = Bench::new(rule);
        let alerts: Vec<u32> = cut(&bytes, &cuts)
            .into_iter()
            .flat_map(|piece| bench.sids(Side::ToServer, Kind::Plain, piece))
            .collect();
        prop_assert_eq!(alerts, [1]);
    }
}
