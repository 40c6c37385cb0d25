//! The label table of a label switching router (RFC 3031 section 3.10): what becomes of packets
//! with a label, how that is written, and how it is packed into words.

use std::fmt;

use parking_lot::Mutex;
use thruway_element::text::split_words;
use thruway_element::{HandlerError, Names};
use thruway_table::DenseTable;
use thruway_wire::MacAddr;
use thruway_wire::mpls::FIRST_UNRESERVED;

use crate::mpls_push::MAX_LABEL;

/// Bits of a label.
const LABEL_BITS: u32 = 20;
/// Most labels that one entry puts on a packet.
pub(super) const MAX_OUT: usize = 4;
/// Label "implicit NULL" (RFC 3032 section 2.1): announced, never on a packet.
const IMPLICIT_NULL: u32 = 3;
/// How an entry is written.
const EXPECTED: &str = "expected LABEL swap LABEL [push LABEL...] PORT ETHER, \
                        LABEL push LABEL... PORT ETHER, or LABEL pop [PORT [ETHER]]";

/// The operation on the label.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Action {
    /// The first label out takes its place; the others are put on top.
    Swap,
    /// It stays, and the labels out are put on top.
    Push,
    /// It is taken off.
    Pop,
}

/// Where packets with a label go: RFC 3031's "next hop label forwarding entry".
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Hop {
    pub(super) operation: Action,
    out: [u32; MAX_OUT],
    count: usize,
    /// `None`: the label ended here, and what is below it says where the packet goes.
    pub(super) port: Option<u16>,
    /// The next hop; `None`: the label stack ended here, and the packet is for this router.
    pub(super) mac: Option<MacAddr>,
}

impl Hop {
    /// The labels out, the last one to be on top.
    #[inline]
    pub(super) fn out(&self) -> &[u32] {
        &self.out[..self.count.min(MAX_OUT)]
    }

    /// In three words, the first of 32 bits.
    fn pack(&self) -> [u64; 3] {
        let operation = match self.operation {
            Action::Swap => 0,
            Action::Push => 1,
            Action::Pop => 2,
        };
        let flags = u64::from(self.port.is_some()) << 5 | u64::from(self.mac.is_some()) << 6;
        let [first, rest @ ..] = self.out;
        let rest = rest.iter().rev().fold(0, |word, label| word << LABEL_BITS | u64::from(*label));
        [
            operation | (self.count as u64) << 2 | flags | u64::from(first) << 12,
            self.mac.unwrap_or(MacAddr::ZERO).to_u64() << 16 | u64::from(self.port.unwrap_or(0)),
            rest,
        ]
    }

    #[inline]
    fn unpack([first, place, rest]: [u64; 3]) -> Hop {
        let label = |word: u64, at: u32| (word >> (at * LABEL_BITS)) as u32 & MAX_LABEL;
        Hop {
            operation: match first & 3 {
                0 => Action::Swap,
                1 => Action::Push,
                _ => Action::Pop,
            },
            out: [label(first >> 12, 0), label(rest, 0), label(rest, 1), label(rest, 2)],
            count: (first >> 2 & 7) as usize,
            port: (first & 1 << 5 != 0).then_some(place as u16),
            mac: (first & 1 << 6 != 0).then_some(MacAddr::from_u64(place >> 16)),
        }
    }
}

/// The entry as it is written, but for the label in.
impl fmt::Display for Hop {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut out = self.out().iter();
        match self.operation {
            Action::Swap => write!(f, "swap {}", out.next().unwrap_or(&0))?,
            Action::Push => {}
            Action::Pop => write!(f, "pop")?,
        }
        if out.len() > 0 {
            f.write_str(if self.operation == Action::Swap { " push" } else { "push" })?;
        }
        out.try_for_each(|label| write!(f, " {label}"))?;
        self.port.map_or(Ok(()), |port| write!(f, " {port}"))?;
        self.mac.map_or(Ok(()), |mac| write!(f, " {}", mac.dashed()))
    }
}

