//! Names of fields and values, for people.

use std::net::Ipv4Addr;

use crate::ast::{Base, Word};
use crate::names::PROTOS;

/// Some bits of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Field {
    pub base: Base,
    pub at: u16,
    pub mask: u32,
}

/// How a value is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Form {
    Hex(usize),
    Decimal,
    Protocol,
    Address,
}

const FIELDS: &[(Base, u16, u32, &str, Form)] = &[
    (Base::Frame, 12, 0xffff_0000, "ethertype", Form::Hex(4)),
    (Base::Frame, 20, 0xffff_0000, "arp operation", Form::Decimal),
    (Base::Network, 0, 0xf000_0000, "ip version", Form::Decimal),
    (Base::Network, 8, 0x00ff_0000, "proto", Form::Protocol),
    (Base::Network, 4, 0x0000_ff00, "ip6 next", Form::Protocol),
    (Base::Network, 8, 0xff00_0000, "ttl", Form::Decimal),
    (Base::Network, 4, 0x0000_1fff, "fragment offset", Form::Decimal),
    (Base::Network, 12, u32::MAX, "src", Form::Address),
    (Base::Network, 16, u32::MAX, "dst", Form::Address),
    (Base::Transport, 0, 0xffff_0000, "src port", Form::Decimal),
    (Base::Transport, 0, 0x0000_ffff, "dst port", Form::Decimal),
];

impl Field {
    pub(crate) fn of(word: &Word) -> Field {
        Field { base: word.base, at: word.at, mask: word.mask }
    }

    /// The known field that these bits are all of, or the upper bits of an address.
    fn known(&self) -> Option<(&'static str, Form)> {
        let found = FIELDS.iter().find(|(base, at, mask, _, form)| {
            let prefix = *form == Form::Address && (!self.mask).wrapping_add(1) & !self.mask == 0;
            (*base, *at) == (self.base, self.at) && (*mask == self.mask || prefix)
        });
        found.map(|(_, _, _, name, form)| (*name, *form))
    }

    fn shift(&self) -> u32 {
        self.mask.trailing_zeros().min(31)
    }

    pub(crate) fn name(&self) -> String {
        self.known().map_or_else(
            || {
                let base = match self.base {
                    Base::Frame => "frame",
                    Base::Network => "ip",
                    Base::Transport => "transp",
                };
                format!("{base}[{}]/{:08x}", self.at, self.mask)
            },
            |(name, _)| name.to_owned(),
        )
    }

    /// A value as it stands in the masked word.
    pub(crate) fn value(&self, word: u32) -> String {
        match self.known() {
            Some((_, Form::Address)) if self.mask != u32::MAX => {
                format!("{}/{}", Ipv4Addr::from(word), self.mask.count_ones())
            }
            Some((_, form)) => number(form, word >> self.shift()),
            None => format!("{:x}", word >> self.shift()),
        }
    }

    /// Values as intervals of the field's own numbers, or, if that is shorter, as the excluded
    /// ones.
    pub(crate) fn values(&self, intervals: &[(u32, u32)]) -> String {
        let form = self.known().map_or(Form::Hex(0), |(_, form)| form);
        let gaps = gaps(intervals, self.mask >> self.shift());
        let ranges = |list: &[(u32, u32)]| list.iter().filter(|(lo, hi)| lo != hi).count();
        let (not, of) = if ranges(&gaps) < ranges(intervals) && gaps.len() <= intervals.len() {
            ("not ", gaps.as_slice())
        } else {
            ("", intervals)
        };
        let texts: Vec<String> = of.iter().map(|part| interval(form, *part)).collect();
        format!("{not}{}", texts.join(" or "))
    }

    /// A test, as a condition.
    pub(crate) fn condition(word: &Word) -> String {
        let field = Field::of(word);
        if word.lo == word.hi {
            return format!("{} == {}", field.name(), field.value(word.lo));
        }
        format!("{} in {} to {}", field.name(), field.value(word.lo), field.value(word.hi))
    }
}

/// The gaps between sorted intervals, among the numbers up to the largest.
fn gaps(intervals: &[(u32, u32)], largest: u32) -> Vec<(u32, u32)> {
    let mut gaps = Vec::new();
    let mut from = Some(0);
    for (lo, hi) in intervals {
        if let Some(from) = from.filter(|from| from < lo) {
            gaps.push((from, lo - 1));
        }
        from = hi.checked_add(1);
    }
    gaps.extend(from.filter(|from| *from <= largest).map(|from| (from, largest)));
    gaps
}

fn interval(form: Form, (lo, hi): (u32, u32)) -> String {
    let size = hi.wrapping_sub(lo);
    let prefix = size & size.wrapping_add(1) == 0 && lo & size == 0;
    match form {
        _ if lo == hi => number(form, lo),
        Form::Address if prefix => format!("{}/{}", Ipv4Addr::from(lo), size.leading_zeros()),
        _ => format!("{}-{}", number(form, lo), number(form, hi)),
    }
}

fn number(form: Form, value: u32) -> String {
    match form {
        Form::Hex(digits) => format!("{value:0digits$x}"),
        Form::Decimal => value.to_string(),
        Form::Address => Ipv4Addr::from(value).to_string(),
        Form::Protocol => protocol_name(value),
    }
}

/// The name of an IP protocol, or its number.
pub(crate) fn protocol_name(value: u32) -> String {
    let named = PROTOS.iter().find(|(_, number)| u32::from(*number) == value);
    named.map_or_else(|| value.to_string(), |(name, _)| (*name).to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tests_are_shown_in_words() {
        let word = |base, at, mask, lo, hi| Field::condition(&Word { base, at, mask, lo, hi });
        let equal = |base, at, mask, value| word(base, at, mask, value, value);
        assert_eq!(equal(Base::Frame, 12, 0xffff_0000, 0x0800_0000), "ethertype == 0800");
        assert_eq!(equal(Base::Network, 8, 0x00ff_0000, 0x0006_0000), "proto == tcp");
        assert_eq!(equal(Base::Network, 12, 0xff00_0000, 0x0a00_0000), "src == 10.0.0.0/8");
        assert_eq!(equal(Base::Frame, 16, 0x0fff_0000, 0x0005_0000), "frame[16]/0fff0000 == 5");
        let high = word(Base::Transport, 0, 0xffff_0000, 1024 << 16, 0xffff_0000);
        assert_eq!(high, "src port in 1024 to 65535");
        let port = Field { base: Base::Transport, at: 0, mask: 0xffff };
        for (intervals, text) in [
            (&[(80, 80)][..], "80"),
            (&[(0, 79), (81, 65535)], "not 80"),
            (&[(0, 79), (82, 99), (101, 65535)], "not 80-81 or 100"),
            (&[(1024, 65535)], "1024-65535"),
            (&[(0, 10), (90, 65535)], "not 11-89"),
            (&[(1, 1), (9, 9)], "1 or 9"),
            (&[(1, 65535)], "not 0"),
        ] {
            assert_eq!(port.values(intervals), text);
        }
    }
}
