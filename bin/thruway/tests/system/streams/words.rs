//! Words in the streams of a capture, against what others counted.
//!
//! `THRUWAY_CORPORA=DIR` has `campus/trex_sfr_open.pcap.gz`, and beside it `.words.tsv` with a row
//! for each word: how often it occurs in all streams of TCP, counted over each reassembled stream
//! as a whole. (In captures with holes the count would end at the first, where a connection does
//! not.) And the word filter of the examples between real hosts.

use std::path::Path;
use std::time::Duration;

use crate::network::{HostConfig, Network};
use crate::process::{Running, click, privileged, root, skip};
use crate::sessions::captures::plain;
use crate::traffic::iperf_defaults;

/// A row of the table: bytes in hex, whether case is ignored, and how often they occur.
struct Row {
    hex: String,
    nocase: bool,
    count: u64,
}

/// Each so many words are looked for: all of them take minutes in a debug build.
const EACH: usize = 5;

fn rows(file: &Path) -> Vec<Row> {
    let text = std::fs::read_to_string(file).unwrap_or_else(|e| panic!("{}: {e}", file.display()));
    let mut lines = text.lines().map(|line| line.split('\t').collect::<Vec<&str>>());
    let names = lines.next().expect("a first line");
    let place = |name: &str| names.iter().position(|it| *it == name).expect("a column");
    let (hex, nocase) = (place("word_hex"), place("nocase"));
    let count = place("occurrences_nonoverlapping");
    let row = |line: Vec<&str>| Row {
        hex: line[hex].to_owned(),
        nocase: line[nocase] == "1",
        count: line[count].parse().expect("a count"),
    };
    lines.step_by(EACH).map(row).collect()
}

/// Functions with state that share a session.
const AT_ONCE: usize = 31;

/// Counts of all words, by an element for each, in one run.
fn seen(capture: &Path, rows: &[Row]) -> Vec<u64> {
    let mut config =
        format!("FromDump({}, STOP true) -> FlowClassifier ~> TCPIn", capture.display());
    let mut handlers = Vec::new();
    for (at, row) in rows.iter().enumerate() {
        config += &format!(" -> w{at} :: WordMatcher(\\<{}>, NOCASE {})", row.hex, row.nocase);
        handlers.extend(["-h".to_owned(), format!("w{at}.matches")]);
    }
    config += " -> TCPOut -> Discard";
    let mut args = vec!["-e", &config];
    args.extend(handlers.iter().map(String::as_str));
    let done = Running::start(&mut click(&args)).wait(Duration::from_secs(300)).expect(0);
    done.stdout.lines().filter_map(|line| line.parse().ok()).collect()
}

#[test]
fn words_in_streams_are_those_that_others_counted() {
    let Some(corpora) = std::env::var_os("THRUWAY_CORPORA") else {
        skip("words_in_streams_are_those_that_others_counted", "THRUWAY_CORPORA is not set");
        return;
    };
    let campus = Path::new(&corpora).join("campus");
    let rows = rows(&campus.join("trex_sfr_open.words.tsv"));
    let dir = tempfile::tempdir().expect("a directory");
    let capture = plain(&campus.join("trex_sfr_open.pcap.gz"), dir.path());
    for rows in rows.chunks(AT_ONCE) {
        let seen = seen(&capture, rows);
        assert_eq!(seen.len(), rows.len());
        for (row, seen) in rows.iter().zip(seen) {
            assert_eq!(seen, row.count, "{} (nocase {})", row.hex, row.nocase);
        }
    }
}

/// Two hosts of one network, with the filter on the cable between them.
const CLIENT: HostConfig = HostConfig { addresses: &["10.3.0.1/24"], routers: &[] };
const SERVER: HostConfig = HostConfig { addresses: &["10.3.0.2/24"], routers: &[] };

/// With nothing set on the filter, the hosts or iperf3: segments as long as offloads make them.
#[test]
fn iperf3_passes_the_word_filter_by_its_defaults() {
    if !privileged("iperf3_passes_the_word_filter_by_its_defaults") {
        return;
    }
    let dir = tempfile::tempdir().expect("a directory");
    let control = format!("CONTROL={}", dir.path().join("control").display());
    let mut network = Network::new(&CLIENT, &SERVER);
    let mut command = network.middle.thruway();
    command.arg("run").arg(root().join("examples/words.click"));
    network.route(command.args(["LAN=lan0", "WAN=wan0", &control]), "10.3.0.2");
    iperf_defaults(&network.lan, &network.wan, "10.3.0.2");
    network.stop().expect(0);
}
