//! A flood of SYNs takes all ports: established connections stay, and new ones get through.

use super::*;

const SYN: u8 = 2;
const SYN_ACK: u8 = 0x12;
const ACK: u8 = 0x10;

/// Both kinds of mappings, four ports.
fn worlds() -> [World; 2] {
    ["MAPPING endpoint-independent", "MAPPING connection"]
        .map(|mapping| World::new(&["SNAT 10.0.0.0/8 -> 192.0.2.1:2000-2003", mapping]))
}

fn syn(src: &str, dst: &str) -> Plain {
    Plain { flags: SYN, ..first(TCP, src, dst) }
}

/// A SYN of the flood, from a port of its own.
fn flood(number: usize) -> Plain {
    syn(&format!("10.0.0.66:{}", 3000 + number), "198.51.100.1:80")
}

/// Sends a SYN, its answer and the acknowledgement of that; gives the SYN as it left.
fn establish(world: &mut World, syn: &Plain) -> Plain {
    let (_, left) = world.send(0, syn).unwrap();
    world.send(1, &Plain { flags: SYN_ACK, ..left.reversed() }).unwrap();
    world.send(0, &Plain { flags: ACK, ..syn.clone() }).unwrap();
    left
}

fn evicted(world: &World) -> u64 {
    world.0.function.embryonic.evicted
}

#[test]
fn the_oldest_embryonic_session_makes_room() {
    for mut world in worlds() {
        let ports: Vec<u16> =
            (0..4).map(|number| world.send(0, &flood(number)).unwrap().1.src.1).collect();
        let honest = syn("10.0.0.1:5000", "198.51.100.2:80");
        let left = establish(&mut world, &honest);
        assert_eq!((left.src.1, evicted(&world)), (ports[0], 1));
        // The reply to the ended session finds no mapping; that of the second one is let in.
        let reply = |port, src| Plain { flags: SYN_ACK, ..first(TCP, src, port) };
        let gone = format!("192.0.2.1:{}", ports[0]);
        let refused = world.send(1, &reply(&gone, "198.51.100.1:80"));
        assert!(matches!(refused, Err("no-mapping" | "filtered")), "{refused:?}");
        let alive = format!("192.0.2.1:{}", ports[1]);
        assert_eq!(world.send(1, &reply(&alive, "198.51.100.1:80")).unwrap().0, 1);
        assert_eq!(world.0.function.ports.in_use(), 4);
        world.0.end_all();
        assert_eq!(world.0.function.ports.in_use(), 0);
    }
}

#[test]
fn a_flood_ends_no_established_session() {
    for mut world in worlds() {
        let honest: Vec<Plain> =
            (0..3).map(|host| syn(&format!("10.0.0.{host}:5000"), "198.51.100.1:80")).collect();
        let left: Vec<Plain> = honest.iter().map(|syn| establish(&mut world, syn)).collect();
        for number in 0..5000 {
            world.send(0, &flood(number)).unwrap();
        }
        assert_eq!(evicted(&world), 4999);
        for (sent, left) in honest.iter().zip(&left) {
            let back = Plain { flags: ACK, ..left.reversed() };
            assert_eq!(world.send(1, &back).unwrap().1.dst, sent.src);
        }
        establish(&mut world, &syn("10.0.0.9:5000", "198.51.100.1:80"));
        let refused = world.send(0, &syn("10.0.0.10:5000", "198.51.100.1:80"));
        assert_eq!(refused, Err("no-port"));
        assert_eq!(evicted(&world), 5000);
    }
}

#[test]
fn answered_and_unanswered_udp_stays() {
    for mut world in worlds() {
        for host in 0..4 {
            let udp = first(UDP, &format!("10.0.0.{host}:5000"), "198.51.100.1:53");
            world.send(0, &udp).unwrap();
            world.send(0, &flood(host)).unwrap();
        }
        let more = first(UDP, "10.0.0.9:5000", "198.51.100.1:53");
        assert_eq!(world.send(0, &more), Err("no-port"));
        world.send(0, &syn("10.0.0.9:5000", "198.51.100.1:80")).unwrap();
        assert_eq!((evicted(&world), world.0.function.ports.in_use()), (1, 8));
    }
}

