//! What forged segments do to a session: nothing, while those of its ends do what they say.

use super::*;
use proptest::prelude::*;

const FIN: u8 = 0x01;
const SYN: u8 = 0x02;
const RST: u8 = 0x04;
const ACK: u8 = 0x10;

/// Where the numbers of either side begin.
const ISN: [u32; 2] = [0xffff_fff0, 0x1234_5678];

/// A segment of a connection, as its ends or others may send it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Sent {
    pub reply: bool,
    pub flags: u8,
    pub seq: u32,
    pub ack: u32,
    pub len: usize,
}

/// Bytes in a frame in front of TCP's header.
const TRANSPORT: usize = 34;

impl Sent {
    pub fn frame(&self) -> Packet {
        let tuple = if self.reply { tcp(7, 1000).reversed() } else { tcp(7, 1000) };
        let mut segment = [tuple.src_port.to_be_bytes(), tuple.dst_port.to_be_bytes()].concat();
        segment.extend_from_slice(&self.seq.to_be_bytes());
        segment.extend_from_slice(&self.ack.to_be_bytes());
        segment.extend_from_slice(&[0x50, self.flags, 0x10, 0, 0, 0, 0, 0]);
        segment.resize(20 + self.len, 0x55);
        let sum = Sum::pseudo_v4(tuple.src, tuple.dst, 6, segment.len()).with(&segment);
        segment[16..18].copy_from_slice(&sum.checksum().to_be_bytes());
        ip(&tuple, &segment)
    }
}

/// A segment by the numbers that the two sides are at, from their beginnings.
fn sent(reply: bool, flags: u8, [mine, other]: [u32; 2], len: usize) -> Sent {
    let [me, peer] = if reply { [1, 0] } else { [0, 1] };
    let seq = ISN[me].wrapping_add(mine);
    let ack = if flags & ACK == 0 { 0 } else { ISN[peer].wrapping_add(other) };
    Sent { reply, flags, seq, ack, len }
}

/// A connection that has opened: the client is at 101 (its SYN, 100 bytes), the server at 201.
fn opening() -> Vec<Sent> {
    vec![
        sent(false, SYN, [0, 0], 0),
        sent(true, SYN | ACK, [0, 1], 0),
        sent(false, ACK, [1, 1], 0),
        sent(false, ACK, [1, 1], 100),
        sent(true, ACK, [1, 101], 200),
        sent(false, ACK, [101, 201], 0),
    ]
}

fn opened() -> (Manager, Fcb) {
    let mut manager = manager(&[demand("connection", 8)], &Settings::default());
    let fcb = opening().iter().map(|sent| one(&mut manager, sent.frame(), 0)).last().unwrap();
    assert_eq!(phase(&manager, fcb), Phase::Open);
    (manager, fcb)
}

fn phase(manager: &Manager, fcb: Fcb) -> Phase {
    manager.life(&at(manager, 1, fcb)).phase()
}

fn after(manager: &mut Manager, sent: Sent) -> Phase {
    let fcb = one(manager, sent.frame(), 0);
    phase(manager, fcb)
}

#[test]
fn a_reset_by_guess_ends_nothing() {
    let (mut manager, fcb) = opened();
    for (reply, base) in [(false, ISN[0].wrapping_add(101)), (true, ISN[1].wrapping_add(201))] {
        // Beside the next number, in the window, half the space away, and not at all.
        for seq in [1, u32::MAX, 1000, 4096, 1 << 31, 0x7777_7777].map(|by| base.wrapping_add(by)) {
            for flags in [RST, RST | ACK] {
                let forged = Sent { reply, flags, seq, ack: seq, len: 0 };
                assert_eq!(after(&mut manager, forged), Phase::Open, "{forged:?}");
            }
        }
    }
    assert_eq!(after(&mut manager, sent(true, RST, [201, 0], 0)), Phase::Closed);
    assert!(fcb.session().is_some());
}

