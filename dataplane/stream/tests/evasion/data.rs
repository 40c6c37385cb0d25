//! Evasion by data: overlaps, repetitions, disorder.

use crate::engine::{every_mode, with_overlap};
use crate::forge::{Client, Server, Talk};

#[test]
fn segments_that_wait_overlap_and_differ() {
    let mut talk = Talk::open();
    talk.send(Client, 8, b"innocent");
    talk.send(Client, 6, b"terrible");
    talk.send(Client, 10, b"evil");
    talk.send(Client, 0, b"GET a/");
    talk.send(Client, 6, b"b/in");
    let read = every_mode(&talk);
    assert!(read.iter().all(|read| read[0].len() == 1 && read[0][0].starts_with("GET a/")));
}

#[test]
fn forward_and_backward_overlaps_of_what_is_in_order() {
    for at in 0..6 {
        let mut talk = Talk::open();
        talk.send(Client, 0, b"abcdef");
        talk.send(Client, at, b"XXXXXXXX");
        talk.send(Client, at - 3, b"YYYYYYYYYYYYYY");
        let read = every_mode(&talk);
        assert!(read.iter().all(|read| read[0][0].starts_with("abcdefXX")), "{at}: {read:?}");
    }
}

#[test]
fn sent_again_with_other_bytes_before_it_is_acknowledged() {
    let mut talk = Talk::open();
    talk.send(Client, 0, b"harmless");
    talk.send(Client, 0, b"harmful!");
    talk.send(Client, 4, b"fuls of it");
    talk.ack(Server, 14);
    assert!(every_mode(&talk).iter().all(|read| read[0] == ["harmlesss of it"[..14].to_owned()]
        || read[0][0].starts_with("harmless")));
}

#[test]
fn sent_again_with_other_bytes_after_it_was_acknowledged() {
    let mut talk = Talk::open();
    talk.send(Client, 0, b"harmless");
    talk.ack(Server, 8);
    talk.send(Client, 0, b"harmful!");
    talk.send(Client, 4, b"fuls");
    talk.send(Client, 4, b"fuls of it");
    assert!(every_mode(&talk).iter().all(|read| read[0] == ["harmless of it"]
        || read[0] == ["harmlessof it"]
        || read[0][0].starts_with("harmless")));
}

/// The receiver did not get the first one (it had a TTL too low), and there is no acknowledgement.
#[test]
fn the_receiver_sees_only_what_is_sent_again() {
    let mut talk = Talk::open();
    talk.send(Client, 0, b"harmless").ttl = 2;
    talk.send(Client, 0, b"harmful!");
    talk.ack(Server, 8);
    talk.send(Client, 8, b" end");
    assert!(every_mode(&talk).iter().all(|read| read[0] == ["harmless end"]));
}

#[test]
fn a_byte_each() {
    let word = b"GET /etc/passwd HTTP/1.1\r\n";
    let mut talk = Talk::open();
    for (at, byte) in word.iter().enumerate() {
        talk.send(Client, at as i32, &[*byte]);
    }
    assert!(every_mode(&talk).iter().all(|read| read[0][0].as_bytes() == word));

    let mut backwards = Talk::open();
    for (at, byte) in word.iter().enumerate().rev() {
        backwards.send(Client, at as i32, &[*byte]);
        // And noise between them, with different bytes.
        backwards.push(Client, at as i32 + 1, b"#");
    }
    assert!(every_mode(&backwards).iter().all(|read| read[0][0].len() >= word.len()));
}

#[test]
fn a_word_is_cut_at_every_place() {
    let word = b"an attack, and more";
    for cut in 1..word.len() {
        for is_swapped in [false, true] {
            let mut talk = Talk::open();
            let parts = [(0, &word[..cut]), (cut as i32, &word[cut..])];
            let order = if is_swapped { [1, 0] } else { [0, 1] };
            for part in order {
                talk.send(Client, parts[part].0, parts[part].1);
            }
            talk.ack(Server, word.len() as i32);
            assert!(every_mode(&talk).iter().all(|read| read[0][0].as_bytes() == word));
        }
    }
}

