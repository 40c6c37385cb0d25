//! Facts from the path to a leaf about its packets: the possible values of each field.

use super::sets::Set;
use crate::ast::{Base, Word};
use crate::explain::Field;
use crate::plan::Family;
use crate::session::{KeyField, KeyWord};

/// A field that values are kept of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Slot {
    Protocol4,
    Protocol6,
    Src,
    Dst,
    SrcPort,
    DstPort,
    Version,
    EtherType,
    FragmentOffset,
}

/// In the order of reading.
const SLOTS_SHOWN: [Slot; 8] = [
    Slot::EtherType,
    Slot::Version,
    Slot::Protocol4,
    Slot::Protocol6,
    Slot::Src,
    Slot::Dst,
    Slot::SrcPort,
    Slot::DstPort,
];

/// By [`Slot`]: where it is.
const SLOTS: [(Base, u16, u32); 9] = [
    (Base::Network, 8, 0x00ff_0000),
    (Base::Network, 4, 0x0000_ff00),
    (Base::Network, 12, u32::MAX),
    (Base::Network, 16, u32::MAX),
    (Base::Transport, 0, 0xffff_0000),
    (Base::Transport, 0, 0x0000_ffff),
    (Base::Network, 0, 0xf000_0000),
    (Base::Frame, 12, 0xffff_0000),
    (Base::Network, 4, 0x0000_1fff),
];

/// Most products that the packets of a leaf are described by; beyond, they are joined.
const PRODUCTS_MAX: usize = 8;

/// Next headers of IPv6 after which another follows (RFC 8200 section 4, RFC 4302, RFC 5533, RFC
/// 6275, RFC 7401): the transport protocol is not known from the first.
const EXTENSIONS: [u32; 10] = [0, 43, 44, 51, 60, 135, 139, 140, 253, 254];
const ICMP: u32 = 1;
const ICMP6: u32 = 58;

/// A product: one set of values for each field.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Product {
    sets: [Set; SLOTS.len()],
}

/// Bits of a word that all packets have the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Pin {
    pub base: Base,
    pub at: u16,
    pub mask: u32,
    pub value: u32,
}

/// The facts about packets at some point: they are in one of the products, and have the pins.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Known {
    products: Vec<Product>,
    pub pins: Vec<Pin>,
}

fn largest(mask: u32) -> u32 {
    mask >> mask.trailing_zeros()
}

/// The values of a slot that pass a test, as an interval; `None` when they are none.
fn passing(word: &Word, mask: u32) -> Option<(u32, u32)> {
    let inside = word.mask & mask;
    let rest = mask & !inside;
    // The tested bits must be the upper ones of the field, for the others run through.
    let (shift, low) = (mask.trailing_zeros(), rest >> mask.trailing_zeros());
    if inside == 0 || low & low.wrapping_add(1) != 0 || word.lo & !word.mask != 0 {
        return None;
    }
    let whole = word.mask & !mask == 0;
    if !whole && word.lo != word.hi {
        return None;
    }
    let (lo, hi) = (word.lo & inside, word.hi.min(word.mask) & inside);
    Some((lo >> shift, (hi | rest) >> shift))
}

impl Product {
    /// The product after a test; `None` when no packet is left.
    fn after(&self, word: &Word, holds: bool) -> Option<Product> {
        let mut product = self.clone();
        for (slot, (base, at, mask)) in SLOTS.iter().enumerate() {
            if (*base, *at) != (word.base, word.at) {
                continue;
            }
            let Some(part) = passing(word, *mask) else { continue };
            // A test of other fields too may have failed for their sake.
            if holds {
                product.sets[slot] = product.sets[slot].intersection(part);
            } else if word.mask & !mask == 0 {
                product.sets[slot] = product.sets[slot].without(part);
            }
            // Where bytes are missing a failed test excludes nothing: no field, so no session.
            if product.sets[slot].is_empty() && holds {
                return None;
            }
        }
        Some(product)
    }

