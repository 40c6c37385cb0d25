//! Requirements of users and of RFC 4787, 5382 and 5508.

use thruway_element::{Answers, Direction, NoAnswer, Opening, PerSession, Session};
use thruway_flow::Life;
use thruway_wire::flow::FiveTuple;

use super::*;
use crate::alone::marked;

#[test]
fn a_connection_goes_out_and_its_replies_come_back() {
    for protocol in [TCP, UDP, ICMP] {
        for mapping in ["MAPPING endpoint-independent", "MAPPING connection"] {
            let mut world = World::new(&[SNAT, mapping]);
            let dst = if protocol == ICMP { "198.51.100.1:40000" } else { "198.51.100.1:80" };
            let sent = first(protocol, "10.0.0.1:40000", dst);
            let (output, left) = world.send(0, &sent).unwrap();
            assert_eq!((output, left.src.0), (0, ip("192.0.2.1")));
            assert!(left.src.1 >= 1024);
            let (output, back) = world.send(1, &left.reversed()).unwrap();
            assert_eq!(output, 1);
            assert_eq!(back.written(), sent.reversed().written());
            assert_eq!(world.0.function.ports.in_use(), 1);
            world.0.end_all();
            assert_eq!(world.0.function.ports.in_use(), 0);
        }
    }
}

#[test]
fn udp_without_checksum_stays_so() {
    let mut world = World::new(&[SNAT]);
    let sent = Plain { udp_checksum: false, ..first(UDP, "10.0.0.1:53", "198.51.100.1:53") };
    let (_, left) = world.send(0, &sent).unwrap();
    assert_eq!(left.written()[26..28], [0, 0]);
}

#[test]
fn one_inside_port_has_one_outside_port() {
    let mut world = World::new(&[SNAT]);
    let outside = |world: &mut World, src: &str, dst: &str| {
        world.send(0, &first(UDP, src, dst)).unwrap().1.src
    };
    let one = outside(&mut world, "10.0.0.1:5000", "198.51.100.1:53");
    assert_eq!(outside(&mut world, "10.0.0.1:5000", "198.51.100.2:53"), one);
    assert_eq!(outside(&mut world, "10.0.0.1:5000", "203.0.113.1:99"), one);
    assert_ne!(outside(&mut world, "10.0.0.1:5001", "198.51.100.1:53"), one);
    assert_ne!(outside(&mut world, "10.0.0.2:5000", "198.51.100.1:53"), one);
    let mut world = World::new(&[SNAT, "MAPPING connection"]);
    let one = outside(&mut world, "10.0.0.1:5000", "198.51.100.1:53");
    assert_ne!(outside(&mut world, "10.0.0.1:5000", "198.51.100.2:53"), one);
}

#[test]
fn a_mapping_lives_as_long_as_one_session_uses_it() {
    let mut world = World::new(&[SNAT]);
    let a = first(UDP, "10.0.0.1:5000", "198.51.100.1:53");
    let b = first(UDP, "10.0.0.1:5000", "198.51.100.2:53");
    let port = world.send(0, &a).unwrap().1.src;
    world.send(0, &b).unwrap();
    world.0.end_of(tuple_of(&a.written()).unwrap());
    assert_eq!(world.0.function.mappings.as_ref().unwrap().len(), 1);
    assert_eq!(world.send(0, &a).unwrap().1.src, port);
    world.0.end_all();
    let translator = &world.0.function;
    assert_eq!((translator.mappings.as_ref().unwrap().len(), translator.ports.in_use()), (0, 0));
}

/// Sends from 10.0.0.1:5000 to 198.51.100.1:53, then asks whether others may send to its mapping.
fn reached(filter: &str) -> [Result<usize, &'static str>; 3] {
    let mut world = World::new(&[SNAT, filter]);
    let sent = first(UDP, "10.0.0.1:5000", "198.51.100.1:53");
    let (_, left) = world.send(0, &sent).unwrap();
    ["198.51.100.1:53", "198.51.100.1:99", "198.51.100.2:53"].map(|from| {
        let comes = Plain { src: end(from), dst: left.src, ..sent.clone() };
        let (output, got) = world.send(1, &comes)?;
        assert_eq!(got.dst, sent.src);
        // And an answer leaves by the mapping.
        let (_, answer) = world.send(0, &got.reversed()).unwrap();
        assert_eq!(answer.src, left.src);
        Ok(output)
    })
}

