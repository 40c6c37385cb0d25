//! The balancer against a plain map from sessions to servers, and packets written anew.

use std::collections::HashMap;

use proptest::prelude::*;
use thruway_element::Verdict;
use thruway_random::mix;
use thruway_wire::flow::FiveTuple;

use super::address::Service;
use super::*;
use crate::alone::{Table, Tuple, marked, tuple_of};
use crate::plain::{Plain, error_about};
use crate::pool::Method;
use thruway_elements_rig::Rig;

const VIP: u32 = 0xc000_0201;
const SERVERS: u32 = 0x0a01_0000;
const CLIENTS: u32 = 0xcb00_7100;

fn server_address(n: u32) -> ServerAddress {
    ServerAddress { addr: SERVERS + n, port: n.is_multiple_of(2).then_some(8080) }
}

fn balancer(method: Method, weights: &[u32]) -> Balancer {
    let service = |port| Service { addr: VIP, port, protocol: 6 };
    let mut servers = Servers::new(method);
    for (n, weight) in weights.iter().enumerate() {
        servers.add(server_address(n as u32), *weight).unwrap();
    }
    let services =
        vec![service(Some(80)), service(Some(443)), Service { protocol: 1, ..service(None) }];
    Balancer { services, servers, hash_of: HashOf::Connection }
}

fn to_service(client: u32, port: u16, icmp: bool, service_port: u16) -> Tuple {
    let (dst_port, protocol) = if icmp { (port, 1) } else { (service_port, 6) };
    FiveTuple { src: CLIENTS + client, dst: VIP, src_port: port, dst_port, protocol }
}

fn method() -> impl Strategy<Value = Method> {
    (0..METHODS.len()).prop_map(|at| super::method(METHODS[at]).unwrap())
}

#[derive(Clone, Debug)]
enum Event {
    /// A client's packet to a service.
    Asks(Tuple),
    /// A server's answer in the session of this tuple.
    Answers(Tuple),
    /// An ICMP error from a router on the servers' side about the client's packet.
    Fails(Tuple),
    Ends(Tuple),
    Drain(u32),
    Resume(u32),
    Add(u32),
    Remove(u32, bool),
}

fn event() -> impl Strategy<Value = Event> {
    let port = prop_oneof![Just(80u16), Just(443)];
    let tuple = (0u32..4, 0u16..4, any::<bool>(), port)
        .prop_map(|(client, port, icmp, service)| to_service(client, port, icmp, service));
    let server = 0u32..5;
    prop_oneof![
        8 => tuple.clone().prop_map(Event::Asks),
        5 => tuple.clone().prop_map(Event::Answers),
        2 => tuple.clone().prop_map(Event::Fails),
        3 => tuple.prop_map(Event::Ends),
        1 => server.clone().prop_map(Event::Drain),
        1 => server.clone().prop_map(Event::Resume),
        1 => server.clone().prop_map(Event::Add),
        2 => (server, any::<bool>()).prop_map(|(server, now)| Event::Remove(server, now)),
    ]
}

/// The oracle's state.
#[derive(Default)]
struct Oracle {
    /// The server of each session, and whether it has it still.
    chosen: HashMap<Tuple, (u32, bool)>,
    standing: HashMap<u32, Standing>,
}

impl Oracle {
    fn held(&self, server: u32) -> usize {
        self.chosen.values().filter(|chosen| **chosen == (server, true)).count()
    }

    fn forget(&mut self, tuple: &Tuple) {
        let Some((server, true)) = self.chosen.remove(tuple) else { return };
        if self.held(server) == 0 && self.standing.get(&server) == Some(&Standing::Leaving) {
            self.standing.remove(&server);
        }
    }

    /// Whether no session has the key of the answers; one that lost its server has until it ends.
    fn is_free(&self, tuple: &Tuple, server: u32) -> bool {
        let other = |(of, chosen): (&Tuple, &(u32, bool))| {
            of != tuple && chosen.0 == server && behind(of, server) == behind(tuple, server)
        };
        !self.chosen.iter().any(other)
    }

    fn up(&self) -> impl Iterator<Item = u32> {
        self.standing.iter().filter(|(_, s)| **s == Standing::Up).map(|(server, _)| *server)
    }
}

/// A tuple once the server's address is in it.
fn behind(tuple: &Tuple, server: u32) -> Tuple {
    let ServerAddress { addr, port } = server_address(server);
    let port = port.filter(|_| tuple.protocol != 1).unwrap_or(tuple.dst_port);
    FiveTuple { dst: addr, dst_port: port, ..*tuple }
}

