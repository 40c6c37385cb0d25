//! AF_XDP on cables between two hosts: queues, order, ownership, steering, refusals.

use crate::hosts::{Host, cable, ip, privileged};
use std::net::UdpSocket;
use std::sync::Arc;
use std::time::{Duration, Instant};
use thruway_packet::{Batch, Memory, Packet};
use thruway_port::af_xdp::{Device, Mode, Receiver, Sender, XdpOptions};

/// A host with `eth0` = 10.9.0.1, and one with the other end, `near`; two queues each.
pub(crate) fn pair() -> (Host, Host) {
    let (far, here) = (Host::new(), Host::new());
    let tid = far.tid;
    here.run(move || {
        let queues = "numrxqueues 2 numtxqueues 2";
        ip(&format!("link add near {queues} type veth peer name eth0 {queues} netns {tid}"));
        ip("link set near up");
    });
    far.run(|| {
        ip("addr add 10.9.0.1/24 dev eth0");
        ip("link set eth0 up");
    });
    (far, here)
}

pub(crate) fn open(host: &Host, name: &'static str, modes: &'static [Mode]) -> Arc<Device> {
    let options = XdpOptions { modes, ..XdpOptions::default() };
    host.run(move || Device::open(name, &options)).expect("it is up")
}

/// A frame of a made-up type with a number in it.
pub(crate) fn frame(number: u32) -> Packet {
    let len = 60 + number as usize % 1400;
    let mut bytes = vec![0x55; len];
    bytes[..12].fill(0xFF);
    bytes[12..14].copy_from_slice(&[0x88, 0xB5]);
    bytes[14..18].copy_from_slice(&number.to_be_bytes());
    Packet::new(&bytes).expect("memory")
}

/// The numbers of our frames in a batch; their other bytes must be as sent.
fn numbers(batch: &mut Batch) -> Vec<u32> {
    let ours = batch.drain().filter(|packet| packet.data()[12..14] == [0x88, 0xB5]);
    ours.map(|packet| {
        let number = u32::from_be_bytes(packet.data()[14..18].try_into().expect("four"));
        assert_eq!(packet.data(), frame(number).data());
        number
    })
    .collect()
}

/// Sends frames with the numbers of a range and receives them, few enough at a time for the rings.
fn exchange(sender: &mut Sender, receiver: &mut Receiver, range: std::ops::Range<u32>) -> Vec<u32> {
    let end = Instant::now() + Duration::from_secs(10);
    let (mut next, mut got) = (range.start, Vec::new());
    let (mut out, mut received) = (Batch::new(), Batch::new());
    while got.len() < range.len() {
        assert!(Instant::now() < end, "{} of {} came", got.len(), range.len());
        while out.len() < 100
            && next < range.end
            && ((next - range.start) as usize) < got.len() + 1000
        {
            out.push(frame(next));
            next += 1;
        }
        let sent = sender.send(&mut out);
        assert!(sent.error.is_none() && sent.refused == 0, "{sent:?}");
        receiver.receive(256, &mut received);
        got.extend(numbers(&mut received));
    }
    got
}

#[test]
fn what_is_sent_arrives_in_order_and_whole() {
    if !privileged("what_is_sent_arrives_in_order_and_whole") {
        return;
    }
    for modes in [&[Mode::Native], &[Mode::Generic]] {
        let (far, here) = pair();
        let (near, eth0) = (open(&here, "near", modes), open(&far, "eth0", modes));
        let text = near.describe();
        assert!(
            text.contains(&format!("{} mode", modes[0])) && text.contains("2 queues"),
            "{text}"
        );
        let mut receiver = near.receiver(None).expect("nobody has it");
        // More than the rings have slots, so that all of them wrap around, and more than an eighth
        // of all frames, so that they must come back.
        let first = exchange(&mut eth0.sender(Some(0)).expect("free"), &mut receiver, 0..20_000);
        assert!(first.iter().copied().eq(0..20_000), "order is kept");
        // The peer's transmit queue picks the receive queue; the receiver has both.
        let second = exchange(&mut eth0.sender(Some(1)).expect("free"), &mut receiver, 0..5000);
        assert!(second.iter().copied().eq(0..5000), "order is kept");
        let drops = receiver.statistics();
        assert_eq!((drops.dropped_ring_full, drops.dropped_too_long), (0, 0), "{drops:?}");
    }
}

#[test]
fn queues_have_receivers_of_their_own() {
    if !privileged("queues_have_receivers_of_their_own") {
        return;
    }
    let (far, here) = pair();
    let (near, eth0) = (open(&here, "near", &[Mode::Native]), open(&far, "eth0", &[Mode::Native]));
    let mut zero = near.receiver(Some(0)).expect("free");
    let refused = near.receiver(Some(0)).err().expect("it is taken").to_string();
    assert!(refused.contains("queue 0 has a receiver already"), "{refused}");
    let refused = near.receiver(Some(2)).err().expect("there is none").to_string();
    assert!(refused.contains("no queue 2; it has 2"), "{refused}");
    let mut rest = near.receiver(None).expect("queue 1 is free");
    let (mut by_zero, mut by_one) =
        (eth0.sender(None).expect("free"), eth0.sender(None).expect("free"));
    assert!(eth0.sender(None).is_err(), "there are two queues");
    // Each in a thread of its own.
    let one = std::thread::spawn(move || exchange(&mut by_one, &mut rest, 0..3000));
    let got = exchange(&mut by_zero, &mut zero, 10_000..13_000);
    assert!(got.into_iter().eq(10_000..13_000));
    assert!(one.join().expect("no panic").into_iter().eq(0..3000));
    // Ends come back when they are dropped.
    near.receiver(Some(1)).expect("free again");
}

