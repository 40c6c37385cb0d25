//! Evasion by the beginning of a connection.

use thruway_wire::tcp::flags::{ACK, FIN, SYN};

use crate::engine::{every_mode, pick_up};
use crate::forge::{Client, Server, Spoilt, Talk};

#[test]
fn data_before_the_handshake_ends() {
    let mut talk = Talk::silent();
    talk.syn();
    talk.push(Client, 0, b"early");
    talk.syn_ack();
    talk.push(Server, 0, b"EARLY");
    talk.push(Client, 0, b"bird!");
    talk.ack(Client, 0);
    talk.send(Client, 0, b"worms");
    talk.ack(Server, 5);
    talk.send(Server, 0, b"sleep");
    for read in every_mode(&talk) {
        assert!(read[0].len() == 1 && read[0][0].len() == 5, "{read:?}");
    }
}

#[test]
fn data_with_the_syn() {
    let mut talk = Talk::silent();
    talk.syn().payload = b"in the SYN".to_vec();
    talk.syn_ack().payload = b"too".to_vec();
    talk.ack(Client, 0);
    talk.send(Client, 0, b"on and on!");
    talk.ack(Server, 10);
    talk.send(Server, 0, b"one");
    for read in every_mode(&talk) {
        assert!(read[0].len() == 1 && [0, 10].contains(&read[0][0].len()), "{read:?}");
    }
}

#[test]
fn no_handshake_at_all() {
    let mut talk = Talk::silent();
    talk.push(Client, 0, b"no hello");
    talk.push(Client, 0, b"no hallo");
    talk.push(Client, 8, b", nothing");
    talk.push(Server, 0, b"who?");
    assert!(every_mode(&talk).iter().all(|read| read[0].is_empty() && read[1].is_empty()));
}

#[test]
fn a_handshake_without_its_middle() {
    let mut talk = Talk::silent();
    talk.syn();
    talk.ack(Client, 0);
    talk.send(Client, 0, b"one");
    talk.push(Client, 0, b"two");
    talk.syn_ack();
    talk.ack(Client, 0);
    talk.send(Client, 0, b"one and two");
    every_mode(&talk);
}

#[test]
fn several_syns() {
    let mut talk = Talk::silent();
    talk.syn();
    talk.syn().seq = 77;
    talk.syn();
    talk.syn_ack();
    talk.syn_ack().seq = 99;
    talk.syn_ack();
    talk.ack(Client, 0);
    talk.send(Client, 0, b"data");
    talk.push(Client, 0, b"DATA");
    every_mode(&talk);

    let mut forged = Talk::silent();
    let syn = forged.syn();
    (syn.seq, syn.spoilt) = (5, Spoilt::Checksum);
    forged.handshake();
    forged.send(Client, 0, b"data");
    forged.ack(Server, 4);
    assert!(every_mode(&forged).iter().all(|read| read[0] == ["data"]));
}

#[test]
fn simultaneous_open() {
    let mut talk = Talk::silent();
    talk.syn();
    let syn = talk.syn_ack();
    (syn.flags, syn.ack) = (SYN, 0);
    talk.syn_ack();
    let begin = talk.begin;
    let both = talk.syn();
    (both.flags, both.ack) = (SYN | ACK, begin[1].wrapping_add(1));
    talk.send(Client, 0, b"here");
    talk.push(Client, 2, b"nce!");
    talk.send(Server, 0, b"and there");
    for read in every_mode(&talk) {
        assert_eq!(read[0][0][..4].to_owned() + &read[1][0], "hereand there");
    }
}

#[test]
fn flags_that_make_no_sense() {
    for flags in [SYN | FIN, 0, FIN, 0xff] {
        let mut talk = Talk::silent();
        talk.syn().flags = flags;
        talk.push(Client, 0, b"data").flags = flags;
        talk.handshake();
        talk.send(Client, 0, b"honest");
        talk.push(Client, 0, b"data").flags = flags;
        talk.ack(Server, 6);
        for read in every_mode(&talk) {
            assert_eq!(read[0].last().map(String::as_str), Some("honest"), "{flags:#x}");
        }
    }
}

/// Connections that were there before the middle.
#[test]
fn mid_stream() {
    let mut talk = Talk::silent();
    talk.send(Client, 100, b"the middle ");
    talk.send(Server, 5, b"I hear");
    talk.send(Client, 121, b"later");
    talk.push(Client, 119, b"XXX");
    talk.send(Client, 111, b"of things ");
    talk.push(Client, 100, b"THE MIDDLE ");
    talk.ack(Server, 126);
    assert_eq!(pick_up(&talk, true), ["the middle of thingXXlater", "I hear"]);
    assert_eq!(pick_up(&talk, false), [""; 2]);
}

/// A keep-alive has the number before the next one.
#[test]
fn mid_stream_from_a_keep_alive_on() {
    let mut talk = Talk::silent();
    talk.push(Client, 99, b"");
    let ack = talk.begin[0].wrapping_add(101);
    talk.push(Server, 0, b"").ack = ack;
    talk.send(Client, 100, b"awake");
    talk.push(Client, 100, b"AWAKE");
    talk.send(Client, 105, b" again");
    assert_eq!(pick_up(&talk, true), ["awake again", ""]);
}
