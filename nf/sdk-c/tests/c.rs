//! Functions in C and C++: compiled without warnings, run by the trial host.

mod compile;

use std::path::Path;
use std::process::Command;

use compile::{C, CPP, ROOT, compile};
use thruway_exchange::SlotTag;
use thruway_nf::trial::{Arrival, Given, Setup, Trial};
use thruway_nf_abi::stream_need;

fn given(arrival: Arrival, output: u32, bytes: &[u8]) -> Given {
    Given { arrival, output, bytes: bytes.to_vec() }
}

fn returned(bytes: &[u8]) -> Given {
    given(Arrival::Returned, 0, bytes)
}

fn everything(mut trial: Trial) {
    assert_eq!(trial.injected(1).unwrap(), [given(Arrival::Injected, 1, b"tick")]);
    let packets: &[&[u8]] =
        &[b"d", b"o", b"pp", b"lll", b"t..", b"x", b"e.aux", b"s0", b"b", b"n", b"q"];
    let expected = [
        given(Arrival::Dropped, 0, b""),
        given(Arrival::Returned, 1, b"o"),
        returned(b"pushpp"),
        returned(b"ll"),
        returned(b"t."),
        // It asks for more than there is room for afterwards, which changes nothing.
        returned(b"xend"),
        returned(b"e.aux"),
        given(Arrival::Emitted, 1, b"front .aux"),
        given(Arrival::Emitted, 0, b"b"),
        returned(b"s0"),
        given(Arrival::Dropped, 0, b""),
        given(Arrival::Dropped, 0, b""),
        returned(b"q"),
    ];
    assert_eq!(trial.exchange(packets).unwrap(), expected);
    let mark = |fcb| SlotTag::of(2, 1, fcb);
    let scratch: &[u8] = b"s.";
    let marked = [3, 3, 15, 16].map(|fcb| (mark(fcb), scratch));
    let counts = trial.exchange_marked(&marked).unwrap();
    let counts: Vec<u8> = counts.iter().map(|given| given.bytes[1]).collect();
    assert_eq!(counts, [1, 2, 1, b'.']);
    trial.put(mark(7).new_session(), scratch).unwrap();
    trial.put(mark(7), scratch).unwrap();
    trial.put_released(7).unwrap();
    let counts = trial.exchange_marked(&[(mark(3), scratch)]).unwrap();
    let counts: Vec<Option<u8>> = counts.iter().map(|g| g.bytes.get(1).copied()).collect();
    assert_eq!(counts, [Some(101), Some(102), None, Some(3)]);
    assert_eq!(trial.counter("released"), Some(102));
    assert_eq!(trial.counter("seen"), Some(18));
    assert_eq!(trial.counter("sum"), Some(21));
    assert_eq!(trial.counter("packets-outside"), Some(1));
    assert_eq!(trial.counter("no-such-output"), Some(1));
    assert_eq!(trial.read("level").unwrap(), "5");
    trial.write("level", "6").unwrap();
    assert_eq!(trial.read("level !").unwrap(), "6!");
    assert!(trial.read("other").unwrap_err().to_string().contains("no handler 'other'"));
    assert_eq!(trial.finish().unwrap(), [given(Arrival::Injected, 0, b"last")]);
}

#[test]
fn everything_in_c_and_in_cpp() {
    for compiler in [C, CPP] {
        let (_folder, program) = compile(compiler, "nf/sdk-c/tests/everything.c");
        let setup = Setup { outputs: 2, configuration: "text of CONFIG", ..Setup::DEFAULT };
        everything(setup.program(&Command::new(program)).unwrap());
    }
}

