//! A source that does what the stage's events say, an element that notes sessions' records, and a
//! sink that checks their order.

use thruway_element::{Changes, Cx, Element, Entry, Pressing, Run, Spec, Threading};
use thruway_flow::{Ended, Fcb};
use thruway_packet::{Batch, Packet};
use thruway_wire::checksum::checksum_20;

use crate::replica::{KEPT_FREE, LOOK_NS, stamp};
use crate::stage::{Event, Stage, Stamp, with};

/// Rounds without anything under way after which a run ends.
const QUIET_ROUNDS: u32 = 20;
/// Rounds in which everything that waits must have gone.
const ROUNDS_MAX: u32 = 20_000;

pub static SCRIPT: Entry = Entry::new(
    Spec {
        name: "Events",
        ports: "0/1",
        processing: "h/h",
        threading: Threading::Task,
        ..Spec::DEFAULT
    },
    |_| Ok(Box::new(Events { pressing: Pressing::default(), rounds: 0 })),
);

pub static LOOK: Entry =
    Entry::new(Spec { name: "Records", changes: Changes::Nothing, ..Spec::DEFAULT }, |_| {
        Ok(Box::new(Records))
    });

pub static SINK: Entry =
    Entry::new(Spec { name: "Seen", ports: "1/0", processing: "h/h", ..Spec::DEFAULT }, |_| {
        Ok(Box::new(Seen))
    });

pub static REFUSES: Entry =
    Entry::new(Spec { name: "Refuses", ports: "0/0", ..Spec::DEFAULT }, |_| Ok(Box::new(Refuses)));

/// Cannot be initialised.
struct Refuses;

impl Element for Refuses {
    fn initialize(&mut self, _cx: &mut Cx<'_>) -> Result<(), String> {
        Err("it cannot begin".into())
    }
}

struct Events {
    pressing: Pressing,
    rounds: u32,
}

/// A UDP packet of a connection that bears a stamp.
fn packet(stamp: Stamp) -> Packet {
    let mut bytes = [0; 36];
    bytes[..20]
        .copy_from_slice(&[0x45, 0, 0, 36, 0, 0, 0, 0, 64, 17, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2]);
    let sum = checksum_20(bytes.first_chunk().expect("a header"));
    bytes[10..12].copy_from_slice(&sum.to_be_bytes());
    bytes[20..22].copy_from_slice(&(1000 + stamp.of.connection).to_be_bytes());
    bytes[22..28].copy_from_slice(&[0, 53, 0, 16, 0, 0]);
    bytes[28..].copy_from_slice(&stamp.bytes());
    Packet::new(&bytes).expect("memory")
}

impl Events {
    fn send(&mut self, cx: &mut Cx<'_>, connections: &[u16]) {
        for connection in connections.iter().take(KEPT_FREE) {
            let stamp = with(|stage| {
                let of = stage.incarnation(*connection);
                let sent = stage.sent.entry(of).or_default();
                *sent += 1;
                Stamp { of, number: *sent }
            });
            cx.emit(0, packet(stamp));
        }
    }

    fn end(&mut self, cx: &mut Cx<'_>, connection: u16) {
        let Some((level, index)) = with(|stage| stage.records.remove(&connection)) else { return };
        with(|stage| *stage.ended.entry(connection).or_default() += 1);
        cx.transfers().end(|flows| flows.end(level, index, Ended::Removed));
    }

    fn apply(&mut self, cx: &mut Cx<'_>, event: &Event) -> i64 {
        match event {
            // Whoever can wait does: this one sends nothing then.
            Event::Packets(connections) if !self.pressing.is_felt(cx) => self.send(cx, connections),
            Event::Packets(_) => {}
            Event::Move(from, to, count) => {
                let to = to.map_or(String::new(), |to| to.to_string());
                let count = count.map_or(String::new(), |count| count.to_string());
                // Refused: to itself.
                let _ = cx.write_handler("b.move", format!("{from} {to} {count}").trim());
            }
            Event::Dies(of) => with(|stage| stage.replicas[*of].is_dead = true),
            Event::Lives(of) => with(|stage| stage.replicas[*of].is_dead = false),
            Event::Stands(of) => with(|stage| stage.replicas[*of].stands = true),
            Event::Works(of) => with(|stage| stage.replicas[*of].stands = false),
            Event::Ends(connection) => self.end(cx, *connection),
            Event::Swap(begins) => {
                with(|stage| stage.next_begins = *begins);
                cx.stop();
            }
            Event::Passes(looks) => return i64::from(*looks) * LOOK_NS,
        }
        LOOK_NS
    }

    /// Once all events are through: waits for what is under way.
    fn await_end(&mut self, cx: &mut Cx<'_>) {
        let is_moving = cx.read_handler("b.moving").is_ok_and(|moves| !moves.is_empty());
        with(|stage| {
            for replica in &mut stage.replicas {
                (replica.is_dead, replica.stands) = (false, false);
            }
            let waiting: usize = stage.replicas.iter().map(|replica| replica.waiting).sum();
            let is_quiet = waiting == 0 && !is_moving;
            stage.quiet_rounds = if is_quiet { stage.quiet_rounds + 1 } else { 0 };
        });
        self.rounds += 1;
        assert!(self.rounds < ROUNDS_MAX, "a move does not come to its end");
        if with(|stage| stage.quiet_rounds) >= QUIET_ROUNDS {
            with(Stage::close);
            cx.stop();
        }
    }
}

impl Element for Events {
    fn run(&mut self, cx: &mut Cx<'_>) -> Run {
        with(|stage| stage.check());
        let event = with(|stage| stage.events.pop_front());
        let after = match event {
            Some(event) => self.apply(cx, &event),
            None => {
                self.await_end(cx);
                LOOK_NS
            }
        };
        Run::At(cx.now() + after)
    }
}

/// Notes which record each session has.
struct Records;

impl Element for Records {
    fn process(&mut self, _cx: &mut Cx<'_>, _port: usize, batch: &mut Batch) {
        for packet in batch.iter() {
            let record = Fcb(packet.fcb()).session();
            let connection = stamp(packet).of.connection;
            with(|stage| stage.records.insert(connection, record.expect("a session")));
        }
    }
}

/// The end.
struct Seen;

impl Element for Seen {
    fn process(&mut self, _cx: &mut Cx<'_>, _port: usize, batch: &mut Batch) {
        for packet in batch.drain() {
            let Stamp { of, number } = stamp(&packet);
            with(|stage| {
                let seen = stage.seen.entry(of).or_default();
                assert!(seen.last().is_none_or(|last| *last < number), "{of:?}: {number} is late");
                seen.push(number);
            });
        }
    }
}