fn asks(table: &mut Table<Balancer>, oracle: &mut Oracle, tuple: Tuple) {
    let (verdict, packet) = table.push(&Plain::first(tuple).written());
    match oracle.chosen.get(&tuple) {
        Some((server, true)) => {
            assert_eq!(verdict, Verdict::Pass);
            assert_eq!(packet.data(), Plain::first(behind(&tuple, *server)).written());
            assert_eq!(
                packet.dst_ip(),
                server_address(*server).addr.to_be_bytes(),
                "routes follow"
            );
        }
        Some((_, false)) => {
            assert_eq!(verdict, Verdict::drop(Lost::Removed));
            oracle.forget(&tuple);
        }
        None if verdict == Verdict::Pass => {
            let server = tuple_of(packet.data()).unwrap().dst - SERVERS;
            assert_eq!(packet.data(), Plain::first(behind(&tuple, server)).written());
            assert_eq!(oracle.standing[&server], Standing::Up);
            assert!(oracle.is_free(&tuple, server));
            oracle.chosen.insert(tuple, (server, true));
        }
        None if oracle.up().next().is_none() => {
            assert_eq!(verdict, Verdict::drop(Lost::NoServer));
        }
        None => {
            assert_eq!(verdict, Verdict::drop(Lost::Taken));
            assert!(oracle.up().all(|server| !oracle.is_free(&tuple, server)));
        }
    }
}

fn answers(table: &mut Table<Balancer>, oracle: &mut Oracle, tuple: Tuple) {
    let Some((server, has_it)) = oracle.chosen.get(&tuple).copied() else { return };
    let reply = Plain::of(behind(&tuple, server).reversed(), 0x10).written();
    let (verdict, packet) = table.push(&reply);
    if has_it {
        assert_eq!(verdict, Verdict::Pass);
        assert_eq!(packet.data(), Plain::of(tuple.reversed(), 0x10).written());
    } else {
        assert_eq!(verdict, Verdict::drop(Lost::Removed));
        oracle.forget(&tuple);
    }
}

fn fails(table: &mut Table<Balancer>, oracle: &Oracle, tuple: Tuple) {
    let Some((server, true)) = oracle.chosen.get(&tuple) else { return };
    let sent = Plain::first(behind(&tuple, *server)).written();
    let (verdict, packet) = table.push(&error_about(9, tuple.src, &sent, 60));
    assert_eq!(verdict, Verdict::Pass);
    let expected = error_about(VIP, tuple.src, &Plain::first(tuple).written(), 60);
    assert_eq!(packet.data(), expected);
}

fn change(table: &mut Table<Balancer>, oracle: &mut Oracle, event: &Event) {
    let servers = &mut table.function.servers;
    match *event {
        Event::Drain(n) => {
            let done =
                servers.named(server_address(n)).map(|server| server.standing = Standing::Drained);
            let known = oracle.standing.get_mut(&n).map(|standing| *standing = Standing::Drained);
            assert_eq!(done.is_ok(), known.is_some());
        }
        Event::Resume(n) => {
            let done =
                servers.named(server_address(n)).map(|server| server.standing = Standing::Up);
            let known = oracle.standing.get_mut(&n).map(|standing| *standing = Standing::Up);
            assert_eq!(done.is_ok(), known.is_some());
        }
        Event::Add(n) => {
            let is_new = oracle.standing.get(&n).is_none_or(|s| *s == Standing::Leaving);
            assert_eq!(servers.add(server_address(n), 1 + n).is_ok(), is_new);
            if is_new {
                oracle.standing.insert(n, Standing::Up);
            }
        }
        Event::Remove(n, now) => {
            assert_eq!(
                servers.remove(server_address(n), now).is_ok(),
                oracle.standing.contains_key(&n)
            );
            if now || oracle.held(n) == 0 {
                oracle.standing.remove(&n);
            } else {
                oracle.standing.entry(n).and_modify(|standing| *standing = Standing::Leaving);
            }
            for (server, has_it) in oracle.chosen.values_mut().filter(|_| now) {
                *has_it &= *server != n;
            }
        }
        _ => {}
    }
}