#[test]
fn a_mapping_with_an_established_session_keeps_its_embryonic_ones() {
    let [mut world, _] = worlds();
    for host in 0..4 {
        let src = format!("10.0.0.{host}:5000");
        world.send(0, &syn(&src, "198.51.100.2:80")).unwrap();
        establish(&mut world, &syn(&src, "198.51.100.1:80"));
    }
    assert_eq!(world.send(0, &flood(0)), Err("no-port"));
    assert_eq!(evicted(&world), 0);
}

#[test]
fn a_mapping_of_embryonic_sessions_alone_ends_with_them() {
    let [mut world, _] = worlds();
    for number in 0..4 {
        for dst in ["198.51.100.1:80", "198.51.100.2:80"] {
            world.send(0, &Plain { dst: end(dst), ..flood(number) }).unwrap();
        }
    }
    establish(&mut world, &syn("10.0.0.1:5000", "198.51.100.3:80"));
    assert_eq!((evicted(&world), world.0.function.ports.in_use()), (2, 4));
}

#[test]
fn full_mappings_make_room_too() {
    let texts = ["SNAT 10.0.0.0/8 -> 192.0.2.1", "MAPPINGS 2"];
    let mut world = World(Table::new(nat_of(&texts, 2, (0, 1)).unwrap().translator));
    establish(&mut world, &syn("10.0.0.1:5000", "198.51.100.1:80"));
    world.send(0, &flood(0)).unwrap();
    world.send(0, &first(UDP, "10.0.0.2:5000", "198.51.100.1:53")).unwrap();
    let refused = world.send(0, &first(UDP, "10.0.0.3:5000", "198.51.100.1:53"));
    assert_eq!((refused, evicted(&world)), (Err("mappings-full"), 1));
}

#[test]
fn a_block_of_embryonic_sessions_goes_to_a_host_without_one() {
    let rules = ["SNAT 10.0.0.0/8 -> 192.0.2.1:2000-2015", "BLOCK 4", "HOST_BLOCKS 1"];
    for mapping in ["MAPPING endpoint-independent", "MAPPING connection"] {
        let mut world = World::new(&[rules[0], rules[1], rules[2], mapping]);
        let attacker = |host: usize, port: usize, dst: &str| {
            syn(&format!("10.0.1.{host}:{}", 3000 + port), &format!("198.51.100.{dst}:80"))
        };
        // Three hosts take a block each, two ports of it; two sessions share the first port where
        // mappings are for all destinations. The fourth has a connection, too.
        for host in 0..4 {
            for (port, dst) in [(0, "1"), (0, "2"), (1, "1")] {
                world.send(0, &attacker(host, port, dst)).unwrap();
            }
        }
        let held = attacker(3, 9, "1");
        let left = establish(&mut world, &held);
        let mut honest = Vec::new();
        for host in 0..3 {
            let syn = syn(&format!("10.0.0.{host}:5000"), "198.51.100.9:80");
            honest.push((establish(&mut world, &syn), syn));
            assert_eq!(evicted(&world), 3 * (host + 1));
        }
        // Each block has a connection now, and none goes.
        let refused = world.send(0, &syn("10.0.0.9:5000", "198.51.100.9:80"));
        assert_eq!((refused, evicted(&world)), (Err("no-port"), 9));
        honest.push((left, held));
        for (left, sent) in &honest {
            let back = Plain { flags: ACK, ..left.reversed() };
            assert_eq!(world.send(1, &back).unwrap().1.dst, sent.src);
        }
        world.0.end_all();
        assert_eq!(world.0.function.ports.in_use(), 0);
        assert_eq!(world.0.function.ports.blocks().unwrap().len(), 0);
    }
}

#[test]
fn a_flood_from_many_hosts_keeps_no_host_out_of_blocks() {
    let rules = ["SNAT 10.0.0.0/8 -> 192.0.2.1:2000-2127", "BLOCK 32"];
    let mut world = World::new(&rules);
    for number in 0..2000 {
        let src = format!("10.1.{}.{}:{}", number % 8, number % 200, 3000 + number);
        let _ = world.send(0, &syn(&src, "198.51.100.1:80"));
    }
    establish(&mut world, &syn("10.0.0.1:5000", "198.51.100.2:80"));
}
