//! Sessions counted over captures, against a set of five-tuples that is made by a plain method.
//!
//! `THRUWAY_CORPORA=DIR` adds the captures under DIR. Beside `NAME.pcap.gz` there may be
//! `NAME.flows.tsv.gz`, a row for each TCP or UDP flow that begins with protocol, client, port,
//! server, port. `index.tsv` has rows that begin with a capture's name, packets, bytes, flows.

use std::collections::{BTreeSet, HashMap};
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::{Asked, field};
use crate::frames::{handmade, mutate, read_capture, write_capture};
use crate::process::{on_all_cores, root, skip, wait_for};

/// A connection: protocol and both ends, the smaller one first.
type Connection = (String, [(IpAddr, u16); 2]);

fn connection(protocol: &str, mut ends: [(IpAddr, u16); 2]) -> Connection {
    ends.sort();
    (protocol.to_owned(), ends)
}

/// The connection of an Ethernet frame with IPv4, TCP or UDP, by the places that headers have when
/// there are neither tags nor fragments, as in the bundled captures.
fn of_frame(frame: &[u8]) -> Option<Connection> {
    let word = |at: usize| Some(u16::from_be_bytes([*frame.get(at)?, *frame.get(at + 1)?]));
    let address = |at: usize| -> Option<IpAddr> {
        Some(<[u8; 4]>::try_from(frame.get(at..at + 4)?).ok()?.into())
    };
    if word(12)? != 0x0800 || word(20)? & 0x3FFF != 0 {
        return None;
    }
    let protocol = match frame.get(23)? {
        6 => "tcp",
        17 => "udp",
        _ => return None,
    };
    let ports = 14 + usize::from(frame.get(14)? & 15) * 4;
    let ends = [(address(26)?, word(ports)?), (address(30)?, word(ports + 2)?)];
    Some(connection(protocol, ends))
}

/// The connection of a line of the listing.
fn of_line(line: &str) -> Connection {
    let read = |address: &str, port: &str| {
        let address = field(line, address)?.parse().ok()?;
        Some((address, field(line, port)?.parse().ok()?))
    };
    let ends = read("src", "sport").zip(read("dst", "dport"));
    let (from, to) = ends.unwrap_or_else(|| panic!("no ends: {line}"));
    connection(line.split(' ').next().unwrap_or_default(), [from, to])
}

/// Timeouts that nothing here lives to see.
const LONG: &str = "TCP_NEW 1h, TCP_CLOSING 1h, TCP_CLOSED 1h, UDP_NEW 1h, UDP 1h, ICMP 1h, \
                    OTHER_NEW 1h, OTHER 1h, EMBRYONIC_MAX 1048576";

/// What became of captures.
struct Seen {
    packets: u64,
    /// TCP and UDP.
    connections: BTreeSet<Connection>,
    /// Lines of these in the listing: one for each thread that serves the connection.
    lines: u64,
    /// All that ever began, and all that are there.
    created: u64,
    sessions: u64,
    /// Packets without one, and those that a source could not emit.
    sessionless: u64,
}

/// The sum of the numbers of a handler with a line for each.
fn sum(text: &str) -> u64 {
    text.split_whitespace().filter_map(|word| word.parse::<u64>().ok()).sum()
}

