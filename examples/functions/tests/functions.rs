//! Each example as the program that it is, with packets in and packets out.

use std::process::Command;

use thruway_exchange::SlotTag;
use thruway_nf::trial::{Arrival, Given, Setup, Trial, TrialError};

fn start(outputs: u32, program: &str, args: &[&str]) -> Result<Trial, TrialError> {
    Setup { outputs, inputs: 3, ..Setup::DEFAULT }.program(Command::new(program).args(args))
}

macro_rules! example {
    ($name:literal, $outputs:expr, $args:expr) => {
        start($outputs, env!(concat!("CARGO_BIN_EXE_", $name)), $args).expect($name)
    };
}

/// An Ethernet frame with an IPv4 packet: header with options, then data.
fn ipv4(protocol: u8, field: u16, options: &[u8], data: &[u8]) -> Vec<u8> {
    let len = 20 + options.len();
    let mut packet = vec![0x45; len];
    packet[0] = 0x40 | (len / 4) as u8;
    packet[2..4].copy_from_slice(&((len + data.len()) as u16).to_be_bytes());
    packet[4..6].copy_from_slice(&[0xab, 0xcd]);
    packet[6..8].copy_from_slice(&field.to_be_bytes());
    packet[8..10].copy_from_slice(&[64, protocol]);
    packet[12..20].copy_from_slice(&[10, 0, 0, 1, 10, 0, 0, 2]);
    packet[20..].copy_from_slice(options);
    [&[2; 6][..], &[4; 6], &[8, 0], &packet, data].concat()
}

fn to_port(protocol: u8, port: u16) -> Vec<u8> {
    let [high, low] = port.to_be_bytes();
    ipv4(protocol, 0, &[], &[&[0x12, 0x34, high, low][..], &[0; 30]].concat())
}

fn verdicts(given: &[Given]) -> Vec<(Arrival, u32)> {
    given.iter().map(|given| (given.arrival, given.output)).collect()
}

const PASSED: (Arrival, u32) = (Arrival::Returned, 0);
const DROPPED: (Arrival, u32) = (Arrival::Dropped, 0);

#[test]
fn firewall() {
    let mut trial = example!("firewall", 1, &["23", "445"]);
    let late = ipv4(6, 1, &[], &[0, 0, 0, 23]);
    let options = ipv4(17, 0, &[1; 8], &[0, 0, 0x01, 0xbd, 0, 0]);
    let short = ipv4(6, 0, &[], &[0, 0, 0]);
    let packets = [
        to_port(6, 23),
        to_port(6, 24),
        to_port(17, 23),
        to_port(1, 23),
        late,
        options,
        // Too short for what they begin with.
        short,
        to_port(6, 23)[..33].to_vec(),
        vec![8],
        vec![8, 0],
    ];
    let packets: Vec<&[u8]> = packets.iter().map(Vec::as_slice).collect();
    let given = trial.exchange(&packets).unwrap();
    let expected = [DROPPED, PASSED, DROPPED, PASSED, PASSED, DROPPED];
    assert_eq!(verdicts(&given)[..6], expected);
    assert!(verdicts(&given)[6..].iter().all(|arrival| *arrival == PASSED));
    for (given, packet) in given.iter().zip(&packets) {
        assert!(given.arrival == Arrival::Dropped || given.bytes == *packet);
    }
    assert_eq!(trial.counter("dropped"), Some(3));
    trial.finish().unwrap();
    let error = start(1, env!("CARGO_BIN_EXE_firewall"), &["http"]).err().unwrap();
    assert!(error.to_string().contains("exit status: 1"), "{error}");
}

/// The one's complement sum of 16-bit words, which is 0xffff with a right checksum among them.
fn sum(bytes: &[u8]) -> u32 {
    let sum: u32 = bytes.chunks(2).map(|pair| u32::from(pair[0]) << 8 | u32::from(pair[1])).sum();
    (sum & 0xffff) + (sum >> 16)
}

