//! `thruway ctl`: reads, writes, and lists sessions with filters and in pages, while packets flow.

use serde_json::{Value, json};

use super::{Asked, ctl, field};
use crate::process::wait_for;

/// Sends `count` packets of as many flows: source ports from `first` on, 192.0.2.1 to 198.51.100.1.
fn many(first: u16, count: u16) -> String {
    (0..count).map(|n| format!("192.0.2.1 {} 198.51.100.1 53 U\n", first + n)).collect()
}

const FIELDS: &str = "!data ip_src sport ip_dst dport ip_proto\n";

/// A directory with summaries that sources read.
fn summary(text: &str) -> (tempfile::TempDir, String) {
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().join("summary");
    std::fs::write(&path, format!("{FIELDS}{text}")).expect("room for a summary");
    let name = path.display().to_string();
    (dir, name)
}

#[test]
fn handlers_are_read_and_written() {
    let asked = Asked::start(&["-e", "s :: RatedSource(RATE 1000) -> c :: Counter -> Discard"]);
    assert_eq!(asked.output(&["read", "c.class"]), "Counter\n");
    wait_for("packets", || (asked.number("c.count") > 0).then_some(()));
    assert_eq!(asked.output(&["write", "s.active", "false"]), "");
    asked.output(&["write", "c.reset"]);
    assert_eq!(asked.number("c.count"), 0);

    asked.ctl(&["read", "nosuch.count"]).expect(1).says(&["No element named 'nosuch'"]);
    asked.ctl(&["read", "c.nosuch"]).expect(1).says(&["nosuch"]);
    asked.ctl(&["write", "c.count", "5"]).expect(1).says(&["c.count"]);
    asked.ctl(&["write", "s.active", "maybe"]).expect(1).says(&["maybe"]);
    asked.ctl(&["read", "c.count\nWRITE s.active true"]).expect(1).says(&["one line"]);
    asked.ctl(&["flows"]).expect(1).says(&["no FlowClassifier"]);
    asked.ctl(&["read"]).expect(2).says(&["CALL"]);
    let nobody = asked.dir.path().join("nobody");
    ctl(&nobody, &["flows"]).expect(1).says(&["nobody", "ControlSocket(UNIX"]);
}

/// TCP in each state, UDP and an ICMP query, through a translator.
const MIXED: &str = "10.0.0.1 1000 198.51.100.1 80 T S
10.0.0.2 2000 198.51.100.2 443 T S
10.0.0.3 3000 198.51.100.3 53 U -
";

