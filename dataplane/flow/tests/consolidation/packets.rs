//! Packets of few values, with a plain reading of their fields.

use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::select;
use std::fmt;
use thruway_flow::PacketView;
use thruway_flow::ast::Base;
use thruway_flow::plan::Family;
use thruway_flow::session::{KeyField, SessionDef};

/// A frame, and where its headers begin.
#[derive(Clone)]
pub struct Packet {
    pub frame: Vec<u8>,
    pub network: usize,
    pub transport: usize,
}

/// What a packet is made from.
#[derive(Clone, Debug)]
pub struct Recipe {
    pub family: u8,
    pub vlan: Option<u16>,
    pub ends: [u8; 2],
    pub ports: [u16; 2],
    pub protocol: u8,
    pub ttl: u8,
    /// A later fragment (IPv4), or with a header of options before the transport's (IPv6).
    pub odd: bool,
}

impl Recipe {
    pub fn packet(&self) -> Packet {
        let mut frame = vec![0; 12];
        if let Some(vlan) = self.vlan {
            frame.extend([0x81, 0x00]);
            frame.extend(vlan.to_be_bytes());
        }
        let protocol = if self.family == 1 && self.protocol == 1 { 58 } else { self.protocol };
        match self.family {
            0 => {
                frame.extend([0x08, 0x00]);
                let network = frame.len();
                let offset = u8::from(self.odd) * 7;
                frame.extend([0x45, 0, 0, 40, 0, 0, 0, offset, self.ttl, protocol, 0, 0]);
                self.ends.iter().for_each(|end| frame.extend([10, 0, 0, *end]));
                let transport = frame.len();
                self.transport(frame, network, transport)
            }
            1 => {
                frame.extend([0x86, 0xdd]);
                let network = frame.len();
                let next = if self.odd { 0 } else { protocol };
                frame.extend([0x60, 0, 0, 0, 0, 28, next, self.ttl]);
                for end in self.ends {
                    frame.extend([0x20, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, end]);
                }
                if self.odd {
                    frame.extend([protocol, 0, 0, 0, 0, 0, 0, 0]);
                }
                let transport = frame.len();
                self.transport(frame, network, transport)
            }
            _ => {
                frame.extend([0x08, 0x06, 0, 1, 8, 0, 6, 4, 0, self.ends[0]]);
                frame.extend([0; 20]);
                let len = frame.len();
                Packet { frame, network: len, transport: len }
            }
        }
    }

    fn transport(&self, mut frame: Vec<u8>, network: usize, transport: usize) -> Packet {
        if self.protocol == 1 {
            // Where others have their destination port it has a checksum.
            frame.extend([8, 0]);
            frame.extend(self.ports[1].to_be_bytes());
            frame.extend(self.ports[0].to_be_bytes());
            frame.extend([0; 10]);
        } else {
            self.ports.iter().for_each(|port| frame.extend(port.to_be_bytes()));
            frame.extend([0; 16]);
        }
        Packet { frame, network, transport }
    }

    fn opposite(&self) -> Recipe {
        let (ends, ports) = (self.ends, self.ports);
        Recipe { ends: [ends[1], ends[0]], ports: [ports[1], ports[0]], ..self.clone() }
    }
}

