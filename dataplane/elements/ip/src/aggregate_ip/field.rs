//! Fields of IP packets by name or place.

use std::net::Ipv4Addr;

use thruway_wire::Header;
use thruway_wire::ip_protocol::{ICMP, TCP, UDP};
use thruway_wire::ipv4::Ipv4Header;
use thruway_wire::tcp::TcpHeader;

/// From where offsets count.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Base {
    Ip,
    /// Behind the IP header, of one of these protocols; of any, if there is none.
    Transport(&'static [u8]),
    /// Behind the TCP or UDP header.
    Data,
}

/// At most 32 bits of a packet, within an aligned word.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Field {
    base: Base,
    /// In bits.
    offset: u32,
    /// In bits, 1 to 32.
    pub(super) length: u32,
}

const ANY: Base = Base::Transport(&[]);
const OF_TCP: Base = Base::Transport(&[TCP]);
const OF_UDP: Base = Base::Transport(&[UDP]);
const OF_BOTH: Base = Base::Transport(&[TCP, UDP]);
const OF_ICMP: Base = Base::Transport(&[ICMP]);

/// Words that say from where offsets count.
const BASES: &[(&str, Base)] = &[
    ("ip", Base::Ip),
    ("tcp", OF_TCP),
    ("udp", OF_UDP),
    ("tcpudp", OF_BOTH),
    ("icmp", OF_ICMP),
    ("transp", ANY),
    ("transport", ANY),
    ("data", Base::Data),
];

/// Names of fields, with offset and length in bits.
const NAMES: &[(&str, Base, u32, u32)] = &[
    ("vers", Base::Ip, 0, 4),
    ("hl", Base::Ip, 4, 4),
    ("tos", Base::Ip, 8, 8),
    ("dscp", Base::Ip, 8, 6),
    ("ecn", Base::Ip, 14, 2),
    ("len", Base::Ip, 16, 16),
    ("id", Base::Ip, 32, 16),
    ("off", Base::Ip, 48, 16),
    ("rf", Base::Ip, 48, 1),
    ("df", Base::Ip, 49, 1),
    ("mf", Base::Ip, 50, 1),
    ("fragoff", Base::Ip, 51, 13),
    ("ttl", Base::Ip, 64, 8),
    ("proto", Base::Ip, 72, 8),
    ("csum", Base::Ip, 80, 16),
    ("sum", Base::Ip, 80, 16),
    ("src", Base::Ip, 96, 32),
    ("dst", Base::Ip, 128, 32),
    ("sport", OF_BOTH, 0, 16),
    ("dport", OF_BOTH, 16, 16),
    ("len", OF_UDP, 32, 16),
    ("csum", OF_UDP, 48, 16),
    ("sum", OF_UDP, 48, 16),
    ("seq", OF_TCP, 32, 32),
    ("seqno", OF_TCP, 32, 32),
    ("ackno", OF_TCP, 64, 32),
    ("hl", OF_TCP, 96, 4),
    ("flags", OF_TCP, 104, 8),
    ("urg", OF_TCP, 106, 1),
    ("ack", OF_TCP, 107, 1),
    ("psh", OF_TCP, 108, 1),
    ("push", OF_TCP, 108, 1),
    ("rst", OF_TCP, 109, 1),
    ("syn", OF_TCP, 110, 1),
    ("fin", OF_TCP, 111, 1),
    ("win", OF_TCP, 112, 16),
    ("window", OF_TCP, 112, 16),
    ("csum", OF_TCP, 128, 16),
    ("sum", OF_TCP, 128, 16),
    ("urp", OF_TCP, 144, 16),
    ("type", OF_ICMP, 0, 8),
    ("code", OF_ICMP, 8, 8),
    ("csum", OF_ICMP, 16, 16),
    ("sum", OF_ICMP, 16, 16),
];

/// Splits a text after its first word of letters and digits.
fn word(text: &str) -> (&str, &str) {
    let end = text.find(|c: char| !c.is_ascii_alphanumeric()).unwrap_or(text.len());
    (&text[..end], text[end..].trim_start())
}

fn number(text: &str) -> Option<u32> {
    let text = text.trim();
    match text.strip_prefix("0x").or(text.strip_prefix("0X")) {
        Some(digits) => u32::from_str_radix(digits, 16).ok(),
        None => text.parse().ok(),
    }
}

