//! Invalid segments, and conversations made of them.

use thruway_packet::Packet;
use thruway_wire::checksum::{Sum, checksum};
use thruway_wire::ip_protocol;
use thruway_wire::tcp::flags::{ACK, FIN, PSH, RST, SYN};

/// An end of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Side {
    Client,
    Server,
}

pub use Side::{Client, Server};

impl Side {
    pub fn other(self) -> Side {
        if self == Client { Server } else { Client }
    }
}

/// What is wrong with a segment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Spoilt {
    Not,
    /// The checksum of TCP.
    Checksum,
    /// The length of the TCP header, in words.
    HeaderWords(u8),
    /// The length of the IP packet is this much more (less).
    IpLength(i16),
}

/// Ports of the two ends, where nothing else is said.
pub const PORTS: [u16; 2] = [1000, 80];

/// A segment, whatever one likes.
#[derive(Debug, Clone)]
pub struct Forged {
    pub from: Side,
    pub client_port: u16,
    pub seq: u32,
    pub ack: u32,
    pub flags: u8,
    pub window: u16,
    pub urgent: u16,
    /// Whole words.
    pub options: Vec<u8>,
    pub payload: Vec<u8>,
    pub ttl: u8,
    pub spoilt: Spoilt,
}

impl Forged {
    /// The frame, with headers marked as a classifier marks them.
    pub fn packet(&self) -> Packet {
        let (mut src, mut dst) = ([10, 0, 0, 1], [10, 0, 0, 2]);
        let (mut from, mut to) = (self.client_port, PORTS[1]);
        if self.from == Server {
            std::mem::swap(&mut src, &mut dst);
            std::mem::swap(&mut from, &mut to);
        }
        let mut tcp = Vec::new();
        tcp.extend([from.to_be_bytes(), to.to_be_bytes()].concat());
        tcp.extend([self.seq.to_be_bytes(), self.ack.to_be_bytes()].concat());
        let words = 5 + self.options.len() as u8 / 4;
        let words = if let Spoilt::HeaderWords(words) = self.spoilt { words } else { words };
        tcp.extend([words << 4, self.flags]);
        tcp.extend([self.window.to_be_bytes(), [0, 0], self.urgent.to_be_bytes()].concat());
        tcp.extend(&self.options);
        tcp.extend(&self.payload);
        let addresses = (u32::from_be_bytes(src), u32::from_be_bytes(dst));
        let pseudo = Sum::pseudo_v4(addresses.0, addresses.1, ip_protocol::TCP, tcp.len());
        let mut sum = pseudo.with(&tcp).checksum();
        if self.spoilt == Spoilt::Checksum {
            sum ^= 0x5555;
        }
        tcp[16..18].copy_from_slice(&sum.to_be_bytes());

        let more = if let Spoilt::IpLength(more) = self.spoilt { more } else { 0 };
        let length = (20 + tcp.len() as u16).wrapping_add_signed(more);
        let mut ip = vec![0x45, 0];
        ip.extend(length.to_be_bytes());
        ip.extend([0, 1, 0x40, 0, self.ttl, 6, 0, 0]);
        ip.extend([src, dst].concat());
        let sum = checksum(&ip);
        ip[10..12].copy_from_slice(&sum.to_be_bytes());
        let mut frame = vec![2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1, 8, 0];
        frame.extend(ip);
        frame.extend(tcp);
        let mut packet = Packet::new(&frame).expect("packet memory");
        packet.set_mac_offset(0);
        packet.set_network(14, 20);
        packet
    }
}

/// A conversation: what both ends send, in the order in which it comes to the middle. Places are
/// counted from each direction's first byte of data.
pub struct Talk {
    /// Numbers of the SYNs of client and server.
    pub begin: [u32; 2],
    /// Place behind the last byte that each said.
    sent: [u32; 2],
    pub client_port: u16,
    pub segments: Vec<Forged>,
}

impl Talk {
    /// Nothing said yet.
    pub fn silent() -> Talk {
        // Both come around the end of the numbers soon.
        let begin = [u32::MAX - 5, u32::MAX - 2000];
        Talk { begin, sent: [0; 2], client_port: PORTS[0], segments: Vec::new() }
    }

    /// After the handshake.
    pub fn open() -> Talk {
        let mut talk = Talk::silent();
        talk.handshake();
        talk
    }

    pub fn handshake(&mut self) {
        self.syn();
        self.syn_ack();
        self.ack(Client, 0);
    }

    pub fn syn(&mut self) -> &mut Forged {
        let seq = self.begin[0];
        let syn = self.push(Client, 0, b"");
        (syn.seq, syn.ack, syn.flags) = (seq, 0, SYN);
        syn
    }

    pub fn syn_ack(&mut self) -> &mut Forged {
        let seq = self.begin[1];
        let syn = self.push(Server, 0, b"");
        (syn.seq, syn.flags) = (seq, SYN | ACK);
        syn
    }

    /// A new connection of the same ends.
    pub fn again(&mut self, begin: [u32; 2]) {
        (self.begin, self.sent) = (begin, [0; 2]);
    }

    /// Data at a place, with an acknowledgement of all that the other side said.
    pub fn send(&mut self, from: Side, at: i32, bytes: &[u8]) -> &mut Forged {
        let end = at + bytes.len() as i32;
        let sent = &mut self.sent[from as usize];
        *sent = (*sent).max(end.max(0) as u32);
        self.push(from, at, bytes)
    }

    /// The same, but what it says counts as not said.
    pub fn push(&mut self, from: Side, at: i32, bytes: &[u8]) -> &mut Forged {
        let number =
            |side: Side, at: i32| self.begin[side as usize].wrapping_add(1).wrapping_add_signed(at);
        let seq = number(from, at);
        let ack = number(from.other(), self.sent[from.other() as usize] as i32);
        self.segments.push(Forged {
            from,
            client_port: self.client_port,
            seq,
            ack,
            flags: if bytes.is_empty() { ACK } else { ACK | PSH },
            window: 0xffff,
            urgent: 0,
            options: Vec::new(),
            payload: bytes.to_vec(),
            ttl: 64,
            spoilt: Spoilt::Not,
        });
        self.segments.last_mut().expect("just pushed")
    }

    /// An acknowledgement of what the other side said up to a place.
    pub fn ack(&mut self, from: Side, upto: i32) -> &mut Forged {
        let at = self.sent[from as usize] as i32;
        let other = self.begin[from.other() as usize].wrapping_add(1).wrapping_add_signed(upto);
        let ack = self.push(from, at, b"");
        ack.ack = other;
        ack
    }

    pub fn fin(&mut self, from: Side, at: i32, bytes: &[u8]) -> &mut Forged {
        self.send(from, at, bytes).flags |= FIN;
        self.sent[from as usize] += 1;
        self.segments.last_mut().expect("just said")
    }

    pub fn rst(&mut self, from: Side, at: i32) -> &mut Forged {
        let rst = self.push(from, at, b"");
        rst.flags = RST;
        rst
    }
}
