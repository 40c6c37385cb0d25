//! Packets of a session that come by several threads: one thread serves them, the others hand over.

use std::collections::VecDeque;

use thruway_flow::manager::{HandoffCounts, ThreadSet};

use super::*;

mod resize;

const THREADS: usize = 3;
const ZONE: u32 = 0xc102_0304;

/// A packet that came in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Came {
    thread: usize,
    connection: u32,
    reply: bool,
}

/// A packet that was served: its number, the thread, and how many of its direction the session's
/// state had counted before.
#[derive(Clone, Copy, Debug)]
struct Served {
    number: usize,
    thread: usize,
    before: u32,
}

/// Threads with their managers, and rings between them.
struct Town {
    managers: Vec<Manager>,
    /// By sender and receiver.
    rings: Vec<VecDeque<Packet>>,
    came: Vec<Came>,
    served: Vec<Served>,
    translates: bool,
    /// Of so many packets served one ends its session; 0: none.
    ends: usize,
    /// There are no replies.
    unidirectional: bool,
    now: i64,
}

/// Where the receivers are that can be handed packets to: all, unless a thread is `apart`.
fn town(demand: &Demand, apart: Option<usize>) -> Town {
    town_of(THREADS, demand, apart)
}

/// The same of so many threads, [`THREADS`] at most.
fn town_of(threads: usize, demand: &Demand, apart: Option<usize>) -> Town {
    let plan = Arc::new(consolidate(&chain(std::slice::from_ref(demand))).unwrap());
    let settings = bounded(100, 100);
    let shared_flows_of = shared_flows_of(&plan, &settings, threads).unwrap();
    let handoffs = Arc::new(HandoffCounts::new(threads));
    let reach = vec![(0..threads).map(|thread| Some(thread) != apart).collect::<Vec<bool>>()];
    let manager = |me| {
        if threads == 1 {
            return Manager::new(plan.clone(), &settings).unwrap();
        }
        let mut manager =
            Manager::with_shared_flows(plan.clone(), &settings, &shared_flows_of).unwrap();
        manager.join_threads(ThreadSet::new(me, reach.clone(), handoffs.clone()));
        manager
    };
    Town {
        managers: (0..threads).map(manager).collect(),
        rings: (0..THREADS * THREADS).map(|_| VecDeque::new()).collect(),
        came: Vec::new(),
        served: Vec::new(),
        translates: demand.translates,
        ends: 0,
        unidirectional: false,
        now: 0,
    }
}

impl Town {
    fn tuple(&self, connection: u32, reply: bool) -> FiveTuple<u32> {
        let forward = tcp(7 + connection, 1000);
        match reply {
            false => forward,
            true if self.translates => {
                let dst_port = 40_000 + connection as u16;
                FiveTuple { dst: ZONE, dst_port, ..forward.reversed() }
            }
            true => forward.reversed(),
        }
    }

    fn packet(&mut self, came: Came) -> Packet {
        let mut packet = frame(&self.tuple(came.connection, came.reply), 0x10);
        packet.set_timestamp(self.came.len() as i64 + 1);
        self.came.push(came);
        packet
    }

    /// A thread gets packets, from its port or another one. Says how many it handed on.
    fn take(&mut self, thread: usize, packets: Vec<Packet>) -> usize {
        let mut batch = Batch::with_room();
        packets.into_iter().for_each(|packet| batch.push(packet));
        let rings = &mut self.rings;
        let mut handed = 0;
        let manager = &mut self.managers[thread];
        manager.classify((ENTRY, Input::Ethernet), &mut batch, self.now, |packet, refusal| {
            let Refusal::Elsewhere(to) = refusal else { panic!("{refusal:?}") };
            assert_ne!(usize::from(to), thread);
            rings[thread * THREADS + usize::from(to)].push_back(packet);
            handed += 1;
        });
        release(manager);
        for packet in batch.drain() {
            self.serve(thread, &packet);
        }
        handed
    }