#[test]
fn filters_decide_which_hosts_may_send_to_a_mapping() {
    let no = Err("filtered");
    assert_eq!(reached("FILTER endpoint-independent"), [Ok(1), Ok(1), Ok(1)]);
    assert_eq!(reached("FILTER address-dependent"), [Ok(1), Ok(1), no]);
    assert_eq!(reached("FILTER address-and-port-dependent"), [Ok(1), no, no]);
}

#[test]
fn a_permission_ends_with_the_session_that_gave_it() {
    let mut world = World::new(&[SNAT, "FILTER address-dependent"]);
    let keeps = first(UDP, "10.0.0.1:5000", "198.51.100.1:53");
    let ends = first(UDP, "10.0.0.1:5000", "198.51.100.2:53");
    let (_, left) = world.send(0, &keeps).unwrap();
    world.send(0, &ends).unwrap();
    world.0.end_of(tuple_of(&ends.written()).unwrap());
    let from = |src: &str| Plain { src: end(src), dst: left.src, ..keeps.clone() };
    assert_eq!(world.send(1, &from("198.51.100.2:7")).err(), Some("filtered"));
    assert!(world.send(1, &from("198.51.100.1:7")).is_ok());
}

#[test]
fn unassigned_ports_are_for_the_middlebox() {
    let stranger = first(TCP, "198.51.100.1:7", "192.0.2.1:22");
    assert_eq!(World::new(&[SNAT]).send(1, &stranger).err(), Some("no-mapping"));
    let (output, left) = World::with_local(&[SNAT]).send(1, &stranger).unwrap();
    assert_eq!((output, left.written()), (2, stranger.written()));
    // From inside too; other addresses only from a known source.
    let own = first(ICMP, "10.0.0.1:7", "192.0.2.1:7");
    assert_eq!(World::with_local(&[SNAT]).send(0, &own).unwrap().0, 2);
    let alien = first(TCP, "172.16.0.1:7", "198.51.100.1:22");
    assert_eq!(World::with_local(&[SNAT]).send(0, &alien).err(), Some("no-rule"));
    // A refused session leaves nothing behind.
    let mut world = World::new(&[SNAT]);
    world.send(1, &stranger).unwrap_err();
    world.send(0, &first(TCP, "10.0.0.1:22", "198.51.100.1:7")).unwrap();
}

#[test]
fn forwarded_ports_lead_inside() {
    let rules = [
        SNAT,
        "DNAT tcp 192.0.2.1:80 -> 10.0.0.5:8080",
        "DNAT udp 192.0.2.1:5000-5010 -> 10.0.0.6:6000",
        "DNAT icmp 192.0.2.1 -> 10.0.0.7",
    ];
    let mut world = World::new(&rules);
    for (protocol, src, dst, wanted) in [
        (TCP, "198.51.100.1:7777", "192.0.2.1:80", "10.0.0.5:8080"),
        (UDP, "198.51.100.1:7777", "192.0.2.1:5003", "10.0.0.6:6003"),
        (ICMP, "198.51.100.1:77", "192.0.2.1:77", "10.0.0.7:77"),
    ] {
        let sent = first(protocol, src, dst);
        let (output, got) = world.send(1, &sent).unwrap();
        assert_eq!((output, got.src, got.dst), (1, sent.src, end(wanted)));
        let (output, back) = world.send(0, &got.reversed()).unwrap();
        assert_eq!((output, back.written()), (0, sent.reversed().written()));
    }
    let outside = first(UDP, "198.51.100.1:7777", "192.0.2.1:5011");
    assert_eq!(world.send(1, &outside).err(), Some("no-mapping"));
}

#[test]
fn forwarded_ports_are_not_given_away() {
    let rules =
        ["SNAT 10.0.0.0/8 -> 192.0.2.1:2000-2009", "DNAT udp 192.0.2.1:2001-2008 -> 10.0.0.5"];
    let mut world = World::new(&rules);
    let mut given: Vec<u16> = (1..=2)
        .map(|n| world.send(0, &first(UDP, &format!("10.0.0.1:{n}"), "198.51.100.1:80")).unwrap())
        .map(|(_, left)| left.src.1)
        .collect();
    given.sort_unstable();
    assert_eq!(given, [2000, 2009]);
    let third = first(UDP, "10.0.0.1:3", "198.51.100.1:80");
    assert_eq!(world.send(0, &third).err(), Some("no-port"));
}

