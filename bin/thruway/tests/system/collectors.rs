//! Collectors that operators have: what nfcapd and sfcapd (nfdump) make of what is sent to them.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use rustix::process::Signal;

use crate::network::Namespace;
use crate::process::{Running, need, privileged, root, run, wait_for};

/// Port of the collector.
const PORT: u16 = 29_995;

/// A collector that runs in a namespace of its own, and the folder where it writes.
struct Lab {
    host: Namespace,
    collector: Running,
    dir: tempfile::TempDir,
}

/// What nfdump counts of all that came: flows, packets, bytes.
#[derive(Debug, PartialEq, Eq)]
struct Totals {
    flows: u64,
    packets: u64,
    bytes: u64,
}

impl Lab {
    fn new(program: &str, package: &str) -> Lab {
        need(program, package);
        need("nfdump", "nfdump");
        let host = Namespace::new("collector");
        host.ip("link set lo up");
        let dir = tempfile::tempdir().expect("a directory");
        let mut command = host.command(program);
        command.args(["-p", &PORT.to_string(), "-b", "127.0.0.1", "-t", "3600", "-l"]);
        let collector = Running::start(command.arg(dir.path()));
        let port = format!(":{PORT:04X} ");
        wait_for("the collector's port", || {
            let sockets = host.within(|| fs::read_to_string("/proc/thread-self/net/udp"));
            sockets.is_ok_and(|sockets| sockets.contains(&port)).then_some(())
        });
        Lab { host, collector, dir }
    }

    /// Runs elements over a capture to its end, at its pace: the collector has little room. `$to`
    /// in them is the collector.
    fn replay(&self, elements: &str) {
        let text = format!(
            "FromDump({}, TIMING true, STOP true) -> {} -> Discard",
            capture().display(),
            elements.replace("$to", &format!("127.0.0.1:{PORT}"))
        );
        run(self.host.thruway().args(["run", "-e", &text])).expect(0);
    }

    /// Ends the collector and gives its folder and its file's name.
    fn end(self) -> (tempfile::TempDir, PathBuf) {
        let Lab { collector, dir, .. } = self;
        // It takes what has come before it ends.
        collector.signal(Signal::TERM);
        collector.wait(std::time::Duration::from_secs(10));
        let files = fs::read_dir(dir.path()).expect("a directory").flatten();
        let mut files = files.map(|entry| entry.path());
        let is_record = |path: &PathBuf| {
            path.file_name().is_some_and(|name| name.to_string_lossy().starts_with("nfcapd.2"))
        };
        let file = files.find(is_record).expect("the collector writes a file when it ends");
        (dir, file)
    }
}

fn capture() -> PathBuf {
    root().join("examples/captures/lan.pcap")
}

/// What nfdump prints of a file.
fn nfdump(file: &Path, arguments: &[&str]) -> String {
    run(Command::new("nfdump").arg("-r").arg(file).args(arguments)).expect(0).stdout
}

fn totals(file: &Path) -> Totals {
    let text = nfdump(file, &["-N"]);
    let line = text.lines().find_map(|line| line.strip_prefix("Summary: ")).expect("a summary");
    let number = |name: &str| {
        let value = line.split(", ").find_map(|part| part.strip_prefix(name)).expect("a total");
        value.trim().parse().expect("a number")
    };
    let (flows, packets) = (number("total flows:"), number("total packets:"));
    Totals { flows, packets, bytes: number("total bytes:") }
}

/// The sums of a file of SessionStats, and the seconds at which its first session began.
fn sums(csv: &Path) -> (Totals, f64) {
    let text = fs::read_to_string(csv).expect("records");
    let mut totals = Totals { flows: 0, packets: 0, bytes: 0 };
    let mut first = f64::MAX;
    for line in text.lines().skip(1) {
        let fields: Vec<&str> = line.split(',').collect();
        let number = |at: usize| fields[at].parse::<u64>().expect("a number");
        totals.flows += 1;
        totals.packets += number(7) + number(12);
        totals.bytes += number(8) + number(13);
        first = fields[5].parse::<f64>().expect("a time").min(first);
    }
    (totals, first)
}

#[test]
fn nfcapd_counts_what_the_records_of_sessions_say() {
    if !privileged("collectors::nfcapd_counts_what_the_records_of_sessions_say") {
        return;
    }
    let lab = Lab::new("nfcapd", "nfdump");
    let csv = lab.dir.path().join("sessions.csv");
    lab.replay(&format!("FlowClassifier ~> SessionStats({}, COLLECTOR $to)", csv.display()));
    let (_dir, file) = lab.end();
    let (wanted, first) = sums(&csv);
    assert!(wanted.flows > 500, "{wanted:?}");
    assert_eq!(totals(&file), wanted);
    // Sessions without replies keep their times.
    let lines = nfdump(&file, &["-q", "-o", "fmt:%tsr"]);
    let times: Vec<f64> =
        lines.lines().map(|line| line.trim().parse().expect("seconds since 1970")).collect();
    assert_eq!(times.len() as u64, wanted.flows);
    let earliest = times.into_iter().fold(f64::MAX, f64::min);
    assert!((earliest - first).abs() < 0.01, "{earliest} is not {first}");
}

#[test]
fn sfcapd_counts_what_was_sampled() {
    if !privileged("collectors::sfcapd_counts_what_was_sampled") {
        return;
    }
    // Each packet is a sample.
    let lab = Lab::new("sfcapd", "nfdump-sflow");
    lab.replay("SFlow($to, RATE 1, SAMPLES_MAX 20000)");
    let (_dir, file) = lab.end();
    let all = totals(&file);
    let (packets, bytes) = counted(&fs::read(capture()).expect("a capture"));
    // A frame's check sequence counts, too.
    assert_eq!((all.packets, all.bytes), (packets, bytes + 4 * packets));
    // One in ten, each for ten: within five deviations.
    let lab = Lab::new("sfcapd", "nfdump-sflow");
    lab.replay("SFlow($to, RATE 10, SEED 7)");
    let (_dir, file) = lab.end();
    let sampled = totals(&file).packets as f64;
    let deviation = 5.5 * (packets as f64 / 10.0).sqrt();
    assert!((sampled - packets as f64).abs() < 5.0 * deviation, "{sampled} of {packets}");
}

/// Packets of a capture, and the bytes of their frames.
fn counted(capture: &[u8]) -> (u64, u64) {
    let (mut packets, mut bytes, mut rest) = (0, 0, &capture[24..]);
    while let Some((record, behind)) = rest.split_at_checked(16) {
        let number = |at: usize| u32::from_le_bytes(record[at..at + 4].try_into().expect("four"));
        packets += 1;
        bytes += u64::from(number(12));
        rest = &behind[number(8) as usize..];
    }
    (packets, bytes)
}