#[test]
fn streams_in_c_and_in_cpp() {
    for compiler in [C, CPP] {
        let (_folder, program) = compile(compiler, "nf/sdk-c/tests/stream.c");
        let mut trial = Setup::DEFAULT.program(&Command::new(program)).unwrap();
        assert_eq!(trial.hello().stream, stream_need::STREAM | 0x2f);
        let mark = SlotTag::of(0, 1, 5);
        let shown = trial.show(mark, &[b"Abacus", b"", b"ccc", b"x"], true).unwrap();
        assert_eq!((&shown.bytes[..], shown.is_closed), (&b"abbbusxend"[..], false));
        assert!(trial.show(mark, &[b"is!"], false).unwrap().is_closed);
        // It becomes too long.
        assert!(trial.show(mark, &[&[b'a'; 800]], false).unwrap().is_closed);
        let count = trial.arena().unwrap().session(5).unwrap().to_vec();
        assert_eq!(count[..8], 813_u64.to_le_bytes());
        // What passes by has no content.
        assert_eq!(trial.exchange(&[&[0; 16]]).unwrap(), [returned(&[0; 16])]);
        trial.finish().unwrap();
    }
}

/// An Ethernet frame with an IPv4 packet of this protocol to this port.
fn frame(protocol: u8, port: u16) -> Vec<u8> {
    let mut frame = vec![0; 60];
    frame[12] = 8;
    frame[14] = 0x45;
    frame[23] = protocol;
    frame[36..38].copy_from_slice(&port.to_be_bytes());
    frame
}

#[test]
fn the_firewall_in_c() {
    let (_folder, program) = compile(C, "examples/functions/c/firewall.c");
    let start = |args: &[&str]| Setup::DEFAULT.program(Command::new(&program).args(args));
    let mut trial = start(&["23", "445"]).unwrap();
    let packets = [frame(6, 23), frame(17, 445), frame(6, 24), frame(1, 23), vec![8]];
    let packets: Vec<&[u8]> = packets.iter().map(Vec::as_slice).collect();
    let ways: Vec<Arrival> =
        trial.exchange(&packets).unwrap().iter().map(|given| given.arrival).collect();
    let expected = [
        Arrival::Dropped,
        Arrival::Dropped,
        Arrival::Returned,
        Arrival::Returned,
        Arrival::Returned,
    ];
    assert_eq!(ways, expected);
    assert_eq!(trial.counter("dropped"), Some(2));
    trial.finish().unwrap();
    assert!(start(&["http"]).is_err());
}

#[test]
fn flowcount_in_c_and_in_cpp() {
    for compiler in [C, CPP] {
        let (_folder, program) = compile(compiler, "examples/functions/c/flowcount.c");
        let mut trial = Setup::DEFAULT.program(&Command::new(program)).unwrap();
        let packet: &[u8] = &[7; 60];
        trial.put(SlotTag::of(0, 0, 4).new_session(), packet).unwrap();
        trial.put(SlotTag::of(0, 1, 4), packet).unwrap();
        trial.put(SlotTag::NONE, packet).unwrap();
        trial.put_released(4).unwrap();
        assert_eq!(trial.exchange(&[]).unwrap().len(), 4);
        let expected = [("begun", 1), ("ended", 1), ("ended-packets", 2), ("ended-bytes", 120)];
        for (name, value) in expected {
            assert_eq!(trial.counter(name), Some(value), "{name}");
        }
        assert_eq!((trial.counter("packets-max"), trial.counter("without")), (Some(2), Some(1)));
        trial.finish().unwrap();
    }
}

#[test]
fn the_programs_of_the_authors_page() {
    let page = std::fs::read_to_string(Path::new(ROOT).join("docs/nf-authors.md")).unwrap();
    let programs = page.split("\n```c\n").skip(1).filter_map(|rest| rest.split("\n```").next());
    let folder = tempfile::tempdir().unwrap();
    let mut count = 0;
    for program in programs {
        let source = folder.path().join("page.c");
        std::fs::write(&source, program).unwrap();
        let (_folder, program) = compile(C, &source);
        let mut trial = Setup::DEFAULT.program(&Command::new(program)).unwrap();
        let given = trial.exchange(&[&[1; 1000], &[1; 1001]]).unwrap();
        assert_eq!((given[0].arrival, given[1].arrival), (Arrival::Returned, Arrival::Dropped));
        assert_eq!(trial.counter("dropped"), Some(1));
        trial.finish().unwrap();
        count += 1;
    }
    assert_eq!(count, 1);
}

#[test]
fn run_by_hand_it_says_what_it_is() {
    let (_folder, program) = compile(C, "examples/functions/c/firewall.c");
    let output = Command::new(program).output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(said.contains("run it with Nf(EXEC"), "{said}");
}
