//! Tests of a chain's rules, in the fields of a switch.
//!
//! A rule tests masked words of four bytes ([`Word`]): whether they lie between two bounds. A
//! switch compares bits of fields. So bounds become prefixes, and each bit of a word is looked for
//! in the field that holds it. What no field holds makes the result doubtful: then the match has
//! all packets that may pass, and perhaps others.

use crate::ast::{Base, Word};

use crate::rule_table::fallback::Fallback;
use crate::rule_table::fields::{Field, Protocol};
use crate::rule_table::matches::Match;

/// EtherType of IPv4 (IEEE 802 numbers).
pub const IPV4: u128 = 0x0800;
/// EtherType of IPv6.
pub const IPV6: u128 = 0x86dd;
/// IANA protocol number of ICMP.
pub const ICMP: u128 = 1;
/// IANA protocol number of TCP.
pub const TCP: u128 = 6;
/// IANA protocol number of UDP.
pub const UDP: u128 = 17;
/// IANA protocol number of ICMP for IPv6.
pub const ICMP6: u128 = 58;
/// IANA protocol number of SCTP.
pub const SCTP: u128 = 132;
/// Next headers of IPv6 behind which another one follows: those that this crate knows.
const EXTENSIONS: [u128; 10] = [0, 43, 44, 51, 60, 135, 139, 140, 253, 254];
/// Fields up to this width are matched by each of their values where a mask would be needed.
const BY_VALUE_BITS: u32 = 8;

/// Packets that pass a test, or may pass it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Passing {
    /// What they look like to the switch.
    pub matches: Match,
    /// Why some of them may not pass; `None`: all do.
    pub fallback: Option<Fallback>,
}

impl Passing {
    /// Packets that pass.
    pub fn surely(matches: Match) -> Passing {
        Passing { matches, fallback: None }
    }
}

/// Where some bits of a word are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum BitLocation {
    /// These bits of all packets are the same.
    Same(u8),
    /// In a field: the lowest of the bits is this one of the field's.
    In(Field, u32),
    /// In no field.
    Nowhere(Fallback),
    /// The packets are too short: no test of these bits passes.
    Missing,
}

/// Some bits of a byte, and where they are.
pub(crate) type Bits = (u8, BitLocation);

/// A whole byte of a field of `bytes` bytes, the first of which is at 0.
fn byte_of(field: Field, at: u16, bytes: u16) -> Vec<Bits> {
    vec![(0xff, BitLocation::In(field, u32::from(bytes - 1 - at) * 8))]
}

fn nowhere(fallback: Fallback) -> Vec<Bits> {
    vec![(0xff, BitLocation::Nowhere(fallback))]
}

/// Where a byte's bits are in packets that look like `within`.
pub(crate) fn byte(base: Base, at: u16, within: &Match) -> Vec<Bits> {
    match (base, within.exact(Field::EthType)) {
        (Base::Frame, ethertype) => frame_byte(at, ethertype, within),
        (Base::Network, Some(IPV4)) => ipv4_byte(at),
        (Base::Network, Some(IPV6)) => ipv6_byte(at),
        (Base::Transport, Some(IPV4 | IPV6)) => transport_byte(at, within),
        (Base::Network | Base::Transport, _) => vec![(0xff, BitLocation::Missing)],
    }
}

/// Without a VLAN tag.
fn frame_byte(at: u16, ethertype: Option<u128>, within: &Match) -> Vec<Bits> {
    match (at, ethertype) {
        (0..6, _) => byte_of(Field::EthDst, at, 6),
        (6..12, _) => byte_of(Field::EthSrc, at - 6, 6),
        (12..14, Some(known)) => vec![(0xff, BitLocation::Same((known >> (8 * (13 - at))) as u8))],
        (12..14, None) => byte_of(Field::EthType, at - 12, 2),
        (14..34, Some(IPV4)) | (14..54, Some(IPV6)) => byte(Base::Network, at - 14, within),
        _ => nowhere(Fallback::Bytes),
    }
}

