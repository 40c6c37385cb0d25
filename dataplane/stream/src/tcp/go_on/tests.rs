//! Random losses of packets and of the host: a receiver gets what one host alone would have sent.

use std::collections::VecDeque;

use proptest::prelude::*;
use thruway_packet::Packet;
use thruway_payload::{Next, StreamCursor};
use thruway_wire::tcp::TcpHeader;
use thruway_wire::tcp::flags::{ACK, RST, SYN};
use zerocopy::FromBytes;

use super::*;
use crate::content::HasContent;
use crate::stage::{Memory, Stage};
use crate::tcp::{Arrival, Settings};
use crate::testing::segment;

/// The first numbers of the client's data and of the server's.
const CLIENT: u32 = 0xffff_fff0;
const SERVER: u32 = 9_001;
const FCBS: [u32; 2] = [11, 12];

/// Replaces every "cat" by "tiger", and every "." by nothing.
fn change(data: &mut StreamCursor<'_>) -> Next {
    let mut last = [0; 3];
    while let Some(byte) = data.next() {
        last = [last[1], last[2], byte];
        if last == *b"cat" {
            data.replace_back(3, b"tiger");
            last = [0; 3];
        } else if byte == b'.' {
            data.replace_back(1, b"");
        }
    }
    let begun = if last[1..] == *b"ca" { 2 } else { usize::from(last[2] == b'c') };
    data.back(begun);
    if begun > 0 { Next::NeedMore } else { Next::Continue }
}

fn changed(bytes: &[u8]) -> Vec<u8> {
    let text = String::from_utf8(bytes.to_vec()).expect("letters");
    text.replace("cat", "tiger").replace('.', "").into()
}

const SECOND: i64 = 1_000_000_000;

struct Host {
    tcp: Tcp,
    conn: u32,
    stage: Stage,
    memory: Memory,
}

impl Host {
    fn new() -> Host {
        let settings = Settings { mode: Mode::Map, pick_up: false, ..Settings::default() };
        let tcp = Tcp::new(settings);
        Host { tcp, conn: 0, stage: Stage::default(), memory: Memory::default() }
    }

    /// What leaves when a packet arrives.
    fn pass(&mut self, direction: usize, mut packet: Packet, now: i64) -> Vec<(usize, Packet)> {
        packet.set_fcb(FCBS[direction]);
        let mut out = Out::default();
        let at = Arrival { conn: self.conn, direction, port: direction, now };
        self.tcp.arrive(at, packet, &mut out);
        self.show(out, now)
    }

    /// What leaves when its timers come.
    fn tick(&mut self, now: i64) -> Vec<(usize, Packet)> {
        let mut out = Out::default();
        while self.tcp.due().is_some_and(|due| due <= now) {
            self.tcp.tick(now, &mut out);
        }
        self.show(out, now)
    }

    fn show(&mut self, mut out: Out, now: i64) -> Vec<(usize, Packet)> {
        for restore in self.tcp.restores() {
            let restored =
                self.stage.restore(&mut self.memory, restore.direction, &restore.functions);
            assert_eq!(restored, Ok(()));
        }
        for (port, mut packet) in std::mem::take(&mut out.packets) {
            if packet.content_mark().is_shown() {
                let one = core::slice::from_mut(&mut packet);
                self.stage.run(&mut self.memory, one, (port, port, now), &mut change);
            }
            self.tcp.depart(port, packet, now, &mut out);
        }
        out.packets
    }

    fn image(&mut self) -> Vec<u8> {
        let functions = [0, 1].map(|direction| {
            self.stage.replicable(&self.memory, direction).expect("few bytes").to_vec()
        });
        let mut image = Vec::new();
        assert!(!self.tcp.is_busy(self.conn));
        self.tcp.export(self.conn, Some([&functions[0], &functions[1]]), &mut image);
        image
    }
}

/// A client that sends, a server that receives, and two hosts of which one serves.
struct World {
    data: Vec<u8>,
    /// By offset: what the client sent, and what was acknowledged to it.
    sent: usize,
    acked: usize,
    got: Vec<Option<u8>>,
    is_reset: bool,
    hosts: [Host; 2],
    serves: usize,
    /// The other host lives.
    has_backup: bool,
    /// Packets on their way, with the port that they left by.
    queue: VecDeque<(usize, Packet)>,
    now: i64,
    /// How long the client waits before it sends again for the first time.
    pause: i64,
}

