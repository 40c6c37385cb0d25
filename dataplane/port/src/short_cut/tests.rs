use super::*;
use crate::bpf::test_run::{TestRun, test_run};
use proptest::prelude::*;
use std::os::unix::net::UnixDatagram;
use thruway_wire::checksum::checksum;

const PORT: u32 = 7;
const MACS_IN: [[u8; 6]; 2] = [[2, 0, 0, 0, 0, 1], [2, 0, 0, 0, 0, 2]];
const MACS_OUT: [[u8; 6]; 2] = [[2, 0, 0, 0, 0, 3], [2, 0, 0, 0, 0, 4]];
const LEASE: u64 = 60_000_000_000;
const ACK: u8 = 0x10;
const NUMBERS: [Numbers; 2] = [
    Numbers { end: 1000, ack: u32::MAX - 10, room: 70_000, shift: 2 },
    Numbers { end: u32::MAX - 10, ack: 900, room: 65_535, shift: 0 },
];

/// What a test needs the privilege for; `None` where it is not there and not required.
fn table() -> Option<Arc<ShortCuts>> {
    let table = ShortCuts::of_process();
    let is_required = std::env::var("THRUWAY_REQUIRE_PRIVILEGES").is_ok_and(|v| v == "1");
    assert!(table.is_ok() || !is_required, "{:?}", table.err());
    KEPT.get_or_init(|| table.ok()).clone()
}

/// Kept, so that all tests have the same one.
static KEPT: std::sync::OnceLock<Option<Arc<ShortCuts>>> = std::sync::OnceLock::new();

/// A socket with a class's filter.
struct Judge {
    sender: UnixDatagram,
    receiver: UnixDatagram,
}

impl Judge {
    fn new(table: &ShortCuts, class: Class) -> Judge {
        let (sender, receiver) = UnixDatagram::pair().expect("sockets");
        receiver.set_nonblocking(true).expect("a socket");
        let program = bpf::load(Hook::Socket, &filter::program(&table.maps, PORT, class));
        let program = program.expect("the kernel takes the filter");
        bpf::filter(&receiver, program.as_fd()).expect("a socket takes it");
        Judge { sender, receiver }
    }

    fn takes(&self, frame: &[u8]) -> bool {
        self.sender.send(frame).expect("it is taken or dropped");
        self.receiver.recv(&mut [0; 4096]).is_ok()
    }
}

fn flow(protocol: u8) -> Flow {
    Flow {
        port: PORT,
        protocol: protocol.into(),
        addresses: [[10, 0, 0, 1], [192, 0, 2, 9]],
        ports: [[0x30, 0x39], [0, 80]],
    }
}

fn rewriting(flow: &Flow) -> Rewriting {
    Rewriting {
        macs_in: MACS_IN,
        macs_out: MACS_OUT,
        addresses: [[203, 0, 113, 2], flow.addresses[1]],
        ports: [[0xFF, 0xF0], flow.ports[1]],
        hops: 1,
        interface: 1,
        mtu: 1500,
    }
}

/// A frame of the flow with right checksums.
fn frame(flow: &Flow, (flags, seq, ack): (u8, u32, u32), payload: &[u8]) -> Vec<u8> {
    let mut segment = flow.ports.as_flattened().to_vec();
    if flow.protocol == 6 {
        segment.extend(seq.to_be_bytes());
        segment.extend(ack.to_be_bytes());
        segment.extend([0x50, flags, 0x10, 0, 0, 0, 0, 0]);
    } else {
        segment.extend((8 + payload.len() as u16).to_be_bytes());
        segment.extend([0, 0]);
    }
    segment.extend(payload);
    let mut packet = vec![0x45, 0, 0, 0, 0, 9, 0x40, 0, 64, flow.protocol as u8, 0, 0];
    packet.extend(flow.addresses.as_flattened());
    packet.extend(segment);
    let len = (packet.len() as u16).to_be_bytes();
    packet[2..4].copy_from_slice(&len);
    finish(&mut packet);
    [MACS_IN.as_flattened(), &[8, 0], &packet].concat()
}