/// RFC 791, section 3.1. Fragments are dealt with before.
fn ipv4_byte(at: u16) -> Vec<Bits> {
    match at {
        0 => vec![(0xf0, BitLocation::Same(0x40)), (0x0f, BitLocation::Nowhere(Fallback::Bytes))],
        1 => vec![
            (0xfc, BitLocation::In(Field::IpDscp, 0)),
            (0x03, BitLocation::In(Field::IpEcn, 0)),
        ],
        6 => vec![(0xc0, BitLocation::Nowhere(Fallback::Bytes)), (0x3f, BitLocation::Same(0))],
        7 => vec![(0xff, BitLocation::Same(0))],
        8 => byte_of(Field::IpTtl, 0, 1),
        9 => byte_of(Field::IpProtocol, 0, 1),
        12..16 => byte_of(Field::Ipv4Src, at - 12, 4),
        16..20 => byte_of(Field::Ipv4Dst, at - 16, 4),
        _ => nowhere(Fallback::Bytes),
    }
}

/// RFC 8200, section 3.
fn ipv6_byte(at: u16) -> Vec<Bits> {
    match at {
        0 => vec![(0xf0, BitLocation::Same(0x60)), (0x0f, BitLocation::Nowhere(Fallback::Bytes))],
        6 => byte_of(Field::IpProtocol, 0, 1),
        7 => byte_of(Field::IpTtl, 0, 1),
        8..24 => byte_of(Field::Ipv6Src, at - 8, 16),
        24..40 => byte_of(Field::Ipv6Dst, at - 24, 16),
        _ => nowhere(Fallback::Bytes),
    }
}

fn transport_byte(at: u16, within: &Match) -> Vec<Bits> {
    match (within.exact(Field::IpProtocol), at) {
        (Some(TCP | UDP | SCTP), 0 | 1) => byte_of(Field::PortSrc, at, 2),
        (Some(TCP | UDP | SCTP), 2 | 3) => byte_of(Field::PortDst, at - 2, 2),
        (Some(TCP), 12) => {
            vec![
                (0xf0, BitLocation::Nowhere(Fallback::Bytes)),
                (0x0f, BitLocation::In(Field::TcpFlags, 8)),
            ]
        }
        (Some(TCP), 13) => byte_of(Field::TcpFlags, 0, 1),
        (Some(ICMP | ICMP6), 0) => byte_of(Field::IcmpType, 0, 1),
        (Some(ICMP | ICMP6), 1) => byte_of(Field::IcmpCode, 0, 1),
        (Some(_), _) => nowhere(Fallback::Bytes),
        (None, _) => nowhere(Fallback::Transport),
    }
}

/// Bits of a word, and where they are.
struct Located {
    /// Under the word's mask, all within one byte.
    bits: u32,
    /// The bit of the word that the lowest bit of the place is.
    first: u32,
    location: BitLocation,
}

/// The places of a word's bits under its mask.
fn locations(word: &Word, within: &Match) -> Vec<Located> {
    let mut locations = Vec::new();
    for index in 0..4_u16 {
        let shift = 8 * (3 - u32::from(index));
        let looked_at = (word.mask >> shift) as u8;
        let at = word.at.saturating_add(index);
        let of_byte = if looked_at == 0 { Vec::new() } else { byte(word.base, at, within) };
        for (bits, location) in of_byte.into_iter().filter(|(bits, _)| bits & looked_at != 0) {
            let first = shift + bits.trailing_zeros();
            locations.push(Located { bits: u32::from(bits & looked_at) << shift, first, location });
        }
    }
    locations
}

/// The packets that look like `within` and pass a test, or fail it (`passes` false). Those of two
/// results are never the same.
pub fn packets(word: &Word, passes: bool, within: &Match, protocol: Protocol) -> Vec<Passing> {
    let locations = locations(word, within);
    if locations.iter().any(|located| located.location == BitLocation::Missing) {
        return if passes { Vec::new() } else { vec![Passing::surely(*within)] };
    }
    let hides_extensions = within.exact(Field::EthType) == Some(IPV6)
        && locations
            .iter()
            .any(|one| matches!(one.location, BitLocation::In(Field::IpProtocol, _)));
    if hides_extensions && !(passes && names_last_header(word)) {
        return vec![Passing { matches: *within, fallback: Some(Fallback::Extensions) }];
    }
    let mut found = Vec::new();
    for (value, mask) in prefixes(word, passes) {
        if let Some(passing) = passing((value, mask), &locations, within, protocol) {
            found.extend(by_value(passing, &locations, within));
        }
    }
    // Nothing is known of a test of which any packet may pass, whatever else was found.
    match found.iter().find(|one| one.fallback.is_some() && one.matches == *within) {
        Some(any) => vec![*any],
        None => found,
    }
}