#[test]
fn scrubber() {
    let mut trial = example!("scrubber", 2, &[]);
    let segment = |sequence: u32, flags: u8| {
        let ports = [0x12, 0x34, 0, 80];
        let rest = [0, 0, 0, 0, 0x50, flags, 0, 0, 0, 0, 0, 0];
        ipv4(6, 0, &[], &[&ports[..], &sequence.to_be_bytes(), &rest, &[0; 30]].concat())
    };
    let [syn, rst, ack] = [2, 4, 16];
    let back = (Arrival::Returned, 1);
    let given = trial.exchange(&[&segment(7, syn), &segment(8, ack)]).unwrap();
    assert_eq!(verdicts(&given), [back, PASSED]);
    let challenge = &given[0].bytes;
    assert_eq!((challenge.len(), &challenge[..12]), (54, &[[4; 6], [2; 6]].concat()[..]));
    assert_eq!(challenge[26..38], [10, 0, 0, 2, 10, 0, 0, 1, 0, 80, 0x12, 0x34]);
    assert_eq!(challenge[47], syn | ack);
    assert_eq!(sum(&challenge[14..34]), 0xffff);
    assert_eq!(sum(&[&challenge[26..], &[0, 6, 0, 20]].concat()), 0xffff);
    let number = u32::from_be_bytes(challenge[42..46].try_into().unwrap());
    // A wrong answer is another's RST; the right one lets the source in.
    let answers =
        [segment(number ^ 1, rst), segment(7, syn), segment(number, rst), segment(7, syn)];
    let answers: Vec<&[u8]> = answers.iter().map(Vec::as_slice).collect();
    let given = trial.exchange(&answers).unwrap();
    assert_eq!(verdicts(&given), [PASSED, back, DROPPED, PASSED]);
    let counters = ["challenged", "learned", "admitted"].map(|name| trial.counter(name));
    assert_eq!(counters, [Some(2), Some(1), Some(1)]);
    // Cut off anywhere, it is no segment.
    let whole = segment(7, syn);
    for len in 1..48 {
        assert_eq!(verdicts(&trial.exchange(&[&whole[..len]]).unwrap()), [PASSED], "{len}");
    }
    trial.finish().unwrap();
}

/// Two sessions, one of which begins again under its number, and the counters of flowcount.
fn counts_of_sessions(mut trial: Trial) {
    let packet: &[u8] = &[7; 60];
    let mark = |direction, fcb| SlotTag::of(0, direction, fcb);
    trial.put(mark(0, 4).new_session(), packet).unwrap();
    trial.put(mark(1, 4), packet).unwrap();
    trial.put(mark(0, 5).new_session(), packet).unwrap();
    trial.put(SlotTag::NONE, packet).unwrap();
    trial.put_released(4).unwrap();
    let given = trial.exchange(&[]).unwrap();
    assert_eq!(given.iter().filter(|given| given.arrival == Arrival::Returned).count(), 4);
    let scratch = trial.arena().unwrap().session(4).unwrap().to_vec();
    assert_eq!(scratch[..16], [1_u64, 1].map(u64::to_le_bytes).concat());
    assert_eq!(scratch[16..], [60_u64, 60].map(u64::to_le_bytes).concat());
    let expected = [("begun", 2), ("ended", 1), ("ended-packets", 2), ("ended-bytes", 120)];
    for (name, value) in expected {
        assert_eq!(trial.counter(name), Some(value), "{name}");
    }
    assert_eq!((trial.counter("packets-max"), trial.counter("without")), (Some(2), Some(1)));
    trial.finish().unwrap();
}

#[test]
fn flowcount() {
    counts_of_sessions(example!("flowcount", 1, &[]));
}

#[test]
fn arp_responder() {
    let mut trial = example!("arp_responder", 2, &["10.0.0.9", "02:00:00:00:00:09"]);
    let request = |ip: u8, operation: u8| {
        let mut frame = vec![0xff; 6];
        frame.extend([6; 6]);
        frame.extend([8, 6, 0, 1, 8, 0, 6, 4, 0, operation]);
        frame.extend([6; 6]);
        frame.extend([10, 0, 0, 1]);
        frame.extend([0; 6]);
        frame.extend([10, 0, 0, ip]);
        frame
    };
    let packets = [request(9, 1), request(8, 1), request(9, 2), vec![1; 41]];
    let packets: Vec<&[u8]> = packets.iter().map(Vec::as_slice).collect();
    let given = trial.exchange(&packets).unwrap();
    assert_eq!(verdicts(&given), [DROPPED, (Arrival::Emitted, 1), PASSED, PASSED, PASSED]);
    let reply = &given[1].bytes;
    let own = [2, 0, 0, 0, 0, 9];
    assert_eq!((&reply[..6], &reply[6..12]), (&[6; 6][..], &own[..]));
    assert_eq!(reply[12..22], [8, 6, 0, 1, 8, 0, 6, 4, 0, 2]);
    assert_eq!(reply[22..32], [&own[..], &[10, 0, 0, 9]].concat());
    assert_eq!(reply[32..42], [&[6; 6][..], &[10, 0, 0, 1]].concat());
    assert_eq!(trial.counter("replies"), Some(1));
    trial.finish().unwrap();
}

