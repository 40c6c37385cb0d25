//! The engine with an inspector between entry and exit.

use thruway_packet::Packet;
use thruway_stream::content::{HasContent, Layer};
use thruway_stream::segment::{Parts, tcp};
use thruway_stream::tcp::overlap::Overlap;
use thruway_stream::tcp::{Arrival, Mode, Out, Seq, Settings, Tcp};

use crate::check::{Middle, SYSTEMS, Shown, watch};
use crate::forge::{Client, Server, Side, Talk};

/// See the module.
pub struct Inspector {
    tcp: Tcp,
    conn: Option<u32>,
    shown: Shown,
    inside: Out,
    outside: Out,
    now: i64,
}

/// Nanoseconds between packets.
const PAUSE: i64 = 1_000_000;

impl Inspector {
    pub fn new(settings: Settings) -> Inspector {
        let (inside, outside) = (Out::default(), Out::default());
        let (tcp, shown) = (Tcp::new(settings), Shown::default());
        Inspector { tcp, conn: None, shown, inside, outside, now: PAUSE }
    }

    fn inspect(&mut self, port: usize, packet: &Packet) {
        let content = packet.content();
        if packet.content_mark().layer() != Layer::Tcp || content.is_empty() {
            return;
        }
        let parts = Parts::of_tcp(packet).expect("what is shown is whole");
        let seq = tcp(packet, &parts).map_or(0, |header| header.seq());
        let from = if port == 0 { Client } else { Server };
        self.shown.add(from, Seq::new(seq), content);
    }
}

impl Middle for Inspector {
    fn pass(&mut self, from: Side, mut packet: Packet, out: &mut Vec<(Side, Packet)>) {
        self.now += PAUSE;
        let conn = *self.conn.get_or_insert_with(|| self.tcp.open().expect("room for one"));
        let port = from as usize;
        packet.set_fcb(port as u32 + 1);
        let arrival = Arrival { conn, direction: port, port, now: self.now };
        self.tcp.arrive(arrival, packet, &mut self.inside);
        for (port, packet) in std::mem::take(&mut self.inside.packets) {
            self.inspect(port, &packet);
            self.tcp.depart(port, packet, self.now, &mut self.outside);
        }
        self.tcp.tick(self.now, &mut self.outside);
        let sides = [Server, Client];
        out.extend(self.outside.packets.drain(..).map(|(port, packet)| (sides[port], packet)));
    }

    fn shown(&self) -> &Shown {
        &self.shown
    }
}

/// What strict receivers read of each connection: the server's, the client's.
pub type Read = [Vec<String>; 2];

pub fn settings(mode: Mode, overlap: Overlap) -> Settings {
    Settings { mode, overlap, pick_up: false, ..Settings::default() }
}

/// Asserts that any receiver reads only inspected bytes of a conversation, with all settings of the
/// engine.
#[track_caller]
pub fn every_mode(talk: &Talk) -> Vec<Read> {
    let overlaps = [Overlap::First, Overlap::Last, Overlap::Linux, Overlap::Solaris];
    let modes = [Mode::Guard, Mode::Map];
    let settings_all =
        modes.iter().flat_map(|mode| overlaps.map(|overlap| settings(*mode, overlap)));
    settings_all.map(|settings| with(talk, settings)).collect()
}

/// The same with one policy.
#[track_caller]
pub fn with_overlap(talk: &Talk, overlap: Overlap) -> Read {
    with(talk, settings(Mode::Guard, overlap))
}

/// What is inspected of both directions where connections are picked up that did not open, or not.
#[track_caller]
pub fn pick_up(talk: &Talk, pick_up: bool) -> [String; 2] {
    let mut inspector =
        Inspector::new(Settings { pick_up, ..settings(Mode::Guard, Overlap::First) });
    let seen = watch(talk, &mut inspector, &SYSTEMS);
    assert_eq!(seen.wrong, [""; 0]);
    assert!(pick_up || seen.left == 0);
    [Client, Server].map(|side| {
        let bytes = inspector.shown.of(side).flat_map(|stretch| stretch.bytes.clone()).collect();
        String::from_utf8(bytes).expect("text")
    })
}

/// Every packet that came has left, is kept, or was dropped for a reason.
#[test]
fn an_honest_talk_passes() {
    let mut talk = Talk::open();
    talk.send(Client, 0, b"hello, ");
    talk.send(Client, 7, b"world");
    talk.ack(Server, 12);
    talk.send(Server, 0, b"hi");
    talk.ack(Client, 2);
    talk.fin(Client, 12, b"");
    talk.fin(Server, 2, b"!");
    talk.ack(Client, 4);
    for mode in [Mode::Order, Mode::Guard, Mode::Map] {
        let mut inspector = Inspector::new(settings(mode, Overlap::First));
        let seen = watch(&talk, &mut inspector, &SYSTEMS);
        assert_eq!(seen.wrong, [""; 0]);
        let drops =
            [&inspector.inside, &inspector.outside].map(|out| out.drops.iter().sum::<u32>());
        assert_eq!(
            (drops, seen.left),
            ([0, 0], seen.came),
            "{mode:?} {:?}",
            inspector.inside.drops
        );
        assert_eq!(seen.read, [["hello, world"], ["hi!"]], "{mode:?}");
    }
}

#[track_caller]
fn with(talk: &Talk, settings: Settings) -> Read {
    let seen = watch(talk, &mut Inspector::new(settings), &SYSTEMS);
    assert!(seen.wrong.is_empty(), "{settings:?}: {:#?}", seen.wrong);
    seen.read
}