fn header(packet: &Packet) -> (TcpHeader, &[u8]) {
    let transport = packet.transport();
    let (header, _) = TcpHeader::read_from_prefix(transport).expect("a header");
    let payload = &transport[usize::from(transport[12] >> 4) * 4..];
    (header, payload)
}

impl World {
    fn new(data: Vec<u8>) -> World {
        let mut hosts = [Host::new(), Host::new()];
        hosts[0].tcp.set_replicating(true);
        hosts[0].conn = hosts[0].tcp.open().expect("room");
        for (direction, packet) in [
            (0, segment(CLIENT.wrapping_sub(1), 0, SYN, b"")),
            (1, segment(SERVER - 1, CLIENT, SYN | ACK, b"")),
            (0, segment(CLIENT, SERVER, ACK, b"")),
        ] {
            assert_eq!(hosts[0].pass(direction, packet, 0).len(), 1);
        }
        let mut world = World {
            data,
            sent: 0,
            acked: 0,
            got: Vec::new(),
            is_reset: false,
            hosts,
            serves: 0,
            has_backup: true,
            queue: VecDeque::new(),
            now: 0,
            pause: SECOND,
        };
        world.replicate();
        world
    }

    /// The backup gets an image.
    fn replicate(&mut self) {
        if self.has_backup {
            let image = self.hosts[0].image();
            let known = (!self.hosts[1].tcp.is_empty()).then_some(self.hosts[1].conn);
            self.hosts[1].conn =
                self.hosts[1].tcp.import(known, &image, FCBS, 2).expect("an image");
        }
    }

    /// A packet comes to the host that serves; with output commit, what leaves does so when the
    /// backup has the image.
    fn arrive(&mut self, direction: usize, packet: Packet, commits: bool) {
        let left = self.hosts[self.serves].pass(direction, packet, self.now);
        self.queue.extend(left);
        if commits {
            self.replicate();
            self.tick();
        }
    }

    fn tick(&mut self) {
        let left = self.hosts[self.serves].tick(self.now);
        self.queue.extend(left);
    }

    fn send(&mut self, from: usize, len: usize, commits: bool) {
        let to = (from + len).min(self.data.len());
        if from < to {
            let seq = CLIENT.wrapping_add(from as u32);
            let packet = segment(seq, SERVER, ACK, &self.data[from..to]);
            self.sent = self.sent.max(to);
            self.arrive(0, packet, commits);
        }
    }

    /// The next packet on its way gets there, or not.
    fn deliver(&mut self, is_lost: bool, is_answer_lost: bool, commits: bool) {
        let Some((port, packet)) = self.queue.pop_front() else { return };
        let (header, payload) = header(&packet);
        if is_lost {
            return;
        }
        if header.flags() & RST != 0 {
            self.is_reset = true;
            return;
        }
        if port == 1 {
            let acked = header.ack().wrapping_sub(CLIENT) as usize;
            if acked <= self.sent {
                self.acked = self.acked.max(acked);
            }
            return;
        }
        let at = header.seq().wrapping_sub(CLIENT) as i32;
        for (byte, at) in payload.iter().zip(at..) {
            let at = usize::try_from(at).expect("data behind the SYN");
            if self.got.len() <= at {
                self.got.resize(at + 1, None);
            }
            let known = self.got[at].replace(*byte);
            assert!(known.is_none_or(|known| known == *byte), "other bytes than before");
        }
        let ack = segment(SERVER, CLIENT.wrapping_add(self.in_order() as u32), ACK, b"");
        if !is_answer_lost {
            self.arrive(1, ack, commits);
        }
    }

    fn in_order(&self) -> usize {
        self.got.iter().take_while(|byte| byte.is_some()).count()
    }

    fn lose_host(&mut self) {
        if self.serves == 0 {
            (self.serves, self.has_backup) = (1, false);
            self.hosts[1].tcp.serve(self.now);
            self.tick();
        }
    }

    /// What was not acknowledged is sent again until all is there, or the connection is reset.
    fn finish(&mut self, commits: bool) {
        for _ in 0..400 {
            while !self.queue.is_empty() {
                self.deliver(false, false, commits);
            }
            if self.is_reset || self.acked == self.data.len() {
                return;
            }
            self.now += std::mem::replace(&mut self.pause, SECOND);
            self.tick();
            self.send(self.acked, 7, commits);
            if !commits {
                self.replicate();
                self.tick();
            }
        }
        panic!("{} of {} bytes were acknowledged", self.acked, self.data.len());
    }
}