#[test]
fn bridge_learns_and_floods() {
    let mut trial = example!("bridge", 3, &[]);
    let frame = |to: u8, from: u8| {
        let mut frame = vec![to & 0xfe; 6];
        frame[0] |= to & 1;
        frame.extend([from; 6]);
        frame.resize(60, 0);
        frame
    };
    let mark = |input| SlotTag { input, ..SlotTag::NONE };
    let mut sent = |input: u8, frame: &[u8]| {
        verdicts(&trial.exchange_marked(&[(mark(input), frame)]).unwrap())
    };
    // Unknown: out of the two others. Then learnt.
    assert_eq!(sent(0, &frame(4, 2)), [(Arrival::Returned, 1), (Arrival::Emitted, 2)]);
    assert_eq!(sent(1, &frame(2, 4)), [PASSED]);
    assert_eq!(sent(0, &frame(4, 2)), [(Arrival::Returned, 1)]);
    // At its own input: it has it already. To all: always flooded. It moved: learnt anew.
    assert_eq!(sent(1, &frame(4, 8)), [DROPPED]);
    assert_eq!(sent(2, &frame(0xff, 2)), [PASSED, (Arrival::Emitted, 1)]);
    assert_eq!(sent(1, &frame(2, 4)), [(Arrival::Returned, 2)]);
    assert_eq!(sent(1, &[1; 11]), [DROPPED]);
    assert_eq!(trial.counter("flooded"), Some(2));
    trial.finish().unwrap();
}

/// Puts fragments together again, and checks each.
fn reassemble(fragments: &[Given], mtu: usize) -> (u16, Vec<u8>) {
    let (mut data, mut first_field) = (Vec::new(), 0);
    for (nth, fragment) in fragments.iter().enumerate() {
        assert_eq!((fragment.arrival, fragment.output), (Arrival::Emitted, 0));
        let (link, ip) = fragment.bytes.split_at(14);
        assert_eq!(link, [&[2; 6][..], &[4; 6], &[8, 0]].concat());
        assert!(ip.len() <= mtu);
        let header_len = usize::from(ip[0] & 15) * 4;
        let sum = ip[..header_len].chunks(2).map(|w| u32::from(w[0]) << 8 | u32::from(w[1]));
        assert_eq!(sum.sum::<u32>() % 0xffff, 0, "the checksum");
        assert_eq!(usize::from(u16::from_be_bytes([ip[2], ip[3]])), ip.len());
        let field = u16::from_be_bytes([ip[6], ip[7]]);
        if nth == 0 {
            first_field = field;
        }
        let offset = usize::from(field & 0x1fff) - usize::from(first_field & 0x1fff);
        assert_eq!(offset * 8, data.len());
        let is_last = nth + 1 == fragments.len();
        assert!(is_last || field & 0x2000 != 0);
        assert!(is_last || (ip.len() - header_len).is_multiple_of(8));
        // Of the options (no operation, record route, strict source route) only the last is
        // copied.
        if header_len > 20 && nth > 0 {
            assert_eq!(ip[20..header_len], [0x89, 3, 4, 0]);
        }
        data.extend_from_slice(&ip[header_len..]);
    }
    (first_field, data)
}

#[test]
fn fragmenter() {
    for mtu in [68, 100, 576, 1499] {
        let mut trial = example!("fragmenter", 1, &[&mtu.to_string()]);
        let options = [1, 7, 3, 4, 0x89, 3, 4, 0];
        for len in [1, 40, 68, 99, 555, 1000, 1472] {
            for (field, options) in [(0, &options[..]), (0x2010, &[]), (0x4000, &[])] {
                let data: Vec<u8> = (0..len).map(|n| n as u8).collect();
                let packet = ipv4(17, field, options, &data);
                let given = trial.exchange(&[&packet]).unwrap();
                if packet.len() - 14 <= mtu {
                    assert_eq!(given[0].bytes, packet);
                    assert_eq!(given.len(), 1);
                    continue;
                }
                assert_eq!(verdicts(&given[..1]), [DROPPED]);
                if field == 0x4000 {
                    assert_eq!(given.len(), 1);
                    continue;
                }
                let (first, whole) = reassemble(&given[1..], mtu);
                assert_eq!((first & 0x1fff, whole), (field & 0x1fff, data));
                let last = &given.last().unwrap().bytes;
                assert_eq!(last[20] & 0x20, (field >> 8) as u8 & 0x20, "more fragments");
            }
        }
        let wrong = ipv4(17, 0, &[], &[0; 1400]);
        let cut_short = &wrong[..600];
        assert_eq!(verdicts(&trial.exchange(&[cut_short, &[8; 13]]).unwrap()), [PASSED, PASSED]);
        trial.finish().unwrap();
    }
}

