//! Evasion by RST and FIN.

use thruway_packet::Packet;
use thruway_stream::segment::{Parts, tcp};
use thruway_stream::tcp::Mode;
use thruway_stream::tcp::overlap::Overlap;
use thruway_wire::tcp::flags::{ACK, FIN, RST, SYN};

use crate::check::Middle as _;
use crate::engine::{Inspector, every_mode, settings};
use crate::forge::{Client, Server, Spoilt, Talk};

/// After each of these the connection goes on as if nothing had been.
#[test]
fn resets_that_receivers_do_not_believe() {
    let before = |talk: &mut Talk| {
        talk.send(Client, 0, b"before ");
        talk.ack(Server, 7);
    };
    type Trick = fn(&mut Talk);
    let tricks: [(&str, Trick); 6] = [
        ("bad checksum", |talk| talk.rst(Client, 7).spoilt = Spoilt::Checksum),
        ("in the window", |talk| _ = talk.rst(Client, 12)),
        ("behind the window", |talk| _ = talk.rst(Client, 0x2_0000)),
        ("old", |talk| _ = talk.rst(Client, -1)),
        ("short header", |talk| talk.rst(Client, 7).spoilt = Spoilt::HeaderWords(4)),
        ("of the server, old", |talk| _ = talk.rst(Server, -3)),
    ];
    for (name, trick) in tricks {
        let mut talk = Talk::open();
        before(&mut talk);
        trick(&mut talk);
        talk.send(Client, 7, b"after");
        talk.push(Client, 7, b"other");
        talk.ack(Server, 12);
        talk.send(Server, 0, b"fine");
        for read in every_mode(&talk) {
            assert_eq!(read, [["before after"], ["fine"]], "{name}");
        }
    }
}

#[test]
fn a_reset_ends_it_and_the_ports_begin_anew() {
    for side in [Client, Server] {
        let mut talk = Talk::open();
        talk.send(Client, 0, b"first");
        talk.ack(Server, 5);
        let at = if side == Client { 5 } else { 0 };
        talk.rst(side, at);
        talk.push(Client, 5, b"not any more");
        talk.push(Server, 0, b"nor this");
        talk.again([70_000, 80_000]);
        talk.handshake();
        talk.send(Client, 0, b"second");
        talk.ack(Server, 6);
        for read in every_mode(&talk) {
            assert_eq!(read[0].last().map(String::as_str), Some("second"), "{side:?}");
        }
    }
}

/// A reset with another number than the server expects, because data before it got lost behind the
/// engine, does not end the connection there (RFC 5961 section 3.2). The server's next packets are
/// answered as by a host without the connection: by a reset that it believes.
#[test]
fn a_reset_behind_lost_data() {
    let mut talk = Talk::open();
    talk.send(Client, 0, b"lost");
    talk.rst(Client, 4);
    talk.ack(Server, 0);
    talk.push(Server, 0, b"anybody there?").ack -= 4;
    for mode in [Mode::Guard, Mode::Map] {
        let mut inspector = Inspector::new(settings(mode, Overlap::First));
        let (before, after) = talk.segments.split_at(talk.segments.len() - 2);
        let mut out = Vec::new();
        for segment in before {
            inspector.pass(segment.from, segment.packet(), &mut out);
        }
        for segment in after {
            out.clear();
            inspector.pass(segment.from, segment.packet(), &mut out);
            let sent: Vec<_> = out.iter().map(|(to, packet)| (*to, number(packet))).collect();
            assert_eq!(sent, [(Server, (segment.ack, RST))], "{mode:?}");
        }
    }
}

/// With changed numbers, an unknown connection may be one from before a restart: neither end hears
/// of the other any more, and both get an error.
#[test]
fn a_forgotten_connection() {
    let mut talk = Talk::silent();
    talk.send(Client, 100, b"are you there?");
    talk.send(Server, 50, b"yes");
    talk.send(Client, 114, b"?");
    let mut inspector = Inspector::new(settings(Mode::Map, Overlap::First));
    let mut out = Vec::new();
    for segment in &talk.segments {
        inspector.pass(segment.from, segment.packet(), &mut out);
    }
    let sent: Vec<_> = out.iter().map(|(to, packet)| (*to, number(packet))).collect();
    let wanted = [&talk.segments[1], &talk.segments[2]];
    assert_eq!(sent, wanted.map(|segment| (segment.from, (segment.ack, RST))));
}