fn finish(packet: &mut [u8]) {
    packet[10..12].fill(0);
    let sum = checksum(&packet[..20]).to_be_bytes();
    packet[10..12].copy_from_slice(&sum);
    let at = if packet[9] == 6 { 36 } else { 26 };
    packet[at..at + 2].fill(0);
    let len = (packet.len() as u16 - 20).to_be_bytes();
    let pseudo = [&packet[12..20], &[0, packet[9]], &len, &packet[20..]].concat();
    let sum = checksum(&pseudo).to_be_bytes();
    packet[at..at + 2].copy_from_slice(&sum);
}

/// As the chain would have sent it.
fn expected(frame: &[u8], rewriting: &Rewriting) -> Vec<u8> {
    let mut packet = frame[14..].to_vec();
    packet[8] -= rewriting.hops;
    packet[12..20].copy_from_slice(rewriting.addresses.as_flattened());
    packet[20..24].copy_from_slice(rewriting.ports.as_flattened());
    finish(&mut packet);
    [rewriting.macs_out.as_flattened(), &[8, 0], &packet].concat()
}

fn installed(table: &ShortCuts, protocol: u8) -> (u32, Flow, Rewriting) {
    let slot = table.take(protocol).expect("a free slot");
    table.hold(slot);
    let flow = flow(protocol);
    let rewriting = rewriting(&flow);
    let back = Flow {
        addresses: [rewriting.addresses[1], rewriting.addresses[0]],
        ports: [rewriting.ports[1], rewriting.ports[0]],
        ..flow
    };
    table.install((slot, 0), &flow, &rewriting, (NUMBERS[0], LEASE)).expect("room");
    table.install((slot, 1), &back, &rewriting, (NUMBERS[1], LEASE)).expect("room");
    (slot, flow, rewriting)
}

/// One test at a time: they share the process's table.
static ALONE: Mutex<()> = Mutex::new(());

#[test]
fn a_session_is_decided_counted_and_rewritten() {
    let Some(table) = table() else { return };
    let _alone = ALONE.lock();
    let redirect = bpf::load(Hook::Ingress, &redirect::program(&table.maps)).expect("it loads");
    for (protocol, class) in [(6, Class::Preferred), (17, Class::Other)] {
        let judge = Judge::new(&table, class);
        let (slot, flow, rewriting) = installed(&table, protocol);
        let frame = frame(&flow, (ACK, 1000, u32::MAX - 10), b"some payload!");
        assert!(!judge.takes(&frame), "it takes the short cut");
        assert_eq!(table.counts((slot, 0)), [1, frame.len() as u64]);
        if protocol == 6 {
            let numbers = table.numbers((slot, 0));
            assert_eq!((numbers.end, numbers.room), (1013, 70_000));
        }
        // The decision is on the processor that sent; a test run may be on any.
        decide(&table, slot * 2 + 1, frame.len() as u32);
        let TestRun { verdict, frame: sent, .. } =
            test_run(redirect.as_fd(), &frame, 1).expect("it runs");
        assert_eq!(verdict, 7, "redirected");
        assert_eq!(sent, expected(&frame, &rewriting), "protocol {protocol}");
        // Nothing is decided: to the stack, as it came.
        decide(&table, 0, 0);
        let TestRun { verdict, frame: sent, .. } =
            test_run(redirect.as_fd(), &frame, 1).expect("it runs");
        assert_eq!((verdict, sent), (NEXT_SEEN, frame.clone()));
        // Another frame's decision.
        decide(&table, slot * 2 + 1, frame.len() as u32 + 1);
        let verdict = test_run(redirect.as_fd(), &frame, 1).expect("it runs").verdict;
        assert_eq!(verdict, NEXT_SEEN);
        table.remove(&flow);
        table.release(slot);
        assert!(judge.takes(&frame), "the session is gone");
    }
}

/// `TCX_NEXT`, as a run reports it.
const NEXT_SEEN: u32 = redirect::NEXT.cast_unsigned();

