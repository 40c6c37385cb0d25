//! Rules over captures, against the alerts that others expect.
//!
//! `THRUWAY_CORPORA=DIR` has folders `oracle/ips/CASE` with rules, a capture, and `expected.json`
//! with the alerts by number of the rule that Suricata reports (its own tests); and `campus`
//! with a capture and, for many patterns, the number of directions of connections that each is in.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::process::{Running, click, skip};
use crate::sessions::captures::plain;

/// What stands between FlowClassifier and the rules, and behind them.
const TCP: (&str, &str) = ("TCPIn", "TCPOut");
/// With connections that were not seen to open, as there are in captures of one direction.
const HTTP: (&str, &str) = ("TCPIn(PICK_UP true) -> HTTPIn", "HTTPOut -> TCPOut");

/// A case, the context, and the rules whose alerts are compared. Others of the case are about what
/// is not served here: packets without payload, data in a SYN or behind a hole (neither goes on),
/// protocols other than HTTP taken apart, bodies that are compressed.
type Case = (&'static str, (&'static str, &'static str), &'static [u32]);

const CASES: [Case; 16] = [
    ("bug-1045", TCP, &[1, 2, 3]),
    ("bug-2491-01", TCP, &[1, 2]),
    ("bug-2491-01", HTTP, &[1, 2]),
    ("bug-3286-02-linux-evasion", TCP, &[1]),
    ("bug-4376", HTTP, &[1, 2]),
    ("bug-6244-tcp-rst-with-data", TCP, &[2, 4]),
    ("bug-6244-tcp-rst-with-data-02", TCP, &[2, 4, 5]),
    ("bug-docs-5030-01", TCP, &[1]),
    ("eve-overlap-payload-04-partial-overlap", TCP, &[1, 2, 4]),
    ("eve-overlap-payload-05-gap", TCP, &[1, 2, 4, 5, 7]),
    ("http-chunked", TCP, &[11, 12, 13, 14, 15, 16]),
    ("http-post-data-decompression", HTTP, &[2]),
    ("ssh-newkeys", TCP, &[1300013]),
    ("tcp-rst-unacked-stream-01-raw", TCP, &[1]),
    ("tcp-rst-unacked-stream-02-raw-ips", TCP, &[1]),
    ("tcp-split-handshake-02-5whs", TCP, &[1, 2, 3]),
];

/// Counts by number of the rule. The file has a line for each thing, and begins with the alerts.
fn expected(file: &Path) -> BTreeMap<u32, u64> {
    let text = std::fs::read_to_string(file).unwrap_or_else(|e| panic!("{}: {e}", file.display()));
    let (mut counts, mut rule) = (BTreeMap::new(), None);
    for line in text.lines().map(str::trim).take_while(|line| !line.starts_with("\"words\"")) {
        let Some((name, value)) = line.split_once(':') else { continue };
        let (name, value) = (name.trim_matches('"'), value.trim().trim_end_matches(','));
        match (name, value) {
            (name, "[") => rule = name.parse().ok(),
            ("count", value) => {
                let Some(rule) = rule else { continue };
                *counts.entry(rule).or_default() += value.parse::<u64>().expect("a count");
            }
            _ => {}
        }
    }
    counts
}

/// The first file of a folder with this ending.
fn with_ending(folder: &Path, ending: &str) -> PathBuf {
    let files = std::fs::read_dir(folder).unwrap_or_else(|e| panic!("{}: {e}", folder.display()));
    let mut paths = files.map(|file| file.expect("an entry").path());
    let is_it = |path: &PathBuf| path.extension().is_some_and(|it| it == ending);
    paths.find(is_it).unwrap_or_else(|| panic!("{} has no {ending}", folder.display()))
}

/// Alerts by number of the rule, as the element counts them.
fn seen(folder: &Path, (enter, leave): (&str, &str)) -> BTreeMap<u32, u64> {
    let (capture, rules) = (with_ending(folder, "pcap"), with_ending(folder, "rules"));
    let config = format!(
        "FromDump({}, STOP true) -> VLANDecap -> FlowClassifier ~> {enter} -> ips :: \
         IntrusionPrevention({}, LENIENT true, DROP false, HOME_NET any, EXTERNAL_NET any, DIRECTIONS_MAX 32768) \
         -> {leave} -> Discard",
        capture.display(),
        rules.display()
    );
    let done = Running::start(&mut click(&["-e", &config, "-h", "ips.matches"]));
    let done = done.wait(Duration::from_secs(300)).expect(0);
    let count = |line: &str| {
        let (count, rest) = line.split_once(" sid ")?;
        Some((rest.split_once(':')?.0.parse().ok()?, count.parse().ok()?))
    };
    done.stdout.lines().filter_map(count).collect()
}

