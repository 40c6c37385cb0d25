use super::socket_filter::accept;
use super::steering::by_class;
use super::*;
use crate::bpf::assembly::{Alu, Assembly, By, Register};
use crate::bpf::test_run::test_run;
use crate::bpf::{self, Hook};
use proptest::prelude::*;
use std::os::fd::{AsFd as _, OwnedFd};
use std::os::unix::net::UnixDatagram;

/// Whether the kernel takes a frame by a class's filter: any socket can have one.
struct Judge {
    sender: UnixDatagram,
    receiver: UnixDatagram,
}

impl Judge {
    fn new(class: Class, is_ethernet: bool) -> Judge {
        let (sender, receiver) = UnixDatagram::pair().expect("sockets");
        receiver.set_nonblocking(true).expect("a socket");
        accept(&receiver, "a test", class, is_ethernet).expect("the kernel takes the program");
        Judge { sender, receiver }
    }

    /// The same in extended BPF, of Ethernet frames; `None` where it may not be loaded.
    fn extended(class: Class) -> Option<Judge> {
        let (sender, receiver) = UnixDatagram::pair().expect("sockets");
        receiver.set_nonblocking(true).expect("a socket");
        let mut program = Assembly::default();
        program.alu(Alu::Move, Register::R6, By::Register(Register::R1));
        extended::filter(&mut program, class);
        let program = bpf::load(Hook::Socket, &program).ok()?;
        bpf::filter(&receiver, program.as_fd()).expect("a socket takes it");
        Some(Judge { sender, receiver })
    }

    fn takes(&self, frame: &[u8]) -> bool {
        // A filter that refuses it is no error of the sender.
        self.sender.send(frame).expect("it is taken or dropped");
        let mut buffer = [0; 256];
        let Ok(len) = self.receiver.recv(&mut buffer) else { return false };
        assert_eq!(&buffer[..len], frame, "whole");
        true
    }
}

/// The classes by the filters, which agree, and by the steering program for AF_XDP, where it may be
/// loaded: it sees Ethernet frames alone.
struct Judges {
    filters: [[Judge; 2]; 2],
    steering: Option<OwnedFd>,
    extended: [Option<Judge>; 2],
}

impl Judges {
    fn new() -> Judges {
        let filters =
            [false, true].map(|is_ethernet| Class::ALL.map(|class| Judge::new(class, is_ethernet)));
        let mut program = Assembly::default();
        by_class(&mut program, |program, class| program.give(class as i32));
        let loaded = bpf::load(Hook::Xdp, &program);
        let is_required = std::env::var("THRUWAY_REQUIRE_PRIVILEGES").is_ok_and(|v| v == "1");
        assert!(loaded.is_ok() || !is_required, "{loaded:?}");
        Judges { filters, steering: loaded.ok(), extended: Class::ALL.map(Judge::extended) }
    }

    fn class_of(&self, frame: &[u8], is_ethernet: bool) -> Class {
        let filters = &self.filters[usize::from(is_ethernet)];
        let [preferred, other] = filters.each_ref().map(|judge| judge.takes(frame));
        assert_ne!(preferred, other, "in one ring, and in one only: {frame:02x?}");
        let class = if preferred { Class::Preferred } else { Class::Other };
        for (extended, taken) in self.extended.iter().zip([preferred, other]) {
            if let Some(judge) = extended.as_ref().filter(|_| is_ethernet) {
                assert_eq!(judge.takes(frame), taken, "as classic BPF has it: {frame:02x?}");
            }
        }
        // No driver has shorter ones.
        if let Some(program) = &self.steering
            && is_ethernet
            && frame.len() >= 14
        {
            let verdict = test_run(program.as_fd(), frame, 1).expect("it runs").verdict;
            assert_eq!(verdict, class as u32, "{frame:02x?}");
        }
        class
    }
}

/// The same, as a linear reading of the headers.
fn expected(frame: &[u8], is_ethernet: bool) -> Option<Class> {
    let tcp = |segment: &[u8]| Some(*segment.get(13)? & 0x12 != 0x02);
    let ipv4 = |packet: &[u8]| {
        let word = u16::from_be_bytes([*packet.get(6)?, *packet.get(7)?]);
        packet.get(19)?;
        let is_whole = packet[9] == 6 && word & 0x3FFF == 0;
        is_whole.then(|| tcp(packet.get(usize::from(packet[0] & 15) * 4..)?))?
    };
    let ipv6 = |packet: &[u8]| match packet.get(6)? {
        6 => tcp(packet.get(40..)?),
        58 => Some(*packet.get(7)? == 255 && (133..=137).contains(packet.get(40)?)),
        _ => None,
    };
    let is_preferred = if is_ethernet {
        let tagged = matches!(frame.get(12..14)?, [0x81, 0x00] | [0x88, 0xA8]);
        let at = if tagged { 18 } else { 14 };
        match frame.get(at - 2..at)? {
            [0x08, 0x06] => Some(true),
            [0x08, 0x00] => ipv4(&frame[at..]),
            [0x86, 0xDD] => ipv6(&frame[at..]),
            _ => None,
        }
    } else {
        match frame.first()? >> 4 {
            4 => ipv4(frame),
            6 => ipv6(frame),
            _ => None,
        }
    };
    is_preferred?.then_some(Class::Preferred)
}