#[test]
fn frames_of_wrong_length_are_refused_and_large_ones_copied() {
    if !privileged("frames_of_wrong_length_are_refused_and_large_ones_copied") {
        return;
    }
    let (far, here) = pair();
    let (near, eth0) = (open(&here, "near", &[Mode::Native]), open(&far, "eth0", &[Mode::Native]));
    let (mut receiver, mut sender) =
        (near.receiver(None).expect("free"), eth0.sender(None).expect("free"));
    let long = Packet::zeroed(1515).expect("memory");
    let short = Packet::zeroed(13).expect("memory");
    // A short packet in a frame of the other pool.
    let mut large = Packet::zeroed(9000).expect("memory");
    large.truncate(frame(7).len());
    large.data_mut().copy_from_slice(frame(7).data());
    let mut batch: Batch = [long, short, large].into_iter().collect();
    let sent = sender.send(&mut batch);
    assert_eq!((sent.packets, sent.refused, batch.len()), (1, 2, 0));
    assert_eq!(exchange(&mut sender, &mut receiver, 8..9).last(), Some(&8));
    assert_eq!(receiver.statistics().received, 2);
}

#[test]
fn open_checksums_of_a_local_stack_are_completed() {
    if !privileged("open_checksums_of_a_local_stack_are_completed") {
        return;
    }
    let (far, here) = pair();
    let near = open(&here, "near", &[Mode::Native]);
    let mut receiver = near.receiver(None).expect("free");
    far.run(|| {
        ip("neigh add 10.9.0.2 lladdr 02:00:00:00:00:02 dev eth0");
        let socket = UdpSocket::bind("10.9.0.1:0").expect("an address of eth0");
        socket.send_to(&[0x5A; 333], "10.9.0.2:9").expect("a route");
    });
    let end = Instant::now() + Duration::from_secs(10);
    let mut batch = Batch::new();
    let datagram = loop {
        assert!(Instant::now() < end, "it did not come");
        receiver.receive(64, &mut batch);
        if let Some(found) = batch.drain().find(|p| p.len() == 42 + 333) {
            break found;
        }
    };
    assert!(receiver.statistics().checksums_completed > 0);
    let ip = &datagram.data()[14..];
    let sum = thruway_wire::checksum::Sum::ZERO.with(&ip[12..20]).with(&[0, 17]);
    assert_eq!(sum.with(&ip[24..26]).with(&ip[20..]).checksum(), 0, "a right checksum");
}

/// Whether `ip link` shows an XDP program.
fn is_steered(host: &Host, name: &'static str) -> bool {
    host.run(move || {
        let output = std::process::Command::new("ip").args(["link", "show", name]).output();
        String::from_utf8_lossy(&output.expect("iproute2").stdout).contains("xdp")
    })
}

#[test]
fn the_stack_gets_frames_when_the_last_receiver_goes() {
    if !privileged("the_stack_gets_frames_when_the_last_receiver_goes") {
        return;
    }
    let (_far, here) = pair();
    let near = open(&here, "near", &[Mode::Native]);
    assert!(is_steered(&here, "near"));
    let zero = near.receiver(Some(0)).expect("free");
    let one = near.receiver(Some(1)).expect("free");
    drop(zero);
    assert!(is_steered(&here, "near"));
    drop(one);
    assert!(!is_steered(&here, "near"));
    // And it can be steered again.
    let device = near.clone();
    let again = here.run(move || device.receiver(None)).expect("free");
    assert!(is_steered(&here, "near"));
    drop((again, near));
    assert!(!is_steered(&here, "near"));
}

#[test]
fn opening_again_and_again_loses_no_frame() {
    if !privileged("opening_again_and_again_loses_no_frame") {
        return;
    }
    let (far, here) = pair();
    // Two fill rings a round: all frames would be lost before the last one.
    let rounds = Memory::get().small().stats().capacity / (2 * 2048) + 2;
    let (near, eth0) = (open(&here, "near", &[Mode::Native]), open(&far, "eth0", &[Mode::Native]));
    drop((near, eth0));
    for round in 0..rounds {
        // The same queue again at once: it may still be bound.
        let near = open(&here, "near", &[Mode::Native]);
        let mut receiver = near.receiver(None).expect("free");
        if round % 8 == 0 {
            let eth0 = open(&far, "eth0", &[Mode::Native]);
            let mut sender = eth0.sender(None).expect("free");
            exchange(&mut sender, &mut receiver, 0..300);
        }
    }
}

#[test]
fn what_does_not_fit_is_refused_with_the_remedy() {
    if !privileged("what_does_not_fit_is_refused_with_the_remedy") {
        return;
    }
    let (far, here) = (Host::new(), Host::new());
    let tid = far.tid;
    let errors = here.run(move || {
        cable("jumbo", "eth0", tid);
        ip("link set jumbo mtu 3000");
        let error = |name| {
            let opened = Device::open(name, &XdpOptions::default());
            opened.err().expect("it is not fit").to_string()
        };
        ip("link set lo mtu 1500");
        let native = XdpOptions { modes: &[Mode::Native], ..XdpOptions::default() };
        let lo = Device::open("lo", &native).err().expect("it has no such mode").to_string();
        let jumbo = error("jumbo");
        ip("link set jumbo down");
        ip("link set jumbo mtu 1500");
        [jumbo, error("jumbo"), error("nosuch0"), lo]
    });
    for (error, words) in errors.iter().zip([
        ["MTU of 3000", "ip link set jumbo mtu 1706"],
        ["is down", "ip link set jumbo up"],
        ["no interface 'nosuch0'", "jumbo"],
        ["'lo'", "no native mode"],
    ]) {
        assert!(words.iter().all(|word| error.contains(word)), "{error}");
    }
    assert!(!is_steered(&here, "jumbo"));
}
