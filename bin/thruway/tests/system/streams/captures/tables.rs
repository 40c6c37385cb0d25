//! What the tables beside a capture say.

use std::path::Path;
use std::process::Command;

use super::truth::{End, Flow};
use crate::sessions::captures::plain;

/// Lines of a table without its head, split.
fn lines(file: &Path) -> Vec<Vec<String>> {
    let dir = tempfile::tempdir().expect("a directory");
    let text = std::fs::read_to_string(plain(file, dir.path())).expect("a table");
    let split = |line: &str| line.split('\t').map(str::to_owned).collect();
    text.lines().skip(1).map(split).collect()
}

fn beside(file: &Path, end: &str) -> std::path::PathBuf {
    file.display().to_string().replace(".pcap.gz", end).into()
}

fn bytes(hex: &str) -> Vec<u8> {
    let pair = |at: usize| u8::from_str_radix(&hex[at..at + 2], 16).expect("hexadecimal");
    (0..hex.len()).step_by(2).map(pair).collect()
}

fn end(address: &str, port: &str) -> End {
    (address.parse().expect("an address"), port.parse().expect("a port"))
}

/// The streams of a connection.
pub struct FlowRow {
    pub ends: [End; 2],
    pub instance: usize,
    /// Length and SHA-256.
    pub streams: [(usize, String); 2],
}

/// Those of a capture.
pub fn flow_rows(file: &Path) -> Vec<FlowRow> {
    let row = |row: Vec<String>| FlowRow {
        ends: [end(&row[1], &row[2]), end(&row[3], &row[4])],
        instance: row[5].parse().expect("a number"),
        streams: [
            (row[14].parse().expect("a length"), row[16].clone()),
            (row[15].parse().expect("a length"), row[17].clone()),
        ],
    };
    let rows = lines(&beside(file, ".flows.tsv.gz")).into_iter();
    rows.filter(|row| row[0] == "tcp").map(row).collect()
}

/// A word to look for.
#[derive(Debug)]
pub struct Word {
    bytes: Vec<u8>,
    hex: String,
    nocase: bool,
}

impl Word {
    /// An element that looks for it.
    pub fn matcher(&self, at: usize) -> String {
        format!("m{at} :: WordMatcher(\\<{}>, NOCASE {})", self.hex, self.nocase)
    }

    /// How often it is in a stream, one behind the other.
    pub fn count(&self, stream: &[u8]) -> usize {
        let fold = |byte: u8| if self.nocase { byte.to_ascii_lowercase() } else { byte };
        let (mut at, mut count) = (0, 0);
        while let Some(here) = stream.get(at..at + self.bytes.len()) {
            let is_it = here.iter().zip(&self.bytes).all(|(a, b)| fold(*a) == fold(*b));
            at += if is_it { self.bytes.len() } else { 1 };
            count += usize::from(is_it);
        }
        count
    }
}

/// Those of a capture's table.
pub fn words(file: &Path) -> Vec<Word> {
    let word = |row: Vec<String>| Word {
        bytes: bytes(&row[1]),
        hex: row[1].clone(),
        nocase: row[3] == "1",
    };
    lines(&beside(file, ".words.tsv")).into_iter().map(word).collect()
}

/// What becomes of a stream.
pub struct ModRow {
    pub ends: [End; 2],
    pub instance: usize,
    pub side: usize,
    pub sha256: String,
}

impl ModRow {
    /// The stream among those that came out: who is the client may look otherwise from one side.
    pub fn find<'a>(&self, flows: &'a [Flow]) -> &'a [u8] {
        let mut ends = self.ends;
        ends.rotate_left(self.side);
        let of = flows.iter().filter_map(|flow| {
            let at = usize::from(flow.ends[0] != ends[0]);
            let same = flow.ends[at] == ends[0] && flow.ends[1 - at] == ends[1];
            same.then_some(&flow.streams[at])
        });
        of.max_by_key(|stream| stream.len()).map_or(&[], Vec::as_slice)
    }
}

/// A change, and the streams that have something to be changed.
pub struct Change {
    mode: String,
    word: String,
    with: String,
    pub rows: Vec<ModRow>,
}

impl Change {
    /// The chain that makes it.
    pub fn chain(&self) -> String {
        let mode = match self.mode.split('_').next() {
            Some("REPLACE") => format!("REPLACE, WITH \\<{}>", self.with),
            mode => mode.unwrap_or_default().to_owned(),
        };
        // Nobody acknowledges.
        format!(
            "TCPIn(PICK_UP true, TOTAL 1G, BUFFER 64M) -> WordMatcher(\\<{}>, MODE {mode}) -> TCPOut",
            self.word
        )
    }
}

/// Those of a capture's table.
pub fn mods(file: &Path) -> Vec<Change> {
    let mut changes: Vec<Change> = Vec::new();
    for row in lines(&beside(file, ".mods.tsv.gz")) {
        let [mode, word, with] = [0, 1, 2].map(|at| row[at].clone());
        let is_same =
            |change: &Change| change.mode == mode && change.word == word && change.with == with;
        let at = changes.iter().position(is_same).unwrap_or_else(|| {
            changes.push(Change { mode, word, with, rows: Vec::new() });
            changes.len() - 1
        });
        changes[at].rows.push(ModRow {
            ends: [end(&row[3], &row[4]), end(&row[5], &row[6])],
            instance: row[7].parse().expect("a number"),
            side: usize::from(row[8] == "s2c"),
            sha256: row[12].clone(),
        });
    }
    changes
}

/// SHA-256 of each, by the tool.
pub fn sha256(streams: &[&[u8]]) -> Vec<String> {
    let dir = tempfile::tempdir().expect("a directory");
    let mut sums = Vec::new();
    for some in streams.chunks(500) {
        let mut tool = Command::new("sha256sum");
        for (at, stream) in some.iter().enumerate() {
            let file = dir.path().join(at.to_string());
            std::fs::write(&file, stream).expect("room for a file");
            tool.arg(file);
        }
        let done = tool.output().expect("sha256sum is there");
        let text = String::from_utf8(done.stdout).expect("text");
        sums.extend(text.lines().map(|line| line[..64].to_owned()));
    }
    assert_eq!(sums.len(), streams.len());
    sums
}