proptest! {
    #[test]
    fn sessions_keep_their_server(
        method in method(), events in proptest::collection::vec(event(), 1..120),
    ) {
        let mut table = Table::new(balancer(method, &[1, 2, 3]));
        let standing = (0..3).map(|n| (n, Standing::Up)).collect();
        let mut oracle = Oracle { standing, ..Oracle::default() };
        for event in events {
            match event {
                Event::Asks(tuple) => asks(&mut table, &mut oracle, tuple),
                Event::Answers(tuple) => answers(&mut table, &mut oracle, tuple),
                Event::Fails(tuple) => fails(&mut table, &oracle, tuple),
                Event::Ends(tuple) => {
                    table.end_of(tuple);
                    oracle.forget(&tuple);
                }
                _ => change(&mut table, &mut oracle, &event),
            }
            for server in table.function.servers.iter() {
                let n = server.id.addr - SERVERS;
                prop_assert_eq!(server.sessions as usize, oracle.held(n));
                prop_assert_eq!(server.held, server.sessions);
                prop_assert_eq!(Some(&server.standing), oracle.standing.get(&n));
            }
        }
        table.end_all();
        prop_assert_eq!(table.function.servers.iter().map(|s| s.sessions).sum::<u64>(), 0);
    }

    #[test]
    fn no_text_is_too_strange(text in ".{0,40}") {
        let read = |text: &str| text.parse::<Ipv4Addr>().map_err(|_| "no address".to_owned());
        if let Ok(services) = address::services(&text, &read) {
            prop_assert!(services.len() <= text.split_whitespace().count());
        }
        let _ = address::server(&text, &read);
    }

    #[test]
    fn a_changed_list_moves_only_what_must_move(
        weights in proptest::collection::vec(1u32..5, 2..8), leaves in any::<prop::sample::Index>(),
    ) {
        let mut servers = balancer(Method::ConsistentHash, &weights).servers;
        let hashes: Vec<u64> = (0..400).map(mix).collect();
        let pick = |servers: &mut Servers| -> Vec<u32> {
            hashes.iter().map(|hash| servers.choose(*hash, 0).unwrap().slot).collect()
        };
        let before = pick(&mut servers);
        let gone = leaves.index(weights.len()) as u32;
        servers.named(server_address(gone)).unwrap().standing = Standing::Drained;
        let after = pick(&mut servers);
        for (old, new) in before.iter().zip(&after) {
            prop_assert!(*old == gone && *new != gone || old == new);
        }
    }
}

/// How often each server is chosen for so many sessions, none of which ends.
fn shares(method: Method, weights: &[u32], sessions: u64) -> Vec<u64> {
    let mut servers = balancer(method, weights).servers;
    for n in 0..sessions {
        let ticket = servers.choose(mix(n), 0).unwrap();
        servers.begin(ticket, true);
    }
    servers.iter().map(|server| server.total).collect()
}

#[test]
fn methods_share_as_they_say() {
    assert_eq!(shares(Method::RoundRobin, &[1, 5, 9], 30), [10, 10, 10]);
    assert_eq!(shares(Method::Weighted, &[1, 2, 3], 60), [10, 20, 30]);
    assert_eq!(shares(Method::LeastSessions, &[1, 2, 3], 60), [10, 20, 30]);
    let hashed = shares(Method::ConsistentHash, &[1, 2, 3], 60_000);
    for (share, fair) in hashed.iter().zip([10_000u64, 20_000, 30_000]) {
        // Five standard deviations of a binomial draw are below 650.
        assert!(share.abs_diff(fair) < 650, "{hashed:?}");
    }
}

#[test]
fn a_heavy_server_is_not_chosen_many_times_in_a_row() {
    let mut servers = balancer(Method::Weighted, &[5, 1, 1]).servers;
    let order: Vec<u32> = (0..7).map(|_| servers.choose(0, 0).unwrap().slot).collect();
    // The order that nginx's change "smooth weighted round-robin" gives as its example.
    assert_eq!(order, [0, 0, 1, 0, 2, 0, 0]);
}

#[test]
fn a_client_keeps_its_server_by_source() {
    let mut balancer = balancer(Method::ConsistentHash, &[1; 8]);
    balancer.hash_of = HashOf::Source;
    let mut table = Table::new(balancer);
    let mut server_of = |client, port| {
        let (verdict, packet) =
            table.push(&Plain::first(to_service(client, port, false, 80)).written());
        assert_eq!(verdict, Verdict::Pass);
        tuple_of(packet.data()).unwrap().dst
    };
    for client in 0..20 {
        let first = server_of(client, 1);
        assert!((2..6).all(|port| server_of(client, port) == first));
    }
}

#[test]
fn a_spoofed_service_does_not_keep_a_client_from_it() {
    let mut table = Table::new(balancer(Method::RoundRobin, &[1]));
    let tuple = to_service(1, 1, false, 80);
    let spoofed = Plain::of(tuple.reversed(), 0x12).written();
    assert_eq!(table.push(&spoofed).0, Verdict::drop(Lost::Spoofed));
    assert_eq!(table.push(&Plain::first(tuple).written()).0, Verdict::Pass);
}

