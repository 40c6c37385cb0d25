//! Ports of DPDK by its virtual devices, in this process: nothing is lost, nothing is copied, and
//! every frame comes back.
#![cfg(feature = "dpdk")]

use std::sync::Arc;

use parking_lot::Mutex;
use thruway_packet::{Batch, Frames, Memory, Packet, SMALL_FRAME};
use thruway_port::dpdk::{self, Device, PortConfig, Receiver, Sender};
use thruway_region::Pages;

/// Frames of this process: few, so that one that is lost shows.
const FRAMES: usize = 4096;

/// Starts DPDK; the tests of a process share it.
fn start() {
    Memory::configure(FRAMES as u32, Pages::Normal).expect("memory");
    dpdk::start(&[]).expect("DPDK runs");
}

/// Runs a test while no other runs, since they count the process's frames; in a thread of its own,
/// whose end gives back what DPDK kept for it.
fn alone(test: impl FnOnce() + Send + 'static) {
    static TURN: Mutex<()> = Mutex::new(());
    let _turn = TURN.lock();
    std::thread::spawn(test).join().expect("no panic");
}

/// A port with one queue in each direction.
fn open(name: &str) -> (Arc<Device>, Receiver, Sender) {
    start();
    let config = PortConfig { rx_queues: 1, tx_queues: 1, ..PortConfig::default() };
    let device = Device::open(name, &config).expect(name);
    let receiver = device.receiver(0..1).expect("the queue");
    let sender = device.sender(None).expect("a queue");
    (device, receiver, sender)
}

/// Sends a batch whole.
fn send(sender: &mut Sender, batch: &mut Batch) -> usize {
    let mut sent = 0;
    while !batch.is_empty() {
        let result = sender.send(batch);
        sent += result.packets;
        if result.pending == 0 && result.packets == 0 {
            break;
        }
    }
    sent
}

/// Every free frame, taken and given back: how many there are.
fn free_frames() -> usize {
    let mut all = Vec::new();
    let taken = Frames::small().take(FRAMES + 1, |number| all.push(number));
    // JUSTIFICATION: what is tested.
    // SAFETY: they were just taken, and nobody uses them.
    unsafe { Frames::small().free(all.into_iter()) };
    taken
}

#[test]
fn every_frame_comes_back() {
    alone(|| {
        // In a thread of its own, which ends: what DPDK kept for it goes, too.
        let run = || {
            let (device, mut receiver, mut sender) = open("net_null0,size=60");
            let mut batch = Batch::with_room();
            for _ in 0..10_000 {
                assert_eq!(receiver.receive(32, 5, &mut batch).packets, 32);
                assert!(batch.iter().all(|packet| packet.len() == 60 && packet.timestamp() == 5));
                assert_eq!(send(&mut sender, &mut batch), 32);
            }
            // Packets of ours, and some that are kept.
            batch.extend((0..100).map(|_| Packet::zeroed(64).expect("memory")));
            assert_eq!(send(&mut sender, &mut batch), 100);
            let counters = device.counters();
            assert_eq!((counters.received, counters.sent), (320_000, 320_100));
            assert_eq!(receiver.receive(32, 5, &mut batch).packets, 32);
            // They outlive the port.
            drop((receiver, sender, device));
            assert_eq!(batch.bytes(), 32 * 60);
            batch.clear();
        };
        for _ in 0..3 {
            std::thread::spawn(run).join().expect("no panic");
        }
        assert_eq!(free_frames(), FRAMES);
    });
}

#[test]
fn frames_come_back_from_several_threads() {
    alone(|| {
        start();
        let config = PortConfig { rx_queues: 2, tx_queues: 2, ..PortConfig::default() };
        let device = Device::open("net_null6", &config).expect("a device");
        let run = |queue: u16| {
            let device = Arc::clone(&device);
            std::thread::spawn(move || {
                let mut receiver = device.receiver(queue..queue + 1).expect("a queue");
                let mut sender = device.sender(None).expect("a queue");
                let mut batch = Batch::with_room();
                for _ in 0..5_000 {
                    assert_eq!(receiver.receive(32, 5, &mut batch).packets, 32);
                    assert_eq!(send(&mut sender, &mut batch), 32);
                }
            })
        };
        let threads = [0, 1].map(run);
        threads.into_iter().for_each(|thread| thread.join().expect("no panic"));
        let counters = device.counters();
        assert_eq!((counters.received, counters.sent), (320_000, 320_000));
        drop(device);
        assert_eq!(free_frames(), FRAMES);
    });
}

