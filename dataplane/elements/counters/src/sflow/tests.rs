//! The element alone: its samples, and the datagrams that reach a collector.

use std::net::{Ipv4Addr, UdpSocket};
use std::time::Duration;

use thruway_elements_rig::Rig;

use super::datagram::tests::{Whole, read_back};
use super::*;

/// A collector, and an element that sends to it.
fn pair(more: &[&str]) -> (UdpSocket, Rig) {
    let collector = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    collector.set_read_timeout(Some(Duration::from_millis(200))).unwrap();
    let to = collector.local_addr().unwrap().to_string();
    let texts: Vec<&str> =
        [to.as_str(), "SEED 1"].into_iter().chain(more.iter().copied()).collect();
    let rig = Rig::new(&ENTRY, &texts, 1).unwrap();
    (collector, rig)
}

/// All samples that have come.
fn received(collector: &UdpSocket, rate: u32) -> Vec<Whole> {
    let agent = Ipv4Addr::LOCALHOST.into();
    let source = Source { agent, sub_agent: 0, interface: 0, rate };
    let (mut samples, mut bytes) = (Vec::new(), [0; 2_048]);
    while let Ok(len) = collector.recv(&mut bytes) {
        samples.extend(read_back(&source, &bytes[..len]).1);
    }
    samples
}

fn frame(nth: u32) -> Packet {
    let mut bytes = [0; 200];
    bytes[..4].copy_from_slice(&nth.to_be_bytes());
    Packet::new(&bytes).unwrap()
}

#[test]
fn each_packet_is_sampled_at_a_rate_of_one() {
    let (collector, mut rig) = pair(&["RATE 1", "INTERFACE 0"]);
    for batch in 0..4 {
        let left = rig.push((0..25).map(|nth| frame(25 * batch + nth)));
        assert_eq!(left[0].len(), 25, "packets pass");
    }
    assert!(received(&collector, 1).is_empty(), "samples wait for others");
    rig.pass_on_time(SEND_EVERY_NS);
    let samples = received(&collector, 1);
    assert_eq!(samples.len(), 100);
    for (nth, (sample, header)) in samples.iter().enumerate() {
        assert_eq!((sample.sequence, sample.pool), (nth as u32 + 1, nth as u32 + 1));
        assert_eq!((sample.len, sample.drops, header.len()), (200, 0, 128));
        assert_eq!(header[..4], (nth as u32).to_be_bytes());
    }
}

#[test]
fn one_packet_in_rate_is_sampled_in_batches_of_any_size() {
    let (_collector, mut rig) = pair(&["RATE 100"]);
    for size in (1..200).cycle().take(2_000) {
        rig.push((0..size % 60).map(frame));
        rig.pass_on_time(SEND_EVERY_NS);
    }
    let number = |rig: &mut Rig, name| rig.read(name, "").unwrap().parse::<f64>().unwrap();
    let (count, samples) = (number(&mut rig, "count"), number(&mut rig, "samples"));
    assert_eq!(number(&mut rig, "lost"), 0.0);
    // About 570 samples; one of them stands for 1 to 199 packets, evenly: 5 deviations.
    let deviation = 57.5 * samples.sqrt();
    assert!((samples * 100.0 - count).abs() < 5.0 * deviation, "{samples} of {count}");
}

#[test]
fn samples_without_room_are_lost_and_said_to_be() {
    let (collector, mut rig) = pair(&["RATE 1", "SAMPLES_MAX 10"]);
    rig.push((0..25).map(frame));
    rig.pass_on_time(SEND_EVERY_NS);
    rig.push([frame(25)]);
    rig.finish().unwrap();
    let samples = received(&collector, 1);
    assert_eq!(samples.len(), 11);
    assert_eq!((samples[9].0.drops, samples[10].0.drops, samples[10].0.pool), (0, 15, 26));
    assert_eq!(rig.read("lost", "").unwrap(), "15");
    assert_eq!(rig.read("samples", "").unwrap(), "26");
}

#[test]
fn ip_packets_are_sampled_as_such() {
    let (collector, mut rig) = pair(&["RATE 1", "INPUT ip", "HEADER 20"]);
    rig.push([Packet::new(&[0x45; 40]).unwrap(), Packet::new(&[0x60; 60]).unwrap()]);
    rig.finish().unwrap();
    let of = |(sample, header): &Whole| (sample.protocol, sample.len, header.len());
    let samples: Vec<_> = received(&collector, 1).iter().map(of).collect();
    assert_eq!(samples, [(HeaderProtocol::Ipv4, 40, 20), (HeaderProtocol::Ipv6, 60, 20)]);
}

#[test]
fn a_batch_allocates_nothing() {
    let (_collector, mut rig) = pair(&["RATE 2"]);
    assert_eq!(rig.allocations(0, &[1; 60]), 0);
}

#[test]
fn arguments_that_make_no_sense_are_refused() {
    for (text, why) in [
        (vec!["192.0.2.1"], "'192.0.2.1' is no address with a port, as 192.0.2.1:4739"),
        (vec!["192.0.2.1:6343", "RATE 0"], "must be from 1 to 1073741824"),
        (vec!["192.0.2.1:6343", "HEADER 2000"], "must be from 1 to 1024"),
        (vec!["192.0.2.1:6343", "AGENT here"], "'here' is no address"),
        (vec!["192.0.2.1:6343", "INPUT udp"], "not one of ethernet, ip"),
    ] {
        let Err(error) = Rig::new(&ENTRY, &text, 1) else { panic!("{text:?} is refused") };
        let error = error.to_string();
        assert!(error.contains(why), "{error}");
    }
}