#[test]
fn keep_alive() {
    let mut trial = example!("keep_alive", 1, &["20"]);
    let given = trial.injected(2).unwrap();
    assert!(
        given.iter().all(|given| given.bytes.len() == 60 && given.bytes[12..14] == [0x88, 0xb5])
    );
    assert_eq!(trial.exchange(&[&[1; 60]]).unwrap()[0].bytes, [1; 60]);
    assert_eq!(trial.read("period").unwrap(), "20");
    trial.write("period", "100000").unwrap();
    assert!(trial.write("period", "0").is_err() && trial.write("other", "1").is_err());
    // One that was set before may still go off; afterwards there is silence.
    std::thread::sleep(std::time::Duration::from_millis(60));
    trial.poll().unwrap();
    std::thread::sleep(std::time::Duration::from_millis(60));
    assert_eq!(trial.poll().unwrap(), []);
    assert!(trial.counter("sent") >= Some(2));
    trial.finish().unwrap();
}

#[test]
fn matcher() {
    let mut trial = example!("matcher", 2, &["20000", "attack"]);
    let given = trial.exchange(&[b"an attack", b"no attac", &[0; 1500], b"attackattack"]).unwrap();
    assert_eq!(verdicts(&given), [(Arrival::Returned, 1), PASSED, PASSED, (Arrival::Returned, 1)]);
    assert_eq!(trial.counter("matched"), Some(2));
    assert!(trial.counter("automaton-bytes") > Some(1 << 20));
    trial.finish().unwrap();
}

#[test]
fn word_replacer() {
    let mut trial = example!("word_replacer", 1, &["attack", "greeting"]);
    let mark = SlotTag::of(0, 0, 3);
    let shown = trial.show(mark, &[b"an att", b"ack, atta", b"", b"attack"], false).unwrap();
    assert_eq!((&shown.bytes[..], shown.held), (&b"an greeting, attagreeting"[..], 0));
    // Connections and directions are apart.
    assert_eq!(trial.show(mark, &[b"att"], false).unwrap().held, 3);
    assert_eq!(trial.show(SlotTag::of(0, 1, 3), &[b"ack"], true).unwrap().bytes, b"ack");
    assert_eq!(trial.show(mark, &[b"ac"], true).unwrap().bytes, b"attac");
    trial.finish().unwrap();
    assert!(start(1, env!("CARGO_BIN_EXE_word_replacer"), &[]).is_err());
}

#[test]
fn payload_counter() {
    let mut trial = example!("payload_counter", 1, &[]);
    for (direction, session, pieces) in
        [(0, 1, &[&b"one"[..], b"two"][..]), (1, 1, &[b"three"]), (0, 2, &[b"", b"four"])]
    {
        let shown = trial.show(SlotTag::of(0, direction, session), pieces, false).unwrap();
        assert_eq!(shown.bytes, pieces.concat());
    }
    let counters = ["bytes-out", "bytes-back", "bytes-most"].map(|name| trial.counter(name));
    assert_eq!(counters, [Some(10), Some(5), Some(11)]);
    trial.finish().unwrap();
}

#[test]
fn signature_and_dummy() {
    let packets: Vec<Vec<u8>> = (1..200_usize).map(|len| vec![len as u8; len]).collect();
    let packets: Vec<&[u8]> = packets.iter().map(Vec::as_slice).collect();
    let mut sum = 0_u64;
    for packet in &packets {
        let mut signature = 0_u64;
        for word in 0..8 {
            let byte = |at: usize| u64::from(*packet.get(8 * word + at).unwrap_or(&0)) << (8 * at);
            let word = (0..8).map(byte).sum::<u64>();
            signature = (signature ^ word).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(29);
        }
        sum = sum.wrapping_add(signature);
    }
    for mut trial in [example!("signature", 1, &[]), example!("dummy", 1, &[])] {
        let given = trial.exchange(&packets).unwrap();
        assert!(given.iter().map(|given| given.bytes.as_slice()).eq(packets.iter().copied()));
        assert_eq!(trial.counter("packets"), Some(199));
        if let Some(counted) = trial.counter("signature") {
            assert_eq!(counted, sum);
        }
        trial.finish().unwrap();
    }
}

#[test]
fn run_by_hand_a_function_says_what_it_is() {
    let output = Command::new(env!("CARGO_BIN_EXE_dummy")).output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(said.contains("run it with Nf(EXEC"), "{said}");
}
