//! Malformed packets through every parser: no panic, no hang, every packet accounted for.
//!
//! The configuration is a tree, so what went into an element is what went into those behind it,
//! and what it dropped, by reason. It runs over captures that are made here with a seed, and over
//! those of `THRUWAY_CAPTURES_DIR`.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::process::Stdio;

use crate::frames::{handmade, mutate, read_capture, write_capture};
use crate::process::{LIMIT, Running, click, on_all_cores, root, run, skip};

/// How an element's outputs follow from its input.
#[derive(Clone, Copy, PartialEq)]
enum Law {
    /// Each packet leaves once or is dropped.
    Conserve,
    /// What is rejected leaves by the last output, its reason counted all the same.
    Divert,
    /// Each packet leaves by every output.
    Copy,
    /// A packet may leave as several.
    Cut,
    /// Output 1 is for queries of its own; packets may be waiting.
    Resolve,
    /// The same, with the packets at input 1.
    Answer,
    /// Each packet leaves once or is dropped; they come in at this one of two inputs.
    Port(u8),
}

struct Node {
    config: &'static str,
    law: Law,
    /// What is connected to its outputs, in order.
    next: Vec<Node>,
}

fn node(config: &'static str, next: Vec<Node>) -> Node {
    Node { config, law: Law::Conserve, next }
}

fn lawful(law: Law, config: &'static str, next: Vec<Node>) -> Node {
    Node { config, law, next }
}

/// A tee to all of these.
fn all(next: Vec<Node>) -> Node {
    lawful(Law::Copy, "Tee", next)
}

fn end() -> Node {
    node("Discard", vec![])
}