#[test]
fn a_wrong_checksum_ends_nothing() {
    for flags in [RST, FIN | ACK] {
        for reply in [false, true] {
            let at = if reply { [201, 101] } else { [101, 201] };
            let (mut manager, fcb) = opened();
            let mut damaged = sent(reply, flags, at, 0).frame();
            damaged.data_mut()[TRANSPORT + 16] ^= 0x40;
            one(&mut manager, damaged, 0);
            assert_eq!(phase(&manager, fcb), Phase::Open);
            // Left to the network card by a local sender: the pseudo header alone.
            let mut open = sent(reply, flags, at, 0).frame();
            let tuple = tcp(7, 1000);
            let sum = !Sum::pseudo_v4(tuple.src, tuple.dst, 6, 20).checksum();
            open.data_mut()[TRANSPORT + 16..TRANSPORT + 18].copy_from_slice(&sum.to_be_bytes());
            one(&mut manager, open, 0);
            assert_ne!(phase(&manager, fcb), Phase::Open);
        }
    }
}

#[test]
fn fins_and_syns_by_guess_change_nothing() {
    let (mut manager, _) = opened();
    for reply in [false, true] {
        for by in [1 << 20, 1 << 30, 1 << 31, 3 << 30] {
            let at = if reply { [201, 101] } else { [101, 201] };
            for flags in [FIN | ACK, SYN, SYN | ACK] {
                let whole = sent(reply, flags, at, 0);
                let forged = Sent { seq: whole.seq.wrapping_add(by), ..whole };
                assert_eq!(after(&mut manager, forged), Phase::Open, "{forged:?}");
                let forged = Sent { seq: whole.seq + 9, ack: whole.ack.wrapping_add(by), ..whole };
                assert_eq!(after(&mut manager, forged), Phase::Open, "{forged:?}");
            }
            // Nor do they move the numbers, so that what follows them would be right.
            let moved = Sent { seq: ISN[0].wrapping_add(by), ..sent(reply, ACK, at, 50) };
            assert_eq!(after(&mut manager, moved), Phase::Open);
            let behind = Sent { flags: RST, seq: moved.seq.wrapping_add(50), len: 0, ..moved };
            assert_eq!(after(&mut manager, behind), Phase::Open);
        }
    }
    assert_eq!(after(&mut manager, sent(false, FIN | ACK, [101, 201], 0)), Phase::Closing);
    assert_eq!(after(&mut manager, sent(true, FIN | ACK, [201, 102], 0)), Phase::Closed);
}

#[test]
fn an_end_that_refuses_a_connection_ends_it() {
    let mut manager = manager(&[demand("connection", 8)], &Settings::default());
    one(&mut manager, sent(false, SYN, [0, 0], 0).frame(), 0);
    let guessed = Sent { ack: 77, ..sent(true, RST | ACK, [0, 1], 0) };
    assert_eq!(after(&mut manager, guessed), Phase::New);
    let refused = Sent { seq: 0, ..sent(true, RST | ACK, [0, 1], 0) };
    assert_eq!(after(&mut manager, refused), Phase::Closed);
}

#[test]
fn a_guessed_acknowledgement_completes_no_handshake() {
    let mut manager = manager(&[demand("connection", 8)], &Settings::default());
    one(&mut manager, sent(false, SYN, [0, 0], 0).frame(), 0);
    one(&mut manager, sent(true, SYN | ACK, [0, 1], 0).frame(), 0);
    let guessed = Sent { ack: 0x7000_0000, ..sent(false, ACK, [1, 1], 0) };
    assert_eq!(after(&mut manager, guessed), Phase::New);
    assert_eq!(after(&mut manager, sent(false, ACK, [1, 1], 0)), Phase::Open);
}

#[test]
fn a_connection_that_is_picked_up_ends_by_its_own_numbers() {
    let mut manager = manager(&[demand("connection", 8)], &Settings::default());
    for sent in &opening()[3..] {
        one(&mut manager, sent.frame(), 0);
    }
    let next = sent(true, ACK, [201, 101], 300);
    assert_eq!(after(&mut manager, next), Phase::Open);
    let forged = Sent { seq: 5, ..sent(true, RST, [0, 0], 0) };
    assert_eq!(after(&mut manager, forged), Phase::Open);
    // As an answer to what the client sends: what it acknowledged.
    assert_eq!(after(&mut manager, sent(true, RST, [201, 0], 0)), Phase::Closed);
}