fn number(word: &str) -> Result<u32, String> {
    let wrong = || format!("'{word}' is not a label; it must be from 0 to {MAX_LABEL}");
    word.parse().ok().filter(|label| *label <= MAX_LABEL).ok_or_else(wrong)
}

/// A label that may be looked up or be put on packets.
fn label(word: &str) -> Result<u32, String> {
    match number(word)? {
        label @ (0 | 2 | FIRST_UNRESERVED..) => Ok(label),
        IMPLICIT_NULL => Err("label 3 (implicit NULL) is never on a packet; write pop".into()),
        label => Err(format!("label {label} is reserved; 0, 2 and 16 to {MAX_LABEL} may be used")),
    }
}

/// The context for parsing entries.
pub(super) struct Reading<'a> {
    pub(super) names: &'a Names,
    /// Outputs of the element.
    pub(super) outputs: usize,
}

impl Reading<'_> {
    fn port(&self, word: &str) -> Result<u16, String> {
        let port: u16 = self.names.parse(word)?;
        if usize::from(port) < self.outputs {
            Ok(port)
        } else {
            Err(format!("there is no output {port}; there are {}", self.outputs))
        }
    }

    /// The labels out, and where to; `at_least` of them.
    fn towards(&self, operation: Action, words: &[&str]) -> Result<Hop, String> {
        let [labels @ .., port, mac] = words else { return Err(EXPECTED.to_owned()) };
        let labels = match (operation, labels) {
            (Action::Swap, [first, push, rest @ ..]) if *push == "push" && !rest.is_empty() => {
                [&[*first], rest].concat()
            }
            (Action::Swap, [first]) => vec![*first],
            (Action::Push, [_, ..]) => labels.to_vec(),
            _ => return Err(EXPECTED.to_owned()),
        };
        if labels.len() > MAX_OUT {
            return Err(format!("{} labels; an entry puts at most {MAX_OUT} on", labels.len()));
        }
        let mut out = [0; MAX_OUT];
        for (out, word) in out.iter_mut().zip(&labels) {
            *out = label(word)?;
        }
        let (port, mac) = (self.port(port)?, self.names.parse(mac)?);
        Ok(Hop { operation, out, count: labels.len(), port: Some(port), mac: Some(mac) })
    }

    /// An entry: the label in, and what becomes of it.
    pub(super) fn entry(&self, text: &str) -> Result<(u32, Hop), String> {
        let words = split_words(text);
        let [incoming, operation, rest @ ..] = &words[..] else { return Err(EXPECTED.to_owned()) };
        let incoming = label(incoming)?;
        let pop =
            Hop { operation: Action::Pop, out: [0; MAX_OUT], count: 0, port: None, mac: None };
        let hop = match (*operation, rest) {
            ("swap", rest) => self.towards(Action::Swap, rest)?,
            ("push", rest) => self.towards(Action::Push, rest)?,
            ("pop", []) => pop,
            ("pop", [port]) => Hop { port: Some(self.port(port)?), ..pop },
            ("pop", [port, mac]) => {
                Hop { port: Some(self.port(port)?), mac: Some(self.names.parse(mac)?), ..pop }
            }
            _ => return Err(EXPECTED.to_owned()),
        };
        Ok((incoming, hop))
    }
}

/// The table of labels, shared by the replicas of an element.
pub(super) struct Labels {
    table: DenseTable<3>,
    /// Held while a handler changes entries, so that "add" finds what it looked for.
    changing: Mutex<()>,
}

impl Labels {
    /// A table with room for so many entries, and these in it.
    pub(super) fn new(capacity: usize, entries: &[(u32, Hop)]) -> Result<Labels, String> {
        let table = DenseTable::new(LABEL_BITS, capacity).map_err(|error| error.to_string())?;
        let labels = Labels { table, changing: Mutex::new(()) };
        for (label, hop) in entries {
            labels.set(*label, hop)?;
        }
        Ok(labels)
    }

    /// The operation on a label.
    #[inline]
    pub(super) fn get(&self, label: u32) -> Option<Hop> {
        self.table.get(label).map(Hop::unpack)
    }

    fn set(&self, label: u32, hop: &Hop) -> Result<(), String> {
        self.table.set(label, hop.pack()).map_err(|error| error.to_string())
    }

