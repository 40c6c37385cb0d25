use super::*;
use crate::rig::Rig;
use proptest::prelude::*;

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