    fn is_within(&self, other: &Product) -> bool {
        self.sets.iter().zip(&other.sets).all(|(a, b)| a.is_within(b))
    }

    fn joined(&self, other: &Product) -> Product {
        Product { sets: std::array::from_fn(|slot| self.sets[slot].union(&other.sets[slot])) }
    }

    fn has_family(&self, family: Family) -> bool {
        let ethertype = &self.sets[Slot::EtherType as usize];
        let others = |types: [u32; 2]| {
            let types = types.map(Set::one);
            !ethertype.is_empty() && ethertype.is_within(&types[0].union(&types[1]))
        };
        let version = &self.sets[Slot::Version as usize];
        match family {
            Family::V4 => version.contains(4) && !others([0x0806, 0x86dd]),
            Family::V6 => version.contains(6) && !others([0x0806, 0x0800]),
            Family::Other => true,
        }
    }

    fn protocol(&self, family: Family) -> Set {
        match family {
            Family::V4 => self.sets[Slot::Protocol4 as usize].clone(),
            Family::V6 => {
                let next = &self.sets[Slot::Protocol6 as usize];
                let more = EXTENSIONS.iter().any(|header| next.contains(*header));
                if more { Set::up_to(255) } else { next.clone() }
            }
            Family::Other => Set::up_to(255),
        }
    }

    /// Values that a field of a session's key can have.
    fn field(&self, field: &KeyField, family: Family) -> Set {
        let slot = match field {
            KeyField::Protocol => return self.protocol(family),
            KeyField::Src => Slot::Src,
            KeyField::Dst => Slot::Dst,
            KeyField::SrcPort => Slot::SrcPort,
            KeyField::DstPort => Slot::DstPort,
            KeyField::Word(_) | KeyField::Program(_) => return Set::up_to(u32::MAX),
        };
        let protocol = self.protocol(family);
        let known = match slot {
            Slot::Src | Slot::Dst => family == Family::V4,
            _ if family == Family::V4 && self.is_later_fragment() => return Set::none(),
            // ICMP has the identifier in place of ports, elsewhere in the header.
            _ => !protocol.contains(ICMP) && !protocol.contains(ICMP6),
        };
        if known { self.sets[slot as usize].clone() } else { Set::up_to(u32::MAX) }
    }

    /// Whether there is no transport header, and so no ports.
    fn is_later_fragment(&self) -> bool {
        !self.sets[Slot::FragmentOffset as usize].contains(0)
    }

    /// By field: the values it can have; `None` when no packet has them all, and so a session.
    fn key(&self, fields: &[KeyField], family: Family) -> Option<Vec<Set>> {
        let sets: Vec<Set> = fields.iter().map(|field| self.field(field, family)).collect();
        let any = self.has_family(family) && sets.iter().all(|set| !set.is_empty());
        any.then_some(sets)
    }
}

impl Known {
    /// Nothing is known.
    pub(super) fn nothing() -> Known {
        let sets = SLOTS.map(|(_, _, mask)| Set::up_to(largest(mask)));
        Known { products: vec![Product { sets }], pins: Vec::new() }
    }

    /// The facts after a test.
    pub(super) fn after(&self, word: &Word, holds: bool) -> Known {
        let products =
            self.products.iter().filter_map(|product| product.after(word, holds)).collect();
        let mut known = Known { products, pins: self.pins.clone() };
        let same = !u32::MAX.checked_shr((word.lo ^ word.hi).leading_zeros()).unwrap_or(0);
        let mask = same & word.mask;
        if holds && mask != 0 {
            known.pin(Pin { base: word.base, at: word.at, mask, value: word.lo & mask });
        }
        known
    }

