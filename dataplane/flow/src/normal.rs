//! Bounds each expression by boxes: sets of the form source range x destination range x source
//! port range x destination port range x protocols x kinds of fragment.
//!
//! A box that is not `exact` holds every packet its part of the expression matches and perhaps
//! more: a packet in it must still be tested by the rule. So nothing that boxes cannot express is
//! ever lost, and a rule that would need too many of them only becomes less selective.

use crate::ast::{Base, Expr, Word};
use crate::key::PORT_ABSENT;

/// Most boxes for one rule; beyond, they are widened.
pub const BOXES_MAX: usize = 32;

/// A region of the key space. Ports go up to [`PORT_ABSENT`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KeyBox {
    /// Smallest source, destination, source port, destination port.
    pub lo: [u32; 4],
    /// Largest of each.
    pub hi: [u32; 4],
    /// The protocols, a bit each.
    pub protos: [u64; 4],
    /// The kinds of fragment ([`crate::Key::fragment`]), a bit each.
    pub fragments: u8,
    /// Whether every packet in the box matches.
    pub exact: bool,
}

/// Largest value of each field.
pub const FIELD_MAX: [u32; 4] = [u32::MAX, u32::MAX, PORT_ABSENT, PORT_ABSENT];
const FRAGMENTS_ALL: u8 = 0b1111;

impl KeyBox {
    /// The box of all packets.
    pub fn everything(exact: bool) -> KeyBox {
        KeyBox { lo: [0; 4], hi: FIELD_MAX, protos: [u64::MAX; 4], fragments: FRAGMENTS_ALL, exact }
    }

    /// Whether nothing is left out.
    pub fn is_everything(&self) -> bool {
        *self == KeyBox::everything(self.exact)
    }

    fn intersection(&self, other: &KeyBox) -> Option<KeyBox> {
        let mut both = *self;
        for f in 0..4 {
            both.lo[f] = self.lo[f].max(other.lo[f]);
            both.hi[f] = self.hi[f].min(other.hi[f]);
            if both.lo[f] > both.hi[f] {
                return None;
            }
            both.protos[f] &= other.protos[f];
        }
        both.fragments &= other.fragments;
        both.exact &= other.exact;
        (both.protos != [0; 4] && both.fragments != 0).then_some(both)
    }
}

type Boxes = Vec<KeyBox>;

/// Boxes of an expression and of its opposite.
struct Both {
    yes: Boxes,
    no: Boxes,
}

/// The boxes that hold every packet the expression matches (none: it matches nothing that has a
/// whole IP header).
pub fn boxes(expr: &Expr) -> Vec<KeyBox> {
    both(expr).yes
}

fn both(expr: &Expr) -> Both {
    match expr {
        Expr::Const(true) => Both { yes: vec![KeyBox::everything(true)], no: Vec::new() },
        Expr::Const(false) => Both { yes: Vec::new(), no: vec![KeyBox::everything(true)] },
        Expr::Test(word) => word_boxes(word),
        Expr::Not(e) => {
            let Both { yes, no } = both(e);
            Both { yes: no, no: yes }
        }
        Expr::All(list) => list.iter().fold(both(&Expr::Const(true)), |so_far, e| {
            let next = both(e);
            Both { yes: product(&so_far.yes, &next.yes), no: union(so_far.no, next.no) }
        }),
        Expr::Any(list) => list.iter().fold(both(&Expr::Const(false)), |so_far, e| {
            let next = both(e);
            Both { yes: union(so_far.yes, next.yes), no: product(&so_far.no, &next.no) }
        }),
        Expr::Choice(cases, otherwise) => {
            cases.iter().rev().fold(both(otherwise), |rest, (condition, then)| {
                let (c, then) = (both(condition), both(then));
                Both {
                    yes: union(product(&c.yes, &then.yes), product(&c.no, &rest.yes)),
                    no: union(product(&c.yes, &then.no), product(&c.no, &rest.no)),
                }
            })
        }
    }
}

