//! Random hosts, peers, replies, errors and ends against a plain book of who has which port.

use std::collections::HashMap;

use proptest::prelude::*;

use super::*;

#[derive(Clone, Debug)]
enum Step {
    /// Inside host and port, peer and port.
    Out(u8, u8, u8, u8, u8),
    /// The peer of session n answers.
    Back(usize),
    /// A router tells of the packet that opened session n; so many bytes are quoted.
    Error(usize, usize),
    /// Session n ends.
    End(usize),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        4 => (0u8..3, 1u8..4, 0u8..4, 1u8..4, 0u8..3)
            .prop_map(|(p, h, hp, r, rp)| Step::Out(p, h, hp, r, rp)),
        3 => any::<usize>().prop_map(Step::Back),
        2 => (any::<usize>(), 28usize..80).prop_map(|(n, cut)| Step::Error(n, cut)),
        2 => any::<usize>().prop_map(Step::End),
    ]
}

fn plain_of(kind: u8, host: u8, host_port: u8, peer: u8, peer_port: u8) -> Plain {
    let protocol = [TCP, UDP, ICMP][usize::from(kind)];
    let src_port = 1000 + u16::from(host_port) * 100;
    let dst_port = if protocol == ICMP { src_port } else { 50 + u16::from(peer_port) };
    let (src, dst) = (ip("10.0.0.0") + u32::from(host), ip("198.51.100.0") + u32::from(peer));
    Plain::first(Tuple { src, dst, src_port, dst_port, protocol })
}

/// Sessions that live: as first sent, and as it left.
type Book = Vec<(Plain, Plain)>;

fn pick(book: &Book, n: usize) -> Option<usize> {
    (!book.is_empty()).then(|| n % book.len())
}

/// Who has which outside port: inside endpoint, and in connection mode the peer too.
fn check(book: &Book, is_shared: bool) -> Result<(), TestCaseError> {
    let mut owners = HashMap::new();
    let mut ports = HashMap::new();
    for (sent, left) in book {
        let peer = if is_shared { (0, 0) } else { sent.dst };
        let owner = (sent.protocol, sent.src, peer);
        let port = (sent.protocol, left.src);
        prop_assert_eq!(*owners.entry(port).or_insert(owner), owner, "a port has two owners");
        prop_assert_eq!(*ports.entry(owner).or_insert(port), port, "an owner has two ports");
    }
    Ok(())
}

proptest! {
    #[test]
    fn everyone_gets_what_is_theirs(
        steps in prop::collection::vec(step(), 0..120), is_shared: bool, blocks: bool, few: bool,
        seed in 0u32..1000,
    ) {
        let mapping = if is_shared { "MAPPING endpoint-independent" } else { "MAPPING connection" };
        let range = if few { "2000-2007" } else { "2000-2999" };
        let snat = format!("SNAT 10.0.0.0/8 -> 192.0.2.1-192.0.2.2:{range}");
        let block = if blocks { "BLOCK 4" } else { "BLOCK 0" };
        let seed = format!("SEED {seed}");
        let mut world = World::new(&[&snat, mapping, block, "HOST_BLOCKS 64", &seed]);
        let mut book: Book = Vec::new();
        for step in steps {
            match step {
                Step::Out(kind, host, host_port, peer, peer_port) => {
                    let sent = plain_of(kind, host, host_port, peer, peer_port);
                    let known = book.iter().find(|(s, _)| s.written() == sent.written()).cloned();
                    match world.send(0, &sent) {
                        Ok((output, left)) => {
                            prop_assert_eq!((output, left.dst), (0, match sent.protocol {
                                ICMP => (sent.dst.0, left.src.1),
                                _ => sent.dst,
                            }));
                            let is_of_pool = (2000..3000).contains(&left.src.1)
                                && [ip("192.0.2.1"), ip("192.0.2.2")].contains(&left.src.0);
                            prop_assert!(is_of_pool);
                            match known {
                                Some((_, before)) => prop_assert_eq!(before.src, left.src),
                                None => book.push((sent, left)),
                            }
                        }
                        Err(why) => {
                            prop_assert!(few && known.is_none(), "{}", why);
                            prop_assert_eq!(why, "no-port");
                        }
                    }
                    check(&book, is_shared)?;
                }
                Step::Back(n) => {
                    let Some(n) = pick(&book, n) else { continue };
                    let (sent, left) = &book[n];
                    let (output, back) = world.push(1, &left.reversed().written()).unwrap();
                    prop_assert_eq!((output, back), (1, sent.reversed().written()));
                }
                Step::Error(n, cut) => {
                    let Some(n) = pick(&book, n) else { continue };
                    let (sent, left) = &book[n];
                    let router = ip("203.0.113.7");
                    let comes = error_about(router, left.src.0, &left.written(), cut);
                    let wanted = error_about(router, sent.src.0, &sent.written(), cut);
                    let (output, got) = world.push(1, &comes).unwrap();
                    prop_assert_eq!(output, 1);
                    // Of a TCP header cut before its checksum that cannot be translated.
                    if sent.protocol != TCP || cut >= 38 {
                        prop_assert_eq!(got, wanted);
                    }
                }
                Step::End(n) => {
                    let Some(n) = pick(&book, n) else { continue };
                    let (sent, _) = book.swap_remove(n);
                    world.0.end_of(tuple_of(&sent.written()).unwrap());
                }
            }
            let in_use = {
                let mut used: Vec<_> = book.iter().map(|(s, l)| (s.protocol, l.src)).collect();
                used.sort_unstable();
                used.dedup();
                used.len() as u64
            };
            prop_assert_eq!(world.0.function.ports.in_use(), in_use);
        }
        world.0.end_all();
        prop_assert_eq!(world.0.function.ports.in_use(), 0);
    }

    /// Whatever comes, by whichever input: no panic, and nothing inside leaves untranslated.
    #[test]
    fn no_packet_is_too_strange(
        bytes in prop::collection::vec(any::<u8>(), 20..90), input in 0u8..2, protocol in 0u8..4,
        from_inside: bool,
    ) {
        let rules = [SNAT, "DNAT tcp 192.0.2.1:80 -> 10.0.0.5:8080", "FILTER address-dependent"];
        let mut world = World::new(&rules);
        let mut bytes = bytes;
        let len = bytes.len() as u16;
        (bytes[0], bytes[9]) = (0x45, [TCP, UDP, ICMP, 47][usize::from(protocol)]);
        bytes[2..4].copy_from_slice(&len.to_be_bytes());
        if from_inside {
            bytes[12] = 10;
        }
        // The plain manager knows whole transport headers only.
        bytes.resize(bytes.len().max(48), 0);
        if let Ok((0, left)) = world.push(input, &bytes) {
            prop_assert_ne!(left[12], 10);
        }
    }
}