#[derive(Debug, Clone)]
enum Step {
    Send(usize),
    SendAgain(usize),
    Deliver(bool, bool),
    Replicate,
    LoseHost,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let lost = || prop::bool::weighted(0.2);
    let step = prop_oneof![
        4 => (1usize..12).prop_map(Step::Send),
        1 => (1usize..30).prop_map(Step::SendAgain),
        8 => (lost(), lost()).prop_map(|(lost, answer)| Step::Deliver(lost, answer)),
        1 => Just(Step::Replicate),
    ];
    (prop::collection::vec(step, 1..60), 0usize..60).prop_map(|(mut steps, at)| {
        steps.insert(at.min(steps.len()), Step::LoseHost);
        steps
    })
}

fn data() -> impl Strategy<Value = Vec<u8>> {
    let piece = prop_oneof![Just("cat"), Just("c"), Just("ca"), Just("at"), Just("."), Just("xyz")];
    prop::collection::vec(piece, 1..60).prop_map(|pieces| (pieces.concat() + "!").into_bytes())
}

/// Also after more than two minutes, as a sender that was not answered for long.
fn pause() -> impl Strategy<Value = i64> {
    prop_oneof![Just(SECOND), Just(130 * SECOND)]
}

fn run(data: &[u8], steps: Vec<Step>, (commits, pause): (bool, i64)) -> World {
    let mut world = World { pause, ..World::new(data.to_vec()) };
    for step in steps {
        match step {
            Step::Send(len) => world.send(world.sent, len, commits),
            // A sender that waits for long afterwards has not sent again before: that would be a
            // connection that stands still.
            Step::SendAgain(len) if world.pause == SECOND => {
                world.send(world.acked, len.min(world.sent - world.acked), commits)
            }
            Step::SendAgain(_) => {}
            Step::Deliver(lost, answer) => world.deliver(lost, answer, commits),
            Step::Replicate => {
                world.replicate();
                world.tick();
            }
            Step::LoseHost => world.lose_host(),
        }
    }
    world.finish(commits);
    world
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(600))]

    /// With output commit, all arrives.
    #[test]
    fn every_byte_arrives(data in data(), steps in steps(), pause in pause()) {
        let world = run(&data, steps, (true, pause));
        prop_assert!(!world.is_reset);
        let got: Option<Vec<u8>> = world.got.iter().copied().collect();
        let got = got.map(|got| got.escape_ascii().to_string());
        prop_assert_eq!(got, Some(changed(&data).escape_ascii().to_string()));
        prop_assert_eq!(world.hosts[1].tcp.counts.continued, 1);
    }

    /// Without, all arrives or the connection is reset, and no byte is wrong.
    #[test]
    fn no_byte_is_wrong(data in data(), steps in steps(), pause in pause()) {
        let world = run(&data, steps, (false, pause));
        let right = changed(&data);
        for (at, byte) in world.got.iter().enumerate() {
            prop_assert!(byte.is_none_or(|byte| right.get(at) == Some(&byte)), "byte {}", at);
        }
        let is_whole = world.in_order() == right.len();
        prop_assert!(is_whole || world.is_reset);
        prop_assert_eq!(world.hosts[1].tcp.counts.unreplicated > 0, world.is_reset);
    }
}

#[test]
fn an_idle_connection_goes_on_and_a_busy_one_is_reset_without_output_commit() {
    let mut idle = World::new(b"a cat and a cat!".to_vec());
    idle.send(0, 8, false);
    idle.deliver(false, false, false);
    idle.replicate();
    idle.tick();
    while !idle.queue.is_empty() {
        idle.deliver(false, false, false);
    }
    assert_eq!(idle.acked, 8);
    idle.lose_host();
    idle.finish(false);
    assert_eq!((idle.in_order(), idle.is_reset), (20, false));

    let mut busy = World::new(b"a cat and a cat!".to_vec());
    busy.send(0, 8, false);
    busy.deliver(false, false, false);
    busy.lose_host();
    busy.finish(false);
    assert!(busy.is_reset);
}

/// A sender that is acknowledged nothing for long after a takeover gets a reset.
#[test]
fn a_connection_that_stands_still_is_reset() {
    let mut world = World::new(b"a cat and a cat!".to_vec());
    world.lose_host();
    for round in 0..6 {
        world.send(0, 8, false);
        assert!(!world.is_reset, "round {round}");
        // Nothing comes to the server but a reset.
        world.queue.retain(|(_, packet)| header(packet).0.flags() & RST != 0);
        world.deliver(false, false, false);
        world.now += 10 * SECOND;
    }
    assert!(world.is_reset);
    assert_eq!(world.hosts[1].tcp.counts.unreplicated, 1);
}