#[test]
fn alerts_are_those_that_others_expect() {
    let Some(corpora) = std::env::var_os("THRUWAY_CORPORA") else {
        skip("alerts_are_those_that_others_expect", "THRUWAY_CORPORA is not set");
        return;
    };
    let mut wrong = Vec::new();
    for (name, context, rules) in CASES {
        let folder = Path::new(&corpora).join("oracle/ips").join(name);
        let (expected, seen) = (expected(&folder.join("expected.json")), seen(&folder, context));
        for rule in rules {
            let wanted = expected.get(rule).copied().unwrap_or(0);
            let found = seen.get(rule).copied().unwrap_or(0);
            println!("{name} {} rule {rule}: {found} of {wanted}", context.0);
            if wanted != found {
                wrong.push(format!("{name} {}: rule {rule}: {found}, not {wanted}", context.0));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// Patterns looked for at once: two flow bits each, of 512 that there are.
const PATTERNS: usize = 250;
/// Share of the directions that must be found. In the capture there are connections that a careful
/// reader of TCP judges otherwise (segments out of the window, ports that are used again).
const SHARE_MIN: f64 = 0.99;

/// A pattern as hex, whether case matters not, and in how many directions it is.
type Hit = (String, bool, u64);

/// Connections of the campus capture that begin anew here and not in the table (4,210 and 4,191):
/// what comes after the end of a connection, or after its timeout, is one of its own.
const ANEW: u64 = 4210 - 4191;

/// Of a table with a line for each pattern: those that are found only across packets first.
fn hits(file: &Path) -> Vec<Hit> {
    let text = std::fs::read_to_string(file).unwrap_or_else(|e| panic!("{}: {e}", file.display()));
    let mut rows: Vec<Vec<&str>> =
        text.lines().skip(1).map(|line| line.split('\t').collect()).collect();
    rows.retain(|row| row[0].len() >= 8);
    rows.sort_by_key(|row| row[4] == "0");
    let hit = |row: &Vec<&str>| (row[0].to_owned(), row[1] == "1", row[2].parse().unwrap_or(0));
    let step = |at: &usize| *at < PATTERNS / 2 || at.is_multiple_of(7);
    (0..rows.len()).filter(step).map(|at| hit(&rows[at])).take(PATTERNS).collect()
}

/// For each pattern a rule for either direction, which is reported once in a connection.
fn once_a_direction(hits: &[Hit]) -> String {
    let mut rules = String::new();
    for (at, (hex, nocase, _)) in hits.iter().enumerate() {
        let bytes: Vec<&str> = (0..hex.len() / 2).map(|at| &hex[2 * at..2 * at + 2]).collect();
        let nocase = if *nocase { "nocase; " } else { "" };
        for (way, side) in ["to_server", "to_client"].into_iter().enumerate() {
            rules += &format!(
                "alert tcp-stream any any -> any any (flow:{side}; flowbits:isnotset,b{at}.{way}; \
                 content:\"|{}|\"; {nocase}flowbits:set,b{at}.{way}; sid:{};)\n",
                bytes.join(" "),
                2 * at + way + 2
            );
        }
    }
    rules
}

#[test]
fn patterns_are_in_the_streams_that_others_find_them_in() {
    let Some(corpora) = std::env::var_os("THRUWAY_CORPORA") else {
        skip("patterns_are_in_the_streams_that_others_find_them_in", "THRUWAY_CORPORA is not set");
        return;
    };
    let campus = Path::new(&corpora).join("campus");
    let folder = tempfile::tempdir().expect("a directory");
    plain(&campus.join("campus_open.pcap.gz"), folder.path());
    let hits = hits(&campus.join("campus_open.hits_et_open_2017.tsv"));
    std::fs::write(folder.path().join("all.rules"), once_a_direction(&hits)).expect("a file");

    let seen = seen(folder.path(), TCP);
    let (mut found, mut wanted) = (0, 0);
    for (at, (hex, _, count)) in hits.iter().enumerate() {
        let rule = 2 * at as u32 + 2;
        let here: u64 = [rule, rule + 1].iter().filter_map(|rule| seen.get(rule)).sum();
        assert!(here <= *count + ANEW, "{hex} is in {here} directions, not {count}");
        (found, wanted) = (found + here, wanted + count);
    }
    println!("{} patterns: {found} of {wanted} directions", hits.len());
    assert!(found as f64 >= wanted as f64 * SHARE_MIN, "{found} of {wanted}");
}