#[test]
fn packets_between_inside_hosts_are_turned_round() {
    let mut world = World::new(&[SNAT, "DNAT tcp 192.0.2.1:80 -> 10.0.0.5:8080"]);
    let sent = first(TCP, "10.0.0.1:4000", "192.0.2.1:80");
    let (output, got) = world.send(0, &sent).unwrap();
    assert_eq!((output, got.src.0, got.dst), (1, ip("192.0.2.1"), end("10.0.0.5:8080")));
    let (output, back) = world.send(0, &got.reversed()).unwrap();
    assert_eq!((output, back.written()), (1, sent.reversed().written()));
    // To another host's mapping.
    let mut world = World::new(&[SNAT, "FILTER endpoint-independent"]);
    let (_, there) = world.send(0, &first(UDP, "10.0.0.2:5", "198.51.100.1:53")).unwrap();
    let sent = Plain { dst: there.src, ..first(UDP, "10.0.0.1:4000", "192.0.2.1:1") };
    let (output, got) = world.send(0, &sent).unwrap();
    assert_eq!((output, got.src.0, got.dst), (1, ip("192.0.2.1"), end("10.0.0.2:5")));
    let (output, back) = world.send(0, &got.reversed()).unwrap();
    assert_eq!((output, back.written()), (1, sent.reversed().written()));
    world.0.end_all();
    assert_eq!(world.0.function.ports.in_use(), 0);
    // A filter is for those inside too.
    let mut world = World::new(&[SNAT]);
    let (_, there) = world.send(0, &first(UDP, "10.0.0.2:5", "198.51.100.1:53")).unwrap();
    let sent = Plain { dst: there.src, ..first(UDP, "10.0.0.1:4000", "192.0.2.1:1") };
    assert_eq!(world.send(0, &sent).err(), Some("filtered"));
}

#[test]
fn kept_addresses_are_left_alone() {
    let mut world = World::new(&["KEEP 10.9.0.0/16", SNAT]);
    let out = first(TCP, "10.9.0.1:5", "198.51.100.1:80");
    let (output, left) = world.send(0, &out).unwrap();
    assert_eq!((output, left.written()), (0, out.written()));
    assert_eq!(world.send(1, &out.reversed()).unwrap().0, 1);
    let comes = first(TCP, "198.51.100.1:5", "10.9.0.1:80");
    let (output, got) = world.send(1, &comes).unwrap();
    assert_eq!((output, got.written()), (1, comes.written()));
    assert_eq!(world.send(0, &comes.reversed()).unwrap().0, 0);
    // Without a session too.
    let gre = Plain { protocol: 47, ..first(TCP, "10.9.0.1:0", "198.51.100.1:0") }.written();
    let mut fragment = out.written();
    fragment[6] = 0x20;
    assert_eq!(world.push(0, &fragment), Ok((0, fragment.clone())));
    assert_eq!(world.push(0, &gre), Ok((0, gre.clone())));
}

#[test]
fn nothing_leaves_untranslated() {
    let mut world = World::new(&[SNAT]);
    let mut fragment = first(TCP, "10.0.0.1:5", "198.51.100.1:80").written();
    fragment[6] = 0x20;
    assert_eq!(world.push(0, &fragment), Err("no-session"));
    let gre = Plain { protocol: 47, ..first(TCP, "10.0.0.1:0", "198.51.100.1:0") };
    assert_eq!(world.push(0, &gre.written()), Err("no-session"));
    // The other side cannot speak for an inside host, nor an inside host for a peer.
    let sent = first(TCP, "10.0.0.1:5", "198.51.100.1:80");
    let (_, left) = world.send(0, &sent).unwrap();
    assert_eq!(world.send(1, &sent).err(), Some("wrong-side"));
    assert_eq!(world.send(0, &left.reversed()).err(), Some("wrong-side"));
}

