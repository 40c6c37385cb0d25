use super::*;
use proptest::prelude::*;
use thruway_element::Handoff;
use thruway_elements_rig::Rig;

const SECOND: i64 = 1_000_000_000;

/// A fragment with these bytes at `offset`, of packet `id`, at `time`.
fn fragment(id: u16, offset: usize, more: bool, bytes: &[u8], time: i64) -> Packet {
    let mut ip = Ipv4Header::new(17, [1; 4].into(), [2; 4].into(), bytes.len()).unwrap();
    ip.set_id(id);
    ip.set_flags_offset((offset / 8) as u16 | if more { 0x2000 } else { 0 });
    ip.fill_checksum(&[]);
    let mut data = vec![0; 20 + bytes.len()];
    ip.emit(&mut data).unwrap().copy_from_slice(bytes);
    let mut packet = Packet::new(&data).unwrap();
    packet.set_network(0, 20);
    packet.set_timestamp(time);
    packet.set_dst_ip([id as u8; 4]);
    packet
}

fn rig(outputs: usize) -> Rig {
    Rig::new(&ENTRY, &[""; 0], outputs).unwrap()
}

proptest! {
    /// Whatever the order and however often: the whole packet comes out, once it is whole.
    #[test]
    fn any_order(
        body in prop::collection::vec(any::<u8>(), 9..200),
        cuts in prop::collection::btree_set(1usize..24, 0..6),
        order in prop::collection::vec(any::<prop::sample::Index>(), 0..30),
    ) {
        let mut edges: Vec<usize> = cuts.into_iter().map(|cut| cut * 8).collect();
        edges.retain(|edge| *edge < body.len());
        edges.insert(0, 0);
        edges.push(body.len());
        prop_assume!(edges.len() > 2);
        let pieces: Vec<(usize, usize)> = edges.windows(2).map(|pair| (pair[0], pair[1])).collect();
        let mut sequence: Vec<_> = order.iter().map(|at| pieces[at.index(pieces.len())]).collect();
        sequence.extend(&pieces);
        let mut missing = pieces.clone();
        let mut rig = rig(1);
        for (from, to) in sequence {
            missing.retain(|piece| *piece != (from, to));
            let packet = fragment(5, from, to < body.len(), &body[from..to], 7 * SECOND);
            let out = rig.push([packet]);
            prop_assert_eq!(out[0].len(), usize::from(missing.is_empty()));
            if let Some(whole) = out[0].first() {
                let (ip, payload) = Ipv4Header::parse(whole.data()).unwrap();
                prop_assert!(ip.checksum_ok(&[]) && !ip.is_fragment());
                prop_assert_eq!(payload, &body[..]);
                prop_assert_eq!(whole.dst_ip(), [5; 4]);
                prop_assert_eq!(rig.read("memory", ""), Ok("0".into()));
                return Ok(());
            }
        }
    }

    /// Nothing that comes in panics, and what is held stays bounded.
    #[test]
    fn hostile(pieces in prop::collection::vec(
        (0u16..9, 0usize..8192, any::<bool>(), 0usize..40, 0i64..50), 0..80,
    )) {
        let mut rig = rig(2);
        let mut time = SECOND;
        for (id, offset, more, len, wait) in pieces {
            time += wait * SECOND;
            rig.push([fragment(id, offset * 8, more, &vec![1; len], time)]);
            let memory: usize = rig.read("memory", "").unwrap().parse().unwrap();
            prop_assert!(memory <= 262_144 + 65_536 + 256);
        }
    }
}

#[test]
fn the_later_bytes_count() {
    let mut rig = rig(1);
    assert!(rig.push([fragment(1, 0, true, &[1; 16], 1)])[0].is_empty());
    assert!(rig.push([fragment(1, 8, true, &[2; 16], 1)])[0].is_empty());
    let out = rig.push([fragment(1, 24, false, &[3; 3], 1)]);
    let wanted: Vec<u8> = [[1; 8].as_slice(), &[2; 16], &[3; 3]].concat();
    assert_eq!(&out[0][0].data()[20..], &wanted);
}

#[test]
fn given_up_after_a_while() {
    let mut rig = rig(2);
    rig.push([fragment(1, 8, true, &[2; 8], SECOND)]);
    let out = rig.push([fragment(2, 0, true, &[1; 8], 32 * SECOND)]);
    assert_eq!((out[0].len(), out[1].len(), rig.drops()[2]), (0, 1, 1));
    let (ip, payload) = Ipv4Header::parse(out[1][0].data()).unwrap();
    assert!(ip.more_fragments() && ip.fragment_offset() == 0 && ip.checksum_ok(&[]));
    assert_eq!(payload, [[0; 8], [2; 8]].concat());
    assert_eq!(rig.read("held", ""), Ok("1".into()));
}

