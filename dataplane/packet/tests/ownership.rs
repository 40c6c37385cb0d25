//! Ownership of frames: who holds them, which calls move them, where they end.

use thruway_packet::{Anno, Batch, Image, LARGE_FRAME, Memory, Packet, SMALL_FRAME, packet_ring};

#[test]
fn bytes_survive_push_pull_and_growth() {
    let mut packet = Packet::new(b"payload").unwrap();
    assert!(packet.push(4));
    packet.data_mut()[..4].copy_from_slice(b"head");
    assert_eq!(packet.data(), b"headpayload");
    assert!(packet.pull(6) && packet.unpull(2));
    assert_eq!(packet.data(), b"payload");
    // More than any small frame's room: the packet moves to a large one.
    assert!(packet.push(3 * SMALL_FRAME));
    assert_eq!(packet.len(), 3 * SMALL_FRAME + 7);
    assert_eq!(&packet.data()[3 * SMALL_FRAME..], b"payload");
    assert!(packet.put(100) && packet.len() == 3 * SMALL_FRAME + 107);
    assert!(!packet.push(LARGE_FRAME), "no frame is that large");
    assert!(!packet.push(usize::MAX) && !packet.put(usize::MAX));
    assert!(!packet.pull(packet.len() + 1));
}

#[test]
fn marks_and_annotations_follow_the_bytes() {
    let mut packet = Packet::new(&[7; 60]).unwrap();
    packet.set_mac_offset(0);
    packet.set_network(14, 20);
    packet.set_anno_number(Anno::PAINT, 9);
    packet.set_timestamp(42);
    assert!(packet.pull(14));
    assert_eq!(packet.network_offset(), Some(0));
    assert_eq!(packet.transport_offset(), Some(20));
    assert_eq!(packet.mac(), b"", "pulled off");
    assert_eq!(packet.mac_bytes(14), Some(&[7u8; 14][..]));
    let copy = packet.duplicate().unwrap();
    assert_eq!((copy.paint(), copy.timestamp(), copy.network_offset()), (9, 42, Some(0)));
    assert_eq!(copy.data(), packet.data());
    assert!(packet.push(1000), "moves to a larger frame");
    assert_eq!(packet.network_offset(), Some(1000));
}

#[test]
fn sizes_at_the_borders_of_frames() {
    for len in [0, 1, 1514, 1599, 1600, 1601, 1900, 2048, 9000, 65_549] {
        let packet = Packet::zeroed(len).unwrap();
        assert_eq!(packet.len(), len);
        assert_eq!(packet.data(), vec![0; len]);
        assert!(packet.headroom() >= 128);
    }
    assert!(Packet::zeroed(LARGE_FRAME + 1).is_none());
}

#[test]
fn frames_freed_by_another_thread_come_back() {
    let rounds = if cfg!(miri) { 5 } else { 200 };
    for _ in 0..rounds {
        let batch: Batch = (0..200u8).map(|i| Packet::new(&[i; 64]).unwrap()).collect();
        std::thread::spawn(move || {
            let mut batch = batch;
            let kept: Vec<Packet> = batch.drain_front(10).collect();
            batch.clear();
            drop(kept);
        })
        .join()
        .unwrap();
    }
    // 40,000 frames went through; if they were lost, this many would have been touched.
    assert!(Memory::get().small().stats().touched < 5_000);
}

#[test]
fn extract_keeps_order_on_both_sides() {
    let mut batch: Batch = (0..100u8).map(|i| Packet::new(&[i]).unwrap()).collect();
    let mut odd = Vec::new();
    batch.extract(|p| (p.data()[0] % 2 == 1).then_some(p.data()[0]), |p, n| odd.push((p, n)));
    let kept: Vec<u8> = batch.iter().map(|p| p.data()[0]).collect();
    assert_eq!(kept, (0..100).step_by(2).collect::<Vec<u8>>());
    assert!(odd.iter().all(|(p, n)| p.data()[0] == *n) && odd.len() == 50);
}