#[test]
fn disorder_and_duplicates() {
    let word = b"0123456789abcdefghijklmnopqrstuvwxyz";
    for seed in 1..60u32 {
        let mut talk = Talk::open();
        let mut state = seed.wrapping_mul(0x9e37_79b9);
        let mut next = |below: usize| {
            state ^= state << 13;
            state ^= state >> 17;
            state ^= state << 5;
            state as usize % below
        };
        for _ in 0..60 {
            let from = next(word.len());
            let to = (from + 1 + next(5)).min(word.len());
            talk.send(Client, from as i32, &word[from..to]);
        }
        talk.send(Client, 0, &word[..18]);
        talk.send(Client, 18, &word[18..]);
        assert!(every_mode(&talk).iter().all(|read| read[0][0].as_bytes() == word), "{seed}");
    }
}

#[test]
fn outside_of_the_window() {
    let mut talk = Talk::open();
    talk.send(Client, 0, b"one ");
    talk.ack(Server, 4).window = 16;
    talk.push(Client, 4 + 16, b"beyond");
    talk.push(Client, 4 + 0x1_0000, b"far beyond");
    talk.push(Client, -0x1_0000, b"long ago");
    talk.push(Client, 4 + 0x7fff_ff00, b"half way around");
    talk.push(Client, 4, b"twothreefourfivesixseven");
    talk.send(Client, 4, b"twothreefourfive");
    talk.ack(Server, 20);
    talk.send(Client, 20, b" end");
    for read in every_mode(&talk) {
        // A window that was offered once may still be used where numbers are our own.
        let text = &read[0][0];
        assert!(text.starts_with("one twothreefourfive") && text.len() <= 28, "{text}");
    }
}

#[test]
fn numbers_wrap_where_streams_overlap() {
    let mut talk = Talk::silent();
    talk.begin = [u32::MAX - 2, u32::MAX - 1];
    talk.handshake();
    talk.send(Client, 4, b"4567");
    talk.send(Client, 2, b"xxxx");
    talk.send(Client, 0, b"01");
    talk.send(Client, 0, b"012345");
    talk.send(Server, 1, b"es");
    talk.send(Server, 0, b"yes");
    for read in every_mode(&talk) {
        assert!(read[0][0].starts_with("01") && read[0][0].ends_with("67") && read[1] == ["yes"]);
    }
}

#[test]
fn zero_window_probes_with_other_bytes() {
    let mut talk = Talk::open();
    talk.send(Client, 0, b"full");
    talk.ack(Server, 4).window = 0;
    talk.push(Client, 4, b"X");
    talk.ack(Server, 4).window = 0;
    talk.push(Client, 4, b"Y");
    talk.ack(Server, 4).window = 100;
    talk.send(Client, 4, b"Zed");
    talk.ack(Server, 7);
    for read in every_mode(&talk) {
        assert!(read[0][0].starts_with("full") && read[0][0].ends_with("ed"), "{read:?}");
    }
}

/// The bytes that count are those that the configured system would take.
#[test]
fn the_policy_decides_what_waits() {
    use thruway_stream::tcp::overlap::Overlap;
    let mut talk = Talk::open();
    talk.send(Client, 4, b"old");
    talk.send(Client, 4, b"new");
    talk.send(Client, 0, b"the ");
    assert_eq!(with_overlap(&talk, Overlap::First)[0], ["the old"]);
    assert_eq!(with_overlap(&talk, Overlap::Last)[0], ["the new"]);
    assert_eq!(with_overlap(&talk, Overlap::Linux)[0], ["the old"]);
    assert_eq!(with_overlap(&talk, Overlap::Solaris)[0], ["the new"]);
}