    /// What a function does.
    fn serve(&mut self, thread: usize, packet: &Packet) {
        let number = packet.timestamp() as usize - 1;
        let Came { connection, reply, .. } = self.came[number];
        let manager = &mut self.managers[thread];
        let state_at = at(manager, 1, Fcb(packet.fcb()));
        // Without translation the first packet of a connection may be any.
        assert!(!self.translates || reply == (state_at.direction == Direction::Reply));
        if !manager.is_opened(&state_at) {
            manager.scratch_mut(&state_at).fill(0);
            manager.set_opened(&state_at);
            if self.translates && !reply {
                manager.publish(&state_at, &[u64::from(connection)]);
                let answer = self.tuple(connection, true);
                self.managers[thread].answer(&state_at, &answer).unwrap();
            } else if self.translates {
                assert_eq!(manager.published(&state_at).unwrap()[0], u64::from(connection));
            }
        }
        let manager = &mut self.managers[thread];
        let half = &mut manager.scratch_mut(&state_at)[usize::from(reply) * 4..][..4];
        let before = u32::from_ne_bytes(half.try_into().unwrap());
        half.copy_from_slice(&(before + 1).to_ne_bytes());
        self.served.push(Served { number, thread, before });
        if self.ends > 0 && self.served.len().is_multiple_of(self.ends) {
            manager.ask_end(&state_at);
        }
    }

    /// The receiver takes up to `count` packets of one ring.
    fn deliver(&mut self, from: usize, to: usize, count: usize) -> bool {
        let ring = &mut self.rings[from * THREADS + to];
        let packets: Vec<Packet> = ring.drain(..count.min(ring.len())).collect();
        let taken = packets.len();
        if taken > 0 {
            let before = self.managers[to].handed();
            self.take(to, packets);
            self.managers[to].took(from, taken, before);
        }
        (0..self.managers.len()).for_each(|from| self.managers[to].report_served(from));
        taken > 0
    }

    fn drain(&mut self) {
        let threads = self.managers.len();
        let pairs = || (0..threads).flat_map(|from| (0..threads).map(move |to| (from, to)));
        for round in 0.. {
            if !pairs().any(|(from, to)| self.deliver(from, to, 2)) {
                break;
            }
            assert!(round < 10_000, "packets go round in a circle");
        }
    }

    fn sweep(&mut self) {
        for manager in &mut self.managers {
            // One sweep over all records takes two seconds.
            for part in 0..3 {
                manager.sweep(self.now + part * SECOND);
            }
            release(manager);
        }
        self.now += 3 * SECOND;
    }

    fn begun(&self, connection: u32) -> bool {
        self.served.iter().any(|served| {
            let came = self.came[served.number];
            came.connection == connection && !came.reply
        })
    }

    /// All that came was served once, and in the order in which each thread had received it.
    fn check_order(&self) {
        let mut numbers: Vec<usize> = self.served.iter().map(|served| served.number).collect();
        let mut last: HashMap<(usize, u32, bool), usize> = HashMap::new();
        for number in &numbers {
            let Came { thread, connection, reply } = self.came[*number];
            if let Some(before) = last.insert((thread, connection, reply), *number) {
                assert!(before < *number, "{before} was overtaken by {number}");
            }
        }
        numbers.sort_unstable();
        assert_eq!(numbers, (0..self.came.len()).collect::<Vec<_>>());
    }

    /// One thread and one state served each direction; both, if they have to be `whole`.
    fn check_one_server(&self, whole: bool) {
        let mut servers: HashMap<(u32, bool), (usize, u32)> = HashMap::new();
        for Served { number, thread, before } in &self.served {
            let Came { connection, reply, .. } = self.came[*number];
            let (server, count) = servers.entry((connection, reply)).or_insert((*thread, 0));
            assert_eq!((*server, *count), (*thread, *before));
            *count += 1;
        }
        for ((connection, reply), (server, _)) in &servers {
            if let Some((other, _)) = servers.get(&(*connection, !reply)).filter(|_| whole) {
                assert_eq!(server, other);
            }
        }
    }
}

fn counting(translates: bool, whole: bool) -> Demand {
    Demand { translates, shared_words: 1, whole, ..demand("connection", 8) }
}