#[test]
fn errors_are_translated_and_redirects_dropped() {
    let mut world = World::new(&[SNAT]);
    let sent = first(UDP, "10.0.0.1:5", "198.51.100.1:80");
    let (_, left) = world.send(0, &sent).unwrap();
    let router = ip("203.0.113.9");
    let comes = error_about(router, left.src.0, &left.written(), 28);
    let wanted = error_about(router, sent.src.0, &sent.written(), 28);
    assert_eq!(world.push(1, &comes), Ok((1, wanted)));
    let mut redirect = comes.clone();
    redirect[20] = 5;
    assert_eq!(world.push(1, &redirect), Err("icmp-error"));
    // About what the inside host received; a router inside is shown as the outside address.
    let reply = left.reversed();
    world.send(1, &reply).unwrap();
    let comes = error_about(ip("10.0.0.254"), reply.src.0, &sent.reversed().written(), 28);
    let wanted = error_about(left.src.0, reply.src.0, &reply.written(), 28);
    assert_eq!(world.push(0, &comes), Ok((0, wanted)));
    // About nothing known.
    let alien = first(UDP, "192.0.2.1:5", "198.51.100.1:80").written();
    let comes = error_about(router, ip("192.0.2.1"), &alien, 28);
    assert_eq!(world.push(1, &comes), Err("no-session"));
}

#[test]
fn hosts_keep_their_address_and_well_known_ports() {
    let mut world = World::new(&["SNAT 10.0.0.0/8 -> 192.0.2.0-192.0.2.7:512-2047"]);
    for host in 1..20 {
        let addresses: std::collections::HashSet<u32> = (1..30)
            .map(|n| {
                let src = format!("10.0.0.{host}:{}", if n % 2 == 0 { n } else { n + 2000 });
                let (_, left) = world.send(0, &first(TCP, &src, "198.51.100.1:80")).unwrap();
                assert_eq!(left.src.1 < 1024, n % 2 == 0);
                left.src.0
            })
            .collect();
        assert_eq!(addresses.len(), 1);
    }
}

#[test]
fn blocks_are_logged_and_limited() {
    let rules = ["SNAT 10.0.0.0/8 -> 192.0.2.1:2000-2031", "BLOCK 4", "HOST_BLOCKS 2", "LOG -"];
    let nat = nat_of(&rules, 2, (0, 1)).unwrap();
    let log = |translator: &mut Translator| {
        let mut text = String::new();
        translator.ports.blocks_mut().unwrap().log.drain(&mut text);
        text.lines().map(|line| line.split_once(' ').unwrap().1.to_owned()).collect::<Vec<_>>()
    };
    let mut world = World(Table::new(nat.translator));
    let mut blocks = std::collections::HashSet::new();
    for n in 1..=8 {
        let (_, left) =
            world.send(0, &first(UDP, &format!("10.0.0.1:{n}"), "198.51.100.1:80")).unwrap();
        blocks.insert((left.src.1 - 2000) / 4);
    }
    assert_eq!(blocks.len(), 2);
    assert_eq!(
        world.send(0, &first(UDP, "10.0.0.1:9", "198.51.100.1:80")).err(),
        Some("host-limit")
    );
    let given = log(&mut world.0.function);
    assert_eq!(given.len(), 2);
    assert!(given.iter().all(|line| line.starts_with("given 10.0.0.1 192.0.2.1 2")));
    // Three others have the other six blocks.
    for host in 2..=4 {
        for n in 1..=8 {
            let src = format!("10.0.0.{host}:{n}");
            world.send(0, &first(UDP, &src, "198.51.100.1:80")).unwrap();
        }
    }
    assert_eq!(world.send(0, &first(UDP, "10.0.0.5:1", "198.51.100.1:80")).err(), Some("no-port"));
    // A block serves all protocols.
    world.send(0, &first(TCP, "10.0.0.1:1", "198.51.100.1:80")).unwrap();
    log(&mut world.0.function);
    world.0.end_all();
    let freed = log(&mut world.0.function);
    assert_eq!(freed.len(), 8);
    assert!(freed.iter().all(|line| line.starts_with("freed 10.0.0.")));
    assert_eq!(world.0.function.ports.blocks().unwrap().len(), 0);
}

/// The manager's side where another thread has the first half.
struct Counts([u64; 4]);

