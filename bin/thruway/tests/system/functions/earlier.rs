//! Functions that were built of an earlier commit (`scripts/old-functions`) under this Thruway:
//! what they do to packets is what they did then (ADR 79).

use std::path::PathBuf;

use rustix::process::{Pid, Signal, kill_process};
use thruway_wire::checksum::checksum;

use super::{Captures, frames};
use crate::control::Client;
use crate::frames::write_capture;
use crate::process::{Running, click, root, run, skip, wait_for};

/// What functions of that commit agree on with this host: there were no features yet.
const INTERFACE: &str = "version 5, features: none";

fn directory() -> PathBuf {
    root().join("target/old-functions")
}

/// Runs a configuration until its captures are at their end and the function has given all back, or
/// some call ends it: what these handlers say then.
fn read(text: &str, options: &[&str], handlers: &[&str]) -> String {
    read_after("", text, options, handlers)
}

/// The same after these steps of a script, behind the captures' end.
fn read_after(steps: &str, text: &str, options: &[&str], handlers: &[&str]) -> String {
    let text = format!(
        "{text}; DriverManager(pause, {steps} label busy, wait 5ms,
         goto busy $(ne $(nf.occupancy) 0), stop)"
    );
    let handlers = handlers.iter().flat_map(|handler| ["-h", handler]);
    let all = options.iter().copied().chain(["-e", &text]).chain(handlers);
    run(&mut click(&all.collect::<Vec<_>>())).expect(0).stdout
}

/// Whether there are such functions; says so if not.
fn are_built(test: &str) -> bool {
    let are_built = directory().join("built").exists();
    if !are_built {
        skip(test, "there are no functions of an earlier commit: scripts/old-functions");
    }
    are_built
}

/// EXEC of an earlier function and its arguments.
fn earlier(call: &str) -> String {
    let bin = directory().join("bin").canonicalize().expect("scripts/old-functions");
    format!("EXEC \"{}/{call}\"", bin.display())
}

/// The function's counters at the end of a run, a line each.
fn counters(text: &str) -> Vec<String> {
    let text = read(text, &[], &["nf.counters", "nf.interface", "nf.peer_faults"]);
    let text = text.strip_prefix("nf.counters:\n").expect("counters come first");
    let (counters, rest) = text.split_once("\n\nnf.interface:\n").expect("then the interface");
    let (interface, faults) = rest.split_once("\n\n").expect("then faults");
    assert_eq!(interface, INTERFACE);
    assert_eq!(faults.trim(), "nf.peer_faults:\n0");
    counters.lines().map(str::to_owned).collect()
}

/// Sends a capture through a function; counters, and what came out by output 0.
fn through(call: &str, more: &str, captures: &Captures) -> (Vec<String>, Vec<Vec<u8>>) {
    let (input, output) = (captures.path("in"), captures.path("out"));
    let nf = format!("Nf({}{more})", earlier(call));
    let text = format!("FromDump({input}, STOP true) -> nf :: {nf} -> ToDump({output})");
    (counters(&text), captures.written("out"))
}

/// An Ethernet frame of a UDP packet of IPv4, with a payload of this length.
fn datagram(nth: u16, port: u16, len: usize) -> Vec<u8> {
    let payload = (0..len).map(|at| (at * 31 + usize::from(nth)) as u8);
    let mut ip = vec![0x45, 0, 0, 0, 0, 0, 0, 0, 64, 17, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2];
    ip[2..4].copy_from_slice(&(28 + len as u16).to_be_bytes());
    ip[4..6].copy_from_slice(&nth.to_be_bytes());
    let sum = checksum(&ip);
    ip[10..12].copy_from_slice(&sum.to_be_bytes());
    let ports = [nth.to_be_bytes(), port.to_be_bytes()].concat();
    let rest = [(8 + len as u16).to_be_bytes(), [0, 0]].concat();
    let ethernet = [&[2; 12][..], &[8, 0]].concat();
    [ethernet, ip, ports, rest, payload.collect()].concat()
}