/// The state of one direction stays where it is, and its packets are brought there.
#[test]
fn a_flow_that_moves_to_another_thread_keeps_its_state() {
    for (translates, whole) in [(false, false), (true, false), (false, true), (true, true)] {
        let mut town = town(&counting(translates, whole), None);
        let forward = |thread| Came { thread, connection: 0, reply: false };
        for thread in [0, 1, 1, 0, 2, 1] {
            let packet = town.packet(forward(thread));
            let handed = town.take(thread, vec![packet]);
            assert_eq!(handed, usize::from(thread != 0));
        }
        for thread in [1, 0, 2, 1] {
            let packet = town.packet(Came { reply: true, ..forward(thread) });
            let handed = town.take(thread, vec![packet]);
            assert_eq!(handed, usize::from(thread != if whole { 0 } else { 1 }));
        }
        town.drain();
        town.check_order();
        // Without translation and seats for both the half of thread 1 begins as a guest's.
        town.check_one_server(whole);
        let sessions: u32 = town.managers.iter().map(|manager| manager.counts(0).0).sum();
        assert_eq!(sessions, if whole { 1 } else { 2 }, "guests are not counted");
        let created: u64 = town.managers.iter().map(|manager| manager.counts(0).2.created).sum();
        assert_eq!(created, u64::from(sessions));
        let listed = |manager: &Manager| {
            let (mut flows, mut from) = (0, Some(Default::default()));
            while let Some(cursor) = from {
                from = manager.list(cursor, 0, |_| flows += 1);
            }
            flows
        };
        assert_eq!(town.managers.iter().map(listed).sum::<u32>(), sessions);
    }
}

/// A flow in one direction, too; not what has several flows.
#[test]
fn sessions_of_one_flow_have_one_server_and_coarser_ones_have_many() {
    for (session, moves) in [("flow", true), ("pair", false), ("source", false)] {
        let mut town = town(&demand(session, 8), None);
        let came = |thread| Came { thread, connection: 0, reply: false };
        for (thread, handed) in [(0, 0), (1, usize::from(moves))] {
            let packet = town.packet(came(thread));
            assert_eq!(town.take(thread, vec![packet]), handed, "{session}");
        }
        town.drain();
        town.check_order();
    }
}

/// Threads that cannot get packets from here get none: they are served as before.
#[test]
fn a_thread_that_does_not_reach_there_is_handed_nothing() {
    let mut town = town(&counting(false, false), Some(0));
    for thread in [0, 1, 1, 2, 0] {
        let packet = town.packet(Came { thread, connection: 0, reply: false });
        assert_eq!(town.take(thread, vec![packet]), 0);
    }
    town.check_order();
}

#[test]
fn errors_go_to_the_server_of_the_quoted_session() {
    for (translates, whole) in [(false, false), (true, false), (false, true), (true, true)] {
        // Only thread 0 has met the session; then thread 2 has taken the replies.
        for replied in [false, true] {
            let mut town = town(&counting(translates, whole), None);
            let packet = town.packet(Came { thread: 0, connection: 0, reply: false });
            town.take(0, vec![packet]);
            if replied {
                let packet = town.packet(Came { thread: 2, connection: 0, reply: true });
                town.take(2, vec![packet]);
                town.drain();
            }
            let server = if replied && !whole { 2 } else { 0 };
            let about = town.tuple(0, true).reversed();
            for thread in 0..THREADS {
                let mut batch = Batch::with_room();
                batch.push(unreachable(&about));
                let mut to = None;
                let manager = &mut town.managers[thread];
                manager.classify((ENTRY, Input::Ethernet), &mut batch, 0, |_, refusal| {
                    to = Some(refusal);
                });
                let elsewhere = (thread != server).then_some(Refusal::Elsewhere(server as u16));
                assert_eq!(to, elsewhere, "{translates} {whole} {replied} {thread}");
                if let Some(error) = batch.iter().next() {
                    assert!(Fcb(error.fcb()).is_related());
                }
            }
        }
    }
}

