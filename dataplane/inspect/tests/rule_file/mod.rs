//! Bytes as a file of rules and as traffic that the rules are looked for in. Nothing may panic,
//! what is printed is read again, and every rule is either loaded or refused with a reason.

use std::sync::Arc;

use thruway_inspect::events::{Alert, flow_id};
use thruway_inspect::rules::{
    Facts, Found, Inspector, Kind, Limits, Piece, Rule, RuleSet, Session, Side, Variables,
};

const LIMITS: Limits = Limits { window: 64, head: 128, slots: 2, counters: 8 };

/// What stands before the first 0xff is the file, what behind it is the traffic: pieces, each
/// behind a byte with its length, side and type.
pub fn rule_file(bytes: &[u8]) {
    let end = bytes.iter().position(|byte| *byte == 0xff).unwrap_or(bytes.len());
    let (file, traffic) = bytes.split_at(end);
    for line in file.split(|byte| *byte == b'\n') {
        let Ok(text) = std::str::from_utf8(line) else { continue };
        if let Ok(rule) = Rule::parse(text) {
            assert_eq!(Rule::parse(&rule.to_string()), Ok(rule), "{text}");
        }
    }
    let loaded = RuleSet::load_lenient(file, &Variables::usual());
    assert_eq!(loaded.errors.is_empty(), loaded.refused == 0);
    assert_eq!(RuleSet::load(file, &Variables::usual()).is_ok(), loaded.refused == 0);
    flow(Inspector::new(Arc::new(loaded.set), LIMITS), traffic.get(1..).unwrap_or(&[]));
}

fn flow(mut inspector: Inspector, mut traffic: &[u8]) {
    let (mut session, mut found, mut out) = (Session::default(), Found::default(), String::new());
    let mut packet = [0; 40];
    (packet[0], packet[9]) = (0x45, 6);
    let mut now = 0;
    while let [first, rest @ ..] = traffic {
        let len = usize::from(first >> 3).min(rest.len()) * if *first == 0xff { 5 } else { 1 };
        let (bytes, rest) = rest.split_at(len.min(rest.len()));
        traffic = rest;
        let facts = Facts { side: Side::of(usize::from(first & 1)), ..Facts::of(&packet).unwrap() };
        let kind = match first >> 1 & 3 {
            0 => Kind::Head,
            1 => Kind::Body,
            _ => Kind::Plain,
        };
        now += i64::from(*first) << 28;
        found.clear();
        let piece = Piece { facts: &facts, bytes, kind, now };
        if first >> 1 & 3 == 3 {
            inspector.packet(&mut session, piece, &mut found);
        } else {
            inspector.stream(&mut session, piece, &mut found);
        }
        for rule in &found.alerts {
            out.clear();
            let rule = &inspector.set().rules()[*rule as usize];
            let http = inspector.message();
            let (flow_id, app) = (flow_id(&facts), session.app());
            let (category, is_blocked) = ("", false);
            Alert { now, flow_id, facts: &facts, app, rule, category, is_blocked, http }
                .write(&mut out);
            assert!(out.is_ascii() && out.ends_with("}\n"));
        }
    }
    inspector.end(&session);
    assert_eq!(inspector.slots_free(), LIMITS.slots);
}
