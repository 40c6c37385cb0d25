//! What one host notes of a packet for the next one: the class that the next host's classifier
//! would find, and what this host knows of the session.
//!
//! RFC 8300 leaves the 16 bytes of fixed metadata to the domain's operator. Thruway's layout, by
//! byte: 0 to 1 a mark, so that foreign metadata are not mistaken for these; 2 to 3 the tag of the
//! class (`thruway_flow::tags`), 0 for none; 4 to 7 the AGGREGATE annotation; 8 the PAINT
//! annotation; the rest zero. As variable metadata they are the value of one type.

use thruway_packet::{Anno, Packet};
use thruway_wire::nsh::{FIXED_LEN, MD_FIXED, MD_VARIABLE, Variable, Variables};

/// Class of the variable metadata: the first one for experiments (RFC 8300 section 9.1.4).
const CLASS: u16 = 0xfff6;
/// The only type of that class.
const KIND: u8 = 1;
/// "Th".
const MARK: [u8; 2] = [0x54, 0x68];

/// The longest metadata that [`Notes::emit`] writes.
pub(crate) const LEN_MAX: usize = FIXED_LEN + Variable::HEADER_LEN;

/// The metadata.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Notes {
    /// Tag of the class; 0 for none.
    pub(crate) tag: u16,
    /// The AGGREGATE annotation.
    pub(crate) aggregate: u32,
    /// The PAINT annotation.
    pub(crate) paint: u8,
}

/// In which form metadata are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Form {
    /// Type 1.
    Fixed,
    /// Type 2.
    Variable,
    /// Type 2 without any.
    Empty,
}

impl Form {
    /// The words of METADATA, in the order of [`Form::ALL`].
    pub(crate) const WORDS: &'static [&'static str] = &["fixed", "variable", "none"];
    pub(crate) const ALL: [Form; 3] = [Form::Fixed, Form::Variable, Form::Empty];

    /// The type of metadata.
    pub(crate) fn md_type(self) -> u8 {
        if self == Form::Fixed { MD_FIXED } else { MD_VARIABLE }
    }

    /// Bytes.
    pub(crate) fn len(self) -> usize {
        match self {
            Form::Fixed => FIXED_LEN,
            Form::Variable => LEN_MAX,
            Form::Empty => 0,
        }
    }
}

impl Notes {
    /// The metadata of a packet's annotations.
    #[inline]
    pub(crate) fn of(packet: &Packet) -> Notes {
        Notes {
            tag: packet.anno_number(Anno::VLAN_TCI) as u16,
            aggregate: packet.anno_number(Anno::AGGREGATE),
            paint: packet.paint(),
        }
    }

    /// Sets these annotations.
    #[inline]
    pub(crate) fn annotate(self, packet: &mut Packet) {
        packet.set_anno_number(Anno::VLAN_TCI, self.tag.into());
        packet.set_anno_number(Anno::AGGREGATE, self.aggregate);
        packet.set_anno_number(Anno::PAINT, self.paint.into());
    }

    #[inline]
    fn value(self) -> [u8; FIXED_LEN] {
        let mut value = [0; FIXED_LEN];
        value[..2].copy_from_slice(&MARK);
        value[2..4].copy_from_slice(&self.tag.to_be_bytes());
        value[4..8].copy_from_slice(&self.aggregate.to_be_bytes());
        value[8] = self.paint;
        value
    }

    /// `None`: they are of another domain, or none at all.
    #[inline]
    fn of_value(value: &[u8]) -> Option<Notes> {
        match *value {
            [m, n, t, u, a, b, c, d, paint, ..] if [m, n] == MARK => Some(Notes {
                tag: u16::from_be_bytes([t, u]),
                aggregate: u32::from_be_bytes([a, b, c, d]),
                paint,
            }),
            _ => None,
        }
    }

    /// Writes them to the front of `out`, of which there are [`Form::len`] bytes.
    #[inline]
    pub(crate) fn emit(self, form: Form, out: &mut [u8]) {
        let value = self.value();
        match (form, out.first_chunk_mut::<FIXED_LEN>()) {
            (Form::Fixed, Some(out)) => *out = value,
            // There is room: 20 bytes.
            (Form::Variable, _) => {
                drop(Variable { class: CLASS, kind: KIND, value: &value }.emit(out))
            }
            _ => {}
        }
    }

    /// Those among the metadata of a header of this type; `None` if there are none. Others are
    /// passed over.
    ///
    /// # Errors
    /// Variable metadata that are cut.
    #[inline]
    pub(crate) fn find(md_type: u8, metadata: &[u8]) -> Result<Option<Notes>, ()> {
        if md_type == MD_FIXED {
            return Ok(Notes::of_value(metadata));
        }
        let mut found = None;
        for variable in Variables::new(metadata) {
            let Variable { class, kind, value } = variable.map_err(|_| ())?;
            if (class, kind) == (CLASS, KIND) && found.is_none() {
                found = Notes::of_value(value);
            }
        }
        Ok(found)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn what_is_noted_is_found(tag: u16, aggregate: u32, paint: u8, extra in 0usize..3) {
            let notes = Notes { tag, aggregate, paint };
            let mut fixed = [0; FIXED_LEN];
            notes.emit(Form::Fixed, &mut fixed);
            prop_assert_eq!(Notes::find(MD_FIXED, &fixed), Ok(Some(notes)));
            // Behind metadata of others.
            let mut bytes = [0, 7, 1, 3, 1, 2, 3, 0].repeat(extra);
            let at = bytes.len();
            bytes.resize(at + LEN_MAX, 0xff);
            notes.emit(Form::Variable, &mut bytes[at..]);
            prop_assert_eq!(Notes::find(MD_VARIABLE, &bytes), Ok(Some(notes)));
            prop_assert_eq!(Notes::find(MD_VARIABLE, &bytes[..bytes.len() - 1]), Err(()));
            prop_assert_eq!(Notes::find(MD_VARIABLE, &bytes[..at]), Ok(None));
        }

        #[test]
        fn those_of_others_are_none(value: [u8; 16]) {
            prop_assume!(value[..2] != MARK);
            prop_assert_eq!(Notes::find(MD_FIXED, &value), Ok(None));
        }
    }
}