/// Whether a test of IPv6's next header is for one value behind which no other header follows. Such
/// a test passes in a switch wherever it passes in a chain, and besides behind extension headers.
fn names_last_header(word: &Word) -> bool {
    let value = u128::from(word.lo >> 8 & 0xff);
    word.lo == word.hi && word.mask == 0x0000_ff00 && !EXTENSIONS.contains(&value)
}

/// Those of the packets that have these bits of a word; `None` if there are none.
fn passing(
    (value, mask): (u32, u32),
    locations: &[Located],
    within: &Match,
    protocol: Protocol,
) -> Option<Passing> {
    let mut passing = Passing::surely(*within);
    for Located { bits, first, location } in locations {
        let looked_at = bits & mask;
        match location {
            _ if looked_at == 0 => {}
            BitLocation::Same(same) => {
                let same = u32::from(*same) << (first / 8 * 8);
                if (same ^ value) & looked_at != 0 {
                    return None;
                }
            }
            BitLocation::In(field, _) if !protocol.has(*field) => {
                passing.fallback = Some(Fallback::Field)
            }
            BitLocation::In(field, lowest) => {
                let to = |bits: u32| u128::from(bits >> first) << lowest;
                let (value, mask) = (to(value & looked_at), to(looked_at));
                passing.matches = passing.matches.and(*field, value, mask)?;
            }
            BitLocation::Nowhere(fallback) => passing.fallback = Some(*fallback),
            BitLocation::Missing => return None,
        }
    }
    Some(passing)
}

/// A match that looks at part of a field which is matched as a whole becomes one for each value; of
/// a wide field it becomes doubtful.
fn by_value(passing: Passing, locations: &[Located], within: &Match) -> Vec<Passing> {
    let mut all = vec![passing];
    for field in locations.iter().filter_map(|located| match located.location {
        BitLocation::In(field, _) if !field.is_maskable() => Some(field),
        _ => None,
    }) {
        all = all.into_iter().flat_map(|one| whole_values(one, field, within)).collect();
    }
    all
}

fn whole_values(passing: Passing, field: Field, within: &Match) -> Vec<Passing> {
    let (_, mask) = passing.matches.get(field);
    if mask == 0 || mask == field.all() {
        return vec![passing];
    }
    if field.bits() > BY_VALUE_BITS {
        let matches = passing.matches.with_field_of(field, within);
        return vec![Passing { matches, fallback: Some(Fallback::Mask) }];
    }
    let values = 0..=field.all();
    let matches = values.filter_map(|value| passing.matches.and(field, value, field.all()));
    matches.map(|matches| Passing { matches, ..passing }).collect()
}

/// The values under a word's mask that pass its test, or fail it, as prefixes of the masked bits:
/// values, and which bits of them count.
fn prefixes(word: &Word, passes: bool) -> Vec<(u32, u32)> {
    let bits = word.mask.count_ones();
    let all = (1_u64 << bits) - 1;
    // The masked values in their order are those of a number of so many bits.
    let at_least = |bound: u32| lowest(word.mask, bits, |value| value >= bound);
    let inside = (at_least(word.lo), lowest(word.mask, bits, |value| value > word.hi));
    let mut found = Vec::new();
    let mut add = |from: u64, to: u64| cover(from, to, bits, word.mask, &mut found);
    match (passes, inside.0 < inside.1) {
        (true, true) => add(inside.0, inside.1),
        (true, false) => {}
        (false, false) => add(0, all + 1),
        (false, true) => {
            add(0, inside.0);
            add(inside.1, all + 1);
        }
    }
    found
}