/// Runs captures through classifiers, each in a thread of its own, and asserts that every packet is
/// accounted for.
#[track_caller]
fn see(files: &[PathBuf]) -> Seen {
    let way = |(at, file): (usize, &PathBuf)| {
        format!(
            "s{at} :: FromDump(\"{}\") -> fc{at} :: FlowClassifier(INPUT marked, {LONG})
            -> FlowDispatcher(-, SESSION connection) -> c{at} :: Counter -> Discard;
            StaticThreadSched(s{at} {at});\n",
            file.display()
        )
    };
    let text: String = files.iter().enumerate().map(way).collect();
    let asked = Asked::start(&["-j", &files.len().to_string(), "-e", &text]);
    let (mut packets, mut unread) = (0, 0);
    for at in 0..files.len() {
        wait_for("the end of the capture", || {
            (asked.output(&["read", &format!("s{at}.active")]).trim() == "false").then_some(())
        });
        let came = asked.number(&format!("s{at}.count"));
        let drops = sum(&asked.output(&["read", &format!("fc{at}.drops")]));
        assert_eq!(came, asked.number(&format!("c{at}.count")) + drops, "{files:?}");
        packets += came;
        unread += sum(&asked.output(&["read", &format!("s{at}.drops")]));
    }
    let mut connections = BTreeSet::new();
    let mut lines = 0;
    for protocol in ["tcp", "udp"] {
        let listing = asked.output(&["flows", "proto", protocol]);
        lines += listing.lines().count() as u64;
        connections.extend(listing.lines().map(of_line));
    }
    let [created, sessions] =
        ["created", "sessions"].map(|name| asked.number(&format!("fc0.{name}")));
    let all = asked.output(&["flows", "--count"]);
    assert_eq!(all.trim(), sessions.to_string(), "{files:?}");
    let sessionless = unread + sum(&asked.output(&["read", "fc0.sessionless"]));
    // Captures that are cut off fail, and are read up to there.
    let done = asked.driver.interrupt();
    assert!([0, 1].contains(&done.code()) && !done.stderr.contains("panicked"), "{done:#?}");
    Seen { packets, connections, lines, created, sessions, sessionless }
}

#[test]
fn sessions_of_the_bundled_captures_are_their_five_tuples() {
    let path = |name: &str| root().join("examples/captures").join(name);
    let files = [path("lan.pcap"), path("wan.pcap")];
    let frames: Vec<Vec<u8>> = files.iter().flat_map(|file| read_capture(file)).collect();
    let expected: BTreeSet<Connection> = frames.iter().filter_map(|f| of_frame(f)).collect();
    assert!(expected.len() > 300, "the captures have connections: {}", expected.len());

    // Each direction in a thread of its own.
    let apart = see(&files);
    assert!(apart.connections == expected);
    let each =
        |file| read_capture(file).iter().filter_map(|f| of_frame(f)).collect::<BTreeSet<_>>();
    let halves = files.iter().map(|file| each(file).len() as u64).sum::<u64>();
    assert_eq!((apart.packets, apart.lines), (frames.len() as u64, halves));

    // Both in one.
    let dir = tempfile::tempdir().expect("a directory");
    let both = dir.path().join("both.pcap");
    write_capture(&both, &frames);
    let seen = see(&[both]);
    assert!(seen.connections == expected);
    assert_eq!((seen.lines, seen.packets), (expected.len() as u64, frames.len() as u64));
    let plain = frames.iter().filter(|frame| of_frame(frame).is_none()).count() as u64;
    assert_eq!((seen.sessionless, seen.sessions), (plain, expected.len() as u64));
}

#[test]
fn mutated_frames_have_sessions_or_none() {
    let dir = tempfile::tempdir().expect("a directory");
    let file = dir.path().join("mutated.pcap");
    write_capture(&file, &mutate(&handmade(&root()), 21, 5000));
    let seen = see(&[file]);
    assert!(seen.created >= seen.sessions && seen.sessions > 0);
    assert!(seen.packets >= seen.sessionless + seen.created, "each packet begins one at most");
}

/// A file of a corpus: what `gzip` makes of it, or itself.
pub fn plain(file: &Path, dir: &Path) -> PathBuf {
    let name = file.file_name().and_then(|name| name.to_str()).expect("plain text");
    let Some(name) = name.strip_suffix(".gz") else { return file.to_owned() };
    let done = Command::new("gzip").arg("-dc").arg(file).output().expect("gzip is there");
    assert!(done.status.success(), "{}", file.display());
    std::fs::write(dir.join(name), done.stdout).expect("room for a file");
    dir.join(name)
}

