//! Where `print` writes.

use std::fs::{File, OpenOptions};
use std::io::Write as _;

use thruway_element::text;

use thruway_elements_support::call::first_word;

/// The prefix of the text of a `print`.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Redirect {
    /// Nothing: standard output.
    Stdout,
    /// `>FILE`.
    Truncate(String),
    /// `>>FILE`.
    Append(String),
}

/// An open output and its name.
pub(super) struct Sink {
    name: String,
    file: Option<File>,
}

/// Takes `>FILE` or `>>FILE` off a text.
pub(super) fn redirect(text: &str) -> (Redirect, &str) {
    let Some(rest) = text.strip_prefix('>') else { return (Redirect::Stdout, text) };
    let append = rest.strip_prefix('>');
    let (file, text) = first_word(append.unwrap_or(rest));
    let redirect = match text::unquote_text(file) {
        file if file.is_empty() || file == "-" => Redirect::Stdout,
        file if append.is_some() => Redirect::Append(file),
        file => Redirect::Truncate(file),
    };
    (redirect, text)
}

/// Opens what a `print` writes to.
pub(super) fn open(redirect: &Redirect) -> Result<Sink, String> {
    let (name, file) = match redirect {
        Redirect::Stdout => return Ok(Sink { name: "standard output".into(), file: None }),
        Redirect::Truncate(name) => (name, File::create(name)),
        Redirect::Append(name) => (name, OpenOptions::new().append(true).create(true).open(name)),
    };
    match file {
        Ok(file) => Ok(Sink { name: name.clone(), file: Some(file) }),
        Err(error) => Err(format!("{name}: {error}")),
    }
}

impl Sink {
    /// Writes at once.
    pub(super) fn write(&mut self, bytes: &[u8]) -> Result<(), String> {
        let result = match &mut self.file {
            Some(file) => file.write_all(bytes),
            None => {
                let mut stdout = std::io::stdout().lock();
                stdout.write_all(bytes).and_then(|()| stdout.flush())
            }
        };
        result.map_err(|error| format!("{}: {error}", self.name))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn redirections() {
        assert_eq!(redirect("a >b"), (Redirect::Stdout, "a >b"));
        assert_eq!(redirect(">F a b"), (Redirect::Truncate("F".into()), "a b"));
        assert_eq!(redirect(">> \"F G\" a"), (Redirect::Append("F G".into()), "a"));
        assert_eq!(redirect(">- a"), (Redirect::Stdout, "a"));
    }
}