/// Datagrams to three ports, by turns.
fn datagrams(count: u16) -> Vec<Vec<u8>> {
    (0..count).map(|nth| datagram(nth, 21 + nth % 3, usize::from(nth) % 1200)).collect()
}

#[test]
fn earlier_functions_look_and_drop() {
    if !are_built("earlier_functions_look_and_drop") {
        return;
    }
    let sent = datagrams(3000);
    let captures = Captures::new(&sent);
    for (call, more) in [("dummy", ""), ("signature", ", WAIT poll"), ("dummy", ", WAIT hybrid")] {
        let (counters, out) = through(call, more, &captures);
        assert!(out == sent && counters[0] == "packets 3000", "{call}{more}: {counters:?}");
    }
    let passed: Vec<_> = sent.iter().filter(|frame| frame[37] == 21).cloned().collect();
    for call in ["firewall 22 23", "firewall_c 22 23"] {
        let (counters, out) = through(call, "", &captures);
        let dropped = counters.contains(&"dropped 2000".to_owned());
        assert!(out == passed && dropped, "{call}: {counters:?}");
    }
}

#[test]
fn earlier_functions_steer_and_emit() {
    if !are_built("earlier_functions_steer_and_emit") {
        return;
    }
    let word = |nth: usize, frame: Vec<u8>| match nth % 3 {
        0 => [frame, b"an attack!".to_vec()].concat(),
        _ => frame,
    };
    let sent: Vec<_> = frames(900).into_iter().enumerate().map(|(at, one)| word(at, one)).collect();
    let captures = Captures::new(&sent);
    let by_two = |call: &str, outputs: &str| {
        let [input, out, other] = ["in", "out", "other"].map(|name| captures.path(name));
        let text = format!(
            "FromDump({input}, STOP true) -> nf :: Nf({}, AUX_SLOTS 2048);
             nf[{}] -> ToDump({out}); nf[{}] -> ToDump({other}); {}",
            earlier(call),
            &outputs[..1],
            &outputs[1..2],
            &outputs[2..],
        );
        (counters(&text), captures.written("out"), captures.written("other"))
    };
    let (counters, out, other) = by_two("matcher 100 attack", "01");
    let (found, rest): (Vec<_>, Vec<_>) =
        sent.iter().cloned().enumerate().partition(|(nth, _)| nth % 3 == 0);
    let bytes = |all: Vec<(usize, Vec<u8>)>| all.into_iter().map(|one| one.1).collect::<Vec<_>>();
    assert!(out == bytes(rest) && other == bytes(found), "{counters:?}");
    assert!(counters.contains(&"matched 300".to_owned()), "{counters:?}");
    // A bridge of three ports does not know where anyone is but the sender.
    let sent: Vec<_> =
        (0..500).map(|nth| [&[0xff; 6], &datagram(nth, 9, 99)[6..]].concat()).collect();
    write_capture(captures.path("in").as_ref(), &sent);
    let (counters, out, other) = by_two("bridge", "12nf[0] -> Discard;");
    assert!(out == sent && other == sent, "{counters:?}");
    assert_eq!(counters, ["flooded 500", "lost-copies 0"]);
    // Every other frame asks for an address.
    let ask = |of: u8| {
        let ends =
            [&[0xff; 6][..], &[2; 6], &[8, 6, 0, 1, 8, 0, 6, 4, 0, 1], &[2; 6], &[10, 0, 0, 2]];
        [&ends.concat()[..], &[0; 6], &[10, 0, 0, of], &[0; 18]].concat()
    };
    let sent: Vec<_> = (0..200).map(|nth| ask(nth % 2)).collect();
    write_capture(captures.path("in").as_ref(), &sent);
    let (counters, out, other) = by_two("arp_responder 10.0.0.1 02:00:00:00:00:09", "01");
    assert!(out == vec![ask(0); 100] && counters == ["replies 100"], "{counters:?}");
    let reply = [&[2; 6][..], &[2, 0, 0, 0, 0, 9], &[8, 6, 0, 1, 8, 0, 6, 4, 0, 2]].concat();
    assert!(other.len() == 100 && other.iter().all(|one| one[..22] == reply));
}

