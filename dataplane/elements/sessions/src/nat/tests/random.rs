//! Secret hosts, peers, replies, errors and ends against a plain list of port owners.

use std::collections::HashMap;

use proptest::prelude::*;

use super::*;

#[derive(Clone, Debug)]
enum Step {
    /// Protocol, inside host and port, peer and port.
    Out(u8, u8, u8, u8, u8),
    /// Protocol, peer and port, forwarded port: from outside.
    In(u8, u8, u8, u8),
    /// Protocol, inside host and port, forwarded port: turned round.
    Round(u8, u8, u8, u8),
    /// The peer of session n answers.
    Back(usize),
    /// A router reports on the packet that opened session n; so many bytes are quoted.
    Error(usize, usize),
    /// Session n ends.
    End(usize),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        4 => (0u8..3, 1u8..4, 0u8..4, 1u8..4, 0u8..3)
            .prop_map(|(p, h, hp, r, rp)| Step::Out(p, h, hp, r, rp)),
        2 => (0u8..2, 1u8..4, 0u8..3, 0u8..3).prop_map(|(p, r, rp, f)| Step::In(p, r, rp, f)),
        2 => (0u8..2, 1u8..4, 0u8..4, 0u8..3).prop_map(|(p, h, hp, f)| Step::Round(p, h, hp, f)),
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

/// A session that lives: its first packet, as it was sent and as it left.
#[derive(Clone)]
struct Entry {
    sent: Plain,
    left: Plain,
    /// Inputs of packets and replies; they leave by the output of the reply's input.
    inputs: (u8, u8),
}

type Book = Vec<Entry>;

const FORWARDS: [&str; 2] =
    ["DNAT tcp 192.0.2.1:70-72 -> 10.0.0.9:8070", "DNAT udp 192.0.2.1:70-72 -> 10.0.0.9:8070"];

/// To a forwarded port.
fn to_forward(mut plain: Plain, n: u8) -> Plain {
    plain.dst = (ip("192.0.2.1"), 70 + u16::from(n));
    plain
}

fn pick(book: &Book, n: usize) -> Option<usize> {
    (!book.is_empty()).then(|| n % book.len())
}

/// Sends a first packet; what left is as wanted, and the same as before if the session lives.
fn send(
    world: &mut World,
    book: &mut Book,
    (sent, inputs): (Plain, (u8, u8)),
    is_free: impl Fn(&Book) -> bool,
) -> Result<(), TestCaseError> {
    let known = book.iter().find(|entry| entry.sent.written() == sent.written());
    let known = known.map(|entry| entry.left.src);
    let evicted = world.0.function.embryonic.evicted;
    let answer = world.send(inputs.0, &sent);
    let evicted = world.0.function.embryonic.evicted - evicted;
    forget_evicted(world, book, evicted, sent.protocol)?;
    prop_assert!(evicted == 0 || known.is_none() && !is_free(book));
    match answer {
        Ok((output, left)) => {
            // Every pair of inputs but the hairpin's goes through to the other side.
            let wanted = if inputs == (0, 0) { 1 } else { usize::from(inputs.0) };
            prop_assert_eq!(output, wanted);
            let is_of_pool = (2000..3000).contains(&left.src.1)
                && [ip("192.0.2.1"), ip("192.0.2.2")].contains(&left.src.0);
            prop_assert_eq!(is_of_pool, inputs.0 == 0);
            let target = match sent.dst.1 {
                70..=72 => (ip("10.0.0.9"), sent.dst.1 + 8000),
                _ if sent.protocol == ICMP => (sent.dst.0, left.src.1),
                _ => sent.dst,
            };
            prop_assert_eq!(left.dst, target);
            match known {
                Some(src) => prop_assert_eq!(left.src, src),
                None => book.push(Entry { sent, left, inputs }),
            }
        }
        Err(why) => {
            prop_assert!(known.is_none() && !is_free(book));
            prop_assert_eq!(why, "no-port");
        }
    }
    Ok(())
}

/// Takes the sessions that a new one ended out of the book: so many, and of TCP.
fn forget_evicted(
    world: &World,
    book: &mut Book,
    evicted: u64,
    asker: u8,
) -> Result<(), TestCaseError> {
    let lives = |entry: &Entry| world.0.has(&tuple_of(&entry.sent.written()).unwrap());
    let (kept, ended): (Book, Book) = book.drain(..).partition(lives);
    *book = kept;
    prop_assert_eq!(ended.len() as u64, evicted);
    for Entry { sent, inputs, .. } in &ended {
        prop_assert_eq!((sent.protocol, asker, inputs.0), (TCP, TCP, 0));
    }
    Ok(())
}

/// A reply, or an error about the first packet, reaches the sender of that packet.
fn answer(world: &mut World, entry: &Entry, cut: Option<usize>) -> Result<(), TestCaseError> {
    let Entry { sent, left, inputs } = entry;
    let Some(cut) = cut else {
        let back = world.push(inputs.1, &left.reversed().written());
        let output = if *inputs == (0, 0) { 1 } else { usize::from(inputs.1) };
        prop_assert_eq!(back, Ok((output, sent.reversed().written())));
        return Ok(());
    };
    let router = ip("203.0.113.7");
    let comes = error_about(router, left.src.0, &left.written(), cut);
    // Routers behind a translated destination are not shown.
    let router = if sent.dst.0 == left.dst.0 { router } else { sent.dst.0 };
    let wanted = error_about(router, sent.src.0, &sent.written(), cut);
    let (_, got) = world.push(inputs.1, &comes).unwrap();
    // The checksum of a TCP header that is cut before it cannot be translated.
    if sent.protocol != TCP || cut >= 38 {
        prop_assert_eq!(got, wanted);
    }
    Ok(())
}

/// Outside ports in use.
fn used(book: &Book) -> usize {
    let own = book.iter().filter(|entry| entry.inputs.0 == 0);
    let mut used: Vec<_> = own.map(|entry| (entry.sent.protocol, entry.left.src)).collect();
    used.sort_unstable();
    used.dedup();
    used.len()
}

/// The owner of each outside port: inside endpoint, and in connection mode the peer too.
fn check(book: &Book, is_shared: bool) -> Result<(), TestCaseError> {
    let mut owners = HashMap::new();
    let mut ports = HashMap::new();
    for Entry { sent, left, .. } in book.iter().filter(|entry| entry.inputs.0 == 0) {
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
        let [tcp, udp] = FORWARDS;
        let rules = [&snat, tcp, udp, mapping, block, "HOST_BLOCKS 64", &seed];
        let mut world = World::new(&rules);
        let is_free = |_: &Book| !few;
        let mut book: Book = Vec::new();
        for step in steps {
            match step {
                Step::Out(kind, host, host_port, peer, peer_port) => {
                    let sent = plain_of(kind, host, host_port, peer, peer_port);
                    send(&mut world, &mut book, (sent, (0, 1)), is_free)?;
                }
                Step::Round(kind, host, host_port, n) => {
                    let sent = to_forward(plain_of(kind, host, host_port, 1, 1), n);
                    send(&mut world, &mut book, (sent, (0, 0)), is_free)?;
                }
                Step::In(kind, peer, peer_port, n) => {
                    let outside = plain_of(kind, 1, 1, peer, peer_port).reversed();
                    let sent = Plain { flags: 2, ..to_forward(outside, n) };
                    send(&mut world, &mut book, (sent, (1, 0)), |_| true)?;
                }
                Step::Back(n) => {
                    let Some(n) = pick(&book, n) else { continue };
                    answer(&mut world, &book[n], None)?;
                }
                Step::Error(n, cut) => {
                    let Some(n) = pick(&book, n) else { continue };
                    answer(&mut world, &book[n], Some(cut))?;
                }
                Step::End(n) => {
                    let Some(n) = pick(&book, n) else { continue };
                    let ended = book.swap_remove(n);
                    world.0.end_of(tuple_of(&ended.sent.written()).unwrap());
                }
            }
            check(&book, is_shared)?;
            prop_assert_eq!(world.0.function.ports.in_use(), used(&book) as u64);
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