#[test]
fn filters_choose_and_replies_are_shown() {
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().join("mixed");
    let fields = "!data ip_src sport ip_dst dport ip_proto tcp_flags\n";
    std::fs::write(&path, format!("{fields}{MIXED}")).expect("room for a summary");
    let text = format!(
        "FromIPSummaryDump({}, CHECKSUM true) -> in :: FlowClassifier(INPUT ip)
        ~> nat :: NAT(SNAT 10.0.0.0/8 -> 192.0.2.1:2000-2999) -> t :: Tee;
        t[0] -> sent :: Counter -> Discard;
        t[1] -> IPClassifier(udp) -> IPMirror -> out :: FlowClassifier(INPUT ip) ~> [1]nat;
        nat[1] -> back :: Counter -> Discard",
        path.display()
    );
    let asked = Asked::start(&["-e", &text]);
    asked.wait("sent.count", 3);
    asked.wait("back.count", 1);
    let count = |filter: &[&str]| {
        let said = asked.output(&[&["flows", "--count"], filter].concat());
        said.trim().parse::<u64>().expect("a number")
    };
    for (filter, expected) in [
        (&[][..], 3),
        (&["proto", "tcp"], 2),
        (&["proto", "tcp", "src", "10.0.0.2"], 1),
        (&["src", "10.0.0.0/30"], 3),
        (&["dst", "198.51.100.0/31"], 1),
        (&["dport", "443"], 1),
        (&["state", "new"], 2),
        (&["state", "open"], 1),
        // As the reply has it.
        (&["dst", "192.0.2.1", "sport", "53"], 1),
        (&["dst", "192.0.2.1"], 3),
        (&["proto", "icmp"], 0),
    ] {
        assert_eq!(count(filter), expected, "{filter:?}");
    }
    let line = asked.output(&["flows", "proto", "udp"]);
    let (forward, reply) = line.split_once(" reply ").expect("it is translated");
    assert!(forward.starts_with("udp open "), "{line}");
    assert_eq!(field(forward, "src"), Some("10.0.0.3"));
    assert_eq!([field(reply, "src"), field(reply, "sport")], [Some("198.51.100.3"), Some("53")]);
    assert_eq!(field(reply, "dst"), Some("192.0.2.1"));
    let port: u16 = field(reply, "dport").and_then(|port| port.parse().ok()).expect("a port");
    assert!((2000..3000).contains(&port), "{line}");

    let session: Value = serde_json::from_str(&asked.output(&["flows", "--json", "proto", "udp"]))
        .expect("one object");
    assert_eq!((&session["protocol"], &session["state"]), (&json!("udp"), &json!("open")));
    let forward =
        json!({"src": "10.0.0.3", "dst": "198.51.100.3", "src_port": 3000, "dst_port": 53});
    assert_eq!(session["forward"], forward);
    assert_eq!(session["reply"]["dst_port"], port);
    assert_eq!(asked.output(&["flows", "--json"]).lines().count(), 3);
    assert_eq!(asked.output(&["read", "--json", "sent.count"]), "\"3\"\n");

    assert_eq!(asked.output(&["flows", "--limit", "2"]).lines().count(), 2);
    assert_eq!(asked.output(&["flows", "--element", "out", "--count"]), "3\n");
    for (words, why) in [
        (&["flows", "colour", "red"][..], "'colour' is no filter; expected proto NAME"),
        (&["flows", "proto"], "lacks a value"),
        (&["flows", "src", "10.0.0.0/33"], "no address or prefix such as"),
        (&["flows", "state", "asleep"], "new|open|closing|closed"),
        (&["flows", "--element", "nosuch"], "nosuch"),
        (&["flows", "--element", "sent"], "flows"),
        (&["read", "in.flows", "9:x"], "no place to go on at, such as 0:0"),
    ] {
        asked.ctl(words).expect(1).says(&[why]);
    }
    asked.driver.interrupt().expect(0);
}

#[test]
fn pages_are_whole_with_several_threads_while_packets_flow() {
    // More than two pages in one thread, less than one in the other.
    let (_first, here) = summary(&many(10_000, 2500));
    let (_second, there) = summary(&many(30_000, 300));
    let text = format!(
        "a :: FromIPSummaryDump({here}, CHECKSUM true) -> fc :: FlowClassifier(INPUT ip)
        -> FlowDispatcher(-, SESSION connection) -> c :: Counter -> Discard;
        b :: FromIPSummaryDump({there}, CHECKSUM true) -> other :: FlowClassifier(INPUT ip)
        -> FlowDispatcher(-, SESSION connection) -> d :: Counter -> Discard;
        live :: RatedSource(\\<4500001c 00000000 40110000 0a000001 c0000201 03e80035 00080000>, 2000)
        -> fc; StaticThreadSched(a 0, b 1, live 0)"
    );
    let asked = Asked::start(&["-j", "2", "-e", &text]);
    asked.wait("d.count", 300);
    asked.wait("fc.sessions", 2801);
    for _ in 0..3 {
        let listing = asked.output(&["flows", "src", "192.0.2.1"]);
        let mut ports: Vec<u16> = listing
            .lines()
            .map(|l| field(l, "sport").unwrap_or("0").parse().expect("a port"))
            .collect();
        ports.sort_unstable();
        let expected: Vec<u16> = (10_000..12_500).chain(30_000..30_300).collect();
        assert!(ports == expected, "{} lines", ports.len());
    }
    assert_eq!(asked.output(&["flows", "--count"]), "2801\n");
    assert_eq!(
        asked.output(&["flows", "src", "192.0.2.1", "--limit", "1500"]).lines().count(),
        1500
    );
    let before = asked.number("c.count");
    wait_for("live packets", || (asked.number("c.count") > before).then_some(()));
    asked.driver.interrupt().expect(0);
}