impl Base {
    /// Whether a field of base `named` can be asked for with this word in front.
    fn takes(self, named: Base) -> bool {
        match (self, named) {
            (Base::Transport(wanted), Base::Transport(has)) => {
                wanted.is_empty() || wanted.iter().any(|protocol| has.contains(protocol))
            }
            (one, other) => one == other,
        }
    }

    /// The narrower of two, as `tcp sport` is a field of TCP only.
    fn and(self, named: Base) -> Base {
        match (self, named) {
            (Base::Transport(wanted), Base::Transport(has))
                if !wanted.is_empty() && wanted.len() < has.len() =>
            {
                self
            }
            _ => named,
        }
    }

    fn name(self) -> &'static str {
        BASES.iter().find(|(_, base)| *base == self).map_or("", |(name, _)| *name)
    }
}

impl Field {
    /// The field that is written `text`.
    ///
    /// # Errors
    /// The error in it.
    pub(super) fn parse(text: &str) -> Result<Field, String> {
        let text = text.trim();
        let (first, behind) = word(text);
        let base = BASES.iter().find(|(name, _)| *name == first).map(|(_, base)| *base);
        let rest = if base.is_some() { behind } else { text };
        let (field, rest) = match (rest.chars().next(), base) {
            (Some('[' | '{'), Some(base)) => Field::field_at(base, rest)?,
            _ => Field::named(base, rest)?,
        };
        let field = field.masked(rest.trim())?;
        let last = field.offset + field.length - 1;
        if field.offset / 32 != last / 32 {
            return Err("the field does not lie within 32 aligned bits".to_owned());
        }
        Ok(field)
    }

    fn named(base: Option<Base>, text: &str) -> Result<(Field, &str), String> {
        let (name, rest) = word(text);
        let known = || NAMES.iter().filter(move |(known, ..)| *known == name);
        let mut fitting = known().filter(|(_, of, ..)| base.is_none_or(|base| base.takes(*of)));
        let among = || {
            let names: Vec<&str> = known().map(|(_, base, ..)| base.name()).collect();
            names.join(", ")
        };
        let Some((_, of, offset, length)) = fitting.next() else {
            return Err(match (name, among()) {
                ("", _) => "the name of a field is missing".to_owned(),
                (_, among) if among.is_empty() => format!("'{name}' is not the name of a field"),
                (_, among) => format!("'{name}' is a field of {among}"),
            });
        };
        if fitting.next().is_some() {
            return Err(format!("'{name}' is ambiguous: say of which of {}", among()));
        }
        let base = base.map_or(*of, |base| base.and(*of));
        Ok((Field { base, offset: *offset, length: *length }, rest))
    }

    /// `[OFFSET, LENGTH]`, `{FIRST-LAST}` and so on.
    fn field_at(base: Base, text: &str) -> Result<(Field, &str), String> {
        let (close, bits) = if text.starts_with('[') { (']', 8) } else { ('}', 1) };
        let (inside, rest) =
            text[1..].split_once(close).ok_or_else(|| format!("'{close}' is missing"))?;
        let wrong = || format!("'{inside}': expected OFFSET, or OFFSET, LENGTH, or FIRST-LAST");
        let two = |separator| {
            let (a, b) = inside.split_once(separator)?;
            Some((number(a)?, number(b)?))
        };
        let last = |(first, last): (u32, u32)| Some((first, last.checked_sub(first)? + 1));
        let pair = two(',').or_else(|| two('+')).or_else(|| two('-').and_then(last));
        let (offset, length) = pair.or_else(|| Some((number(inside)?, 1))).ok_or_else(wrong)?;
        let scaled = |n: u32| n.checked_mul(bits).filter(|n| *n < 1 << 20);
        match (scaled(offset), scaled(length)) {
            (Some(offset), Some(length @ 1..=32)) => Ok((Field { base, offset, length }, rest)),
            _ => Err(format!("'{inside}': a field has 1 to 32 bits")),
        }
    }

    /// The part that `/N`, `/ADDRESS` or `& MASK` leaves.
    fn masked(self, text: &str) -> Result<Field, String> {
        if text.is_empty() {
            return Ok(self);
        }
        if let Some(bits) = text.strip_prefix('/') {
            if let Some(length) = number(bits) {
                return match length {
                    1.. if length <= self.length => Ok(Field { length, ..self }),
                    _ => Err(format!("/N must be from /1 to /{}", self.length)),
                };
            }
            return match bits.trim().parse::<Ipv4Addr>() {
                Ok(mask) if self.length == 32 => self.with_mask(mask.to_bits()),
                Ok(_) => Err("/ADDRESS is for fields of 32 bits".to_owned()),
                Err(_) => Err(format!("'{bits}': expected /N or /ADDRESS")),
            };
        }
        match text.strip_prefix('&').and_then(number) {
            Some(mask) => self.with_mask(mask),
            None => Err(format!("'{text}': expected /N or & MASK")),
        }
    }