fn union(mut a: Boxes, b: Boxes) -> Boxes {
    for next in b {
        if !a.contains(&next) {
            a.push(next);
        }
    }
    if let Some(all) = a.iter().find(|x| x.exact && x.is_everything()) {
        return vec![*all];
    }
    if a.len() > BOXES_MAX { vec![KeyBox::everything(false)] } else { a }
}

fn product(a: &Boxes, b: &Boxes) -> Boxes {
    if a.len() * b.len() > BOXES_MAX {
        // Too many: keep the more selective side with fewer boxes, as a bound.
        let kept = if a.len() <= b.len() { a } else { b };
        return kept.iter().map(|x| KeyBox { exact: false, ..*x }).collect();
    }
    let pairs = a.iter().flat_map(|x| b.iter().filter_map(|y| x.intersection(y)));
    union(Vec::new(), pairs.collect())
}

fn word_boxes(word: &Word) -> Both {
    let known = match (word.base, word.at) {
        _ if word.mask == 0 => return both(&Expr::Const(word.holds(0))),
        (Base::Network, 12) => field_range(word, 0, 0),
        (Base::Network, 16) => field_range(word, 1, 0),
        // The key calls a port absent unless both its bytes exist: a test that needs only the
        // first must not be answered from it.
        (Base::Transport, 0) if word.needed_bytes() == 2 => field_range(word, 2, 16),
        (Base::Transport, 0) if word.mask >> 16 == 0 && word.needed_bytes() == 4 => {
            field_range(word, 3, 0)
        }
        (Base::Network, 8) if word.mask & !0x00ff_0000 == 0 => Some(protocols(word)),
        (Base::Network, 4) => fragments(word),
        _ => None,
    };
    known.unwrap_or_else(|| {
        let unknown = vec![KeyBox::everything(false)];
        Both { yes: unknown.clone(), no: unknown }
    })
}

/// A test of a whole field's range, or of a prefix of its bits.
fn field_range(word: &Word, field: usize, shift: u32) -> Option<Both> {
    let bits: u32 = if field < 2 { u32::MAX } else { 0xffff };
    let mask = word.mask >> shift;
    let rest = bits & !mask;
    if rest & rest.wrapping_add(1) != 0 {
        return None; // Not a prefix: its values are no range.
    }
    if word.lo > word.hi || word.lo & !word.mask != 0 {
        return None;
    }
    let (lo, hi) = (word.lo >> shift, (word.hi & word.mask) >> shift | rest);
    let part = |lo: u32, hi: u32| {
        let mut part = KeyBox::everything(true);
        part.lo[field] = lo;
        part.hi[field] = hi;
        part
    };
    let mut no = Vec::new();
    if lo > 0 {
        no.push(part(0, lo - 1));
    }
    if hi < FIELD_MAX[field] {
        no.push(part(hi + 1, FIELD_MAX[field]));
    }
    Some(Both { yes: vec![part(lo, hi)], no })
}

fn protocols(word: &Word) -> Both {
    let mut yes = KeyBox { protos: [0; 4], ..KeyBox::everything(true) };
    for p in (0..256_u32).filter(|p| word.holds(p << 16)) {
        yes.protos[p as usize / 64] |= 1 << (p % 64);
    }
    let mut no = yes;
    no.protos = yes.protos.map(|bits| !bits);
    let some = |b: KeyBox| if b.protos == [0; 4] { Vec::new() } else { vec![b] };
    Both { yes: some(yes), no: some(no) }
}

fn fragments(word: &Word) -> Option<Both> {
    if word.lo != 0 || word.hi != 0 {
        return None;
    }
    let yes = match word.mask {
        0x1fff => 0b0011,
        0x3fff => 0b0001,
        0x2000 => 0b0101,
        _ => return None,
    };
    let part = |fragments| vec![KeyBox { fragments, ..KeyBox::everything(true) }];
    Some(Both { yes: part(yes), no: part(FRAGMENTS_ALL & !yes) })
}