/// The lowest number whose bits, laid under the mask, are a value for which `enough` holds; one
/// more than the highest if there is none. It holds for all values above one for which it holds.
fn lowest(mask: u32, bits: u32, enough: impl Fn(u32) -> bool) -> u64 {
    let (mut low, mut high) = (0, 1_u64 << bits);
    while low < high {
        let middle = low + (high - low) / 2;
        if enough(spread(middle, mask)) { high = middle } else { low = middle + 1 }
    }
    low
}

/// The bits of a number laid under a mask, the lowest under its lowest bit.
fn spread(number: u64, mask: u32) -> u32 {
    let (mut rest, mut value) = (mask, 0);
    for bit in 0..mask.count_ones() {
        let lowest = rest & rest.wrapping_neg();
        value |= if number >> bit & 1 == 1 { lowest } else { 0 };
        rest ^= lowest;
    }
    value
}

/// The fewest prefixes that hold the numbers of so many bits from `from` to before `to`.
fn cover(mut from: u64, to: u64, bits: u32, mask: u32, found: &mut Vec<(u32, u32)>) {
    while from < to {
        let aligned = if from == 0 { bits } else { from.trailing_zeros().min(bits) };
        let fits = (to - from).ilog2();
        let free = aligned.min(fits);
        let counts = ((1_u64 << bits) - 1) & !((1_u64 << free) - 1);
        found.push((spread(from, mask), spread(counts, mask)));
        from += 1 << free;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// The prefixes of a test hold exactly the values that pass, each once.
        #[test]
        fn prefixes_hold_what_passes(
            mask in prop_oneof![any::<u32>(), Just(0xffff), Just(0xff00_0000_u32), Just(0)],
            lo in any::<u32>(),
            hi in any::<u32>(),
            probes in prop::collection::vec(any::<u32>(), 50),
        ) {
            let word = Word { base: Base::Network, at: 0, mask, lo: lo.min(hi), hi: lo.max(hi) };
            for passes in [true, false] {
                let prefixes = prefixes(&word, passes);
                prop_assert!(prefixes.len() <= 2 * 32);
                for probe in probes.iter().copied().chain([lo, hi, 0, u32::MAX]) {
                    let holding = prefixes.iter().filter(|(value, bits)| probe & bits == *value);
                    prop_assert_eq!(holding.count(), usize::from(word.holds(probe) == passes));
                }
            }
        }
    }

    #[test]
    fn bits_are_found_in_their_fields() {
        let tcp = Match::of(Field::EthType, IPV4).and(Field::IpProtocol, TCP, 0xff).unwrap();
        let one = |word: Word| packets(&word, true, &tcp, Protocol::OpenVSwitch)[0];
        let syn = one(Word::equal(Base::Transport, 12, 0x0002_0000, 0x0002_0000));
        assert_eq!(syn.matches.get(Field::TcpFlags), (2, 2));
        let dscp = one(Word::equal(Base::Network, 0, 0x00fc_0000, 0x00b8_0000));
        assert_eq!((dscp.matches.exact(Field::IpDscp), dscp.fallback), (Some(46), None));
        let class = one(Word::equal(Base::Network, 0, 0x00e0_0000, 0x00a0_0000));
        assert_eq!(class.matches.exact(Field::IpDscp), Some(40));
        let net = one(Word::equal(Base::Network, 12, 0xff00_0000, 0x0a00_0000));
        assert_eq!(net.matches.get(Field::Ipv4Src), (0x0a00_0000, 0xff00_0000));
        let port = one(Word::equal(Base::Transport, 0, 0xffff, 80));
        assert_eq!(port.matches.exact(Field::PortDst), Some(80));
        let frame = one(Word::equal(Base::Frame, 20, 0x0000_00ff, 6));
        assert_eq!(frame.matches, tcp);
        let id = one(Word::equal(Base::Network, 4, 0xffff_0000, 0));
        assert_eq!(id, Passing { matches: tcp, fallback: Some(Fallback::Bytes) });
        let whole =
            packets(&Word::equal(Base::Network, 4, 0x1fff, 0), false, &tcp, Protocol::OpenVSwitch);
        assert_eq!(whole, []);
    }
}