/// Leaves a decision on every processor.
fn decide(table: &ShortCuts, place: u32, len: u32) {
    let both = u64::from(place) | u64::from(len) << 32;
    let values = [both; 1024];
    bpf::put(table.maps.decision.as_fd(), &0_u32, &values).expect("the kernel's map");
}

#[test]
fn udp_without_a_checksum_keeps_none() {
    let Some(table) = table() else { return };
    let _alone = ALONE.lock();
    let redirect = bpf::load(Hook::Ingress, &redirect::program(&table.maps)).expect("it loads");
    let (slot, flow, _) = installed(&table, 17);
    let mut frame = frame(&flow, (0, 0, 0), b"x");
    frame[40..42].fill(0);
    decide(&table, slot * 2 + 1, frame.len() as u32);
    let TestRun { verdict, frame: sent, .. } =
        test_run(redirect.as_fd(), &frame, 1).expect("it runs");
    assert_eq!((verdict, &sent[40..42]), (7, &[0, 0][..]));
    table.remove(&flow);
    table.release(slot);
}

#[test]
fn what_is_not_plainly_of_the_session_is_left_to_software() {
    let Some(table) = table() else { return };
    let _alone = ALONE.lock();
    let judge = Judge::new(&table, Class::Preferred);
    let (slot, flow, rewriting) = installed(&table, 6);
    let good = (ACK, 1000, u32::MAX - 10);
    let plain = frame(&flow, good, b"payload");
    let changed = |at: usize, value: u8| {
        let mut other = plain.clone();
        other[at] = value;
        finish(&mut other[14..]);
        other
    };
    let wrong = [
        ("another station", changed(0, 9)),
        ("options", changed(14, 0x46)),
        ("a fragment", changed(20, 0x20)),
        ("its last hop", changed(22, 1)),
        ("another port", changed(35, 1)),
        ("FIN", frame(&flow, (ACK | 1, good.1, good.2), b"")),
        ("SYN", frame(&flow, (ACK | 2, good.1, good.2), b"")),
        ("RST", frame(&flow, (ACK | 4, good.1, good.2), b"")),
        ("urgent", frame(&flow, (ACK | 0x20, good.1, good.2), b"")),
        ("no acknowledgement", frame(&flow, (0, good.1, good.2), b"")),
        ("too long", frame(&flow, good, &[0; 1500])),
        ("beyond the window", frame(&flow, (ACK, 900 + 65_536, good.2), b"")),
        ("before the window", frame(&flow, (ACK, 900_u32.wrapping_sub(65_536), good.2), b"")),
        ("an acknowledgement of nothing", frame(&flow, (ACK, 1000, u32::MAX - 9), b"")),
        ("an old acknowledgement", frame(&flow, (ACK, 1000, good.2 - 70_001), b"")),
        ("a wrong length", {
            let mut longer = plain.clone();
            longer.extend([0; 8]);
            longer
        }),
    ];
    // Not in order: while the software may have some of this direction.
    assert!(judge.takes(&frame(&flow, (ACK, 1001, good.2), b"")), "not the next");
    assert!(!judge.takes(&frame(&flow, good, b"")), "the next");
    assert!(!judge.takes(&frame(&flow, (ACK, 1001, good.2), b"")), "any in the window by now");
    assert!(!judge.takes(&plain));
    let before = (table.counts((slot, 0)), table.numbers((slot, 0)));
    for (what, frame) in wrong {
        let is_syn = frame[47] & 0x12 == 0x02;
        // What the classes say decides: all these are preferred, but fragments.
        let is_preferred = frame[20] & 0x20 == 0 && !is_syn;
        assert_eq!(judge.takes(&frame), is_preferred, "{what}");
    }
    let mut broken = plain.clone();
    broken[24] ^= 1;
    assert!(judge.takes(&broken), "a wrong checksum");
    assert_eq!(
        (table.counts((slot, 0)), table.numbers((slot, 0))),
        before,
        "and nothing is counted"
    );
    table.forget_all();
    assert!(judge.takes(&plain), "all are forgotten");
    table.release(slot);
    let (slot, ..) = installed_late(&table, &flow, &rewriting);
    assert!(judge.takes(&plain), "its lease is over");
    table.remove(&flow);
    table.release(slot);
}

