//! What strangers can send at will fills a ring of its own (ADR 47).

use crate::bridge::wait;
use crate::hosts::privileged;
use crate::sockets::{pair, receive_until};
use std::time::{Duration, Instant};
use thruway_packet::Batch;
use thruway_port::af_packet::{OutFrame, PacketOptions, PacketSender, PacketSocket};
use thruway_port::af_xdp::{Device, Mode, XdpOptions};

const SYN: u8 = 0x02;
const ACK: u8 = 0x10;
/// More frames than a ring has slots.
const FLOOD: usize = 6000;
const OPEN: usize = 400;

/// A TCP segment with these flags and this number, between the ends of a flow.
fn segment(flags: u8, number: u16, flow: u8) -> Vec<u8> {
    let ip = [0x45, 0, 0, 40, 0, 0, 0, 0, 64, 6, 0, 0, 10, 9, flow, 1, 198, 51, 100, flow];
    let [high, low] = number.to_be_bytes();
    let ports = [0x40, flow, 0, 80];
    let tcp = [0, 0, high, low, 0, 0, 0, 0, 0x50, flags, 0, 9, 0, 0, 0, 0];
    [&[0xFF; 12][..], &[8, 0], &ip, &ports, &tcp].concat()
}

/// Flags, number and flow of one of these segments.
fn parse(frame: &[u8]) -> Option<(u8, u16, u8)> {
    let is_ours = frame.len() == 54 && frame[..14] == segment(0, 0, 0)[..14];
    is_ours.then(|| (frame[47], u16::from_be_bytes([frame[40], frame[41]]), frame[35]))
}

fn send(sender: &mut PacketSender, frames: &[Vec<u8>]) {
    let out: Vec<OutFrame<'_>> = frames.iter().map(|frame| frame.as_slice().into()).collect();
    assert_eq!(sender.send(&out).expect("eth0 is up"), frames.len());
}

