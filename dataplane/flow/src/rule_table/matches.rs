//! What a rule wants to see in the fields of a packet.

use crate::rule_table::fields::{FIELDS, Field};

/// Values of fields, some of their bits or all. Equal in all bits that are looked at: that is all a
/// rule of a switch can ask for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Match {
    /// By field: a value, and which of its bits count. Others are zero.
    fields: [(u128, u128); FIELDS],
}

impl Match {
    /// Every packet.
    pub const ANY: Match = Match { fields: [(0, 0); FIELDS] };

    /// Every packet with this value of a field.
    pub fn of(field: Field, value: u128) -> Match {
        let mut all = Match::ANY;
        all.fields[field as usize] = (value & field.all(), field.all());
        all
    }

    /// The value and mask of a field.
    pub fn get(&self, field: Field) -> (u128, u128) {
        self.fields[field as usize]
    }

    /// The value of a field of which all bits are given.
    pub fn exact(&self, field: Field) -> Option<u128> {
        let (value, mask) = self.get(field);
        (mask == field.all()).then_some(value)
    }

    /// Whether it looks at a field.
    pub fn looks_at(&self, field: Field) -> bool {
        self.get(field).1 != 0
    }

    /// The same with what another says of a field.
    #[must_use]
    pub fn with_field_of(mut self, field: Field, other: &Match) -> Match {
        self.fields[field as usize] = other.fields[field as usize];
        self
    }

    /// Those of its packets that have these bits of a field, too; `None` if there are none.
    #[must_use]
    pub fn and(mut self, field: Field, value: u128, mask: u128) -> Option<Match> {
        let (old, looked_at) = self.get(field);
        let (value, mask) = (value & mask & field.all(), mask & field.all());
        if (old ^ value) & looked_at & mask != 0 {
            return None;
        }
        self.fields[field as usize] = (old | value, looked_at | mask);
        Some(self)
    }

    /// The packets of both; `None` if there are none.
    pub fn intersection(&self, other: &Match) -> Option<Match> {
        let mut both = *self;
        for field in Field::ALL {
            let (value, mask) = other.get(field);
            both = both.and(field, value, mask)?;
        }
        Some(both)
    }

    /// Whether each packet of the other is one of its own.
    pub fn covers(&self, other: &Match) -> bool {
        self.fields.iter().zip(&other.fields).all(|((value, mask), (theirs, looked_at))| {
            mask & !looked_at == 0 && (value ^ theirs) & mask == 0
        })
    }

    /// Whether a packet with these values of all fields is one of its own.
    pub fn holds(&self, packet: &[u128; FIELDS]) -> bool {
        self.fields.iter().zip(packet).all(|((value, mask), found)| found & mask == *value)
    }
}
