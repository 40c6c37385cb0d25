//! The order of each flow's packets, and both directions of connections in different threads.

use std::collections::HashMap;
use std::path::Path;

use super::Asked;
use crate::frames::{read_capture, write_capture};

/// Flows of each source, and packets of each flow.
const FLOWS: u32 = 150;
const PACKETS: u32 = 12;

/// Where the number of a flow's packet stands: behind Ethernet, IPv4 and UDP headers.
const PAYLOAD: usize = 14 + 20 + 8;

/// The client's address and port of a flow.
fn client(flow: u32) -> [u8; 6] {
    let [_, _, high, low] = flow.to_be_bytes();
    let [first, second] = (5000 + flow as u16 % 40).to_be_bytes();
    [10, 0, high, low, first, second]
}

/// A UDP datagram of a flow, with the flow and the packet's number in it.
fn frame(flow: u32, number: u32) -> Vec<u8> {
    let from = client(flow);
    let mut frame = vec![2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1, 8, 0];
    frame.extend([0x45, 0, 0, 46, 0, 0, 0, 0, 64, 17, 0, 0]);
    frame.extend(&from[..4]);
    frame.extend([198, 51, 100, 1]);
    frame.extend(&from[4..]);
    frame.extend([0, 53, 0, 26, 0, 0]);
    frame.extend(flow.to_be_bytes());
    frame.extend(number.to_be_bytes());
    frame.resize(60, 0);
    frame
}

/// Packets of many flows, one of each in turn.
fn capture(file: &Path, first: u32) {
    let numbers = (0..PACKETS).flat_map(|number| (first..first + FLOWS).map(move |f| (f, number)));
    write_capture(file, &numbers.map(|(flow, number)| frame(flow, number)).collect::<Vec<_>>());
}

/// A firewall and a translator: packets of the sources in their threads, the answers in the last
/// one.
fn text(dir: &Path, sources: u32, last: u32) -> String {
    let source = |n: u32| {
        let file = dir.join(format!("{n}.pcap"));
        format!("s{n} :: FromDump({}) -> inside; StaticThreadSched(s{n} {n});\n", file.display())
    };
    format!(
        "inside :: FlowClassifier ~> SessionStats(-) ~> fw :: StatefulFirewall(allow udp)
        ~> nat :: NAT(SNAT 10.0.0.0/8 -> 192.0.2.1-192.0.2.4:1024-65535)
        -> IPMirror -> ThreadSafeQueue(100000) -> u :: Unqueue -> FlowClassifier ~> [1] nat;
        nat[1] ~> [1] fw; fw[1] -> back :: ToDump({}, SNAPLEN 0);
        StaticThreadSched(u {last}); {}",
        dir.join("back").display(),
        (0..sources).map(source).collect::<String>()
    )
}

/// Runs so many sources, each in a thread of its own, with the answers in thread `last`.
fn runs_in_order(threads: u32, sources: u32, last: u32) {
    let dir = tempfile::tempdir().expect("a directory");
    for n in 0..sources {
        capture(&dir.path().join(format!("{n}.pcap")), n * FLOWS);
    }
    let text = text(dir.path(), sources, last);
    let asked = Asked::start(&["-j", &threads.to_string(), "-e", &text]);
    let flows = FLOWS * sources;
    asked.wait("back.count", u64::from(flows * PACKETS));
    let halves = if last < sources { 2 * flows - FLOWS } else { 2 * flows };
    let open = asked.output(&["flows", "--count", "state", "open"]);
    assert_eq!(open, format!("{halves}\n"), "each half knows of the other");
    asked.driver.interrupt().expect(0);

    let mut next: HashMap<u32, u32> = HashMap::new();
    for frame in read_capture(&dir.path().join("back")) {
        let word = |at: usize| u32::from_be_bytes([0, 1, 2, 3].map(|n| frame[at + n]));
        let (flow, number) = (word(PAYLOAD), word(PAYLOAD + 4));
        // Translated back to who sent it.
        assert_eq!([&frame[30..34], &frame[36..38]].concat(), client(flow), "flow {flow}");
        let expected = next.entry(flow).or_default();
        assert_eq!(number, *expected, "flow {flow} with {sources} sources");
        *expected += 1;
    }
    assert_eq!(next.len(), flows as usize);
    assert!(next.values().all(|count| *count == PACKETS));
}

#[test]
fn one_thread_keeps_the_order() {
    runs_in_order(1, 1, 0);
}

#[test]
fn answers_in_another_thread_pass_in_order() {
    runs_in_order(2, 1, 1);
}

#[test]
fn several_threads_keep_the_order() {
    runs_in_order(2, 2, 1);
    runs_in_order(4, 3, 3);
}
