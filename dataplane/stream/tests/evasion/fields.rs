//! Evasion by header fields.

use thruway_wire::tcp::flags::{ACK, PSH, URG};

use crate::engine::every_mode;
use crate::forge::{Client, Forged, Server, Spoilt, Talk};

/// What is done to a segment.
type Trick = fn(&mut Forged);

/// A timestamps option, padded.
fn stamped(segment: &mut Forged, value: u32) {
    segment.options = [&[1, 1, 8, 10][..], &value.to_be_bytes(), &[0; 4]].concat();
}

/// Receivers drop the segment, so its bytes must not count for the one that comes then.
#[test]
fn segments_that_receivers_drop() {
    let tricks: [(&str, Trick); 9] = [
        ("checksum", |forged| forged.spoilt = Spoilt::Checksum),
        ("header too short", |forged| forged.spoilt = Spoilt::HeaderWords(4)),
        ("header too long", |forged| forged.spoilt = Spoilt::HeaderWords(15)),
        ("shorter than it says", |forged| forged.spoilt = Spoilt::IpLength(9)),
        ("no ACK", |forged| forged.flags = PSH),
        ("no flags", |forged| forged.flags = 0),
        ("acknowledges data that was never sent", |forged| {
            forged.ack = forged.ack.wrapping_add(9999)
        }),
        ("an option of length 0", |forged| forged.options = vec![8, 0, 1, 1]),
        ("an option beyond the header", |forged| forged.options = vec![1, 1, 8, 10]),
    ];
    for (name, trick) in tricks {
        let mut talk = Talk::open();
        talk.send(Client, 0, b"one ");
        trick(talk.push(Client, 4, b"evil"));
        talk.send(Client, 4, b"good");
        talk.ack(Server, 8);
        assert!(every_mode(&talk).iter().all(|read| read[0] == ["one good"]), "{name}");
    }
}

/// Some receivers take it, some do not, so it may go on only if later data agrees.
#[test]
fn segments_that_some_receivers_drop() {
    let tricks: [(&str, Trick); 4] = [
        ("low TTL", |forged| forged.ttl = 1),
        ("an old acknowledgement", |forged| forged.ack = forged.ack.wrapping_sub(0x7000_0000)),
        ("reserved options", |forged| forged.options = vec![253, 4, 0, 0]),
        ("MD5 signature", |forged| forged.options = [&[19, 18][..], &[0; 16], &[1, 1]].concat()),
    ];
    for (name, trick) in tricks {
        let mut talk = Talk::open();
        talk.send(Client, 0, b"one ");
        trick(talk.push(Client, 4, b"evil"));
        talk.send(Client, 4, b"good");
        talk.ack(Server, 8);
        talk.send(Client, 8, b" end");
        for read in every_mode(&talk) {
            assert!(read[0].len() == 1 && read[0][0].len() == 12, "{name}: {read:?}");
        }
    }
}

#[test]
fn urgent_bytes() {
    for pointer in [0, 1, 3, 4, 5, 0xffff] {
        for with_flag in [false, true] {
            let mut talk = Talk::open();
            let urgent = talk.send(Client, 0, b"rXoot");
            urgent.urgent = pointer;
            urgent.flags |= if with_flag { URG } else { 0 };
            talk.ack(Server, 5);
            let again = talk.send(Client, 5, b" access");
            (again.urgent, again.flags) = (1, ACK | URG);
            for read in every_mode(&talk) {
                assert_eq!(read[0], ["rXoot access"], "{pointer} {with_flag}");
            }
        }
    }
}

/// RFC 7323 section 5: a receiver with PAWS drops segments older than the newest timestamp.
#[test]
fn timestamps_that_are_too_old() {
    let mut talk = Talk::silent();
    stamped(talk.syn(), 1000);
    stamped(talk.syn_ack(), 5000);
    stamped(talk.ack(Client, 0), 1001);
    stamped(talk.send(Client, 0, b"one "), 1010);
    stamped(talk.push(Client, 4, b"evil"), 900);
    stamped(talk.send(Client, 4, b"good"), 1011);
    stamped(talk.ack(Server, 8), 5001);
    stamped(talk.push(Client, 8, b"later"), 0x9000_0000);
    stamped(talk.send(Client, 8, b" end"), 1012);
    for read in every_mode(&talk) {
        assert!(read[0][0].starts_with("one "), "{read:?}");
    }
}

/// A timestamp far ahead would make a receiver drop all that follows.
#[test]
fn padding_of_the_frame_is_no_data() {
    let mut talk = Talk::open();
    talk.send(Client, 0, b"short");
    talk.push(Client, 5, b"PADDING").spoilt = Spoilt::IpLength(-7);
    talk.send(Client, 5, b"er");
    talk.ack(Server, 7);
    assert!(every_mode(&talk).iter().all(|read| read[0] == ["shorter"]));
}