fn installed_late(table: &ShortCuts, flow: &Flow, rewriting: &Rewriting) -> (u32, Flow) {
    let slot = table.take(6).expect("a free slot");
    table.hold(slot);
    table.install((slot, 0), flow, rewriting, (NUMBERS[0], 0)).expect("room");
    table.install((slot, 1), flow, rewriting, (NUMBERS[1], LEASE)).expect("room");
    table.install((slot, 0), flow, rewriting, (NUMBERS[0], 0)).expect("room");
    (slot, *flow)
}

/// Whether software would believe a segment of the steady side 0, and the side's end and
/// acknowledgement afterwards: as `thruway_flow::tcp` has it.
fn oracle(own: Numbers, peer: Numbers, seq: u32, ack: u32, len: u32) -> Option<(u32, u32)> {
    let within =
        |at: u32, first: u32, last: u32| at.wrapping_sub(first) <= last.wrapping_sub(first);
    let after = |a: u32, b: u32| a.wrapping_sub(b) as i32 > 0;
    let right = peer.ack.wrapping_add(peer.room);
    if after(own.end, right) {
        return None;
    }
    let fits = within(seq, peer.ack.wrapping_sub(peer.room), right)
        && within(ack, own.ack.wrapping_sub(own.room), peer.end);
    let max = |a, b| if after(a, b) { a } else { b };
    fits.then(|| (max(seq.wrapping_add(len), own.end), max(ack, own.ack)))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn numbers_are_judged_as_software_judges_them(
        (end, peer_end) in any::<(u32, u32)>(),
        (sent, acked) in (0..200_000_u32, 0..200_000_u32),
        (room, peer_room) in (65_535..300_000_u32, 65_535..300_000_u32),
        (seq, ack) in (-400_000..400_000_i32, -400_000..400_000_i32),
        len in 0..600_usize,
    ) {
        let Some(table) = table() else { return Ok(()) };
        let _alone = ALONE.lock();
        JUDGE.with(|judge| {
            let judge = judge.get_or_init(|| Judge::new(&table, Class::Preferred));
            let own = Numbers { end, ack: peer_end.wrapping_sub(acked), room, shift: 0 };
            let peer =
                Numbers { end: peer_end, ack: end.wrapping_sub(sent), room: peer_room, shift: 0 };
            let flow = flow(6);
            let rewriting = rewriting(&flow);
            let slot = TEST_SLOT;
            let deadline = now_ns() + LEASE;
            table.install((slot, 1), &flow, &rewriting, (peer, LEASE)).expect("room");
            table.install((slot, 0), &flow, &rewriting, (own, LEASE)).expect("room");
            table.long(slot, GENERATION).store(table.generation(), Ordering::SeqCst);
            table.long(slot, half(0) + IN_ORDER_UNTIL).store(0, Ordering::SeqCst);
            let (seq, ack) = (end.wrapping_add_signed(seq), peer_end.wrapping_add_signed(ack));
            let takes = !judge.takes(&frame(&flow, (ACK, seq, ack), &vec![0; len]));
            let expected = oracle(own, peer, seq, ack, len as u32);
            prop_assert_eq!(takes, expected.is_some(), "{:?} {:?} {} {}", own, peer, seq, ack);
            let after = table.numbers((slot, 0));
            let (end, ack) = expected.unwrap_or((own.end, own.ack));
            prop_assert_eq!((after.end, after.ack), (end, ack));
            prop_assert!(deadline > now_ns());
            table.remove(&flow);
            table.stop(slot);
            Ok(())
        })?;
    }
}

/// Taken from the end, where no other test comes.
const TEST_SLOT: u32 = SLOTS - 1;

thread_local! {
    static JUDGE: std::cell::OnceCell<Judge> = const { std::cell::OnceCell::new() };
}