/// The connections that a table names.
fn of_table(file: &Path) -> BTreeSet<Connection> {
    let text = std::fs::read_to_string(file).expect("a table");
    let row = |line: &str| {
        let mut words = line.split('\t');
        let mut next = || words.next();
        let (protocol, client, port) = (next()?, next()?.parse().ok()?, next()?.parse().ok()?);
        let (server, other) = (next()?.parse().ok()?, next()?.parse().ok()?);
        Some(connection(protocol, [(client, port), (server, other)]))
    };
    text.lines().filter_map(row).collect()
}

/// Captures in a directory and those below.
fn find(dir: &Path, files: &mut Vec<PathBuf>) {
    let Ok(entries) = std::fs::read_dir(dir) else { return };
    for path in entries.flatten().map(|entry| entry.path()) {
        let name = path.display().to_string();
        if path.is_dir() {
            find(&path, files);
        } else if [".pcap", ".pcapng", ".pcap.gz"].iter().any(|end| name.ends_with(end)) {
            files.push(path);
        }
    }
    files.sort();
}

/// Flows by capture, as the `index.tsv` files of a corpus have them.
fn indexed(dir: &Path, counts: &mut HashMap<PathBuf, usize>) {
    let Ok(entries) = std::fs::read_dir(dir) else { return };
    for path in entries.flatten().map(|entry| entry.path()) {
        if path.is_dir() {
            indexed(&path, counts);
        } else if path.file_name().is_some_and(|name| name == "index.tsv") {
            let text = std::fs::read_to_string(&path).unwrap_or_default();
            for line in text.lines() {
                let words: Vec<&str> = line.split('\t').collect();
                if let [name, _, _, flows, ..] = words[..]
                    && let Ok(flows) = flows.parse()
                {
                    counts.insert(dir.join(name), flows);
                }
            }
        }
    }
}

/// What is wrong with a capture's sessions, if anything is.
fn judge(file: &Path, counts: &HashMap<PathBuf, usize>) -> Option<String> {
    let dir = tempfile::tempdir().expect("a directory");
    let seen = see(&[plain(file, dir.path())]);
    let table = file.display().to_string().replace(".pcap.gz", ".flows.tsv.gz");
    let expected = Path::new(&table).exists() && table.ends_with(".tsv.gz");
    let expected = expected.then(|| of_table(&plain(Path::new(&table), dir.path())));
    let found = seen.connections.len();
    println!(
        "{}: {} packets, {found} TCP and UDP, {} sessions, {} begun, {} packets without",
        file.display(),
        seen.packets,
        seen.sessions,
        seen.created,
        seen.sessionless
    );
    // Flows in tunnels and of fragments only are none here: their packets are reported as such.
    let explained = |count: usize| count == found || count > found && seen.sessionless > 0;
    let wrong = match (&expected, counts.get(file)) {
        (Some(expected), _) => (*expected != seen.connections).then_some(expected.len()),
        (None, count) => count.copied().filter(|count| !explained(*count)),
    };
    if let Some(count) = counts.get(file).filter(|count| **count != found) {
        println!("  {count} in the index");
    }
    wrong.map(|count| format!("{}: {found}, expected {count}", file.display()))
}

#[test]
fn sessions_of_other_captures_are_those_expected() {
    let Some(dir) = std::env::var_os("THRUWAY_CORPORA") else {
        skip("sessions_of_other_captures_are_those_expected", "THRUWAY_CORPORA is not set");
        return;
    };
    let (mut files, mut counts) = (Vec::new(), HashMap::new());
    find(Path::new(&dir), &mut files);
    indexed(Path::new(&dir), &mut counts);
    assert!(!files.is_empty(), "THRUWAY_CORPORA has no captures");
    let wrong = on_all_cores(&files, |file| judge(file, &counts));
    let wrong: Vec<String> = wrong.into_iter().flatten().collect();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