/// Sends a flood until a ring has no room for it and the kernel has delivered what it took: it
/// loses some silently.
fn flood_until_full(
    sender: &mut PacketSender,
    flood: &[Vec<u8>],
    mut dropped: impl FnMut() -> u64,
) {
    let end = Instant::now() + Duration::from_secs(10);
    let mut before = 0;
    loop {
        assert!(Instant::now() < end, "no ring is ever full");
        let now = dropped();
        if now == 0 {
            flood.chunks(64).for_each(|frames| send(sender, frames));
        } else if now == before {
            return;
        }
        before = now;
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn a_flood_takes_no_slot_of_open_connections() {
    if !privileged("a_flood_takes_no_slot_of_open_connections") {
        return;
    }
    let (far, here) = pair();
    let opened = here.run(|| PacketSocket::open("near", &PacketOptions::default()));
    let mut sockets = [opened.expect("near is up")];
    let mut sender = far.run(|| PacketSender::open("eth0", false).expect("up"));
    let flood: Vec<_> = (0..FLOOD as u16).map(|number| segment(SYN, number, 1)).collect();
    let open: Vec<_> = (0..OPEN as u16).map(|number| segment(ACK, number, 2)).collect();
    flood_until_full(&mut sender, &flood, || sockets[0].statistics().dropped_ring_full);
    send(&mut sender, &open);
    send(&mut sender, &flood);
    let (mut taken, mut syns) = (Vec::new(), 0);
    receive_until(&mut sockets, |_, frame| {
        match parse(frame) {
            Some((ACK, number, 2)) => taken.push(number),
            Some((SYN, ..)) => syns += 1,
            _ => {}
        }
        taken.len() == OPEN
    });
    assert!(taken.is_sorted(), "{taken:?}");
    // An eighth of what is read, and the rest of the last call.
    assert!(syns <= OPEN / 7 + 1 + 256, "{syns} of the flood came first");
    let counts = sockets[0].statistics();
    assert!(counts.dropped_preferred == 0 && counts.dropped_ring_full > 0, "{counts:?}");
}

#[test]
fn nor_does_it_by_af_xdp() {
    if !privileged("nor_does_it_by_af_xdp") {
        return;
    }
    // Fewer than the link itself carries (veth: 256 frames).
    const OPEN: u16 = 200;
    let (far, here) = pair();
    let options = XdpOptions { modes: &[Mode::Native], ..XdpOptions::default() };
    let near = here.run(move || Device::open("near", &options)).expect("it is up");
    let mut receiver = near.receiver(None).expect("nobody has it");
    let mut sender = far.run(|| PacketSender::open("eth0", false).expect("up"));
    let flood: Vec<_> = (0..FLOOD as u16).map(|number| segment(SYN, number, 1)).collect();
    flood_until_full(&mut sender, &flood, || receiver.statistics().dropped_ring_full);
    let open: Vec<_> = (0..OPEN).map(|number| segment(ACK, number, 2)).collect();
    send(&mut sender, &open);
    let (mut taken, mut syns) = (Vec::new(), 0);
    let end = Instant::now() + Duration::from_secs(10);
    let mut batch = Batch::new();
    while taken.len() < usize::from(OPEN) {
        assert!(Instant::now() < end, "{} of the open connection came", taken.len());
        receiver.receive(64, &mut batch);
        for packet in batch.drain() {
            match parse(packet.data()) {
                Some((ACK, number, 2)) => taken.push(number),
                Some((SYN, ..)) => syns += 1,
                _ => {}
            }
        }
    }
    assert!(taken.is_sorted(), "{taken:?}");
    assert!(syns <= usize::from(OPEN) / 7 + 64, "{syns} of the flood came first");
    assert_eq!(receiver.statistics().dropped_preferred, 0);
}

#[test]
fn without_a_flood_frames_of_both_rings_come_in_order() {
    if !privileged("without_a_flood_frames_of_both_rings_come_in_order") {
        return;
    }
    let (far, here) = pair();
    let opened = here.run(|| PacketSocket::open("near", &PacketOptions::default()));
    let mut sockets = [opened.expect("near is up")];
    let mut sender = far.run(|| PacketSender::open("eth0", false).expect("up"));
    let flags = |number: u16| if number.is_multiple_of(3) { SYN } else { ACK };
    let frames: Vec<_> = (0..1000).map(|number| segment(flags(number), number, 3)).collect();
    send(&mut sender, &frames);
    let mut next = 0;
    receive_until(&mut sockets, |_, frame| {
        if let Some((_, number, 3)) = parse(frame) {
            assert_eq!(number, next);
            next += 1;
        }
        next == 1000
    });
    assert_eq!(sockets[0].statistics().dropped_ring_full, 0);
}

#[test]
fn a_group_gives_requests_and_segments_of_a_flow_to_one_socket() {
    if !privileged("a_group_gives_requests_and_segments_of_a_flow_to_one_socket") {
        return;
    }
    const FLOWS: u8 = 100;
    let (far, here) = pair();
    let mut sockets = here.run(|| {
        let group = PacketSocket::open_group("near", &PacketOptions::default(), (3, None));
        group.expect("near is up")
    });
    let mut sender = far.run(|| PacketSender::open("eth0", false).expect("up"));
    let of = |flow| [segment(SYN, 0, flow), segment(ACK, 1, flow)];
    send(&mut sender, &(0..FLOWS).flat_map(of).collect::<Vec<_>>());
    let mut by = vec![[None; 2]; usize::from(FLOWS)];
    let mut left = 2 * FLOWS;
    receive_until(&mut sockets, |socket, frame| {
        if let Some((_, number, flow)) = parse(frame) {
            let place = &mut by[usize::from(flow)][usize::from(number)];
            assert_eq!(place.replace(socket), None, "it came twice");
            left -= 1;
        }
        left == 0
    });
    wait(&sockets.iter().collect::<Vec<_>>());
    for socket in &mut sockets {
        socket.receive(256, |frame| assert_eq!(parse(&frame.bytes), None, "it came twice"));
    }
    assert!(by.iter().all(|[first, second]| first == second), "{by:?}");
    for socket in 0..3 {
        assert!(by.iter().any(|[first, _]| *first == Some(socket)), "{by:?}");
    }
}