#[test]
fn options_of_the_first() {
    let mut ip = Ipv4Header::new(17, [1; 4].into(), [2; 4].into(), 12).unwrap();
    ip.set_header_len(24).unwrap();
    ip.set_flags_offset(0x2000);
    let mut data = vec![0; 32];
    ip.emit(&mut data).unwrap()[..4].copy_from_slice(&[1, 1, 1, 0]);
    let mut first = Packet::new(&data).unwrap();
    first.set_network(0, 24);
    let mut rig = rig(1);
    assert!(rig.push([fragment(0, 8, false, &[9], 1)])[0].is_empty());
    let out = rig.push([first]);
    let (ip, options, payload) = Ipv4Header::parse_with_options(out[0][0].data()).unwrap();
    assert!(ip.checksum_ok(options));
    assert_eq!((options, payload), (&[1, 1, 1, 0][..], &[0, 0, 0, 0, 0, 0, 0, 0, 9][..]));
}

/// A fragment as [`fragment`], from another host.
fn from_host(host: u8, id: u16, (from, to): (usize, usize), body: &[u8]) -> Packet {
    let mut packet = fragment(id, from, to < body.len(), &body[from..to], 7 * SECOND);
    packet.network_mut()[15] = host;
    let (header, _) = Ipv4Header::view_mut(packet.network_mut()).unwrap();
    header.fill_checksum(&[]);
    packet
}

/// Addresses, identification and payload of whole packets, sorted.
fn contents(packets: &[Packet]) -> Vec<(u32, u16, Vec<u8>)> {
    let content = |packet: &Packet| {
        let (ip, payload) = Ipv4Header::parse(packet.data()).unwrap();
        (ip.src(), ip.id(), payload.to_vec())
    };
    let mut all: Vec<_> = packets.iter().map(content).collect();
    all.sort();
    all
}

proptest! {
    /// Whichever threads fragments come by, each packet is put together once, as one replica would,
    /// and those of one host all in one thread.
    #[test]
    fn fragments_meet(
        threads in 1usize..4,
        packets in prop::collection::vec((0u8..6, 1usize..5, 1usize..40), 1..24),
        places in prop::collection::vec(any::<prop::sample::Index>(), 100),
    ) {
        let bodies: Vec<Vec<u8>> = packets
            .iter()
            .map(|(_, pieces, tail)| (0..(pieces * 16 + tail)).map(|n| n as u8).collect())
            .collect();
        let mut replicas = Rig::replicas(&ENTRY, &[""; 0], 1, threads).unwrap();
        let (mut alone, mut expected) = (rig(1), Vec::new());
        let mut pieces = Vec::new();
        for (number, ((host, count, _), body)) in packets.iter().zip(&bodies).enumerate() {
            let cut = |nth: usize| if nth == *count { body.len() } else { nth * 16 };
            let piece = |nth| (*host, number as u16, (cut(nth), cut(nth + 1)), body);
            pieces.extend((0..*count).map(piece));
        }
        // In any order, each by any thread.
        for nth in (1..pieces.len()).rev() {
            pieces.swap(nth, places[nth].index(nth + 1));
        }
        let mut whole: Vec<Vec<Packet>> = (0..threads).map(|_| Vec::new()).collect();
        for (nth, (host, id, range, body)) in pieces.into_iter().enumerate() {
            let piece = || from_host(host, id, range, body);
            expected.append(&mut alone.push([piece()])[0]);
            let thread = places[(nth * 7 + 3) % places.len()].index(threads);
            whole[thread].append(&mut replicas[thread].push([piece()])[0]);
        }
        for (thread, replica) in replicas.iter_mut().enumerate() {
            whole[thread].append(&mut replica.run().1[0]);
        }
        let all: Vec<Vec<_>> = whole.iter().map(|packets| contents(packets)).collect();
        for host in 0..6 {
            let is_from = |(src, ..): &&(u32, u16, Vec<u8>)| src.to_be_bytes()[3] == host;
            let cut = |(_, id, _): &(u32, u16, Vec<u8>)| packets[usize::from(*id)].1 > 1;
            let have = |of: &&Vec<(u32, u16, Vec<u8>)>| of.iter().filter(is_from).any(cut);
            prop_assert!(all.iter().filter(have).count() <= 1);
        }
        let mut all = all.concat();
        all.sort();
        prop_assert_eq!(all, contents(&expected));
        prop_assert_eq!(contents(&expected).len(), packets.len());
        for replica in &mut replicas {
            prop_assert_eq!(replica.read("memory", ""), Ok("0".into()));
            prop_assert_eq!(replica.handing(), 0);
        }
    }
}

/// Fragments that the thread they are for does not take are dropped, and counted.
#[test]
fn a_ring_that_is_full_drops() {
    let mut replicas = Rig::replicas(&ENTRY, &[""; 0], 1, 2).unwrap();
    for id in 0..5000 {
        for replica in &mut replicas {
            let out = replica.push([fragment(id, 0, true, &[1; 8], 7 * SECOND)]);
            assert!(out[0].is_empty());
        }
    }
    let mut handed = |at: usize| replicas[at].read("handed", "").unwrap().parse::<u64>().unwrap();
    assert_eq!(handed(0) + handed(1), Handoff::CAPACITY as u64);
    let congestion = Reason::CONGESTION.index(IpReassemblerDrop::DROPS.len());
    let dropped = replicas.iter().map(|replica| replica.drops()[congestion]).sum::<u64>();
    assert_eq!(dropped, 5000 - Handoff::CAPACITY as u64);
}