    /// How many labels have an entry, and what one takes, in bytes.
    pub(super) fn size(&self) -> (usize, usize) {
        (self.table.numbers().len(), self.table.entry_bytes())
    }

    /// A line per label, in order.
    pub(super) fn show(&self) -> String {
        let line = |label| Some(format!("{label} {}\n", self.get(label)?));
        self.table.numbers().into_iter().filter_map(line).collect()
    }

    /// The write handlers.
    pub(super) fn write(
        &self,
        reading: &Reading<'_>,
        name: &str,
        value: &str,
    ) -> Result<(), HandlerError> {
        let refused = |why: String| HandlerError::refused(format!("{name}: {why}"));
        let _alone = self.changing.lock();
        match name {
            "add" | "set" => {
                let (label, hop) = reading.entry(value).map_err(refused)?;
                match self.get(label).filter(|_| name == "add") {
                    Some(there) => Err(refused(format!("there is '{label} {there}' already"))),
                    None => self.set(label, &hop).map_err(refused),
                }
            }
            "remove" => {
                let label = number(value.trim()).map_err(refused)?;
                let gone = self.table.remove(label);
                if gone { Ok(()) } else { Err(refused(format!("label {label} has no entry"))) }
            }
            "flush" => {
                for label in self.table.numbers() {
                    self.table.remove(label);
                }
                Ok(())
            }
            _ => Err(HandlerError::no_write(name)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn hop() -> impl Strategy<Value = Hop> {
        let labels = prop::collection::vec(FIRST_UNRESERVED..=MAX_LABEL, 1..=MAX_OUT);
        let mac = prop::option::of(0u64..1 << 48);
        (0usize..4, labels, 0u16..9, mac).prop_map(|(kind, labels, port, mac)| {
            let mut out = [0; MAX_OUT];
            let operation = [Action::Swap, Action::Push, Action::Pop, Action::Pop][kind];
            let count = if kind >= 2 { 0 } else { labels.len() };
            out[..count].copy_from_slice(&labels[..count]);
            let mac = mac.or((kind < 2).then_some(5)).filter(|_| kind < 3).map(MacAddr::from_u64);
            Hop { operation, out, count, port: (kind < 3).then_some(port), mac }
        })
    }

    proptest! {
        /// Packed, unpacked, shown and read again it is the same.
        #[test]
        fn round_trip(hop in hop(), label in FIRST_UNRESERVED..=MAX_LABEL) {
            let packed = hop.pack();
            prop_assert!(packed[0] < 1 << thruway_table::ENTRY_BITS);
            prop_assert_eq!(Hop::unpack(packed), hop);
            let reading = Reading { names: &Names::default(), outputs: 9 };
            prop_assert_eq!(reading.entry(&format!("{label} {hop}")), Ok((label, hop)));
        }

        #[test]
        fn any_text(text in "(16|3|swap|push|pop|1|2:0:0:0:0:1| ){0,12}") {
            let _ = Reading { names: &Names::default(), outputs: 2 }.entry(&text);
        }
    }

    #[test]
    fn wrong_entries() {
        let reading = Reading { names: &Names::default(), outputs: 2 };
        for (text, why) in [
            ("16", "expected LABEL"),
            ("16 swop 17 0 2:0:0:0:0:1", "expected LABEL"),
            ("16 swap 17 0", "expected LABEL"),
            ("16 swap 17 push 0 2:0:0:0:0:1", "expected LABEL"),
            ("16 swap 3 0 2:0:0:0:0:1", "label 3 (implicit NULL)"),
            ("16 swap 1048576 0 2:0:0:0:0:1", "'1048576' is not a label"),
            ("1 pop", "label 1 is reserved"),
            ("16 pop 2", "there is no output 2; there are 2"),
            ("16 pop 1 2", "'2' is not an Ethernet address"),
            ("16 push 17 18 19 20 21 0 2:0:0:0:0:1", "5 labels"),
        ] {
            let refused = reading.entry(text).unwrap_err();
            assert!(refused.starts_with(why), "{text}: {refused}");
        }
    }
}
