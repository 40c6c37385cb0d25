//! The option of Geneve that carries a class: a switch has a field for it where its table of
//! options says so (ovs-ofctl(8), `add-tlv-map`). The table belongs to the bridge and has no
//! owners: its entry is made with the first rules that need it, and goes with the last ones.

use thruway_flow::tags::{OPTION_CLASS, OPTION_KIND, OPTION_LEN};

use crate::error::Error;
use crate::switch::Switch;

/// How many fields there are for options.
const FIELDS: u8 = 64;

/// An entry of the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Entry {
    class: u16,
    kind: u8,
    len: usize,
    /// Number of the field `tun_metadata`.
    field: u8,
}

impl Entry {
    /// Reads a line of `ovs-ofctl dump-tlv-map`; `None` for headings.
    fn read(line: &str) -> Option<Entry> {
        let words: Vec<&str> = line.split_whitespace().collect();
        let [class, kind, len, field] = words[..] else { return None };
        let hex = |word: &str| u16::from_str_radix(word.strip_prefix("0x")?, 16).ok();
        Some(Entry {
            class: hex(class)?,
            kind: hex(kind)?.try_into().ok()?,
            len: len.parse().ok()?,
            field: field.strip_prefix("tun_metadata")?.parse().ok()?,
        })
    }

    fn is_class(&self) -> bool {
        (self.class, self.kind) == (OPTION_CLASS, OPTION_KIND)
    }
}

/// An entry as `ovs-ofctl` reads it.
fn written(field: u8) -> String {
    format!("{{class={OPTION_CLASS:#x},type={OPTION_KIND},len={OPTION_LEN}}}->tun_metadata{field}")
}

/// The lowest field that no entry has.
fn free(entries: &[Entry]) -> Option<u8> {
    (0..FIELDS).find(|field| entries.iter().all(|entry| entry.field != *field))
}

impl Switch {
    /// The number of the field for the option; `None` if the switch has none.
    pub(crate) fn option(&self) -> Result<Option<u8>, Error> {
        Ok(self.entries()?.iter().find(|entry| entry.is_class()).map(|entry| entry.field))
    }

    /// The same, with an entry that is made if there is none.
    pub(crate) fn need_option(&self) -> Result<u8, Error> {
        let entries = self.entries()?;
        let error = |message| Error::Option { bridge: self.bridge.clone(), message };
        match entries.iter().find(|entry| entry.is_class()) {
            Some(entry) if entry.len == OPTION_LEN => return Ok(entry.field),
            Some(entry) => {
                return Err(error(format!(
                    "its option of class {OPTION_CLASS:#x} and type {OPTION_KIND} has {} bytes \
                     instead of {OPTION_LEN}: take away the rules that use tun_metadata{}, and the \
                     entry ('ovs-ofctl del-tlv-map')",
                    entry.len, entry.field
                )));
            }
            None => {}
        }
        let Some(field) = free(&entries) else {
            return Err(error(format!(
                "all {FIELDS} fields for options of tunnels are taken: take an entry away \
                 ('ovs-ofctl del-tlv-map')"
            )));
        };
        self.ofctl(&["add-tlv-map", &self.bridge, &written(field)], "")?;
        Ok(field)
    }

    /// Takes the entry away, unless there are rules left that need it.
    pub(crate) fn release_option(&self) -> Result<(), Error> {
        // A switch without such a table has no entry.
        let Ok(Some(field)) = self.option() else { return Ok(()) };
        match self.ofctl(&["del-tlv-map", &self.bridge, &written(field)], "") {
            // Refused while rules use the field: those of another port.
            Err(Error::Switch { message, .. }) if message.contains("NXTTMFC_") => Ok(()),
            other => other.map(drop),
        }
    }

    fn entries(&self) -> Result<Vec<Entry>, Error> {
        let dump = self.ofctl(&["dump-tlv-map", &self.bridge], "")?;
        Ok(dump.lines().filter_map(Entry::read).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_of_a_switch_is_read() {
        let dump = "NXT_TLV_TABLE_REPLY (OF1.5) (xid=0x2):\n max option space=256 max fields=64\n \
                    allocated option space=12\n\n mapping table:\n  class  type  length  match \
                    field\n ------  ----  ------  --------------\n 0xff00   0x1       4  \
                    tun_metadata1\n 0xffff  0xa0       8  tun_metadata0\n";
        let entries: Vec<Entry> = dump.lines().filter_map(Entry::read).collect();
        let ours = Entry { class: 0xff00, kind: 1, len: 4, field: 1 };
        assert_eq!(entries, [ours, Entry { class: 0xffff, kind: 0xa0, len: 8, field: 0 }]);
        assert!(ours.is_class() && !entries[1].is_class());
        assert_eq!(free(&entries), Some(2));
        let all: Vec<Entry> = (0..FIELDS).map(|field| Entry { field, ..ours }).collect();
        assert_eq!(free(&all), None);
        assert_eq!(written(7), "{class=0xff00,type=1,len=4}->tun_metadata7");
    }
}