#[test]
fn two_threads_know_the_numbers_of_both_directions() {
    let settings = bounded(1 << 10, 1 << 8);
    let plan = Arc::new(consolidate(&chain(&[demand("connection", 8)])).unwrap());
    let shared_flows_of = shared_flows_of(&plan, &settings, 2).unwrap();
    let new =
        || Manager::with_shared_flows(Arc::clone(&plan), &settings, &shared_flows_of).unwrap();
    let mut threads = [new(), new()];
    let mut words = [Fcb::NONE; 2];
    for sent in opening() {
        let at = usize::from(sent.reply);
        words[at] = one(&mut threads[at], sent.frame(), 0);
    }
    let now = |threads: &[Manager; 2]| {
        let seen = [0, 1].map(|thread| phase(&threads[thread], words[thread]));
        assert_eq!(seen[0], seen[1]);
        seen[0]
    };
    assert_eq!(now(&threads), Phase::Open);
    for by in [1, 9, 4096, 1 << 31] {
        for reply in [false, true] {
            let honest = sent(reply, RST, if reply { [201, 0] } else { [101, 0] }, 0);
            let forged = Sent { seq: honest.seq.wrapping_add(by), ..honest };
            one(&mut threads[usize::from(reply)], forged.frame(), 0);
            assert_eq!(now(&threads), Phase::Open, "{forged:?}");
        }
    }
    one(&mut threads[1], sent(true, RST, [201, 0], 0).frame(), 0);
    assert_eq!(now(&threads), Phase::Closed);
}

proptest! {
    /// A connection of honest ends, with segments that may be lost behind this place or come twice,
    /// among forged ones without knowledge of its numbers: it is as if the forger were not there.
    #[test]
    fn forgers_are_not_there(
        steps in prop::collection::vec((any::<bool>(), 0usize..1400, 0u8..4), 0..40),
        forged in prop::collection::vec((any::<bool>(), any::<u32>(), any::<u32>(), 0usize..9), 0..80),
        reset: bool,
    ) {
        let (mut manager, fcb) = opened();
        let mut at = [101u32, 201];
        let mut forgeries = forged.iter();
        let flags = [RST, RST | ACK, FIN | ACK, SYN, SYN | ACK, ACK, FIN, SYN | RST, SYN | FIN];
        for (reply, len, fate) in steps {
            let [me, peer] = if reply { [1, 0] } else { [0, 1] };
            let segment = sent(reply, ACK, [at[me], at[peer]], len);
            for _ in 0..=u8::from(fate == 1) {
                one(&mut manager, segment.frame(), 0);
            }
            at[me] += len as u32;
            for (reply, seq, ack, kind) in forgeries.by_ref().take(2) {
                // No lucky guess: as far as any window.
                let base = ISN[usize::from(*reply)].wrapping_add(at[usize::from(*reply)]);
                let seq = base.wrapping_add(1 << 28).wrapping_add(seq >> 1);
                let forged = Sent { reply: *reply, flags: flags[*kind], seq, ack: *ack, len: 0 };
                one(&mut manager, forged.frame(), 0);
            }
            prop_assert_eq!(phase(&manager, fcb), Phase::Open);
        }
        if reset {
            prop_assert_eq!(after(&mut manager, sent(false, RST, [at[0], 0], 0)), Phase::Closed);
        } else {
            let fin = |reply, at| sent(reply, FIN | ACK, at, 10);
            prop_assert_eq!(after(&mut manager, fin(false, [at[0], at[1]])), Phase::Closing);
            prop_assert_eq!(after(&mut manager, fin(true, [at[1], at[0] + 11])), Phase::Closed);
        }
    }
}