#[test]
fn earlier_functions_cut_packets() {
    if !are_built("earlier_functions_cut_packets") {
        return;
    }
    let sent: Vec<_> = (1..40).map(|nth| datagram(nth, 9, usize::from(nth) * 35)).collect();
    let captures = Captures::new(&sent);
    let (_, out) = through("fragmenter 256", ", AUX_SLOTS 1024", &captures);
    assert!(out.len() > 2 * sent.len() && out.iter().all(|part| part.len() <= 14 + 256));
    for frame in &sent {
        let parts = out.iter().filter(|part| part[18..20] == frame[18..20]);
        let whole = parts.fold(Vec::new(), |mut whole: Vec<u8>, part| {
            let field = u16::from_be_bytes([part[20], part[21]]);
            assert_eq!(whole.len(), usize::from(field & 0x1fff) * 8, "in order, without a gap");
            whole.extend(&part[34..]);
            whole
        });
        assert!(whole == frame[34..], "{} bytes of {}", whole.len(), frame.len() - 34);
    }
}

#[test]
fn earlier_functions_keep_sessions() {
    if !are_built("earlier_functions_keep_sessions") {
        return;
    }
    const UNTIL_CLOSED: &str = "label open, wait 50ms, goto open $(ne $(fc.sessions) 0),";
    // 50 sessions of 60 packets each, and packets without a session.
    let sent: Vec<_> = (0..3000).map(|nth| datagram(nth % 50, 9, 64)).collect();
    let captures = Captures::new(&[sent, frames(100)].concat());
    for call in ["flowcount", "flowcount_c"] {
        let text = format!(
            "FromDump({}, STOP true) -> fc :: FlowClassifier(UDP_NEW 3)
             -> nf :: Nf({}, SESSION connection) -> c :: Counter -> Discard",
            captures.path("in"),
            earlier(call)
        );
        let text = read_after(UNTIL_CLOSED, &text, &[], &["nf.counters", "c.count"]);
        for line in ["begun 50", "ended 50", "ended-packets 3000", "packets-max 60", "without 100"]
        {
            assert!(text.lines().any(|one| one == line), "{call}: {line}: {text}");
        }
        let bytes: usize = 3000 * (14 + 28 + 64);
        assert!(text.contains(&format!("ended-bytes {bytes}\n")), "{call}: {text}");
        assert!(text.ends_with("c.count:\n3100\n\n"), "{text}");
    }
}

#[test]
fn earlier_functions_change_streams() {
    if !are_built("earlier_functions_change_streams") {
        return;
    }
    let dir = tempfile::tempdir().expect("a directory");
    let dump = dir.path().join("dump");
    let lines =
        "!data timestamp src dst proto sport dport tcp_seq tcp_ack tcp_flags tcp_window payload
1 10.0.0.1 10.0.0.2 T 1000 80 1000 0 S 8192 \"\"
1 10.0.0.2 10.0.0.1 T 80 1000 5000 1001 SA 8192 \"\"
1 10.0.0.1 10.0.0.2 T 1000 80 1001 5001 A 8192 \"\"
1 10.0.0.1 10.0.0.2 T 1000 80 1001 5001 A 8192 \"an attack, an att\"
1 10.0.0.1 10.0.0.2 T 1000 80 1018 5001 A 8192 \"ack\"
1 10.0.0.1 10.0.0.2 T 1000 80 1021 5001 A 8192 \" is not.\"
";
    std::fs::write(&dump, lines).expect("room for a file");
    let payloads = |nf: &str| {
        let text = format!(
            "FromIPSummaryDump({}, STOP true, CHECKSUM true) -> FlowClassifier(INPUT ip) -> TCPIn
             -> nf :: Nf({nf}) -> TCPOut
             -> ToIPSummaryDump(-, HEADER false, FIELDS tcp_seq payload)",
            dump.display()
        );
        read(&text, &[], &["nf.counters", "nf.streams_lies"])
    };
    let replaced = payloads(&(earlier("word_replacer attack hug") + ", STREAM resize"));
    for line in ["1001 \"an hug, an \"", "1012 \"hug\"", "1015 \" is not.\""] {
        assert!(replaced.contains(line), "{replaced}");
    }
    assert!(replaced.contains("nf.streams_lies:\n0"), "{replaced}");
    let counted = payloads(&(earlier("payload_counter") + ", STREAM order"));
    assert!(
        counted.contains("\"an attack, an att\"") && counted.contains("bytes-out 28\n"),
        "{counted}"
    );
}