fn ipv4(protocol: u8, fragment: u16, options: usize, flags: u8) -> Vec<u8> {
    let mut packet = vec![0; 20 + options + 20];
    packet[0] = 0x40 | (5 + options / 4) as u8;
    packet[6..8].copy_from_slice(&fragment.to_be_bytes());
    packet[9] = protocol;
    packet[20 + options + 13] = flags;
    packet
}

fn ipv6(next_header: u8, hop_limit: u8, first: u8, flags: u8) -> Vec<u8> {
    let mut packet = vec![0; 60];
    packet[0] = 0x60;
    (packet[6], packet[7]) = (next_header, hop_limit);
    (packet[40], packet[53]) = (first, flags);
    packet
}

/// As it is, in Ethernet, and with a tag.
fn framed(packet: &[u8], kind: u16) -> [(Vec<u8>, bool); 3] {
    let kind = kind.to_be_bytes();
    let plain = [&[2; 12][..], &kind, packet].concat();
    let tagged = [&[2; 12][..], &[0x81, 0, 0, 7], &kind, packet].concat();
    [(packet.to_vec(), false), (plain, true), (tagged, true)]
}

#[test]
fn segments_of_open_connections_are_preferred_and_nothing_else_of_ip() {
    const SYN: u8 = 0x02;
    const RST: u8 = 0x04;
    const ACK: u8 = 0x10;
    let v4 = [
        (ipv4(6, 0, 0, ACK), Class::Preferred),
        (ipv4(6, 0, 0, SYN | ACK), Class::Preferred),
        (ipv4(6, 0x4000, 40, RST), Class::Preferred),
        (ipv4(6, 0, 0, SYN), Class::Other),
        (ipv4(6, 0x4000, 12, SYN), Class::Other),
        (ipv4(6, 0x2000, 0, ACK), Class::Other),
        (ipv4(6, 7, 0, ACK), Class::Other),
        (ipv4(17, 0, 0, ACK), Class::Other),
        (ipv4(1, 0, 0, ACK), Class::Other),
    ];
    let v6 = [
        (ipv6(6, 64, 0, ACK), Class::Preferred),
        (ipv6(6, 64, 0, SYN), Class::Other),
        (ipv6(17, 64, 0, ACK), Class::Other),
        (ipv6(44, 64, 6, ACK), Class::Other),
        // Neighbour discovery of the link, a forged one from beyond, an echo request.
        (ipv6(58, 255, 135, 0), Class::Preferred),
        (ipv6(58, 254, 135, 0), Class::Other),
        (ipv6(58, 255, 128, 0), Class::Other),
    ];
    let of =
        |kind| move |(packet, class): (Vec<u8>, Class)| framed(&packet, kind).map(|f| (f, class));
    let v4 = v4.into_iter().flat_map(of(0x0800));
    let judges = Judges::new();
    for ((frame, is_ethernet), class) in v4.chain(v6.into_iter().flat_map(of(0x86DD))) {
        assert_eq!(judges.class_of(&frame, is_ethernet), class, "{frame:02x?}");
    }
}

#[test]
fn link_control_is_preferred() {
    let kinds = [(0x0806, Class::Preferred), (0x88CC, Class::Other), (0x8100, Class::Other)];
    let judges = Judges::new();
    for (kind, class) in kinds {
        for (frame, _) in &framed(&[0; 28], kind)[1..] {
            assert_eq!(judges.class_of(frame, true), class, "{frame:02x?}");
        }
    }
}

thread_local! {
    static JUDGES: Judges = Judges::new();
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn any_frame_is_in_one_ring_the_one_its_headers_say(
        is_v6 in any::<bool>(),
        (protocol, form) in (prop::sample::select(vec![6, 17, 58]), 0..3_usize),
        (fragment, flags) in (prop::sample::select(vec![0, 0x4000, 0x2000, 9]), any::<u8>()),
        (at, value) in (any::<prop::sample::Index>(), any::<u8>()),
        len in any::<prop::sample::Index>(),
        changes in any::<bool>(),
    ) {
        let packet = match is_v6 {
            true => ipv6(protocol, flags | 0xFE, flags, flags),
            false => ipv4(protocol, fragment, 8, flags),
        };
        let kind = if is_v6 { 0x86DD } else { 0x0800 };
        let (mut frame, is_ethernet) = framed(&packet, kind)[form].clone();
        if changes {
            let at = at.index(frame.len());
            frame[at] = value;
            frame.truncate(len.index(frame.len() + 1));
        }
        let expected = expected(&frame, is_ethernet).unwrap_or(Class::Other);
        let class = JUDGES.with(|judges| judges.class_of(&frame, is_ethernet));
        prop_assert_eq!(class, expected);
    }
}
