//! A NAT with a plain flow manager; packets are compared with such as are written anew.

mod behaviour;
mod flood;
mod random;
mod refusals;

use std::net::Ipv4Addr;

use thruway_element::{Addresses, Env, Shared, Verdict};

use super::*;
use crate::alone::{Table, Tuple, tuple_of};
use crate::plain::{Plain, error_about};

/// Builds the element for thread `thread.0` of `thread.1`.
fn nat_of(texts: &[&str], outputs: usize, thread: (usize, usize)) -> Result<Nat, ArgErrors> {
    let texts: Vec<String> = texts.iter().map(|text| (*text).to_owned()).collect();
    let (addresses, shared) = (Addresses::default(), Shared::default());
    let env = Env::alone("nat", "NAT", &addresses, &shared);
    let env =
        Env { thread: thread.0, threads: thread.1, rank: thread.0, inputs: 2, outputs, ..env };
    let own = [("eth7".to_owned(), Ipv4Addr::new(192, 0, 2, 77))];
    Nat::new(&Args::sort(&ENTRY.spec, &texts, &env)?, &own)
}

/// With tables that are soon made.
fn small<'a>(texts: &[&'a str]) -> Vec<&'a str> {
    texts.iter().copied().chain(["MAPPINGS 1000"]).collect()
}

/// Outcome for a packet: the output and its bytes, or why it was dropped.
type Outcome = Result<(usize, Vec<u8>), &'static str>;

/// A translator and its sessions.
struct World(Table<Translator>);

impl World {
    fn new(texts: &[&str]) -> World {
        World(Table::new(nat_of(&small(texts), 2, (0, 1)).unwrap().translator))
    }

    fn with_local(texts: &[&str]) -> World {
        World(Table::new(nat_of(&small(texts), 3, (0, 1)).unwrap().translator))
    }

    fn push(&mut self, input: u8, bytes: &[u8]) -> Outcome {
        self.0.function.input = input;
        let (verdict, packet) = self.0.push(bytes);
        match verdict {
            Verdict::Pass => Ok((0, packet.data().to_vec())),
            Verdict::To(port) => Ok((port, packet.data().to_vec())),
            Verdict::Drop(reason) | Verdict::Reject(_, reason) => {
                Err(NatDrop::DROPS[usize::from(reason.0)].name)
            }
        }
    }

    /// Sends a packet, and reads what leaves.
    fn send(&mut self, input: u8, plain: &Plain) -> Result<(usize, Plain), &'static str> {
        let (output, bytes) = self.push(input, &plain.written())?;
        Ok((output, read(&bytes, plain)))
    }
}

fn ip(text: &str) -> u32 {
    text.parse::<Ipv4Addr>().unwrap().to_bits()
}

/// The first packet from one end to another, written `ADDRESS:PORT`.
fn first(protocol: u8, src: &str, dst: &str) -> Plain {
    let ((src, src_port), (dst, dst_port)) = (end(src), end(dst));
    Plain::first(Tuple { src, dst, src_port, dst_port, protocol })
}

/// `ADDRESS:PORT`.
fn end(text: &str) -> (u32, u16) {
    let (addr, port) = text.split_once(':').unwrap();
    (ip(addr), port.parse().unwrap())
}

/// What left, in plain words: addresses and ports may differ from those of `like`, and nothing
/// else does; checksums are right.
fn read(bytes: &[u8], like: &Plain) -> Plain {
    let tuple = tuple_of(bytes).unwrap();
    let (src, dst) = ((tuple.src, tuple.src_port), (tuple.dst, tuple.dst_port));
    let read = Plain { src, dst, ..like.clone() };
    assert_eq!(read.written(), bytes, "a checksum or another field is wrong");
    read
}

const SNAT: &str = "SNAT 10.0.0.0/8 -> 192.0.2.1";
const TCP: u8 = 6;
const UDP: u8 = 17;
const ICMP: u8 = 1;