    fn pin(&mut self, pin: Pin) {
        match self.pins.binary_search_by_key(&(pin.base, pin.at), |pin| (pin.base, pin.at)) {
            Ok(at) => {
                self.pins[at].mask |= pin.mask;
                self.pins[at].value |= pin.value;
            }
            Err(at) => self.pins.insert(at, pin),
        }
    }

    /// The facts of packets that come by either path.
    pub(super) fn join(&mut self, other: Known) {
        for product in other.products {
            if self.products.iter().any(|old| product.is_within(old)) {
                continue;
            }
            self.products.retain(|old| !old.is_within(&product));
            self.products.push(product);
            if self.products.len() > PRODUCTS_MAX
                && let (Some(a), Some(b)) = (self.products.pop(), self.products.pop())
            {
                self.products.push(a.joined(&b));
            }
        }
        self.pins.retain_mut(|pin| {
            let same = other.pins.iter().find(|o| (o.base, o.at) == (pin.base, pin.at));
            let Some(same) = same else { return false };
            pin.mask &= same.mask & !(pin.value ^ same.value);
            pin.value &= pin.mask;
            pin.mask != 0
        });
    }

    /// Whether packets of this version of IP can come.
    pub(super) fn has_family(&self, family: Family) -> bool {
        self.products.iter().any(|product| product.has_family(family))
    }

    /// The one value that a field has in all packets that have a session of these fields.
    pub(super) fn fixed(
        &self,
        field: &KeyField,
        fields: &[KeyField],
        family: Family,
    ) -> Option<u32> {
        if let KeyField::Word(word) = field {
            let pin = self.pin_of(word)?;
            return (pin.mask & word.mask == word.mask).then_some(pin.value & word.mask);
        }
        let mut products =
            self.products.iter().filter(|product| product.key(fields, family).is_some());
        let value = products.next()?.field(field, family).single()?;
        products
            .all(|product| product.field(field, family).single() == Some(value))
            .then_some(value)
    }

    fn pin_of(&self, word: &KeyWord) -> Option<&Pin> {
        self.pins.iter().find(|pin| (pin.base, pin.at) == (word.base, word.at))
    }

    /// The values that a slot has in all packets, where some are excluded.
    fn excluded(&self, slot: usize) -> Option<Set> {
        let all = self.products.iter().map(|product| product.sets[slot].clone());
        let set = all.reduce(|a, b| a.union(&b))?;
        let (_, _, mask) = SLOTS[slot];
        (!set.is_empty() && set != Set::up_to(largest(mask))).then_some(set)
    }

    /// The facts in human-readable form: names of fields with their values.
    pub(super) fn describe(&self) -> Vec<(String, String)> {
        let mut describe = Vec::new();
        let mut slots = Vec::new();
        for slot in SLOTS_SHOWN {
            let (base, at, mask) = SLOTS[slot as usize];
            let field = Field { base, at, mask };
            let other = match slot {
                Slot::Protocol4 => !self.has_family(Family::V4),
                Slot::Protocol6 => !self.has_family(Family::V6),
                _ => false,
            };
            if let Some(set) = self.excluded(slot as usize).filter(|_| !other) {
                describe.push((field.name(), field.values(set.intervals())));
                slots.push(field);
            }
        }
        for pin in &self.pins {
            let of_slots = slots.iter().filter(|slot| (slot.base, slot.at) == (pin.base, pin.at));
            let mask = pin.mask & !of_slots.fold(0, |all, slot| all | slot.mask);
            if mask != 0 {
                let field = Field { base: pin.base, at: pin.at, mask };
                describe.push((field.name(), field.value(pin.value & mask)));
            }
        }
        describe
    }

