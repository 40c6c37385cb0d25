//! Frames, most of them right, with values that rules are about.

use proptest::prelude::*;

/// What a frame is made of.
#[derive(Clone, Debug)]
pub struct Parts {
    pub tags: Vec<u16>,
    /// In IEEE 802.2 with SNAP.
    pub snap: bool,
    pub family: u8,
    pub version: u8,
    pub traffic_class: u8,
    pub fragment: u16,
    pub ttl: u8,
    pub protocol: u8,
    pub extension: Option<u8>,
    pub src: u8,
    pub dst: u8,
    pub ports: [u16; 2],
    pub flags: u8,
    pub icmp: [u8; 2],
    /// Less than what the lengths say.
    pub cut: usize,
    pub padding: usize,
    pub changed: Option<(usize, u8)>,
}

prop_compose! {
    fn head()(
        tags in prop_oneof![
            8 => Just(vec![]),
            2 => prop::collection::vec(prop::sample::select(&[0x8100, 0x88a8, 0x9100][..]), 1..3),
        ],
        snap in prop::bool::weighted(0.05),
        family in prop_oneof![6 => Just(4u8), 3 => Just(6), 1 => Just(0)],
        version in prop_oneof![15 => Just(None), 1 => (0u8..16).prop_map(Some)],
        traffic_class in prop_oneof![Just(0u8), Just(0xb8), any::<u8>()],
        fragment in prop_oneof![8 => Just(0x4000u16), 1 => Just(0), 1 => Just(0x2000), 1 => 0u16..3],
        ttl in prop_oneof![Just(64u8), 0u8..4],
        protocol in prop_oneof![
            4 => Just(6u8), 3 => Just(17), 2 => Just(1), 2 => Just(58), 1 => Just(132), 1 => any::<u8>()
        ],
        extension in prop_oneof![6 => Just(None), 2 => prop::sample::select(&[0u8, 43, 60, 44, 51][..])
            .prop_map(Some)],
    ) -> Parts {
        Parts {
            tags, snap, family, version: version.unwrap_or(family), traffic_class, fragment, ttl,
            protocol, extension, ..Parts::default()
        }
    }
}

prop_compose! {
    pub fn parts()(
        head in head(),
        src in 0u8..4,
        dst in 0u8..4,
        ports in [0usize..5, 0usize..5],
        flags in prop_oneof![Just(2u8), Just(0x10), Just(0x12), any::<u8>()],
        icmp in [0u8..13, 0u8..3],
        cut in prop_oneof![9 => Just(0usize), 1 => 0usize..30],
        padding in prop_oneof![6 => Just(0usize), 2 => 0usize..20, 1 => 250usize..300],
        changed in prop_oneof![9 => Just(None), 1 => (12usize..80, any::<u8>()).prop_map(Some)],
    ) -> Parts {
        let port = |at: usize| [0, 53, 80, 443, 1024][at];
        Parts { src, dst, ports: ports.map(port), flags, icmp, cut, padding, changed, ..head }
    }
}

impl Default for Parts {
    /// A SYN.
    fn default() -> Parts {
        Parts {
            tags: Vec::new(),
            snap: false,
            family: 4,
            version: 4,
            traffic_class: 0,
            fragment: 0x4000,
            ttl: 64,
            protocol: 6,
            extension: None,
            src: 0,
            dst: 0,
            ports: [0; 2],
            flags: 2,
            icmp: [0; 2],
            cut: 0,
            padding: 0,
            changed: None,
        }
    }
}

impl Parts {
    pub fn frame(&self) -> Vec<u8> {
        let mut frame = vec![2, 0, 0, 0, 0, self.dst, 2, 0, 0, 0, 0, self.src];
        for (number, tag) in self.tags.iter().enumerate() {
            frame.extend(tag.to_be_bytes());
            frame.extend([0, 2 + number as u8]);
        }
        let (ethertype, packet) = match self.family {
            4 => (0x0800_u16, self.ipv4()),
            6 => (0x86dd, self.ipv6()),
            _ => (0x0806, vec![0, 1, 8, 0, 6, 4, 0, 1 + self.src % 2, 0, 0, 0, 0, 0, 0, 0, 0]),
        };
        if self.snap {
            frame.extend((packet.len() as u16 + 8).to_be_bytes());
            frame.extend([0xaa, 0xaa, 3, 0, 0, 0]);
        }
        frame.extend(ethertype.to_be_bytes());
        frame.extend(packet);
        frame.truncate((frame.len() - self.cut.min(frame.len())).max(14));
        frame.extend(std::iter::repeat_n(0, self.padding));
        if let Some((at, byte)) = self.changed
            && let Some(changed) = frame.get_mut(at)
        {
            *changed = byte;
        }
        frame
    }

    fn ipv4(&self) -> Vec<u8> {
        let upper = self.upper();
        let mut packet = vec![self.version << 4 | 5, self.traffic_class];
        packet.extend((20 + upper.len() as u16).to_be_bytes());
        packet.extend([0, 1]);
        packet.extend(self.fragment.to_be_bytes());
        packet.extend([self.ttl, self.protocol, 0, 0]);
        packet.extend([10, self.src, 0, 1, 10, 0, self.dst, 2]);
        packet.extend(upper);
        packet
    }

    fn ipv6(&self) -> Vec<u8> {
        let mut upper = self.upper();
        if let Some(extension) = self.extension {
            let mut header = [self.protocol, 0, 0, 0, 0, 0, 0, 0];
            if extension == 44 {
                header[2..4].copy_from_slice(&(self.fragment & 0x9fff).to_be_bytes());
            }
            upper.splice(0..0, header);
        }
        let mut packet = vec![self.version << 4 | self.traffic_class >> 4, self.traffic_class << 4];
        packet.extend([0, 0]);
        packet.extend((upper.len() as u16).to_be_bytes());
        packet.extend([self.extension.unwrap_or(self.protocol), self.ttl]);
        packet.extend([0x20, 1, 0xd, 0xb8, 0, 0, 0, self.src, 0, 0, 0, 0, 0, 0, 0, 1]);
        packet.extend([0x20, 1, 0xd, 0xb8, 0, 0, 0, self.dst, 0, 0, 0, 0, 0, 0, 0, 2]);
        packet.extend(upper);
        packet
    }

    fn upper(&self) -> Vec<u8> {
        let mut bytes: Vec<u8> = self.ports.iter().flat_map(|port| port.to_be_bytes()).collect();
        match self.protocol {
            6 => bytes.extend([0, 0, 0, 1, 0, 0, 0, 1, 0x50, self.flags, 0xff, 0, 0, 0, 0, 0]),
            17 => bytes.extend([0, 8, 0, 0]),
            1 | 58 => {
                bytes = vec![self.icmp[0], self.icmp[1], 0, 0, 0, 7, 0, 1];
                bytes.extend(self.quoted());
            }
            _ => bytes.extend([0; 12]),
        }
        bytes
    }

    /// What an ICMP error is about: a packet the other way.
    fn quoted(&self) -> Vec<u8> {
        let mut packet = vec![0x45, 0, 0, 28, 0, 1, 0x40, 0, 64, 17, 0, 0];
        packet.extend([10, 0, self.dst, 2, 10, self.src, 0, 1]);
        packet.extend(self.ports.iter().rev().flat_map(|port| port.to_be_bytes()));
        packet.extend([0, 8, 0, 0]);
        packet
    }
}
