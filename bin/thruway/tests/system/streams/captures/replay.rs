//! Captures through a chain of stream functions.

use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::frames::{read_capture, write_capture};
use crate::process::{Running, click};
use crate::sessions::captures::plain;

/// Longest time that a capture may take.
const LIMIT: Duration = Duration::from_secs(300);

/// Timeouts that nothing here lives to see.
const LONG: &str = "TCP_NEW 1h, TCP_CLOSING 1h, TCP_CLOSED 1h";

/// Looks for something that is not there, in order.
pub const LOOK: &str =
    "in :: TCPIn -> WordMatcher(\\<00112233445566778899aabbccddeeff>) -> out :: TCPOut";
/// The same, and forces the receiver to see the same.
pub const GUARD: &str = "in :: TCPIn -> WordMatcher(\\<00112233445566778899aabbccddeeff>, MODE CLOSE) \
                         -> out :: TCPOut";
/// The same, where checksums are those of a host whose network card computes them.
pub const UNCHECKED: &str = "in :: TCPIn(CHECKSUM false) -> WordMatcher(\\<00112233445566778899aabbccddeeff>, \
                             MODE CLOSE) -> out :: TCPOut";
/// Makes streams longer.
pub const CHANGE: &str = "in :: TCPIn -> WordMatcher(e, MODE REPLACE, WITH eee) -> out :: TCPOut";

/// What came of it.
pub struct Sent {
    pub frames: Vec<Vec<u8>>,
    /// Numbers that handlers told, in the order in which they were asked.
    pub answers: Vec<u64>,
}

/// The Ethernet frames of a capture of any sort; none, where it has others.
pub fn frames_of(file: &Path) -> Vec<Vec<u8>> {
    let dir = tempfile::tempdir().expect("a directory");
    let (input, output) = (plain(file, dir.path()), dir.path().join("copy.pcap"));
    let text = format!(
        "FromDump(\"{}\", STOP true) -> ToDump(\"{}\");",
        input.display(),
        output.display()
    );
    // What is cut off is read as far as it goes.
    let done = Running::start(&mut click(&["-e", &text])).wait(LIMIT);
    assert!(done.code() <= 1 && !done.stderr.contains("panicked"), "{done:#?}");
    let is_ethernet =
        std::fs::read(&output).is_ok_and(|bytes| bytes.get(20..24) == Some(&[1, 0, 0, 0]));
    if is_ethernet { read_capture(&output) } else { Vec::new() }
}

/// Lets frames pass a chain, one at a time.
pub fn replay(frames: &[Vec<u8>], chain: &str) -> Sent {
    replay_asking(frames, chain, &[])
}

/// The same; then asks handlers for numbers.
pub fn replay_asking(frames: &[Vec<u8>], chain: &str, ask: &[String]) -> Sent {
    let dir = tempfile::tempdir().expect("a directory");
    let (input, output) = (dir.path().join("in.pcap"), dir.path().join("out.pcap"));
    write_capture(&input, frames);
    let text = format!(
        "FromDump(\"{}\", STOP true) -> FlowClassifier({LONG}) ~> {chain} -> ToDump(\"{}\");",
        input.display(),
        output.display()
    );
    let handlers = ask.iter().flat_map(|call| ["-h", call]);
    let args: Vec<&str> = ["-e", &text].into_iter().chain(handlers).collect();
    let done = Running::start(&mut click(&args)).wait(LIMIT).expect(0);
    let answers = done.stdout.lines().filter_map(|line| line.trim().parse().ok()).collect();
    Sent { frames: read_capture(&output), answers }
}

/// Sums up the numbers of a handler's lines.
fn sum(lines: &str) -> u64 {
    lines.split_whitespace().filter_map(|word| word.parse::<u64>().ok()).sum()
}

/// Runs a capture of any sort through a chain: packets that came, were made, have left, wait,
/// were dropped.
pub fn account(file: &Path, chain: &str) -> [u64; 5] {
    let text = format!(
        "s :: FromDump(\"{}\", STOP true) -> fc :: FlowClassifier(INPUT marked, {LONG}) ~> {chain} \
         -> c :: Counter -> Discard;",
        file.display()
    );
    let asked = [
        "s.count",
        "in.made",
        "out.made",
        "c.count",
        "in.delayed",
        "in.drops",
        "out.drops",
        "fc.drops",
    ];
    let handlers = asked.iter().flat_map(|call| ["-h", call]);
    let args: Vec<&str> = ["-e", &text].into_iter().chain(handlers).collect();
    let done = Running::start(&mut click(&args)).wait(LIMIT);
    assert!(done.code() <= 1 && !done.stderr.contains("panicked"), "{done:#?}");
    // Each answer stands below its name.
    let answer = |name: &str| {
        let from = done.stdout.find(&format!("{name}:")).expect("an answer") + name.len() + 1;
        let text = &done.stdout[from..];
        sum(&text[..text.find(':').unwrap_or(text.len())])
    };
    let [came, made, made_behind, left, waits, one, two, three] = asked.map(answer);
    [came, made + made_behind, left, waits, one + two + three]
}

/// Captures in a directory and those below.
pub fn captures_below(dir: &Path) -> Vec<PathBuf> {
    let mut files = Vec::new();
    let Ok(entries) = std::fs::read_dir(dir) else { return files };
    for path in entries.flatten().map(|entry| entry.path()) {
        let name = path.display().to_string();
        if path.is_dir() {
            files.extend(captures_below(&path));
        } else if [".pcap", ".pcapng", ".pcap.gz"].iter().any(|end| name.ends_with(end)) {
            files.push(path);
        }
    }
    files.sort();
    files
}