    /// Whether two packets, one of each, can have the same values in the fields; with `exchanged`,
    /// the second one's source and destination change places.
    pub(super) fn can_agree(
        &self,
        other: &Known,
        fields: &[KeyField],
        family: Family,
        exchanged: bool,
    ) -> bool {
        let opposite = |field: &KeyField| match field.mirrored() {
            Some(mirrored) if exchanged => mirrored,
            _ => field.clone(),
        };
        let words = fields.iter().filter_map(|field| match field {
            KeyField::Word(word) => Some(word),
            _ => None,
        });
        for word in words {
            if let (Some(a), Some(b)) = (self.pin_of(word), other.pin_of(word))
                && (a.value ^ b.value) & a.mask & b.mask & word.mask != 0
            {
                return false;
            }
        }
        let others: Vec<KeyField> = fields.iter().map(opposite).collect();
        let of = |known: &Known, fields: &[KeyField]| -> Vec<Vec<Set>> {
            known.products.iter().filter_map(|product| product.key(fields, family)).collect()
        };
        let (mine, theirs) = (of(self, fields), of(other, &others));
        mine.iter().any(|a| theirs.iter().any(|b| a.iter().zip(b).all(|(a, b)| a.meets(b))))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ast::Expr;
    use crate::{NoNames, parse_expression};

    fn after(text: &str) -> Known {
        fn learn(known: Known, expr: &Expr) -> Known {
            match expr {
                Expr::Test(word) => known.after(word, true),
                Expr::Not(e) => match e.as_ref() {
                    Expr::Test(word) => known.after(word, false),
                    _ => known,
                },
                Expr::All(list) => list.iter().fold(known, learn),
                _ => known,
            }
        }
        learn(Known::nothing(), &parse_expression(text, &NoNames).unwrap())
    }

    #[test]
    fn fields_are_fixed_by_tests() {
        let http = after("ip vers 4 and tcp dst port 80");
        assert!(http.has_family(Family::V4) && !http.has_family(Family::V6));
        let fields = crate::SessionDef::connection().fields;
        let fixed = |known: &Known, field| known.fixed(&field, &fields, Family::V4);
        assert_eq!(fixed(&http, KeyField::Protocol), Some(6));
        assert_eq!(fixed(&http, KeyField::DstPort), Some(80));
        assert_eq!(fixed(&http, KeyField::SrcPort), None);
        // Without a protocol the ports may be those of ICMP, which are elsewhere.
        let ports = after("transp[2:2] == 80");
        assert_eq!(fixed(&ports, KeyField::DstPort), None);
        let high = after("tcp and src port 1024-65535");
        let describe = |known: &Known| -> Vec<String> {
            known.describe().iter().map(|(field, value)| format!("{field} {value}")).collect()
        };
        assert_eq!(
            describe(&http),
            ["ip version 4", "proto tcp", "dst port 80", "fragment offset 0"]
        );
        assert!(describe(&high).contains(&"src port 1024-65535".to_owned()));
        assert_eq!(describe(&after("src net 10.0.0.0/8")), ["src 10.0.0.0/8"]);
    }

    #[test]
    fn sessions_of_two_classes_can_be_the_same() {
        let fields = crate::SessionDef::connection().fields;
        let agree = |a: &str, b: &str, exchanged| {
            after(a).can_agree(&after(b), &fields, Family::V4, exchanged)
        };
        assert!(!agree("tcp dst port 80", "udp", false));
        assert!(!agree("tcp dst port 80", "tcp dst port 81", false));
        assert!(agree("tcp dst port 80", "tcp src port 80", false));
        assert!(agree("tcp dst port 80", "tcp src port 80", true));
        let not_80 = after("tcp").after(&Word::equal(Base::Transport, 0, 0xffff, 80), false);
        assert!(!not_80.can_agree(&after("tcp dst port 80"), &fields, Family::V4, false));
        assert!(agree("tcp dst port 80", "tcp dst port 80", true));
        let later = after("tcp").after(&Word::equal(Base::Network, 4, 0x1fff, 0), false);
        assert!(!later.can_agree(&after("tcp"), &fields, Family::V4, false));
        assert!(!agree("tcp dst port 80 and src port > 80", "tcp dst port 80", true));
    }
}