/// Elements in a row, by output 0.
fn row(configs: &[&'static str]) -> Node {
    configs.iter().rev().fold(end(), |next, config| node(config, vec![next]))
}

fn ends(n: usize) -> Vec<Node> {
    (0..n).map(|_| end()).collect()
}

/// Every sort of field of a summary.
const SUMMARY: &str = "ToIPSummaryDump(/dev/null, BAD_PACKETS true, VERBOSE true, FIELDS timestamp \
    ip_src ip_dst ip_len ip_proto ip_id ip_ttl ip_tos ip_hl ip_frag ip_fragoff ip_opt ip_sum sport \
    dport tcp_seq tcp_ack tcp_flags tcp_opt tcp_window tcp_sack udp_len icmp_type icmp_code \
    icmp_seq icmp_flowid icmp_nextmtu payload_len payload count link eth_src eth_dst wire_len)";

/// What expects a marked IPv4 header.
fn ip4() -> Node {
    let recheck = || row(&["CheckIPHeader(VERBOSE false)"]);
    all(vec![
        row(&["IPGWOptions(10.0.0.1)"]),
        lawful(
            Law::Divert,
            "IPGWOptions(10.0.0.1, 10.0.0.2)",
            vec![
                lawful(Law::Cut, "IPFragmenter(200)", vec![row(&["DecIPTTL", "SetIPChecksum"])]),
                node("ICMPError(10.0.0.1, parameterproblem, erroratptr)", vec![recheck()]),
            ],
        ),
        lawful(
            Law::Cut,
            "IPFragmenter(68, HONOR_DF false)",
            vec![recheck(), node("ICMPError(10.0.0.1, unreachable, needfrag)", vec![recheck()])],
        ),
        lawful(
            Law::Divert,
            "DecIPTTL",
            vec![end(), row(&["ICMPError(10.0.0.1, timeexceeded, transit)"])],
        ),
        row(&["ICMPError(10.0.0.1, redirect, host)", "CheckIPHeader", "FixIPSrc(10.0.0.1)"]),
        lawful(Law::Divert, "ICMPPingResponder", vec![recheck(), end()]),
        node(
            "IPClassifier(src net 16.0.0.0/16 && tcp && dst port 80, icmp type echo, \
             ip frag, ip vers 4 && ip hl > 5, tcp opt syn || tcp win > 100, udp port >= 1024, -)",
            ends(7),
        ),
        row(&["IPFilter(deny tcp opt fin && tcp opt syn, deny ip ttl < 2, \
              deny src host 1.2.3.4 || dst net 224.0.0.0/4, drop udp && dst port 53, allow all)"]),
        node(
            "StaticIPLookup(16.0.0.0/16 0, 48.0.0.0/8 10.0.0.9 1, 0.0.0.0/0 10.0.0.1 2)",
            vec![
                lawful(Law::Resolve, "ARPQuerier(10.0.0.1, 2:0:0:0:0:1)", ends(2)),
                end(),
                row(&["GetIPAddress(12)", "DropBroadcasts"]),
            ],
        ),
        row(&["IPPrint(x, CONTENTS HEX, TTL true, OUTFILE /dev/null)"]),
        row(&[
            "IPPrint(TIMESTAMP false, PAYLOAD ASCII, ETHER true, TOS true, ID true, OUTFILE /dev/null)",
        ]),
        row(&["SetIPChecksum", "CheckIPHeader"]),
        row(&[SUMMARY]),
        row(&["EtherEncap(0x0800, 2:0:0:0:0:1, 2:0:0:0:0:2)", "EtherMirror", "Strip(34)"]),
    ])
}

/// What expects a marked IPv6 header.
fn ip6() -> Node {
    let recheck = || row(&["CheckIP6Header"]);
    all(vec![
        lawful(
            Law::Divert,
            "DecIP6HLIM",
            vec![end(), node("ICMP6Error(fd00::1, timeexceeded, 0)", vec![recheck()])],
        ),
        node("ICMP6Error(fd00::1, packettoobig, 0, PMTU 1280)", vec![recheck()]),
        node("ICMP6Error(fd00::1, parameterproblem, 1)", vec![recheck()]),
        node("ICMP6Error(fd00::1, redirect, 0)", vec![recheck()]),
        node(
            "LookupIP6Route(fd00::/16 0, 2001::/16 fd00::9 1)",
            vec![
                lawful(Law::Resolve, "IP6NDSolicitor(fd00::1, 2:0:0:0:0:1)", ends(2)),
                lawful(Law::Resolve, "IP6NDSolicitor(fd00::1, 2:0:0:0:0:1)", ends(2)),
            ],
        ),
    ])
}

/// Gateway between QinQ and GRE over MPLS, with a subscriber whom frames may seem to come from.
const GATEWAY: &str = "BNG(ACCESS_MAC 2:0:0:0:0:1, CORE_MAC 2:0:0:0:0:1, IP 10.0.0.1, \
    TUNNEL 0 10.0.0.2 2:0:0:0:0:2 1 16, ROUTE 0/0 0, SUBSCRIBER 100 7 42 16.0.0.0/8)";
const TUNNEL: &str = "IPEncap(gre, 10.0.0.2, 10.0.0.1)";
const SWITCH: &str = "EtherSwitch(PORT 0 TRUNK ALL NATIVE 1, PORT 1 TRUNK 1 5-4000 NATIVE 5)";
const LABELS: &str = "MPLSSwitch(MAC 2:0:0:0:0:1, PUNT 1, 16 pop, 17 swap 18 0 2:0:0:0:0:2, \
    18 pop 0 2:0:0:0:0:2, 0 push 19 0 2:0:0:0:0:2)";

/// What switches frames, and puts them into tunnels.
fn switches() -> Node {
    let chain = |configs: &[&'static str], end: Node| {
        configs.iter().rev().fold(end, |next, config| node(config, vec![next]))
    };
    let labels = || lawful(Law::Divert, LABELS, ends(2));
    let gateway = |port| lawful(Law::Port(port), GATEWAY, ends(2));
    all(vec![
        lawful(Law::Port(0), SWITCH, ends(2)),
        chain(&["VLANEncap(VLAN_ID 6)"], lawful(Law::Port(1), SWITCH, ends(2))),
        lawful(Law::Port(0), "EtherSwitch", ends(2)),
        labels(),
        chain(&["MPLSPush(18, ETHER true)"], labels()),
        chain(&["MPLSPush(17, ETHER true)", "MPLSPush(16, ETHER true)"], labels()),
        gateway(0),
        chain(
            &[
                "EtherRewrite(2:0:0:0:0:9, 2:0:0:0:0:1)",
                "VLANEncap(VLAN_ID 7)",
                "VLANEncap(VLAN_ID 100, ETHERTYPE 0x88a8)",
            ],
            gateway(0),
        ),
        chain(&["EtherRewrite(2:0:0:0:0:9, 2:0:0:0:0:1)"], gateway(1)),
        chain(
            &[
                "Strip(14)",
                "GREEncap(KEY 42)",
                TUNNEL,
                "EtherEncap(0x0800, 2:0:0:0:0:2, 2:0:0:0:0:1)",
            ],
            gateway(1),
        ),
    ])
}

/// What expects an Ethernet header.
fn link() -> Node {
    all(vec![
        switches(),
        lawful(Law::Divert, "ARPResponder(0.0.0.0/0 2:0:0:0:0:1)", ends(2)),
        row(&["ARPResponder(16.0.0.0/8 2:0:0:0:0:1)"]),
        lawful(Law::Divert, "IP6NDAdvertiser(::/0 2:0:0:0:0:1)", ends(2)),
        row(&["IP6NDAdvertiser(fd00::1 2:0:0:0:0:1)"]),
        lawful(Law::Answer, "ARPQuerier(10.0.0.1, 2:0:0:0:0:1)", ends(2)),
        lawful(Law::Answer, "IP6NDSolicitor(fd00::1, 2:0:0:0:0:1)", ends(2)),
        lawful(Law::Divert, "HostEtherFilter(2:0:0:0:0:1)", ends(2)),
        row(&["EtherRewrite(2:0:0:0:0:1, 2:0:0:0:0:2)", "MarkMACHeader", "EtherMirror"]),
        node(
            "Classifier(12/0806 20/0001, 12/8100 16/0800 23/06, 12/0800 14/45%f0, 60/?1, -)",
            ends(5),
        ),
        node("Classifier(12/86dd 20/3a, 200/00)", ends(2)),
        row(&["Strip(60)", "Unstrip(60)", "Strip(1500)"]),
    ])
}

/// Everything; headers are checked, or taken for good at places where they may be anything.
fn everything() -> Node {
    all(vec![
        lawful(Law::Divert, "CheckIPHeader(14, VERBOSE false)", vec![ip4(), end()]),
        node("CheckIPHeader(14)", vec![node("Strip(14)", vec![ip4()])]),
        node("CheckIPHeader2(0, DETAILS true)", vec![ip4()]),
        node("MarkIPHeader(14)", vec![ip4()]),
        node("Strip(14)", vec![node("MarkIPHeader(0)", vec![ip4()])]),
        node("Strip(30)", vec![node("MarkIPHeader(4)", vec![ip4()])]),
        ip4(),
        lawful(Law::Divert, "CheckIP6Header(OFFSET 14)", vec![ip6(), end()]),
        node("Strip(14)", vec![node("CheckIP6Header", vec![ip6()])]),
        node("MarkIPHeader(14)", vec![ip6()]),
        ip6(),
        link(),
        node("Strip(4)", vec![link()]),
        node("Corrupt(0.9, BITS 40, SEED 7)", vec![node("MarkIPHeader(14)", vec![ip4()])]),
        lawful(Law::Divert, "RandomSample(0.3)", ends(2)),
        row(&["Print(x, 4)"]),
    ])
}

/// An element as it was put into the text.
struct Placed {
    name: String,
    config: &'static str,
    law: Law,
    next: Vec<String>,
}

/// Writes a tree as configuration text; returns its root's name.
fn write_tree(node: &Node, text: &mut String, placed: &mut Vec<Placed>) -> String {
    let name = format!("n{}", placed.len());
    placed.push(Placed { name: name.clone(), config: node.config, law: node.law, next: vec![] });
    let at = placed.len() - 1;
    *text += &format!("{name} :: {};\n", node.config);
    if node.law == Law::Answer {
        *text += &format!("Idle -> [0]{name};\n");
    }
    if node.law == Law::Resolve {
        *text += &format!("Idle -> [1]{name};\n");
    }
    if let Law::Port(port) = node.law {
        *text += &format!("Idle -> [{}]{name};\n", 1 - port);
    }
    for (output, next) in node.next.iter().enumerate() {
        let port = match next.law {
            Law::Answer => 1,
            Law::Port(port) => port,
            _ => 0,
        };
        let behind = write_tree(next, text, placed);
        *text += &format!("{name}[{output}] -> [{port}]{behind};\n");
        placed[at].next.push(behind);
    }
    name
}

/// What `-h` printed: handler to its value.
pub fn answers(stdout: &str) -> HashMap<&str, &str> {
    let blocks = stdout.split("\n\n").filter_map(|block| block.trim().split_once(":\n"));
    blocks.map(|(name, value)| (name.trim(), value)).collect()
}

/// The numbers at the beginnings of lines, added.
pub fn total(text: &str) -> u64 {
    let first =
        |line: &str| line.split_whitespace().next().and_then(|word| word.parse::<u64>().ok());
    text.lines().filter_map(first).sum()
}

/// Checks the law of one element.
fn check(element: &Placed, said: &HashMap<&str, &str>) -> Result<(), String> {
    let ask = |name: &str, handler: &str| {
        said.get(format!("{name}.{handler}").as_str()).map_or(0, |value| total(value))
    };
    let came = ask(&element.name, "packets");
    let drops = ask(&element.name, "drop_reasons");
    let went: Vec<u64> = element.next.iter().map(|name| ask(name, "packets")).collect();
    let all: u64 = went.iter().sum();
    let good = match element.law {
        // A sink keeps what comes.
        Law::Conserve | Law::Port(_) => went.is_empty() || came == all + drops,
        Law::Divert => came == all && went.last() == Some(&drops),
        Law::Copy => came * went.len() as u64 == all + drops,
        Law::Cut => {
            let (kept, fragments) = (came - drops, ask(&element.name, "fragments"));
            went[0] >= kept && went[0] <= kept + fragments
        }
        Law::Resolve | Law::Answer => {
            came == went[0] + drops + ask(&element.name, "length")
                && went[1] == ask(&element.name, "queries")
        }
    };
    let Placed { name, config, .. } = element;
    if good {
        Ok(())
    } else {
        Err(format!("{name} {config}: {came} in, {went:?} out, {drops} drops"))
    }
}

/// Runs the tree over captures, all at once. Where one of them is damaged, each by itself: what
/// comes after it is not read.
fn run_over(captures: &[PathBuf], burst: u32) {
    let (mut text, mut placed) = (String::new(), Vec::new());
    let first = write_tree(&everything(), &mut text, &mut placed);
    for (at, file) in captures.iter().enumerate() {
        let file = file.display();
        text += &format!("in{at} :: FromDump(\"{file}\", STOP true, BURST {burst}) -> {first};\n");
    }
    text += &format!("DriverManager(wait_stop {});\n", captures.len());
    let counts: Vec<String> = (0..captures.len()).map(|at| format!("in{at}.count")).collect();
    let handlers = ["*.packets", "*.drop_reasons", "*.length", "*.queries", "*.fragments"];
    let mut args = vec!["--simtime", "-w", "-e", &text];
    args.extend(
        handlers.into_iter().chain(counts.iter().map(String::as_str)).flat_map(|h| ["-h", h]),
    );
    // Several captures through hundreds of elements.
    let done = Running::start(click(&args).stdin(Stdio::null())).wait(LIMIT * 10);
    assert!(!done.stderr.contains("panicked"), "{captures:?}: {}", done.stderr);
    if done.code() != 0 {
        if captures.len() > 1 {
            return captures.iter().for_each(|one| run_over(std::slice::from_ref(one), burst));
        }
        let told =
            ["is truncated", "is damaged", "too long"].iter().any(|w| done.stderr.contains(w));
        assert!(done.code() == 1 && told, "{captures:?}: {}", done.stderr);
    }
    let said = answers(&done.stdout);
    let of = |name: &String| said.get(name.as_str()).map(|n| total(n));
    let read: Option<u64> = counts.iter().map(of).sum();
    assert_eq!(read, said.get("n0.packets").map(|n| total(n)), "{captures:?}");
    let wrong: Vec<String> = placed.iter().filter_map(|one| check(one, &said).err()).collect();
    assert!(wrong.is_empty(), "{captures:?} with BURST {burst}:\n{}", wrong.join("\n"));
}

#[test]
fn mutated_frames_are_accounted_for() {
    let dir = tempfile::tempdir().expect("a directory");
    for seed in 1..=4 {
        let frames = mutate(&handmade(&root()), seed, 1500);
        let file = dir.path().join(format!("mutated-{seed}.pcap"));
        write_capture(&file, &frames);
        run_over(&[file], if seed % 2 == 0 { 1 } else { 64 });
    }
}

#[test]
fn other_captures_are_accounted_for() {
    let Some(dir) = std::env::var_os("THRUWAY_CAPTURES_DIR") else {
        skip("other_captures_are_accounted_for", "THRUWAY_CAPTURES_DIR is not set");
        return;
    };
    let mut files = Vec::new();
    find(Path::new(&dir), &mut files);
    assert!(!files.is_empty(), "THRUWAY_CAPTURES_DIR has no *.pcap or *.pcapng");
    // The start of so large a configuration costs more than most captures do.
    let together: Vec<_> = files.chunks(16).collect();
    on_all_cores(&together, |files| run_over(files, 32));
}

#[test]
fn the_gateway_stands_hostile_captures() {
    let dir = tempfile::tempdir().expect("a directory");
    let file = |name: &str| dir.path().join(name).display().to_string();
    for (name, seed) in [("lan", 11), ("wan", 12)] {
        // The captures begin with what tells the neighbours' Ethernet addresses.
        let whole = root().join(format!("examples/captures/{name}.pcap"));
        let mut frames: Vec<_> = read_capture(&whole).into_iter().take(300).collect();
        frames.extend(mutate(&handmade(&root()), seed, 2700));
        write_capture(&dir.path().join(name), &frames);
    }
    let port = |name: &str| format!("pcap:{}>{}", file(name), file(&format!("{name}-out")));
    let mut command = crate::process::thruway();
    command.arg("run").arg(root().join("examples/gateway.click"));
    command
        .args(["LAN_IP=16.0.1.1", "LAN_NET=16.0.0.0/16"])
        .arg(format!("LAN={}", port("lan")))
        .arg(format!("WAN={}", port("wan")));
    let done = run(&mut command).expect(0);
    // All were read, and each output is a capture.
    let table = done.prints(&["3,000", "bad-checksum", "bad-length"]).stdout;
    for name in ["lan-out", "wan-out"] {
        let frames = read_capture(&dir.path().join(name));
        let row = table.lines().find(|line| line.contains(&file(name).replace("-out", ">")));
        assert!(row.is_some(), "{name}: {table}");
        assert!(!frames.is_empty(), "{name}: {table}");
    }
}

#[test]
fn damaged_files_are_read_or_refused() {
    let dir = tempfile::tempdir().expect("a directory");
    let file = |name: &str| dir.path().join(name).display().to_string();
    write_capture(&dir.path().join("a.pcap"), &handmade(&root())[..30]);
    let (pcap, pcapng) = (file("a.pcap"), file("a.pcapng"));
    let convert = format!("FromDump({pcap}, STOP true) -> ToDump({pcapng}, FORMAT pcapng)");
    run(&mut click(&["-e", &convert])).expect(0);
    let mut refused = 0;
    for (at, name) in [&pcap, &pcapng].into_iter().cycle().take(40).enumerate() {
        let whole = std::fs::read(name).expect("just written");
        let damaged = mutate(&[whole], at as u64, 1).remove(0);
        let (path, out) = (file("damaged"), file("out"));
        std::fs::write(&path, damaged).expect("room for a file");
        let text =
            format!("FromDump({path}, STOP true) -> c :: Counter -> o :: ToDump({out}, SNAPLEN 0)");
        let done = run(&mut click(&["-w", "-e", &text, "-h", "c.count", "-h", "o.count"]));
        assert!(!done.stderr.contains("panicked"), "{name} {at}: {done:#?}");
        match done.code() {
            0 => {}
            1 => {
                refused += 1;
                assert!(done.stderr.contains(&path), "it is named: {name} {at}: {done:#?}");
            }
            _ => panic!("{name} {at}: {done:#?}"),
        }
        // What was read is in the output, to the last whole packet.
        if let Some(count) = answers(&done.stdout).get("c.count").map(|count| total(count)) {
            assert_eq!(read_capture(&dir.path().join("out")).len() as u64, count, "{name} {at}");
        }
    }
    assert!(refused > 5, "the files were damaged: {refused}");
}

#[test]
fn summaries_may_be_nonsense() {
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().join("summary");
    let fields =
        "!data timestamp ip_src ip_dst ip_proto ip_len sport dport tcp_opt ip_opt tcp_sack\n";
    let good = "1.5 1.2.3.4 5.6.7.8 T 60 80 1024 mss1460;sackok rr{1.2.3.4}+1 -\n";
    let mut text = format!("!IPSummaryDump 1.3\n{fields}{good}").into_bytes();
    let lines = vec![good.as_bytes().to_vec(); 10];
    for line in mutate(&lines, 5, 3000) {
        text.extend(line);
        text.push(b'\n');
    }
    std::fs::write(&path, text).expect("room for a summary");
    let (file, checksum) = (path.display(), "CHECKSUM true");
    let text = format!(
        "in :: FromIPSummaryDump(\"{file}\", STOP true, {checksum}) -> n :: Null -> Discard"
    );
    let done = run(&mut click(&["-w", "-e", &text, "-h", "n.packets"])).expect(0);
    let packets: u64 = done.stdout.trim().parse().expect("a number");
    assert!((100..=3100 * 4).contains(&packets), "{packets}");
}

/// Captures in a directory and those below.
fn find(dir: &Path, files: &mut Vec<PathBuf>) {
    let Ok(entries) = std::fs::read_dir(dir) else { return };
    for path in entries.flatten().map(|entry| entry.path()) {
        if path.is_dir() {
            find(&path, files);
        } else if path.extension().is_some_and(|end| end == "pcap" || end == "pcapng") {
            files.push(path);
        }
    }
    files.sort();
}
