//! Frames out by packet sockets: whole, in order, and none lost to a queue that is full.

use crate::bridge::wait;
use crate::hosts::{Host, cable, ip, privileged};
use std::process::Command;
use std::time::{Duration, Instant};
use thruway_port::af_packet::{OutFrame, PacketOptions, PacketSender, PacketSocket};

/// More than a ring has slots.
const COUNT: u16 = 3000;
const PATIENCE: Duration = Duration::from_secs(30);

/// Two hosts, a sender on one end of their cable and a receiver on the other.
fn ends(mtu: usize) -> (Host, Host, PacketSender, PacketSocket) {
    let (far, here) = (Host::new(), Host::new());
    let tid = far.tid;
    let up = move |end: &str| {
        ip(&format!("link set {end} mtu {mtu}"));
        ip(&format!("link set {end} up"));
    };
    here.run(move || {
        cable("near", "eth0", tid);
        up("near");
    });
    let socket = far.run(move || {
        up("eth0");
        PacketSocket::open("eth0", &PacketOptions::default()).expect("eth0 is up")
    });
    let sender = here.run(|| PacketSender::open("near", false).expect("near is up"));
    (far, here, sender, socket)
}

/// A frame that no other host sends; its number and length determine its bytes.
fn frame(number: u16, len: usize) -> Vec<u8> {
    let byte = |at: usize| (at * 31 + usize::from(number) * 7) as u8;
    let mut bytes: Vec<u8> = (0..len).map(byte).collect();
    bytes[..12].fill(0xFF);
    bytes[12..14].copy_from_slice(&[0x88, 0xB5]);
    bytes[14..16].copy_from_slice(&number.to_be_bytes());
    bytes
}

/// Takes what is there; it must come next.
fn take<'a>(socket: &mut PacketSocket, expected: &mut impl Iterator<Item = &'a Vec<u8>>) -> usize {
    let mut count = 0;
    socket.receive(256, |frame| {
        if frame.bytes[12..14] == [0x88, 0xB5] {
            let next = expected.next().expect("no more were sent");
            assert!(frame.bytes[..] == next[..], "not the next frame, or not as it was sent");
            count += 1;
        }
    });
    count
}

/// Sends all, and again what must wait, and receives them meanwhile; what the first call sent.
fn pass(sender: &mut PacketSender, socket: &mut PacketSocket, frames: &[Vec<u8>]) -> usize {
    let out: Vec<OutFrame<'_>> = frames.iter().map(|frame| frame.as_slice().into()).collect();
    let mut expected = frames.iter();
    let (mut sent, mut came) = (sender.send(&out).expect("near is up"), 0);
    let (first, end) = (sent, Instant::now() + PATIENCE);
    while came < frames.len() {
        assert!(Instant::now() < end, "{sent} of {} were sent, {came} came", frames.len());
        wait(&[&*socket]);
        came += take(socket, &mut expected);
        sent += sender.send(&out[sent..]).expect("near is up");
    }
    assert_eq!(sender.counts(), (frames.len() as u64, 0));
    assert_eq!(socket.statistics().dropped_ring_full, 0);
    first
}

#[test]
fn frames_of_all_lengths_arrive_in_order() {
    if !privileged("frames_of_all_lengths_arrive_in_order") {
        return;
    }
    let (_far, _here, mut sender, mut socket) = ends(1500);
    let frames: Vec<_> = (60..=1514).map(|len| frame(len, usize::from(len))).collect();
    pass(&mut sender, &mut socket, &frames);
    let (_far, _here, mut sender, mut socket) = ends(9000);
    // Short ones and long ones in turn: by one ring; fewer than the receiver has slots.
    let len = |number: u16| if number.is_multiple_of(2) { 9014 - number } else { 60 + number };
    let frames: Vec<_> = (0..400).map(|n| frame(n, usize::from(len(n)))).collect();
    pass(&mut sender, &mut socket, &frames);
}

#[test]
fn frames_longer_than_a_slot_stay_in_order() {
    if !privileged("frames_longer_than_a_slot_keep_their_place") {
        return;
    }
    let (_far, _here, mut sender, mut socket) = ends(30_000);
    let len = |number: u16| if number.is_multiple_of(5) { 17_000 + number } else { 60 + number };
    let frames: Vec<_> = (0..200).map(|n| frame(n, usize::from(len(n)))).collect();
    pass(&mut sender, &mut socket, &frames);
}

#[test]
fn a_queue_that_is_full_loses_nothing() {
    if !privileged("a_queue_that_is_full_loses_nothing") {
        return;
    }
    let len = |number: u16| 60 + usize::from(number) % 1000;
    let frames: Vec<_> = (0..COUNT).map(|n| frame(n, len(n))).collect();
    // Some 400 frames, and all: then they wait in the queue, and keep their slots.
    for (limit, at_once) in [("200kb", 100..1000), ("8mb", 1500..usize::from(COUNT) + 1)] {
        let (_far, here, mut sender, mut socket) = ends(1500);
        here.run(move || {
            let shape = format!("qdisc add dev near root tbf rate 40mbit burst 4kb limit {limit}");
            let output = Command::new("tc").args(shape.split(' ')).output().expect("iproute2");
            assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        });
        let first = pass(&mut sender, &mut socket, &frames);
        assert!(at_once.contains(&first), "{first} at once, limit {limit}");
    }
}
