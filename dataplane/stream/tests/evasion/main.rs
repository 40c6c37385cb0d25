//! Evasion: attempts to get bytes to a receiver past an inspector (T. Ptacek, T. Newsham:
//! Insertion, Evasion, and Denial of Service, 1998; J. Novak, S. Sturges: Target-Based TCP Stream
//! Reassembly, 2007). Each is tried; whatever the receiver's stack, its application must read
//! exactly the inspected bytes.

mod chance;
mod check;
mod data;
mod endings;
mod engine;
mod fields;
mod forge;
mod openings;
mod receiver;

use check::{Middle, SYSTEMS, Shown, watch};
use forge::{Client, Server, Side, Talk};
use thruway_packet::Packet;
use thruway_stream::segment::{Parts, tcp};
use thruway_stream::tcp::Seq;
use thruway_wire::tcp::flags::SYN;

/// Inspects packets as they come, in order or not, and lets them go on.
#[derive(Default)]
struct Onlooker(Shown);

impl Middle for Onlooker {
    fn pass(&mut self, from: Side, packet: Packet, out: &mut Vec<(Side, Packet)>) {
        if let Ok(parts) = Parts::of_tcp(&packet)
            && let Some(header) = tcp(&packet, &parts)
        {
            let seq = Seq::new(header.seq()) + u32::from(header.has_flags(SYN));
            self.0.add(from, seq, &packet.data()[parts.payload..parts.end]);
        }
        out.push((from.other(), packet));
    }

    fn shown(&self) -> &Shown {
        &self.0
    }
}

/// The checks find what gets past an inspector without a guard; and nothing wrong in an honest
/// conversation.
#[test]
fn an_onlooker_is_evaded() {
    let mut honest = Talk::open();
    honest.send(Client, 0, b"hello, ");
    honest.send(Client, 7, b"world");
    honest.ack(Server, 12);
    honest.send(Server, 0, b"hi");
    honest.fin(Client, 12, b"");
    honest.fin(Server, 2, b"!");
    let seen = watch(&honest, &mut Onlooker::default(), &SYSTEMS);
    assert_eq!(seen.read, [["hello, world"], ["hi!"]]);
    assert_eq!((seen.wrong, seen.came), (Vec::<String>::new(), seen.left));

    let mut sly = Talk::open();
    sly.send(Client, 6, b"file");
    sly.send(Client, 0, b"GET a ");
    sly.send(Client, 4, b"b w");
    let seen = watch(&sly, &mut Onlooker::default(), &SYSTEMS);
    assert!(!seen.wrong.is_empty());
}