#[test]
fn images_become_packets_with_bytes_marks_and_time() {
    let mut model = Packet::new(&[1; 60]).unwrap();
    model.set_mac_offset(0);
    model.set_network(14, 20);
    model.set_anno_number(Anno::PAINT, 3);
    let marks = model.marks();
    let block: Vec<u8> = (0..120_000u32).map(|i| i as u8).collect();
    let lengths = [60, 0, 1, 64, 65, 1514, 1600, 1601, 9000, LARGE_FRAME + 1, 100];
    let mut batch = Batch::new();
    let mut expected = Vec::new();
    // With bytes behind them and without: by whole lines, and exactly.
    for slack in [64, 0] {
        let image = |at: usize| Image {
            bytes: &block[at..at + lengths[at] + slack],
            len: lengths[at],
            timestamp: at as i64,
            marks: &marks,
        };
        let made = batch.fill((0..lengths.len()).map(image));
        assert_eq!(made, lengths.len() - 1, "one exceeds the largest frame");
        expected.extend((0..lengths.len()).filter(|at| lengths[*at] <= LARGE_FRAME));
    }
    assert_eq!(batch.len(), expected.len());
    for (packet, at) in batch.iter().zip(expected) {
        assert_eq!(packet.data(), &block[at..at + lengths[at]]);
        assert_eq!((packet.timestamp(), packet.paint()), (at as i64, 3));
        assert_eq!(packet.mac_offset(), Some(0));
        assert_eq!(packet.network_offset(), Some(14));
        assert_eq!(packet.marks(), marks);
    }
}

#[test]
fn packets_go_through_a_ring_once_and_in_order() {
    let rounds = if cfg!(miri) { 20 } else { 5_000 };
    let (mut producer, mut consumer) = packet_ring(5);
    let thread = std::thread::spawn(move || {
        for round in 0..rounds {
            let made = (0..3u8).map(|nth| Packet::new(&[nth, round as u8]).unwrap());
            let mut batch: Batch = made.collect();
            while producer.put(&mut batch) < 3 && !batch.is_empty() {
                std::thread::yield_now();
            }
        }
    });
    let (mut seen, mut batch) = (0, Batch::new());
    while seen < 3 * rounds {
        if consumer.take(4, &mut batch) == 0 {
            std::thread::yield_now();
        }
        for packet in batch.drain() {
            assert_eq!(packet.data(), [(seen % 3) as u8, (seen / 3) as u8]);
            seen += 1;
        }
    }
    thread.join().unwrap();
    assert!(consumer.is_empty());
}

#[test]
fn what_is_left_in_a_ring_is_freed() {
    let large = || Packet::zeroed(2 * SMALL_FRAME);
    // More packets than there are large frames, if none came back.
    let rounds = Memory::get().large().stats().capacity / 3 + 1;
    for _ in 0..rounds {
        let (mut producer, mut consumer) = packet_ring(3);
        let mut batch: Batch = (0..5).map(|_| large().expect("frames come back")).collect();
        assert_eq!((producer.put(&mut batch), batch.len(), producer.len()), (3, 2, 3));
        assert_eq!(producer.put(&mut batch), 0, "there is no room");
        let mut taken = Batch::new();
        assert_eq!((consumer.take(1, &mut taken), taken.len()), (1, 1));
        assert_eq!((producer.put(&mut batch), batch.len()), (1, 1));
        drop((producer, consumer));
    }
}

#[test]
fn packets_are_dealt_in_order() {
    let numbered = |count: u8| (0..count).map(|nth| Packet::new(&[nth]).unwrap()).collect();
    let bytes = |batch: &Batch| batch.iter().map(|packet| packet.data()[0]).collect::<Vec<u8>>();
    let mut lanes = [Batch::new(), Batch::new(), Batch::new()];
    let mut batch: Batch = numbered(6);
    batch.deal(&[1, 0, 1, 7, u32::MAX], &mut lanes);
    assert_eq!(lanes.each_ref().map(bytes), [vec![1], vec![0, 2], vec![3, 4]]);
    assert_eq!(bytes(&batch), [5], "it has no number");
    // Lanes keep what they have; more numbers than packets do no harm.
    batch.deal(&[0, 0, 0], &mut lanes);
    assert_eq!((bytes(&lanes[0]), batch.len()), (vec![1, 5], 0));
    let mut batch: Batch = numbered(3);
    batch.deal(&[0; 3], &mut []);
    assert_eq!(bytes(&batch), [0, 1, 2], "there is no lane");
}
