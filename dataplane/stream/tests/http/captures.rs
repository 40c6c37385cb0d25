//! Answers that were made to get a well-known test file past inspection ("HTTP evader"): with
//! `THRUWAY_CORPORA=DIR`, the captures in DIR/oracle/http_evader.
//!
//! A strict reader shows the file, or refuses the answer: it never takes the answer for one without
//! the file. Bodies with a content encoding are not looked into, here as elsewhere.

use std::path::Path;

use thruway_stream::http::{Fault, Kind, Rules};

use crate::feeder::{Feeder, Part};
use crate::transactions::corpora;

/// What every capture hides.
const HIDDEN: &[u8] = b"EICAR-STANDARD-ANTIVIRUS-TEST-FILE";

/// What became of a capture.
#[derive(Debug, PartialEq)]
enum Outcome {
    Shown,
    Refused(Fault),
    /// It has a content encoding or a transfer coding besides chunked.
    Coded,
    Missed,
}

/// TCP payloads of a capture of Ethernet frames with IPv4, in order: port 80 is the server.
fn payloads(capture: &[u8]) -> Vec<(Kind, &[u8])> {
    let word = |at: usize| u16::from_be_bytes([capture[at], capture[at + 1]]);
    let (mut at, mut payloads) = (24, Vec::new());
    while at + 16 <= capture.len() {
        let len = u32::from_le_bytes(capture[at + 8..at + 12].try_into().unwrap()) as usize;
        let ip = at + 16 + 14;
        let tcp = ip + usize::from(capture[ip] & 15) * 4;
        let payload = tcp + usize::from(capture[tcp + 12] >> 4) * 4;
        let kind = if word(tcp) == 80 { Kind::Response } else { Kind::Request };
        payloads.push((kind, &capture[payload..ip + usize::from(word(ip + 2))]));
        at += 16 + len;
    }
    payloads
}

fn outcome(capture: &[u8], rules: Rules) -> Outcome {
    let mut feeder = Feeder::new(rules);
    for (kind, payload) in payloads(capture) {
        if let Err(fault) = feeder.feed(kind, payload) {
            return Outcome::Refused(fault);
        }
    }
    if let Err(fault) = feeder.finish(Kind::Response) {
        return Outcome::Refused(fault);
    }
    let parts = &feeder.parts[Kind::Response as usize];
    let body: Vec<u8> =
        parts.iter().filter(|(part, _)| *part == Part::Body).flat_map(|(_, b)| b.clone()).collect();
    if body.windows(HIDDEN.len()).any(|window| window == HIDDEN) {
        return Outcome::Shown;
    }
    let is_coded = parts.iter().filter(|(part, _)| *part == Part::Head).any(|(_, head)| {
        let text = String::from_utf8_lossy(head).to_lowercase();
        text.contains("content-encoding") || text.contains("transfer-encoding: gzip")
    });
    if is_coded { Outcome::Coded } else { Outcome::Missed }
}

fn outcomes(dir: &Path, rules: Rules) -> Vec<(String, Outcome)> {
    let mut all: Vec<(String, Outcome)> = std::fs::read_dir(dir)
        .expect("the folder")
        .map(|entry| entry.expect("an entry").path())
        .filter(|path| path.extension().is_some_and(|end| end == "pcap"))
        .map(|path| {
            let name = path.file_stem().expect("a name").to_string_lossy().into_owned();
            (name, outcome(&std::fs::read(&path).expect("a capture"), rules))
        })
        .collect();
    all.sort_by(|a, b| a.0.cmp(&b.0));
    all
}

#[test]
fn what_evaders_hide_is_shown_or_refused() {
    let Some(dir) = corpora("what_evaders_hide_is_shown_or_refused", "oracle/http_evader") else {
        return;
    };
    let all = outcomes(&dir, Rules::STRICT);
    assert!(all.len() > 200, "{} captures", all.len());
    let missed: Vec<_> = all.iter().filter(|(_, outcome)| *outcome == Outcome::Missed).collect();
    assert!(missed.is_empty(), "{missed:?}");
    // Refusing everything would not do either.
    let shown = all.iter().filter(|(_, outcome)| *outcome == Outcome::Shown).count();
    assert!(shown >= 30, "{shown} shown");
}

/// A lenient policy also reads what most receivers read.
#[test]
fn a_lenient_reader_shows_more() {
    let Some(dir) = corpora("a_lenient_reader_shows_more", "oracle/http_evader") else { return };
    let shown = |rules| {
        let all = outcomes(&dir, rules).into_iter();
        all.filter(|(_, outcome)| *outcome == Outcome::Shown).count()
    };
    assert!(shown(Rules::LENIENT) > shown(Rules::STRICT));
}