#[test]
fn a_ring_keeps_frames_and_order() {
    alone(|| {
        let run = || {
            let (_device, mut receiver, mut sender) = open("net_ring1");
            let mut batch = Batch::with_room();
            for round in 0..1000_u32 {
                let packet = |at: u32| Packet::new(&[[round as u8, at as u8]; 40].concat());
                batch.extend((0..50).map(|at| packet(at).expect("memory")));
                let addresses: Vec<*const u8> = batch.iter().map(|p| p.data().as_ptr()).collect();
                assert_eq!(send(&mut sender, &mut batch), 50);
                assert_eq!(receiver.receive(64, 0, &mut batch).packets, 50);
                for (at, packet) in batch.iter().enumerate() {
                    assert_eq!(packet.data()[..2], [round as u8, at as u8]);
                    assert_eq!(packet.data().as_ptr(), addresses[at], "it was copied");
                }
                batch.clear();
            }
        };
        std::thread::spawn(run).join().expect("no panic");
        assert_eq!(free_frames(), FRAMES);
    });
}

#[test]
fn exhausted_memory_is_reported_and_comes_back() {
    alone(|| {
        let run = || {
            let (device, mut receiver, _sender) = open("net_null2");
            let mut kept = Batch::new();
            while receiver.receive(32, 0, &mut kept).packets > 0 {}
            assert!(kept.len() > FRAMES / 2, "{}", kept.len());
            assert!(Packet::new(b"no frame is left").is_none() || kept.len() > FRAMES - 1024);
            kept.clear();
            assert_eq!(receiver.receive(32, 0, &mut kept).packets, 32);
            drop(device);
        };
        std::thread::spawn(run).join().expect("no panic");
        assert_eq!(free_frames(), FRAMES);
    });
}

#[test]
fn what_a_port_cannot_send_is_refused() {
    alone(|| {
        let (device, _receiver, mut sender) = open("net_null3");
        let mut batch = Batch::new();
        for len in [13, 14, 1500 + 22, 1500 + 23, SMALL_FRAME + 1] {
            batch.push(Packet::zeroed(len).expect("memory"));
        }
        let result = sender.send(&mut batch);
        assert_eq!((result.packets, result.refused), (2, 3));
        // A short packet in a large frame is copied, and goes.
        let mut packet = Packet::zeroed(SMALL_FRAME + 1).expect("memory");
        packet.truncate(100);
        batch.push(packet);
        assert_eq!(sender.send(&mut batch).packets, 1);
        assert_eq!(device.counters().sent, 3);
    });
}

#[test]
fn ends_are_given_out_once() {
    alone(|| {
        start();
        let config = PortConfig { rx_queues: 2, tx_queues: 1, ..PortConfig::default() };
        let device = Device::open("net_null4", &config).expect("a device");
        assert!(device.about().hashes);
        let both = device.receiver(0..2).expect("both queues");
        let text = device.receiver(1..2).err().expect("taken").to_string();
        assert!(text.contains("'net_null4'") && text.contains("queues 1-1"), "{text}");
        drop(both);
        assert!(device.receiver(1..3).is_err());
        let _one = device.receiver(1..2).expect("it is free again");
        let _sender = device.sender(Some(0)).expect("a queue");
        assert!(device.sender(None).is_err());
        // The same again is found; another wish is refused while it is used.
        let again = Device::open("net_null4", &config).expect("open already");
        assert!(Arc::ptr_eq(&again, &device));
        let text = Device::open("net_null4", &PortConfig { rx_queues: 3, ..config })
            .err()
            .expect("in use");
        assert!(text.to_string().contains("in use with 2 queues"), "{text}");
    });
}

#[test]
fn a_port_that_rests_runs_again() {
    alone(|| {
        let (device, receiver, sender) = open("net_null5");
        device.rest();
        drop((receiver, sender));
        device.rest();
        device.rest();
        let mut receiver = device.receiver(0..1).expect("the queue");
        assert_eq!(receiver.receive(8, 0, &mut Batch::new()).packets, 8);
        assert!(device.link().is_up);
        let extended = device.extended();
        assert!(extended.iter().any(|(name, value)| name == "rx_good_packets" && *value >= 8));
    });
}

#[test]
fn dpdk_is_started_once() {
    alone(|| {
        start();
        assert!(dpdk::start(&[]).expect("it runs").starts_with("DPDK 2"));
        let error = dpdk::start(&["--no-pci".to_owned()]).expect_err("other arguments");
        assert!(error.to_string().contains("count for as long as it lives"), "{error}");
    });
}
