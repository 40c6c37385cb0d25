//! Conversations by chance: whatever is sent, no stack reads what was not inspected.

use proptest::prelude::*;
use thruway_stream::tcp::Mode;
use thruway_stream::tcp::overlap::Overlap;
use thruway_wire::tcp::flags::{ACK, FIN, PSH, RST, SYN, URG};

use crate::check::{SYSTEMS, watch};
use crate::engine::{Inspector, settings};
use crate::forge::{Client, Forged, Server, Side, Spoilt, Talk};

/// What is sent.
#[derive(Debug, Clone)]
enum Sent {
    Syn,
    SynAck,
    Data(Side, i32, Vec<u8>),
    Ack(Side, i32),
    Fin(Side, i32, Vec<u8>),
    Rst(Side, i32),
    Again([u32; 2]),
}

/// What is done to it.
#[derive(Debug, Clone)]
enum Twist {
    None,
    Flags(u8),
    Ttl,
    Spoilt(Spoilt),
    Urgent(u16),
    Ack(i32),
    Window(u16),
    Options(Vec<u8>),
    Stamp(u32),
    Payload(Vec<u8>),
}

fn side() -> impl Strategy<Value = Side> {
    prop_oneof![3 => Just(Client), 1 => Just(Server)]
}

/// Most near the beginning, where all meet.
fn offset() -> impl Strategy<Value = i32> {
    prop_oneof![
        20 => -2..30i32,
        1 => prop_oneof![Just(0xffff), Just(0x1_0000), Just(-0x1_0000), any::<i32>()],
    ]
}

fn bytes() -> impl Strategy<Value = Vec<u8>> {
    prop::collection::vec(b'a'..=b'z', 1..12)
}

fn sent() -> impl Strategy<Value = Sent> {
    prop_oneof![
        1 => Just(Sent::Syn),
        1 => Just(Sent::SynAck),
        24 => (side(), offset(), bytes()).prop_map(|(side, at, bytes)| Sent::Data(side, at, bytes)),
        8 => (side(), offset()).prop_map(|(side, upto)| Sent::Ack(side, upto)),
        2 => (side(), offset(), bytes()).prop_map(|(side, at, bytes)| Sent::Fin(side, at, bytes)),
        1 => (side(), offset(), Just(Vec::new())).prop_map(|(side, at, none)| Sent::Fin(side, at, none)),
        1 => (side(), offset()).prop_map(|(side, at)| Sent::Rst(side, at)),
        1 => any::<[u32; 2]>().prop_map(Sent::Again),
    ]
}

fn twist() -> impl Strategy<Value = Twist> {
    let flags = prop_oneof![
        any::<u8>(),
        Just(0),
        Just(PSH),
        Just(ACK | URG),
        Just(SYN | FIN),
        Just(SYN | RST),
        Just(ACK | RST)
    ];
    let spoilt = prop_oneof![
        Just(Spoilt::Checksum),
        (0..16u8).prop_map(Spoilt::HeaderWords),
        (-60..60i16).prop_map(Spoilt::IpLength)
    ];
    let words = (0..4usize).prop_flat_map(|words| prop::collection::vec(0..40u8, words * 4));
    prop_oneof![
        30 => Just(Twist::None),
        2 => flags.prop_map(Twist::Flags),
        2 => Just(Twist::Ttl),
        2 => spoilt.prop_map(Twist::Spoilt),
        1 => any::<u16>().prop_map(Twist::Urgent),
        2 => prop_oneof![-30..30i32, any::<i32>()].prop_map(Twist::Ack),
        2 => prop_oneof![0..20u16, any::<u16>()].prop_map(Twist::Window),
        1 => words.prop_map(Twist::Options),
        2 => any::<u32>().prop_map(Twist::Stamp),
        1 => bytes().prop_map(Twist::Payload),
    ]
}

fn twisted(segment: &mut Forged, twist: Twist) {
    match twist {
        Twist::None => {}
        Twist::Flags(flags) => segment.flags = flags,
        Twist::Ttl => segment.ttl = 1,
        Twist::Spoilt(spoilt) => segment.spoilt = spoilt,
        Twist::Urgent(at) => {
            segment.urgent = at;
            segment.flags |= URG;
        }
        Twist::Ack(by) => segment.ack = segment.ack.wrapping_add_signed(by),
        Twist::Window(window) => segment.window = window,
        Twist::Options(options) => segment.options = options,
        Twist::Stamp(value) => {
            segment.options = [&[1, 1, 8, 10][..], &value.to_be_bytes(), &[0; 4]].concat();
        }
        Twist::Payload(payload) => segment.payload = payload,
    }
}

fn talk(is_open: bool, all: Vec<(Sent, Twist)>) -> Talk {
    let mut talk = if is_open { Talk::open() } else { Talk::silent() };
    for (sent, twist) in all {
        match sent {
            Sent::Syn => _ = talk.syn(),
            Sent::SynAck => _ = talk.syn_ack(),
            Sent::Data(side, at, bytes) => _ = talk.send(side, at, &bytes),
            Sent::Ack(side, upto) => _ = talk.ack(side, upto),
            Sent::Fin(side, at, bytes) => _ = talk.fin(side, at, &bytes),
            Sent::Rst(side, at) => _ = talk.rst(side, at),
            Sent::Again(begin) => {
                talk.again(begin);
                talk.handshake();
            }
        }
        if let Some(last) = talk.segments.last_mut() {
            twisted(last, twist);
        }
    }
    talk
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn whatever_is_sent(
        is_open in prop::bool::weighted(0.9),
        all in prop::collection::vec((sent(), twist()), 1..50),
        overlap in (0..Overlap::ALL.len()).prop_map(|at| Overlap::ALL[at].1),
        behind in (0..SYSTEMS.len()).prop_map(|at| SYSTEMS[at]),
        mode in prop_oneof![Just(Mode::Guard), Just(Mode::Map)],
    ) {
        let talk = talk(is_open, all);
        // Where connections are picked up, what is older than their first packet passes unseen.
        let seen = watch(&talk, &mut Inspector::new(settings(mode, overlap)), &[behind]);
        prop_assert!(seen.wrong.is_empty(), "{:#?}", seen.wrong);
    }
}