impl fmt::Debug for Packet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}:", self.network, self.transport)?;
        self.frame.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl Packet {
    pub fn view(&self) -> PacketView<'_> {
        PacketView {
            frame: &self.frame,
            network: self.frame.get(self.network..).unwrap_or(&[]),
            transport: self.frame.get(self.transport..).unwrap_or(&[]),
        }
    }

    pub fn family(&self) -> Family {
        match self.view().network.first().map(|b| b >> 4) {
            Some(4) => Family::V4,
            Some(6) => Family::V6,
            _ => Family::Other,
        }
    }

    fn bytes(&self, base: Base, at: usize, len: usize) -> Option<u64> {
        let view = self.view();
        let bytes = match base {
            Base::Frame => view.frame,
            Base::Network => view.network,
            Base::Transport => view.transport,
        };
        let bytes = bytes.get(at..at + len)?;
        // Addresses of IPv6 differ in their last bytes only.
        Some(bytes.iter().fold(0, |value, byte| value << 8 | u64::from(*byte)))
    }

    fn protocol(&self) -> Option<u64> {
        match self.family() {
            Family::V4 => self.bytes(Base::Network, 9, 1),
            Family::V6 => match self.bytes(Base::Network, 6, 1)? {
                0 => self.bytes(Base::Network, 40, 1),
                next => Some(next),
            },
            Family::Other => None,
        }
    }

    fn is_later_fragment(&self) -> bool {
        self.family() == Family::V4 && self.bytes(Base::Network, 7, 1) != Some(0)
    }

    pub fn field(&self, field: &KeyField) -> Option<u64> {
        let family = self.family();
        let end = |at4: usize, at6: usize| match family {
            Family::V4 => self.bytes(Base::Network, at4, 4),
            Family::V6 => self.bytes(Base::Network, at6 + 8, 8),
            Family::Other => None,
        };
        match field {
            KeyField::Src => end(12, 8),
            KeyField::Dst => end(16, 24),
            KeyField::Protocol => self.protocol(),
            KeyField::SrcPort | KeyField::DstPort if self.is_later_fragment() => None,
            KeyField::SrcPort | KeyField::DstPort => match self.protocol()? {
                1 | 58 => self.bytes(Base::Transport, 4, 2),
                _ => {
                    self.bytes(Base::Transport, if *field == KeyField::SrcPort { 0 } else { 2 }, 2)
                }
            },
            KeyField::Word(word) => {
                let four = self.bytes(word.base, usize::from(word.at), 4)?;
                Some(four & u64::from(word.mask))
            }
            KeyField::Program(_) => None,
        }
    }

    /// Whether both are of one session, by the definition alone; `None`: one has no session.
    pub fn same_session(&self, other: &Packet, session: &SessionDef) -> Option<bool> {
        let of_ip =
            !session.fields.iter().all(|f| matches!(f, KeyField::Word(w) if w.base == Base::Frame));
        let mine: Vec<u64> = session.fields.iter().map(|f| self.field(f)).collect::<Option<_>>()?;
        let theirs = session.fields.iter().map(|f| other.field(f));
        let theirs: Vec<u64> = theirs.collect::<Option<_>>()?;
        let mirrored = session.fields.iter().map(|f| other.field(&f.mirrored()?));
        let mirrored: Option<Vec<u64>> = mirrored.collect();
        let same = mine == theirs || session.bidirectional && Some(mine) == mirrored;
        Some(same && (!of_ip || self.family() == other.family()))
    }
}

pub fn recipe() -> impl Strategy<Value = Recipe> {
    let families = select(&[0_u8, 0, 0, 1, 1, 2][..]);
    let vlan = select(&[None, None, None, Some(5), Some(6)][..]);
    let ports = select(&[80_u16, 81, 1024, 40000][..]);
    let protocol = select(&[6_u8, 6, 17, 1][..]);
    let ttl = select(&[1_u8, 64][..]);
    let ends = (1..4_u8, 1..4_u8);
    let odd = proptest::bool::weighted(0.2);
    (families, vlan, ends, (ports.clone(), ports), protocol, ttl, odd).prop_map(
        |(family, vlan, ends, ports, protocol, ttl, odd)| Recipe {
            family,
            vlan,
            ends: ends.into(),
            ports: ports.into(),
            protocol,
            ttl,
            odd,
        },
    )
}

/// Packets of all sorts, some cut short.
pub fn packets() -> impl Strategy<Value = Vec<Packet>> {
    let packet = (recipe(), prop_oneof![4 => Just(usize::MAX), 1 => 0..60_usize]);
    let packet = packet.prop_map(|(recipe, len)| {
        let mut packet = recipe.packet();
        packet.frame.truncate(len);
        packet
    });
    vec(packet, 1..24)
}

/// Packets of both directions of some connections, differing also in what no session looks at.
pub fn connections() -> impl Strategy<Value = Vec<Packet>> {
    vec((recipe(), any::<bool>()), 1..12).prop_map(|recipes| {
        let both = recipes.into_iter().flat_map(|(recipe, other)| {
            let again = Recipe { ttl: recipe.ttl ^ 65, ..recipe.clone() };
            let vlan = Recipe { vlan: None, ..recipe.clone() };
            let other_protocol = Recipe { protocol: 23 - recipe.protocol.max(6), ..recipe.clone() };
            let third = match (other, recipe.odd) {
                (true, true) => other_protocol,
                (true, false) => again,
                (false, _) => vlan,
            };
            [recipe.opposite(), recipe, third]
        });
        both.map(|recipe| recipe.packet()).collect()
    })
}