    fn with_mask(self, mask: u32) -> Result<Field, String> {
        let (high, low) = (mask.leading_zeros(), mask.trailing_zeros());
        if mask == 0 || mask.count_ones() != 32 - high - low {
            return Err("the bits of the mask must be next to one another".to_owned());
        }
        // Bits of the mask that the field does not have.
        let beyond = 32 - self.length;
        if high < beyond {
            return Err("the mask is longer than the field".to_owned());
        }
        Ok(Field { offset: self.offset + high - beyond, length: 32 - high - low, ..self })
    }

    /// The value in a packet that begins with its IP header.
    #[inline]
    pub(super) fn of(&self, network: &[u8]) -> Option<u32> {
        let (ip, _, body) = Ipv4Header::parse_cut(network).ok()?;
        let bytes = match self.base {
            Base::Ip => network,
            Base::Transport(protocols) => {
                let fits = protocols.is_empty() || protocols.contains(&ip.protocol());
                if !fits || !ip.is_first_fragment() {
                    return None;
                }
                body
            }
            Base::Data if !ip.is_first_fragment() => return None,
            Base::Data => match ip.protocol() {
                TCP => TcpHeader::parse(body).ok()?.1,
                UDP => body.get(8..)?,
                _ => return None,
            },
        };
        let first = (self.offset / 32 * 4) as usize;
        let last = ((self.offset + self.length - 1) / 8) as usize;
        let mut word = [0; 4];
        let there = bytes.get(first..=last)?;
        word[..there.len()].copy_from_slice(there);
        let value = u32::from_be_bytes(word) << (self.offset % 32);
        Some(value >> (32 - self.length))
    }
}

impl std::fmt::Display for Field {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}{{{}, {}}}", self.base.name(), self.offset, self.length)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn text_of(text: &str) -> String {
        Field::parse(text).map_or_else(|why| why, |field| field.to_string())
    }

    #[test]
    fn equivalent_spellings() {
        for text in [
            "ip src/8",
            "ip src & 0xFF000000",
            "ip src/255.0.0.0",
            "ip[12]",
            "ip[12, 1]",
            "ip [12+1]",
            "ip{96, 8}",
            "ip{96-103}",
            "src / 8",
        ] {
            assert_eq!(text_of(text), "ip{96, 8}", "{text}");
        }
        assert_eq!(text_of("ip[8, 2] & 0x3F0"), "ip{70, 6}");
        assert_eq!(text_of("tcp sport"), "tcp{0, 16}");
        assert_eq!(text_of("dport"), "tcpudp{16, 16}");
        assert_eq!(text_of("data[0]"), "data{0, 8}");
    }

    #[test]
    fn mistakes() {
        for text in [
            "",
            "ip",
            "ip bla",
            "sum",
            "icmp sport",
            "ip src/33",
            "ip src/0",
            "ip src & 5",
            "ip ttl & 256",
            "ip[3, 2]",
            "ip[0, 5]",
            "ip{3",
            "ip[5-3]",
            "ip ttl/1.2.3.4",
            "ip ttl x",
            "ip[99999999]",
            "[3]",
        ] {
            assert!(Field::parse(text).is_err(), "{text}");
        }
    }

    proptest! {
        /// Bit by bit.
        #[test]
        fn values(bytes in prop::collection::vec(any::<u8>(), 20..40), at in 0u32..300, len in 1u32..33) {
            let mut bytes = bytes;
            bytes[0] = 0x45;
            let Ok(field) = Field::parse(&format!("ip{{{at}, {len}}}")) else { return Ok(()) };
            let bit = |n: u32| {
                Some(u32::from(*bytes.get((n / 8) as usize)? >> (7 - n % 8) & 1))
            };
            let wanted = (at..at + len).try_fold(0u32, |value, n| Some(value << 1 | bit(n)?));
            prop_assert_eq!(field.of(&bytes), wanted);
        }

        #[test]
        fn any_text(text in "[a-z]{0,5} ?[a-z0-9\\[\\]{},+/& -]{0,12}", bytes in prop::collection::vec(any::<u8>(), 0..60)) {
            if let Ok(field) = Field::parse(&text) {
                field.of(&bytes);
            }
        }
    }
}
