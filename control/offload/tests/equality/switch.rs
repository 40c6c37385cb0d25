//! What Open vSwitch reads in a frame, written down from its source (`lib/flow.c`): the oracle's
//! own reading, which has nothing of what makes the rules.

use thruway_offload::fields::{FIELDS, Field};

/// Values of all fields.
pub type Fields = [u128; FIELDS];

struct Reader<'a> {
    rest: &'a [u8],
    fields: Fields,
}

fn word(bytes: &[u8], at: usize) -> u16 {
    u16::from_be_bytes([bytes[at], bytes[at + 1]])
}

fn number(bytes: &[u8]) -> u128 {
    bytes.iter().fold(0, |number, byte| number << 8 | u128::from(*byte))
}

/// Reads a frame of at least 14 bytes.
pub fn read(frame: &[u8]) -> Fields {
    let mut reader = Reader { rest: &frame[12..], fields: [0; FIELDS] };
    reader.set(Field::EthDst, number(&frame[..6]));
    reader.set(Field::EthSrc, number(&frame[6..12]));
    reader.ethernet();
    reader.fields
}

impl Reader<'_> {
    fn set(&mut self, field: Field, value: u128) {
        self.fields[field as usize] = value;
    }

    fn pull(&mut self, len: usize) {
        self.rest = &self.rest[len..];
    }

    fn ethernet(&mut self) {
        if [0x8100, 0x88a8].contains(&word(self.rest, 0)) && self.rest.len() >= 6 {
            self.set(Field::Vlan, u128::from(word(self.rest, 2) | 0x1000) & 0x1fff);
            self.pull(4);
        }
        let ethertype = self.ethertype();
        self.set(Field::EthType, u128::from(ethertype));
        match ethertype {
            0x0800 => self.ipv4(),
            0x86dd => self.ipv6(),
            _ => None,
        };
    }

    /// Also behind IEEE 802.2 with SNAP.
    fn ethertype(&mut self) -> u16 {
        let first = word(self.rest, 0);
        self.pull(2);
        if first >= 0x600 {
            return first;
        }
        if self.rest.len() >= 8 && self.rest[..6] == [0xaa, 0xaa, 3, 0, 0, 0] {
            let ethertype = word(self.rest, 6);
            self.pull(8);
            if ethertype >= 0x600 {
                return ethertype;
            }
        }
        0x05ff
    }

    /// The version is not looked at.
    fn ipv4(&mut self) -> Option<()> {
        let head = *self.rest.first_chunk::<20>()?;
        let (header_len, total) = (usize::from(head[0] & 15) * 4, usize::from(word(&head, 2)));
        let size = self.rest.len();
        if header_len < 20 || size < header_len || total > size || header_len > total {
            return None;
        }
        if size - total > 255 {
            return None;
        }
        self.rest = &self.rest[header_len..total];
        self.set(Field::IpDscp, u128::from(head[1] >> 2));
        self.set(Field::IpEcn, u128::from(head[1] & 3));
        self.set(Field::IpTtl, u128::from(head[8]));
        self.set(Field::IpProtocol, u128::from(head[9]));
        self.set(Field::Ipv4Src, number(&head[12..16]));
        self.set(Field::Ipv4Dst, number(&head[16..20]));
        let fragment = word(&head, 6);
        self.fragment(fragment & 0x3fff != 0, fragment & 0x1fff != 0);
        (fragment & 0x1fff == 0).then(|| self.transport(head[9]))
    }

    fn fragment(&mut self, any: bool, later: bool) {
        self.set(Field::IpFragment, u128::from(any) | u128::from(later) << 1);
    }

    fn ipv6(&mut self) -> Option<()> {
        let head = *self.rest.first_chunk::<40>()?;
        let len = usize::from(word(&head, 4));
        let size = self.rest.len() - 40;
        if len > size || size - len > 255 {
            return None;
        }
        self.rest = &self.rest[40..40 + len];
        self.set(Field::Ipv6Src, number(&head[8..24]));
        self.set(Field::Ipv6Dst, number(&head[24..40]));
        let mut next = head[6];
        let mut later = false;
        loop {
            let len = match next {
                0 | 43 | 60 => usize::from(*self.rest.get(1)?) * 8 + 8,
                51 => usize::from(*self.rest.get(1)?) * 4 + 8,
                44 => 8,
                _ => break,
            };
            let header = self.rest.get(..len)?;
            if next == 44 {
                let offset = word(header, 2);
                later = offset & 0xfff8 != 0;
                self.fragment(offset & 0xfff9 != 0, later);
            }
            if later {
                break;
            }
            next = header[0];
            self.pull(len);
        }
        self.set(Field::IpDscp, (number(&head[..2]) >> 6) & 0x3f);
        self.set(Field::IpEcn, (number(&head[..2]) >> 4) & 3);
        self.set(Field::IpTtl, u128::from(head[7]));
        self.set(Field::IpProtocol, u128::from(next));
        (!later).then(|| self.transport(next))
    }

    fn transport(&mut self, protocol: u8) {
        let bytes = self.rest;
        let (ports, icmp) = match protocol {
            6 => (bytes.len() >= 20, false),
            17 => (bytes.len() >= 8, false),
            132 => (bytes.len() >= 12, false),
            1 => (false, bytes.len() >= 8),
            58 => (false, bytes.len() >= 4),
            _ => (false, false),
        };
        if ports {
            self.set(Field::PortSrc, u128::from(word(bytes, 0)));
            self.set(Field::PortDst, u128::from(word(bytes, 2)));
        }
        if protocol == 6 && ports {
            self.set(Field::TcpFlags, u128::from(word(bytes, 12) & 0x0fff));
        }
        if icmp {
            self.set(Field::IcmpType, u128::from(bytes[0]));
            self.set(Field::IcmpCode, u128::from(bytes[1]));
        }
    }
}