impl Answers for Counts {
    fn answer(&mut self, _: &FiveTuple<u32>) -> Result<(), NoAnswer> {
        Err(NoAnswer::Taken)
    }
    fn answer6(&mut self, _: &FiveTuple<[u8; 16]>) -> Result<(), NoAnswer> {
        Err(NoAnswer::Taken)
    }
    fn published(&self) -> Option<[u64; 4]> {
        Some(self.0)
    }
    fn publish(&mut self, _: &[u64]) {}
    fn session(&self) -> u32 {
        0
    }
    fn evict(&mut self, _: u32, _: &mut dyn FnMut(&mut [u8]) -> bool) -> bool {
        false
    }
}

#[test]
fn another_thread_serves_the_replies() {
    let rules = [SNAT, "DNAT udp 192.0.2.1:53 -> 10.0.0.5:5353"];
    let threads = [0, 1].map(|thread| nat_of(&rules, 2, (thread, 2)).unwrap().translator);
    let [there, mut back] = threads;
    let mut world = World(Table::new(there));
    for (input, reply_input, sent) in [
        (0, 1, first(TCP, "10.0.0.1:5", "198.51.100.1:80")),
        (0, 1, first(ICMP, "10.0.0.1:5", "198.51.100.1:5")),
        (1, 0, first(UDP, "198.51.100.1:5", "192.0.2.1:53")),
        (0, 0, first(UDP, "10.0.0.1:5", "192.0.2.1:53")),
    ] {
        let (_, left) = world.send(input, &sent).unwrap();
        let words = world.0.published[&tuple_of(&sent.written()).unwrap()];
        let mut packet = marked(&left.reversed().written());
        let mut state = NatSession::default();
        let answers = &mut Counts(words);
        let (direction, related) = (Direction::Reply, false);
        let mut opening = Opening { direction, related, now: 0, answers };
        back.input = reply_input;
        back.open(&mut opening, &mut packet, &mut state).unwrap();
        let (life, now) = (Life::default(), 0);
        let mut session = Session { state: &mut state, direction, related, life, now, end: false };
        let verdict = back.each(&mut packet, &mut session);
        assert_ne!(verdict, Verdict::Drop(NatDrop::WrongSide.into()));
        assert_eq!(packet.data(), sent.reversed().written());
        // The second half holds nothing.
        let in_use = back.ports.in_use();
        back.close(&state, Ended::TimedOut);
        assert_eq!(back.ports.in_use(), in_use);
    }
}

#[test]
fn threads_share_the_ports_and_no_two_have_one() {
    let rules = ["SNAT 10.0.0.0/8 -> 192.0.2.1:1000-1200", "MAPPING connection"];
    let mut all = std::collections::HashSet::new();
    for thread in 0..3 {
        let nat = nat_of(&rules, 2, (thread, 3)).unwrap();
        let mut world = World(Table::new(nat.translator));
        let mut n = 0;
        while let Ok((_, left)) = {
            n += 1;
            world.send(0, &first(UDP, &format!("10.0.0.1:{n}"), "198.51.100.1:80"))
        } {
            assert!(all.insert(left.src.1));
        }
        while let Ok((_, left)) = {
            n += 1;
            world.send(0, &first(UDP, &format!("10.0.0.1:{}", 2000 + n), "198.51.100.1:80"))
        } {
            assert!(all.insert(left.src.1));
        }
    }
    assert_eq!(all.len(), 201);
}

#[test]
fn a_successor_takes_over() {
    let mut old = nat_of(&[SNAT], 2, (0, 1)).unwrap();
    let mut world = World(Table::new(old.translator));
    world.send(0, &first(UDP, "10.0.0.1:5", "198.51.100.1:80")).unwrap();
    old.translator = world.0.function;
    let mut new = nat_of(&[SNAT, "FILTER endpoint-independent"], 2, (0, 1)).unwrap();
    new.take_over(old.hand_over().unwrap());
    assert_eq!((new.translator.ports.in_use(), new.translator.created), (1, 1));
    let mut other = nat_of(&["SNAT 10.0.0.0/8 -> 192.0.2.2"], 2, (0, 1)).unwrap();
    other.take_over(new.hand_over().unwrap());
    assert_eq!(other.translator.ports.in_use(), 0);
}
