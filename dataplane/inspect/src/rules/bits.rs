//! Flow bits: names become numbers, sessions remember them.

use std::collections::HashMap;

use crate::rules::error::Reason;

/// How many different flow bits a set of rules may use.
pub const FLOW_BITS_MAX: usize = 512;

/// Numbers of the names.
#[derive(Debug, Default)]
pub(super) struct BitNames(HashMap<String, u16>);

impl BitNames {
    /// The number of a name, which may be new.
    pub(super) fn number(&mut self, name: &str) -> Result<u16, Reason> {
        if let Some(number) = self.0.get(name) {
            return Ok(*number);
        }
        let number = self.0.len();
        if number >= FLOW_BITS_MAX {
            let text = format!("flowbits: '{name}' is one more than {FLOW_BITS_MAX}");
            return Err(Reason::TooLarge(text));
        }
        self.0.insert(name.to_owned(), number as u16);
        Ok(number as u16)
    }
}