/// Number and flags of a segment.
fn number(packet: &Packet) -> (u32, u8) {
    let parts = Parts::of_tcp(packet).expect("a segment");
    let header = tcp(packet, &parts).expect("a header");
    (header.seq(), header.flags())
}

#[test]
fn a_reset_with_data() {
    let mut talk = Talk::open();
    talk.send(Client, 0, b"data");
    let rst = talk.push(Client, 4, b"reason");
    rst.flags = RST | ACK;
    talk.push(Client, 4, b"and on");
    assert!(every_mode(&talk).iter().all(|read| read[0] == ["data"]));
}

#[test]
fn data_behind_the_fin() {
    let mut talk = Talk::open();
    talk.fin(Client, 0, b"all of it");
    talk.push(Client, 9, b"not quite");
    talk.push(Client, 10, b"not quite");
    talk.push(Client, 4, b"and some more of it");
    talk.ack(Server, 10);
    talk.fin(Server, 0, b"bye");
    talk.push(Server, 4, b"-bye");
    assert!(every_mode(&talk).iter().all(|read| *read == [["all of it"], ["bye"]]));
}

#[test]
fn a_fin_too_early_and_one_too_late() {
    let mut talk = Talk::open();
    talk.send(Client, 0, b"one");
    let fin = talk.push(Client, 8, b"");
    fin.flags |= FIN;
    talk.send(Client, 3, b", two and three");
    talk.push(Client, 1, b"").flags |= FIN;
    talk.push(Client, 0x2_0000, b"").flags |= FIN;
    let spoilt = talk.push(Client, 18, b"");
    spoilt.flags |= FIN;
    spoilt.spoilt = Spoilt::Checksum;
    talk.send(Client, 18, b", four");
    for read in every_mode(&talk) {
        // A receiver that takes the early FIN for the end, ends there; another one goes on.
        assert!("one, two and three, four".starts_with(&read[0][0]) && read[0][0].len() >= 8);
    }
}

#[test]
fn a_fin_overlaps_data() {
    let mut talk = Talk::open();
    talk.send(Client, 6, b"secret");
    let fin = talk.push(Client, 4, b"end.");
    fin.flags |= FIN;
    talk.send(Client, 0, b"this");
    talk.send(Client, 4, b" is it");
    for read in every_mode(&talk) {
        assert!(read[0][0].starts_with("this"), "{read:?}");
    }
}

#[test]
fn half_open_one_side_goes_on() {
    let mut talk = Talk::open();
    talk.fin(Client, 0, b"request");
    talk.ack(Server, 8);
    for at in 0..20 {
        talk.send(Server, at * 4, b"data");
        talk.ack(Client, at * 4 + 4);
    }
    talk.push(Client, 3, b"uestXX");
    talk.fin(Server, 80, b"");
    assert!(
        every_mode(&talk)
            .iter()
            .all(|read| *read == [vec!["request".into()], vec!["data".repeat(20)]])
    );
}

#[test]
fn syn_within_an_open_connection() {
    for at in [-1, 5, 9, 0x2_0000] {
        for flags in [SYN, SYN | ACK, SYN | FIN, SYN | RST] {
            let mut talk = Talk::open();
            talk.send(Client, 0, b"hello");
            talk.ack(Server, 5);
            let syn = talk.push(Client, at, b"evil");
            syn.flags = flags;
            talk.send(Client, 5, b" you");
            talk.push(Client, 5, b" two");
            talk.ack(Server, 9);
            for read in every_mode(&talk) {
                let goes_on = read[0] == ["hello you"];
                // It may have been believed to end the connection.
                let ended = flags & (RST | FIN) != 0 && read[0] == ["hello"];
                assert!(goes_on || ended, "{at} {flags:#x}: {read:?}");
            }
        }
    }
}

#[test]
fn ports_are_used_again_after_both_have_finished() {
    let mut talk = Talk::open();
    talk.fin(Client, 0, b"first");
    talk.ack(Server, 6);
    talk.fin(Server, 0, b"");
    talk.ack(Client, 1);
    // Of the old connection, while the new one is not there.
    talk.push(Client, 5, b"late");
    talk.again([3_000_000, 9_000_000]);
    talk.handshake();
    talk.send(Client, 0, b"second");
    talk.ack(Server, 6);
    talk.send(Server, 0, b"answer");
    for read in every_mode(&talk) {
        assert_eq!(read[0], ["first", "second"]);
        assert_eq!(read[1].last().map(String::as_str), Some("answer"));
    }
}