#[test]
fn earlier_functions_have_timers_and_handlers_and_come_back() {
    if !are_built("earlier_functions_have_timers_and_handlers_and_come_back") {
        return;
    }
    let dir = tempfile::tempdir().expect("a directory");
    let socket = dir.path().join("control");
    let text = format!(
        "ControlSocket(UNIX, {}); Idle -> nf :: Nf({}) -> d :: Counter -> Discard",
        socket.display(),
        earlier("keep_alive 20")
    );
    let driver = Running::start(&mut click(&["-e", &text]));
    let mut client = Client::unix(&socket);
    let injects = |client: &mut Client| {
        let before = client.number("d.count");
        wait_for("injected packets", || (client.number("d.count") > before + 2).then_some(()));
    };
    injects(&mut client);
    assert_eq!(client.read("nf.handler period"), "20");
    assert_eq!(client.ask("WRITE nf.handler period 10").0, 200);
    assert_eq!(client.read("nf.handler period"), "10");
    let pid: i32 = client.read("nf.pid").parse().expect("a number");
    kill_process(Pid::from_raw(pid).expect("a process"), Signal::KILL).expect("it runs");
    wait_for("a restart", || (client.number("nf.restarts") == 1).then_some(()));
    injects(&mut client);
    assert_eq!(client.read("nf.interface"), INTERFACE);
    assert_eq!(client.number("nf.peer_faults"), 0);
    driver.interrupt().expect(0);
}

#[test]
fn earlier_functions_serve_groups_and_several_threads() {
    if !are_built("earlier_functions_serve_groups_and_several_threads") {
        return;
    }
    let sent = datagrams(2000);
    let captures = Captures::new(&sent);
    let (input, output) = (captures.path("in"), captures.path("out"));
    let member = |call: &str| format!("Nf({}, MODE group, GROUP friends, SLOTS 64)", earlier(call));
    let text = format!(
        "TrustGroup(friends, FRAMES 256); FromDump({input}, STOP true) -> nf :: {} -> {}
         -> ToDump({output})",
        member("dummy"),
        member("firewall_c 22 23")
    );
    assert_eq!(counters(&text), ["packets 2000"]);
    let passed: Vec<_> = sent.iter().filter(|frame| frame[37] == 21).cloned().collect();
    assert!(captures.written("out") == passed);
    // Each thread has rings of its own to the one function.
    let sources: String = (0..4).map(|n| format!("FromDump({input}) -> [{n}] nf;")).collect();
    let text = format!(
        "nf :: Nf({}) -> c :: Counter(COUNT_CALL 8000 stop) -> Discard; {sources}",
        earlier("dummy")
    );
    let counted = read(&text, &["-j", "4"], &["nf.counters", "c.count"]);
    assert_eq!(counted, "nf.counters:\npackets 8000\n\nc.count:\n8000\n\n");
}
