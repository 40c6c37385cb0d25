//! A script's variables.

use thruway_element::{HandlerError, text};

use super::machine::Machine;
use thruway_elements_support::call::first_word;

/// Variables of a script, and bytes of all their values.
const VARIABLES_MAX: usize = 1_024;
const VALUES_MAX: usize = 16 << 20;

impl Machine {
    /// Sets a variable.
    pub(super) fn set_variable(&mut self, name: &str, value: String) {
        let old = self.vars.get(name);
        let bytes = self.vars_bytes - old.map_or(0, String::len) + value.len();
        if bytes > VALUES_MAX || (old.is_none() && self.vars.len() >= VARIABLES_MAX) {
            return self.error(format!(
                "variable '{name}' not set: at most {VARIABLES_MAX} variables, {VALUES_MAX} bytes"
            ));
        }
        self.vars_bytes = bytes;
        self.vars.insert(name.to_owned(), value);
    }

    /// The variable `name`, or one that always is.
    pub(super) fn variable(&self, name: &str) -> Option<String> {
        if let Some(value) = self.vars.get(name) {
            return Some(value.clone());
        }
        let words = || text::split_words(&self.caller.args);
        Some(match name {
            "?" => self.status.to_string(),
            "$" => std::process::id().to_string(),
            "#" => words().len().to_string(),
            "args" => self.caller.args.clone(),
            "write" => self.caller.write.to_string(),
            "0" => self.caller.name.clone(),
            _ if name.starts_with(|c: char| c.is_ascii_digit()) => {
                let at: usize = name.parse().ok()?;
                // There is no argument before the first: `$00` is empty.
                let at = at.checked_sub(1);
                at.and_then(|at| words().get(at).copied()).map_or(String::new(), str::to_owned)
            }
            _ => return None,
        })
    }

    /// Takes the first word off a variable.
    pub(super) fn shift(&mut self, name: &str) -> Result<String, HandlerError> {
        let undefined = || HandlerError::refused(format!("undefined variable '{name}'"));
        let value = self.variable(name).ok_or_else(undefined)?;
        let (word, rest) = first_word(&value);
        match name {
            "args" => self.caller.args = rest.to_owned(),
            _ => self.set_variable(name, rest.to_owned()),
        }
        Ok(word.to_owned())
    }
}