/// A thread with a table full of remote entries begins sessions of its own.
#[test]
fn guests_make_room() {
    let mut town = town(&counting(false, false), None);
    for connection in 0..100 {
        for thread in [0, 1] {
            let packet = town.packet(Came { thread, connection, reply: false });
            town.take(thread, vec![packet]);
        }
    }
    assert_eq!(town.managers[1].counts(0).0, 0);
    for connection in 100..150 {
        let packet = town.packet(Came { thread: 1, connection, reply: false });
        assert_eq!(town.take(1, vec![packet]), 0);
    }
    assert_eq!(town.managers[1].counts(0).0, 50);
    // Packets of evicted remote entries are handed off all the same.
    for connection in 0..100 {
        let packet = town.packet(Came { thread: 1, connection, reply: false });
        assert_eq!(town.take(1, vec![packet]), 1);
    }
    town.drain();
    town.check_order();
    town.check_one_server(false);
}

#[test]
fn owners_are_taken_over_by_another_configuration() {
    for (translates, whole) in [(false, false), (true, false), (false, true), (true, true)] {
        let demand = counting(translates, whole);
        let mut old = town(&demand, None);
        for (thread, reply) in [(0, false), (1, false), (2, true), (1, true)] {
            let packet = old.packet(Came { thread, connection: 0, reply });
            old.take(thread, vec![packet]);
        }
        old.drain();
        let mut new = town(&demand, None);
        for (new, old) in new.managers.iter_mut().zip(&mut old.managers) {
            new.take_over(old, Some);
        }
        new.managers.iter_mut().for_each(Manager::rejoin);
        (new.came, new.served) = (old.came, old.served);
        for thread in 0..THREADS {
            for reply in [true, false] {
                let packet = new.packet(Came { thread, connection: 0, reply });
                new.take(thread, vec![packet]);
            }
        }
        new.drain();
        new.check_order();
        new.check_one_server(whole);
        let sessions: u32 = new.managers.iter().map(|manager| manager.counts(0).0).sum();
        assert_eq!(sessions, if whole { 1 } else { 2 });
    }
}

#[derive(Clone, Debug)]
enum Step {
    /// Packets of some connections and directions come to a thread in one batch.
    Come(usize, Vec<(u32, bool)>),
    /// A thread takes packets from another one's ring.
    Deliver(usize, usize, usize),
    Sweep,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let packets = prop::collection::vec((0u32..4, any::<bool>()), 1..6);
    let step = prop_oneof![
        6 => (0..THREADS, packets).prop_map(|(thread, packets)| Step::Come(thread, packets)),
        4 => (0..THREADS, 0..THREADS, 1usize..4).prop_map(|(a, b, n)| Step::Deliver(a, b, n)),
        1 => Just(Step::Sweep),
    ];
    prop::collection::vec(step, 1..60)
}

fn play(town: &mut Town, steps: Vec<Step>) {
    for step in steps {
        match step {
            Step::Come(thread, packets) => {
                let mut batch = Vec::new();
                for (connection, reply) in packets {
                    let reply = reply && !town.unidirectional;
                    // No host answers to an address that no packet came from.
                    if !town.translates || !reply || town.begun(connection) {
                        batch.push(town.packet(Came { thread, connection, reply }));
                    }
                }
                town.take(thread, batch);
            }
            Step::Deliver(from, to, count) => {
                town.deliver(from, to, count);
            }
            Step::Sweep => town.sweep(),
        }
    }
    town.drain();
    town.check_order();
}

proptest! {
    /// Packets on any threads, taken from rings at any time: each connection has one state for each
    /// direction (or both), which meets all its packets, in order.
    #[test]
    fn one_thread_serves_a_session(steps in steps(), translates: bool, whole: bool) {
        let mut town = town(&counting(translates, whole), None);
        play(&mut town, steps);
        town.check_one_server(whole);
    }

    /// The same where sessions end at any time and others begin in their place, in any thread.
    #[test]
    fn nothing_overtakes_where_sessions_end(steps in steps(), whole: bool, ends in 1usize..9) {
        let mut town = town(&counting(false, whole), None);
        (town.ends, town.unidirectional) = (ends, !whole);
        play(&mut town, steps);
    }
}