#[test]
fn others_pass_and_fragments_for_a_service_do_not() {
    let mut table = Table::new(balancer(Method::RoundRobin, &[1]));
    let other = Plain::first(to_service(1, 1, false, 81)).written();
    let (verdict, packet) = table.push(&other);
    assert_eq!((verdict, packet.data()), (Verdict::Pass, &other[..]));
    let mut fragment = Plain::first(to_service(1, 2, false, 80)).written();
    fragment[6] = 0x20;
    let without = table.function.without(&mut marked(&fragment));
    assert_eq!(without, Verdict::drop(Lost::NoSession));
    assert_eq!(table.function.without(&mut marked(&[0x60; 60])), Verdict::Pass);
}

fn refused(texts: &[&str]) -> String {
    Rig::new(&ENTRY, texts, 1).err().map(|errors| errors.to_string()).unwrap_or_default()
}

#[test]
fn arguments_are_checked() {
    assert!(refused(&["VIP 1.1.1.1:80/tcp"]).contains("no server is given"));
    assert!(refused(&["VIP 1.1.1.1:80/tcp", "1.1.1.1:8080"]).contains("address of a service"));
    assert!(refused(&["VIP 1.1.1.1:80/tcp", "2.2.2.2", "2.2.2.2 3"]).contains("there already"));
    assert!(refused(&["VIP 1.1.1.1:80/tcp", "2.2.2.2 0"]).contains("from 1 to 65535"));
    assert!(refused(&["VIP 1.1.1.1:80/gre", "2.2.2.2"]).contains("none of tcp, udp and icmp"));
    assert!(refused(&["VIP 1.1.1.1:70000/tcp", "2.2.2.2"]).contains("is no port"));
    assert!(refused(&["VIP 1.1.1.1:80", "2.2.2.2"]).contains("is no service"));
    assert!(refused(&["2.2.2.2"]).contains("VIP"));
    assert!(refused(&["VIP 1.1.1.1:80/tcp", "2.2.2.2", "METHOD best"]).contains("round-robin"));
}

#[test]
fn handlers_change_the_list() {
    let texts = ["VIP 1.1.1.1:80/tcp 1.1.1.1:53/udp", "2.2.2.2:8080", "2.2.2.3 4"];
    let mut rig = Rig::new(&ENTRY, &texts, 1).unwrap();
    rig.write("drain", "2.2.2.3").unwrap();
    rig.write("add", "2.2.2.4:81 2").unwrap();
    rig.write("weight", "2.2.2.2:8080 7").unwrap();
    assert_eq!(
        rig.read("servers", "").unwrap(),
        "2.2.2.2:8080 7 up\n2.2.2.3 4 drained\n2.2.2.4:81 2 up"
    );
    rig.write("resume", "2.2.2.3").unwrap();
    rig.write("remove", "2.2.2.2:8080 now").unwrap();
    rig.write("remove", "2.2.2.4:81").unwrap();
    assert_eq!(rig.read("counts", "").unwrap(), "2.2.2.3 0 0 0 0");
    assert!(rig.write("add", "1.1.1.1:1").is_err() && rig.write("drain", "9.9.9.9").is_err());
}

#[test]
fn a_new_list_keeps_the_sessions_of_the_old_one() {
    let mut table = Table::new(balancer(Method::RoundRobin, &[1, 1, 1]));
    let tuples = [0, 1, 2].map(|port| to_service(1, port, false, 80));
    let sent = tuples.map(|tuple| table.push(&Plain::first(tuple).written()).1.data().to_vec());
    table.function.servers.named(server_address(1)).unwrap().standing = Standing::Drained;
    // The list: servers 1, 2 and 3. No session uses 0 any more.
    table.end_of(tuples[0]);
    let mut next = Servers::new(Method::RoundRobin);
    for n in [3, 2, 1] {
        next.add(server_address(n), 9).unwrap();
    }
    next.take_over(table.function.servers.hand_over());
    table.function.servers = next;
    let list: Vec<_> =
        table.function.servers.iter().map(|s| (s.id, s.weight, s.standing, s.held)).collect();
    assert_eq!(
        list,
        [
            (server_address(3), 9, Standing::Up, 0),
            (server_address(1), 9, Standing::Drained, 1),
            (server_address(2), 9, Standing::Up, 1),
        ]
    );
    for (tuple, sent) in tuples.iter().zip(&sent).skip(1) {
        assert_eq!(table.push(&Plain::first(*tuple).written()).1.data(), &sent[..]);
    }
    let mut shorter = Servers::new(Method::RoundRobin);
    shorter.add(server_address(3), 1).unwrap();
    shorter.take_over(table.function.servers.hand_over());
    table.function.servers = shorter;
    assert_eq!(
        table.function.servers.named(server_address(2)).unwrap().standing,
        Standing::Leaving
    );
    table.end_all();
    assert_eq!(table.function.servers.iter().count(), 1);
}
